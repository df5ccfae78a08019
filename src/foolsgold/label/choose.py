"""Which candidates a person should look at: spread over the scores, denser where a decision flips."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
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
        """Plain values."""
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
    rng = np.random.default_rng(mined.manifest["seed"] if seed is None else seed)
    source, best_rank = _finders(ledger, mined)
    axis, flips = (-np.log1p(best_rank), {}) if mined.manifest["teacher"] is None else _axis(ledger, mined)
    names, stratum = _strata(axis, flips)
    rows = list(islice(_dealt(stratum, source, _codes(ledger["query_id"]), rng), n))
    chosen = ledger.take(pa.array(rows, pa.int64()))
    columns = (chosen[name].to_pylist() for name in ("query_id", "doc_id", "teacher_score"))
    sources = list(mined.manifest["sources"])
    return [
        Pair(query_id, doc_id, score, sources[source[row]], names[stratum[row]])
        for row, query_id, doc_id, score in zip(rows, *columns, strict=True)
    ]


def _candidates(mined: MinedSet) -> pa.Table:
    """The ledger's rows that may be asked about, each (query, document) once."""
    ledger = mined.ledger()
    ledger = ledger.filter(pc.not_equal(ledger["verdict"].cast(pa.string()), "excluded"))
    if mined.manifest["teacher"] is not None:
        ledger = ledger.filter(pc.is_valid(ledger["teacher_score"]))
    if not len(ledger):
        raise MinedSetError(
            f"{mined.path}: no candidate was judged, so there is nothing to label; mine with more depth"
        )
    # with `positive_reference: each` a pair stands there once a positive
    pairs = _codes(ledger["query_id"]).astype(np.int64) << 32 | _codes(ledger["doc_id"])
    _, first = np.unique(pairs, return_index=True)
    return ledger.take(pa.array(np.sort(first)))


def _axis(ledger: pa.Table, mined: MinedSet) -> tuple[Doubles, dict[str, Doubles]]:
    """Where each candidate is, and where each rule of the recipe would flip for it; both on one axis of scores."""
    decide, teacher = mined.manifest["recipe"]["decide"], mined.manifest["teacher"]
    judge = teacher.get("judge")  # a calibration: what decides is its probability, and it sets the lower threshold
    probability = judge is not None or teacher["scale"] == "probability"

    def place(scores: Doubles) -> Doubles:
        return log_odds(scores.astype(np.float32)).astype(np.float64) if probability else scores

    if judge is not None:
        risk = ledger["judge_probability"].to_numpy().astype(np.float64)
        return place(risk), {"the calibrated threshold": place(np.full(len(risk), judge["threshold"]))}
    scores = ledger["teacher_score"].to_numpy().astype(np.float64)
    positive = ledger["positive_score"].to_numpy().astype(np.float64)
    flips: dict[str, Doubles] = {}
    for name in ("negative_below", "positive_above"):
        if decide[name] is not None:
            flips[name] = np.full(len(scores), decide[name], dtype=np.float64)
    if decide["absolute_margin"] is not None:
        flips["absolute_margin"] = positive - decide["absolute_margin"]
    if decide["relative_margin"] is not None:
        flips["relative_margin"] = positive - np.abs(positive) * (1 - decide["relative_margin"])
    return place(scores), {name: place(flip) for name, flip in flips.items()}


def _strata(axis: Doubles, flips: Mapping[str, Doubles]) -> tuple[list[str], IntArray]:
    """Names of the strata, and which one each candidate is in: near a flip, or else a band."""
    low, high = np.quantile(axis, _RANGE)
    stratum = np.searchsorted(np.linspace(low, high, _BANDS + 1)[1:-1], axis, side="right").astype(np.int32)
    names = [f"band {band + 1} of {_BANDS}" for band in range(_BANDS)]
    for name, flip in flips.items():
        stratum[np.abs(axis - flip) <= (high - low) / (4 * _BANDS)] = len(names)  # half a band wide
        names.append(f"near {name}")
    return names, stratum


def _finders(ledger: pa.Table, mined: MinedSet) -> tuple[IntArray, IntArray]:
    """Which source found each candidate at its best rank (the first in the recipe's order of equals), and that rank."""
    last = np.iinfo(np.int32).max
    ranks = np.stack([ledger[f"{name}_rank"].fill_null(last).to_numpy() for name in mined.manifest["sources"]])
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
