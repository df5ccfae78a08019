"""The commented recipe that `foolsgold init` writes: every field, its default, and what it means."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel

from foolsgold.recipe import CollectionSpec, Recipe

_HEAD = """\
# A foolsgold recipe: how hard negatives are mined. Every field is optional; the values below are the defaults.
#   foolsgold mine recipe.yaml --out mined/
# A model is a Hugging Face hub id, a local folder, or package:NAME/SUBPATH (a folder in an installed package).
"""
SCHEMA = "recipe.schema.json"
_COMPLETED = f"# yaml-language-server: $schema={SCHEMA}\n"  # what editors look for
_COLLECTION = """\
# What is mined: corpus, queries and judgements. One of
#   {beir: FOLDER, split: train}             corpus.jsonl, queries.jsonl, qrels/train.tsv
#   {pairs: FILE}                            (query, positive) rows: jsonl, parquet, csv, tsv or a saved Dataset
#   {pairs: {path: FILE, anchor: COLUMN, positive: COLUMN, corpus: FILE}}
#   {hf: NAME} | {ir_datasets: NAME} | {demo: true}
# and, if needed, relevant_from: 2 (the lowest grade that makes a positive) and limit: 1000 (queries).
"""
_ABOUT = {
    "retriever": "The embedding model of the dense sources.",
    "teacher": "The model that tells negatives from false negatives; null: none (many dense negatives are then false).",
    "sources": (
        "Where candidates come from: bm25, dense, random, run, sparse, multivector. Every source has depth, quota and\n"
        "# window (ranks to choose from); a second one of a kind needs its own name and a kind. Besides these:\n"
        "#   bm25: language (english, german, ...; none), tokenizer (word; bigram for Chinese and Japanese), method\n"
        "#         (lucene, robertson, atire, bm25l, bm25+), k1, b\n"
        "#   dense, sparse, multivector: model    run: path (a TREC run or parquet of any engine)\n"
        "#   dense: index (a faiss factory string such as IVF4096,PQ48x4fsr, where exact search takes too long), recall"
    ),
    "exclude": "What is dropped before the teacher scores it, besides known positives and their duplicates.",
    "decide": "Which scores make a negative, and which a false negative.",
    "select": "Which negatives are selected, and how many.",
    "audit": "Limits on the mined set; null: off.",
    "student": "The model that `foolsgold train` trains, and how; null: as for the retriever.",
    "evaluation": "The held-out queries that decide whether a round of training is kept.",
    "schedule": (
        "How negatives are mined over the epochs; empty: once, as this recipe says. For example\n"
        "#   - {name: warmup, from: 0, to: 1, mode: bm25, n: 5}\n"
        "#   - {name: medium, from: 1, to: 2, mode: dense_ce_0.5, n: 5}\n"
        "#   - {name: hard, from: 2, to: 4, mode: self_ce_0.3, n: 7}   # self: mined with the student in training"
    ),
}


def commented_recipe(collection: dict[str, Any], *, schema: bool = False) -> str:
    """The default recipe as YAML with comments, for the given `collection` section.

    schema: name the JSON schema beside it, for editors.

    Raises:
        RecipeError: the section is not one.
    """
    recipe = Recipe.build({"collection": collection})
    spec = recipe.collection
    assert spec is not None
    parts = [_COMPLETED * schema + _HEAD, _COLLECTION + _line("collection", spec.model_dump(exclude_unset=True), "")]
    for name, field in Recipe.model_fields.items():
        value = getattr(recipe, name)
        if isinstance(value, CollectionSpec):
            continue
        about = _ABOUT.get(name, field.description or "")
        if isinstance(value, BaseModel):
            body = "".join(
                _line(key, getattr(value, key), part.description or "", indent=2)
                for key, part in type(value).model_fields.items()
            )
            parts.append(f"# {about}\n{name}:\n{body}")
        elif name == "sources":
            body = "".join(
                _line(key, {**source.model_dump(exclude_unset=True, mode="json"), "depth": source.depth}, "", indent=2)
                for key, source in value.items()
            )
            parts.append(f"# {about}\n{name}:\n{body}")
        elif "\n" in about:
            parts.append(f"# {about}\n{_line(name, value, '')}")
        else:
            parts.append(_line(name, value, about))
    return "\n".join(parts)


def _line(key: str, value: Any, comment: str, indent: int = 0) -> str:
    # flow style keeps any value on its line; its outer braces are ours to drop
    text = yaml.safe_dump({key: value}, default_flow_style=True, sort_keys=False, width=1_000_000).strip()[1:-1]
    line = " " * indent + text
    return f"{line:<42}  # {comment}\n" if comment else f"{line}\n"
