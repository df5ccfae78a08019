"""Which candidates a person should look at: spread over the scores, denser where a decision flips."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.errors import MinedSetError
from foolsgold.mined.mined_set import MinedSet
from foolsgold.records import IntArray, LongArray
from foolsgold.teachers.scale import log_odds

_BANDS = 8  # of equal width on the axis of scores
_RANGE = (0.01, 0.99)  # quantiles of the scores that the bands share out; what lies outside is in the outer bands
_NEAR_TURNS = 2  # turns of the pairs near a threshold for each turn of a band: a third of the labels, with two of them

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """One (query, document) to label.

    teacher_score: on the scale of the set's teacher, None without one; source: which found it at the best rank;
    stratum: why it was chosen ("near negative_below", "band 3 of 8", from the lowest scores to the highest).
    """

    query_id: str
    doc_id: str
    teacher_score: float | None
    source: str
    stratum: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def choose(mined: MinedSet, n: int, seed: int | None = None) -> list[Pair]:
    """The n pairs to label, in the order to ask for them; fewer where the set has no more.

    Pairs are dealt from strata in turn: bands of the score that decides (its log-odds, if it is a probability) and the
    pairs near each threshold of the recipe, and within a stratum the sources in turn, always from the query asked about
    least. So every beginning of the list is spread like the whole, and a longer list begins with the shorter one.
    Without a teacher the bands are of the best rank, in logarithms.

    Args:
        mined: a set; only candidates that its teacher has scored are asked about, since others say nothing of a
            threshold (`teacher.exhaustive: true` scores all).
        n: how many pairs.
        seed: of the shuffle; the set's own seed if None.

    Raises:
        MinedSetError: the set has no candidate to label.
    """
    ledger = _candidates(mined)
    rng = np.random.default_rng(mined.manifest.seed if seed is None else seed)
    source, best_rank = _finders(ledger, mined)
    names, stratum = _strata(ledger, mined, best_rank)
    rows = list(islice(_dealt(stratum, source, _codes(ledger["query_id"]), rng), n))
    chosen = ledger.take(pa.array(rows, pa.int64()))
    columns = (chosen[name].to_pylist() for name in ("query_id", "doc_id", "teacher_score"))
    sources = list(mined.manifest.sources)
    return [
        Pair(query_id, doc_id, score, sources[source[row]], names[stratum[row]])
        for row, query_id, doc_id, score in zip(rows, *columns, strict=True)
    ]


def _candidates(mined: MinedSet) -> pa.Table:
    """The ledger's rows that may be asked about, each (query, document) once."""
    ledger = mined.ledger()
    ledger = ledger.filter(pc.not_equal(ledger["verdict"].cast(pa.string()), "excluded"))
    if mined.manifest.teacher is not None:
        ledger = ledger.filter(pc.is_valid(ledger["teacher_score"]))
    if not len(ledger):
        raise MinedSetError(
            f"{mined.path}: no candidate was judged, so there is nothing to label; mine with more depth"
        )
    # with `positive_reference: each` a pair stands there once a positive
    pairs = _codes(ledger["query_id"]).astype(np.int64) << 32 | _codes(ledger["doc_id"])
    _, first = np.unique(pairs, return_index=True)
    return ledger.take(pa.array(np.sort(first)))


def _strata(ledger: pa.Table, mined: MinedSet, best_rank: IntArray) -> tuple[list[str], IntArray]:
    """Names of the strata, and which one each candidate is in: near the limit of a rule, or else a band of scores."""
    teacher, limits = mined.manifest.teacher, mined.limits
    if teacher is None:
        return _bands(-np.log1p(best_rank))[:2]

    def place(column: str, scores: Doubles) -> Doubles:
        """Scores as they are spread: as log-odds, if they are probabilities."""
        is_probability = column == "judge_probability" or teacher["scale"] == "probability"
        return log_odds(scores.astype(np.float32)).astype(np.float64) if is_probability else scores

    axes: dict[str, Doubles] = {
        column: place(column, ledger[column].to_numpy().astype(np.float64))
        for column in {"teacher_score", limits.zones_on}
    }
    names, stratum, _ = _bands(axes[limits.zones_on])
    positive = ledger["positive_score"].to_numpy().astype(np.float64)
    for rule, flip in limits.flips(positive).items():
        column = limits.column_of(rule)
        width = _bands(axes[column])[2]
        stratum[np.abs(axes[column] - place(column, flip)) <= width / 4] = len(names)  # half a band wide
        is_calibrated = rule == "negative_below" and column == "judge_probability"
        names.append(f"near {'the calibrated threshold' if is_calibrated else rule}")
    return names, stratum


def _bands(axis: Doubles) -> tuple[list[str], IntArray, float]:
    """Names of the bands of an axis, the band of each candidate, and the width of a band."""
    low, high = np.quantile(axis, _RANGE)
    band = np.searchsorted(np.linspace(low, high, _BANDS + 1)[1:-1], axis, side="right").astype(np.int32)
    return [f"band {number + 1} of {_BANDS}" for number in range(_BANDS)], band, (high - low) / _BANDS


def _finders(ledger: pa.Table, mined: MinedSet) -> tuple[IntArray, IntArray]:
    """Which source found each candidate at its best rank (the first in the recipe's order of equals), and that rank."""
    last = np.iinfo(np.int32).max
    ranks = np.stack([ledger[f"{name}_rank"].fill_null(last).to_numpy() for name in mined.manifest.sources])
    return ranks.argmin(axis=0).astype(np.int32), ranks.min(axis=0)


def _dealt(stratum: IntArray, source: IntArray, query: IntArray, rng: np.random.Generator) -> Iterator[int]:
    """All candidates' rows, dealt from the strata in turn."""
    asked = np.zeros(int(query.max()) + 1, dtype=np.int32)
    order = rng.permutation(len(stratum))
    piles: dict[int, deque[LongArray]] = {}  # of each stratum, one a source
    for code in np.unique(stratum).tolist():
        inside = order[stratum[order] == code]
        piles[code] = deque(inside[source[inside] == name] for name in np.unique(source[inside]))
    while piles:
        turns = [code for code in piles for _ in range(1 if code < _BANDS else _NEAR_TURNS)]
        for code in rng.permutation(turns).tolist():
            if code not in piles:
                continue  # its last pair was dealt earlier in this round
            pile = piles[code].popleft()
            place = int(np.argmin(asked[query[pile]]))  # the first of equals, in the shuffled order
            row = int(pile[place])
            asked[query[row]] += 1
            yield row
            if len(pile) > 1:
                piles[code].append(np.delete(pile, place))
            elif not piles[code]:
                del piles[code]


def _codes(column: pa.ChunkedArray) -> IntArray:
    codes: IntArray = column.combine_chunks().dictionary_encode().indices.to_numpy()
    return codes
