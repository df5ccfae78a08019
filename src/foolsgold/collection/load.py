"""`load_collection`: reads a collection of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from foolsgold.collection.beir import is_beir_folder, read_beir
from foolsgold.collection.collection import Collection
from foolsgold.collection.demo import DOCUMENTS, read_demo
from foolsgold.collection.ir_datasets import read_ir_datasets
from foolsgold.collection.pairs import read_pairs
from foolsgold.collection.rows import PAIR_FORMATS, is_dataset, is_dataset_dict, suffix_of
from foolsgold.errors import CollectionError, nearest
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import CollectionSpec, PairsSpec

_KINDS = ("beir", "pairs", "hf", "ir_datasets")

FORMS = f"""a collection is one of
  beir:FOLDER        corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv
  pairs:FILE         (query, positive) rows: {", ".join(PAIR_FORMATS)}, or a folder that Dataset.save_to_disk wrote
  hf:NAME            (query, positive) rows on the Hugging Face hub (hf:NAME:CONFIG for one configuration)
  ir_datasets:NAME   what the ir_datasets package knows
  demo               docstrings of the installed Python packages
or, in Python, a datasets.Dataset of pairs"""


def load_collection(
    spec: Any,
    *,
    split: str | None = None,
    relevant_from: int | None = None,
    limit: int | None = None,
    anchor: str | None = None,
    positive: str | None = None,
    corpus: Any = None,
    progress: Progress = SILENT,
) -> Collection:
    """Read a collection: documents, the queries of one split that have a positive, and their judgements.

    Args:
        spec: "beir:FOLDER", "pairs:FILE", "hf:NAME", "ir_datasets:NAME", "demo", the path of a BEIR folder or of a file
            of pairs, a recipe's `CollectionSpec`, a `datasets.Dataset` of pairs, or a Collection, which is returned.
        split: which judgements or rows; None: train.
        relevant_from: the lowest grade that makes a judged document a positive; None: the spec's, else 1.
        limit: take only the first `limit` queries that have a positive.
        anchor, positive: for pairs, the columns of queries and of positives; None: inferred from the usual names.
        corpus: for pairs, more documents: a path, a `datasets.Dataset`, or a list of texts.
        progress: what long readings report to.

    Raises:
        CollectionError: an unknown kind, or a collection that cannot be used as it is; the message says what and where.
        MissingExtra: ir_datasets is asked for and not installed.
    """
    options = {"split": split, "relevant_from": relevant_from, "limit": limit}
    if isinstance(spec, Collection):
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise CollectionError(
                f"{', '.join(given)} cannot be changed in a collection that is loaded; load it with them"
            )
        return spec
    if is_dataset(spec) or is_dataset_dict(spec):
        contents = read_pairs(spec, split, anchor=anchor, positive=positive, corpus=corpus, progress=progress)
        relevant_from = 1 if relevant_from is None else relevant_from
        return Collection.from_judgements(**contents._asdict(), relevant_from=relevant_from, limit=limit)
    chosen = _with_options(_parsed(spec), options, anchor, positive, corpus)
    return part_of(_load(chosen, corpus, progress), chosen)


def part_of(collection: Collection, spec: CollectionSpec) -> Collection:
    """The queries of the part that a spec names; all of them where it names none."""
    if spec.part is None:
        return collection
    wanted = collection.held_out(spec.held_out) == (spec.part == "held_out")
    if not wanted.any():
        raise CollectionError(
            f"{collection.name}, split {collection.split}: with held_out: {spec.held_out:g} no query of "
            f"{len(collection.queries):,} is in part {spec.part}; name another share, or a split to evaluate on"
        )
    own = {"part": spec.part, "held_out": spec.held_out}
    return collection.with_queries(
        np.flatnonzero(wanted), None if collection.spec is None else {**collection.spec, **own}
    )


def _parsed(spec: Any) -> CollectionSpec:
    if isinstance(spec, CollectionSpec):
        return spec
    if not isinstance(spec, (str, Path)):
        raise CollectionError(f"{type(spec).__name__} is not a collection; {FORMS}")
    text = str(spec)
    if text == "demo":
        return CollectionSpec(demo=True)
    kind, colon, rest = text.partition(":")
    if colon and kind in _KINDS:
        if not rest:
            raise CollectionError(f"{text!r} names nothing after the colon; {FORMS}")
        return CollectionSpec.model_validate({kind: rest})
    path = Path(text).expanduser()
    if is_beir_folder(path):
        return CollectionSpec(beir=text)
    if path.is_dir() or (path.is_file() and suffix_of(path) in PAIR_FORMATS):
        return CollectionSpec(pairs=PairsSpec(path=text))
    hint = "" if path.exists() else "there is no such file or folder; "
    if near := nearest(kind, (*_KINDS, "demo")):
        hint = f"did you mean {near}? "
    raise CollectionError(f"{text!r} is not a collection: {hint}{FORMS}")


def _with_options(
    spec: CollectionSpec, options: dict[str, Any], anchor: str | None, positive: str | None, corpus: Any
) -> CollectionSpec:
    """The spec with what the caller set beside it."""
    values: dict[str, Any] = spec.model_dump(exclude_none=True)
    values.update({name: value for name, value in options.items() if value is not None})
    columns = {
        "anchor": anchor,
        "positive": positive,
        "corpus": str(corpus) if isinstance(corpus, (str, Path)) else None,
    }
    columns = {name: value for name, value in columns.items() if value is not None}
    if columns or corpus is not None:
        if spec.hf is not None:
            values["pairs"] = {"path": f"hf:{values.pop('hf')}"}
        if "pairs" not in values:
            raise CollectionError("anchor, positive and corpus are for collections of pairs only")
        values["pairs"] = {**values["pairs"], **columns}
    try:
        return CollectionSpec.model_validate(values)
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        raise CollectionError("\n".join(lines)) from None


def _load(spec: CollectionSpec, corpus: Any, progress: Progress) -> Collection:
    again: dict[str, Any] | None = _from_anywhere(spec)
    if spec.beir is not None:
        contents = read_beir(Path(spec.beir).expanduser(), spec.split, progress)
    elif spec.ir_datasets is not None:
        contents = read_ir_datasets(spec.ir_datasets, spec.split, progress)
    elif spec.demo:
        contents = read_demo(spec.split, DOCUMENTS if spec.demo is True else spec.demo, progress)
    else:
        pairs = PairsSpec(path=f"hf:{spec.hf}") if spec.hf else spec.pairs
        assert pairs is not None  # a CollectionSpec names exactly one kind
        if corpus is None:
            corpus = pairs.corpus
        elif not isinstance(corpus, (str, Path)):
            again = None  # a corpus in memory cannot be loaded again from a recipe
        contents = read_pairs(
            pairs.path, spec.split, anchor=pairs.anchor, positive=pairs.positive, corpus=corpus, progress=progress
        )
    return Collection.from_judgements(
        **contents._asdict(), relevant_from=spec.relevant_from, limit=spec.limit, spec=again
    )


def _from_anywhere(spec: CollectionSpec) -> dict[str, Any]:
    """The values of a spec with absolute paths, so that the collection can be loaded again from another folder."""
    saved = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for section, name in ((saved, "beir"), (saved.get("pairs", {}), "path"), (saved.get("pairs", {}), "corpus")):
        if name in section and Path(section[name]).exists():
            section[name] = str(Path(section[name]).resolve())
    return saved
