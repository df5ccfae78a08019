"""Where a recipe's corpus, queries and judgements come from."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from foolsgold.recipe.stage import Fraction, Stage


class PairsSpec(Stage):
    """A file of (query, positive) rows, and its columns (null: found by their usual names)."""

    path: str
    anchor: str | None = None
    positive: str | None = None
    corpus: str | None = Field(None, description="more documents to choose from: jsonl, parquet, csv, tsv or txt")


class CollectionSpec(Stage):
    """Where corpus, queries and judgements come from: exactly one of the first five."""

    beir: str | None = Field(None, description="folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv")
    pairs: PairsSpec | None = Field(
        None, description="(query, positive) rows: jsonl, parquet, csv, tsv, or a saved Dataset"
    )
    hf: str | None = Field(None, description="a dataset of (query, positive) rows on the Hugging Face hub")
    ir_datasets: str | None = Field(None, description="a dataset known to the ir_datasets package")
    demo: bool | int | None = Field(None, description="docstrings of the installed packages: true, or how many")
    split: str | None = Field(None, description="which judgements or rows to mine for; null: train")
    relevant_from: int = Field(
        1, ge=-(2**31), lt=2**31, description="the lowest grade that makes a judged document a positive"
    )
    limit: int | None = Field(None, ge=1, description="mine only for the first N queries")
    part: Literal["train", "held_out"] | None = Field(
        None, description="part of the queries, by a hash of their texts: held_out for evaluation, or train, the rest"
    )
    held_out: Fraction = Field(0.1, description="share of the queries in part held_out")

    @field_validator("pairs", mode="before", json_schema_input_type=str | PairsSpec | None)
    @classmethod
    def _a_path_is_enough(cls, pairs: Any) -> Any:
        return {"path": pairs} if isinstance(pairs, str) else pairs

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        named = [kind for kind in ("beir", "pairs", "hf", "ir_datasets", "demo") if getattr(self, kind)]
        if len(named) != 1:
            raise ValueError(f"name one of beir, pairs, hf, ir_datasets, demo (got {', '.join(named) or 'none'})")
        return self
