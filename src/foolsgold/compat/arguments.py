"""What the arguments of `mine_hard_negatives` mean: deprecated spellings, derived defaults, and what is refused."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

from foolsgold.errors import CollectionError, nearest
from foolsgold.mined.formats import Format

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger("foolsgold.compat.sentence_transformers")

Sampling = Literal["random", "top"]

_FAISS_GPU_LIMIT = 2048  # documents per query


@dataclass(frozen=True)
class Thresholds:
    """What a candidate's score must keep to, on the scale of whatever scores it. None: not applied."""

    absolute_margin: float | None
    relative_margin: float | None
    max_score: float | None
    min_score: float | None

    @property
    def any(self) -> bool:
        """Whether a candidate may be dropped for its score."""
        return self.margins or self.max_score is not None or self.min_score is not None

    @property
    def margins(self) -> bool:
        """Whether candidates are compared with their query's positives."""
        return self.absolute_margin is not None or self.relative_margin is not None


class Range(NamedTuple):
    """Ranks that negatives are taken from, counted from 0 over the candidates that are not known positives.

    retrieved: documents looked at for each query, known positives included. Those from `end` on are only taken where
    the thresholds leave too few before it.
    """

    begin: int
    end: int
    retrieved: int


@dataclass(frozen=True)
class Plan:
    """The arguments as they are used. ranking: known positives are candidates too (`include_positives`)."""

    ranks: Range
    thresholds: Thresholds
    n: int
    sampling: Sampling
    seed: int
    ranking: bool
    format: Format
    scores: bool
    ragged: bool
    verbose: bool


def check(dataset: Dataset, faiss_batch_size: int, use_faiss: bool, sampling: str, seed: int | None) -> None:
    """Refuse arguments that cannot be used, and `use_faiss` without faiss, although the search does not need it.

    sentence-transformers mines without a limit under an unknown strategy; here it is refused too.
    """
    if len(dataset) == 0:
        raise ValueError("The dataset is empty. Please provide a non-empty dataset.")
    if faiss_batch_size <= 0:
        raise ValueError(f"faiss_batch_size must be a positive integer, got {faiss_batch_size}.")
    if use_faiss:
        try:
            import faiss  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "Please install `faiss` to use this function with `use_faiss=True`: `pip install faiss-cpu` (or "
                "`faiss-gpu`)."
            ) from error
    if sampling not in get_args(Sampling):
        raise ValueError(f"Invalid sampling_strategy: {sampling}. Must be one of 'top' or 'random'.")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64):
        raise ValueError(f"Invalid seed: {seed!r}. Must be None or a whole number from 0 to 2**64 - 1.")


def columns_of(dataset: Dataset, anchor: str | None, positive: str | None) -> tuple[str, str]:
    """The names of the anchor's and the positive's column: as named, or else the first and the second."""
    there = list(dataset.column_names)
    for role, column in (("anchor", anchor), ("positive", positive)):
        if column and column not in there:
            near = nearest(column, there)
            hint = f"did you mean {near!r}? " if near else ""
            raise CollectionError(f"dataset: no column {column!r} for the {role}; {hint}(columns: {', '.join(there)})")
    if not positive and len(there) < 2:
        raise ValueError("Dataset must contain at least two columns to select the positive column automatically.")
    anchor, positive = anchor or there[0], positive or there[1]
    if anchor == positive:
        raise CollectionError(
            f"dataset: anchor and positive are both the column {anchor!r}; name both, anchor_column_name=... and "
            "positive_column_name=..."
        )
    return anchor, positive


def strings_of(values: Iterable[str], what: str) -> list[str]:
    """The values as a list.

    Raises:
        CollectionError: a value that is not a string; names the first.
    """
    if isinstance(values, str):
        raise CollectionError(f"{what}: one string, where a list of strings is needed")
    found = list(values)
    for row, value in enumerate(found):
        if not isinstance(value, str):
            raise CollectionError(
                f"{what}: row {row} holds {value!r}, which is not a text; leave that row out, or give a column of texts"
            )
    return found


def format_of(output_format: str, output_scores: bool, as_triplets: bool | None, ranking: bool) -> tuple[Format, bool]:
    """The format and whether scores are put out; `ranking` (include_positives) has one format only."""
    if as_triplets is not None:
        output_format = "triplet" if as_triplets else "n-tuple"
        log.warning(
            "The `as_triplets` parameter is deprecated. Use the `output_format` parameter instead. "
            "Setting `output_format` to `%s`.",
            output_format,
        )
    if ranking and output_format != "n-tuple":
        log.warning(
            'When using `include_positives=True`, `output_format` will be set to `"n-tuple"` to ensure that the '
            "ranking order is preserved."
        )
        output_format = "n-tuple"
    if output_format == "n-tuple-scores":
        log.warning(
            '`output_format="n-tuple-scores"` is deprecated. Use `output_format="n-tuple"` with `output_scores=True` '
            "instead for equivalent output formats."
        )
        output_format, output_scores = "n-tuple", True
    if output_format not in get_args(Format):
        raise ValueError(
            f"Invalid output_format: {output_format}. Must be one of 'triplet', 'n-tuple', 'labeled-pair', or "
            "'labeled-list'."
        )
    return cast(Format, output_format), output_scores


def warn_of_lost_positives(range_min: int, sampling: str, *limits: Any) -> None:
    """Say that other arguments may drop the positives that `include_positives` asks for."""
    if range_min != 0 or sampling != "top" or any(limit is not None for limit in limits):
        log.warning(
            "When using `include_positives=True`, updating `range_min`, `range_max`, `max_score`, `min_score`, "
            "`absolute_margin`, `relative_margin`, or `sampling_strategy` from the default values may still discard "
            "the positive values."
        )


def absolute_margin_of(margin: float) -> float:
    """The deprecated `margin`, under its new name."""
    log.warning(
        "The `margin` parameter is deprecated. Use the `absolute_margin` and/or `relative_margin` parameter instead. "
        "Setting `absolute_margin` to `%s`.",
        margin,
    )
    return margin


def seed_of(seed: int | None, sampling: Sampling) -> int:
    """The seed, drawn from Python's `random` where none was given and one is needed."""
    if seed is None:
        return random.getrandbits(64) if sampling == "random" else 0
    return seed


def range_of(
    range_min: int,
    range_max: int | None,
    num_negatives: int,
    thresholds: Thresholds,
    *,
    most_positives: int,
    rescored: bool,
    use_faiss: bool,
    verbose: bool,
) -> Range:
    """The ranks to take negatives from.

    Args:
        most_positives: the most rows of the dataset that one query has.
        rescored: whether there is a cross-encoder.
    """
    if num_negatives < 1:
        raise ValueError(f"num_negatives must be at least 1, got num_negatives={num_negatives}.")
    capped = ""
    if range_max is None:
        may_drop = thresholds.margins or thresholds.max_score is not None
        may_drop |= rescored and thresholds.min_score is not None
        range_max = range_min + num_negatives * (10 if may_drop else 1) + most_positives
        if use_faiss and range_max + most_positives > _FAISS_GPU_LIMIT and _faiss_gpus() > 0:
            range_max = _FAISS_GPU_LIMIT - most_positives
            capped = (
                f" Note that range_max was capped to {range_max} because FAISS on GPU can only retrieve up to 2048 "
                "documents per query, some of which are reserved for the positives. Passing use_faiss=False lifts that "
                "cap, although it can cost a lot more memory."
            )
            if verbose:
                print(
                    "Using FAISS on GPU, we can only retrieve up to 2048 documents per query, some of which are "
                    f"reserved for the positives. Setting range_max to {range_max}."
                )
        if verbose:
            print(f"Setting range_max to {range_max} based on the provided parameters.")
    if range_min < 0:
        raise ValueError(f"range_min must be non-negative, got range_min={range_min}.")
    if range_min >= range_max:
        raise ValueError(
            f"range_min must be smaller than range_max, got range_min={range_min} and range_max={range_max}.{capped}"
        )
    if num_negatives > range_max - range_min:
        raise ValueError(
            f"Cannot mine {num_negatives} negatives per query: only {range_max - range_min} candidates remain after "
            f"skipping the first range_min={range_min} of range_max={range_max}. Consider decreasing num_negatives or "
            f"range_min, or increasing range_max.{capped}"
        )
    return Range(range_min, range_max, range_max + most_positives)


def _faiss_gpus() -> int:
    import faiss

    return int(getattr(faiss, "get_num_gpus", lambda: 0)())
