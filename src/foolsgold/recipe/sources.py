"""The sources of candidates: one class of settings per kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from foolsgold.errors import did_you_mean
from foolsgold.recipe.models import NamedModel
from foolsgold.recipe.stage import Fraction, Stage

_INDEX_PARTS = (  # of faiss's factory strings: those of indexes by inner product that need no ids of their own
    "IVF", "IMI", "HNSW", "Flat", "PQ", "SQ", "RQ", "LSQ", "PRQ", "PLSQ", "RaBitQ", "OPQ", "PCA", "PCAR", "PCAW",
    "PCAWR", "ITQ", "RR", "Pad", "L2norm", "Refine", "RFlat", "Residual",
)  # fmt: skip


class _Source(Stage):
    depth: int = Field(100, ge=1, description="candidates retrieved per query")
    quota: int | None = Field(None, ge=0, description="negatives per query from this source; null: an equal share")
    window: tuple[int, int] | None = Field(
        None, description="ranks [from, to) to choose from, counted after known positives are excluded"
    )

    @field_validator("window")
    @classmethod
    def _window_is_not_empty(cls, window: tuple[int, int] | None) -> tuple[int, int] | None:
        if window is not None and not 0 <= window[0] < window[1]:
            raise ValueError(f"a window [from, to) needs 0 <= from < to, not {list(window)}")
        return window


class RandomSpec(_Source):
    """Documents drawn at random."""

    kind: Literal["random"] = "random"


class BM25Spec(_Source):
    """Search by shared words (BM25)."""

    kind: Literal["bm25"] = "bm25"
    language: str = Field("english", description="stemmer and stop words; 'none' for neither")
    tokenizer: Literal["word", "bigram"] = Field("word", description="bigram: character bigrams, for Chinese, Japanese")
    method: Literal["lucene", "robertson", "atire", "bm25l", "bm25+"] = "lucene"
    k1: float = Field(1.5, ge=0.0, le=1000.0, description="bm25s's default")
    b: Fraction = Field(0.75, description="bm25s's default")


class DenseSpec(_Source):
    """Nearest neighbours in the space of an embedding model."""

    kind: Literal["dense"] = "dense"
    model: NamedModel | None = Field(None, description="a name, or settings as in retriever; null: the retriever")
    index: str | None = Field(
        None, description="faiss's factory string, such as IVF4096,PQ48x4fsr: approximate search; null: exact"
    )
    recall: Fraction = Field(
        0.95, description="with an index: the share of the exact hits that the search must find, measured on a sample"
    )

    @field_validator("index")
    @classmethod
    def _index_has_known_parts(cls, index: str | None) -> str | None:
        # faiss checks all rules once the model's dimension is known; this finds most mistakes before that
        for part in [] if index is None else index.split(","):
            if not re.match(rf"({'|'.join(_INDEX_PARTS)})(fp16|bf16|(?![A-Za-z]))", part):
                raise ValueError(
                    f"{part!r} is not part of a faiss factory string{did_you_mean(part, _INDEX_PARTS)}; "
                    "a common index is IVF4096,PQ48x4fsr"
                )
            for letters, number in re.findall(r"([A-Za-z]*)(\d+)", part):  # with less faiss ends the process
                least = 2 if letters == "HNSW" else 1
                if int(number) < least:
                    raise ValueError(f"{part!r} has {letters}{number}, a number of at least {least} is needed there")
        return index

    @field_validator("recall")
    @classmethod
    def _recall_is_of_an_index(cls, recall: float, others: ValidationInfo) -> float:
        if recall != cls.model_fields["recall"].default and others.data.get("index", "") is None:
            raise ValueError("exact search finds all; name an index, or leave recall out")
        return recall


class SparseSpec(_Source):
    """Learned sparse retrieval, such as SPLADE."""

    kind: Literal["sparse"] = "sparse"
    model: NamedModel = Field(description="a name, or settings as in retriever")


class MultiVectorSpec(_Source):
    """Late interaction over the vectors of all tokens, such as ColBERT."""

    kind: Literal["multivector"] = "multivector"
    model: NamedModel = Field(description="a name, or settings as in retriever")


class RunSpec(_Source):
    """What another engine found."""

    kind: Literal["run"] = "run"
    path: str = Field(description="TREC run file or parquet (query_id, doc_id, score)")


SourceSpec = Annotated[
    RandomSpec | BM25Spec | DenseSpec | SparseSpec | MultiVectorSpec | RunSpec, Field(discriminator="kind")
]
KINDS: dict[str, type[_Source]] = {
    "random": RandomSpec,
    "bm25": BM25Spec,
    "dense": DenseSpec,
    "sparse": SparseSpec,
    "multivector": MultiVectorSpec,
    "run": RunSpec,
}
# Every field of every kind with its default; None for what a kind cannot do without.
_ALL_FIELDS = {
    name: None if field.is_required() else field.default
    for spec in KINDS.values()
    for name, field in spec.model_fields.items()
}


class Sources(Stage):
    """Where candidates come from, by name. A source that is not named after its kind has a field `kind`."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, SourceSpec]

    random: RandomSpec | None = None
    bm25: BM25Spec | None = None
    dense: DenseSpec | None = None
    sparse: SparseSpec | None = None
    multivector: MultiVectorSpec | None = None
    run: RunSpec | None = None


def with_kind(name: str, spec: Any) -> Any:
    """A source's values as written or as recorded, with its kind: its name, where nothing else is said."""
    if not isinstance(spec, Mapping | None):
        return spec
    values = dict(spec or {})
    values["kind"] = values.get("kind") or name
    own = KINDS[values["kind"]].model_fields if values["kind"] in list(KINDS) else values
    return {
        field: value
        for field, value in values.items()
        if field in own or field not in _ALL_FIELDS or value != _ALL_FIELDS[field]
    }


def recorded(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A source as manifests hold it, of which versions are hashes: with the fields of every kind."""
    return {**_ALL_FIELDS, **values, "kind": None if values["kind"] == name else values["kind"]}


def kinds_with(field: str) -> list[str]:
    """The kinds of sources that have a field."""
    return [kind for kind, spec in KINDS.items() if field in spec.model_fields]
