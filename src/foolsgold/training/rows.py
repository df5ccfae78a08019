"""Training rows by reference: what a trainer holds are row numbers, and texts are added as a batch is made.

So another mined set can replace the one in use without a new data set or trainer, and no positive is trained on more
often because it has more negatives: a row is a (query, positive), with n of its negatives drawn each epoch.
"""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset

from foolsgold.auditing.margins import in_unit
from foolsgold.collection import Collection
from foolsgold.errors import TrainingError
from foolsgold.mined.formats import Examples, examples
from foolsgold.mined.mined_set import MinedSet
from foolsgold.recipe.training import MOST_NEGATIVES
from foolsgold.records import BoolArray, Column, FloatArray, IntArray, LongArray, Scale, ranges
from foolsgold.rules.select import mix
from foolsgold.training.labels import pack

Draw = Literal["uniform", "balanced"]

_BINS = 10  # of margins, in the balanced draw (Hofstätter et al., 2021, section 3.2)

_UnsignedArray = npt.NDArray[np.uint64]


class TrainingRows:
    """The (query, positive) pairs of a collection, each with n of the negatives that a set has for it.

    Which ones follows from seed, epoch and row alone, so that a resumed run draws the same. A row with
    fewer than n repeats one with weight 0; a row without any repeats its positive with weight 0.

    collection: whose pairs are the rows, in its order. mined, n: as in `swap`.
    draw: uniform, or balanced, so that each tenth of the range of a row's margins (the teacher's score of the positive
    less that of the negative) is drawn from alike (TAS-B: Hofstätter et al., SIGIR 2021, section 3.2).

    query_rows, positive_rows: int32 (rows), rows of the collection.
    dataset: for the trainer; an int column `row`, which becomes the texts `anchor`, `positive`, `negative_1` .. and
    `label`, one of `labels.pack`, as a batch is read.
    """

    def __init__(
        self,
        collection: Collection,
        mined: MinedSet | None = None,
        n: int = 0,
        *,
        seed: int = 13,
        draw: Draw = "uniform",
    ) -> None:
        self.collection = collection
        self.query_rows: IntArray = collection.positive_query
        self.positive_rows: IntArray = collection.positive_rows
        if draw not in get_args(Draw):
            raise TrainingError(f"draw is {draw!r}; it is {' or '.join(get_args(Draw))}")
        self._seed, self._draw = seed, draw
        self._epoch = torch.zeros(1, dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]  # for workers that outlive an epoch
        self._negatives: _Negatives | None = None
        self.swap(mined, n)
        self.dataset = Dataset.from_dict({"row": np.arange(len(self), dtype=np.int64)})
        transform = _Transform()
        self.dataset.set_transform(transform)  # hashed by its content, all texts otherwise
        transform.rows = self
        self.dataset.set_epoch = self.set_epoch  # accelerate's data loaders call it, whatever orders the batches

    def __len__(self) -> int:
        return len(self.query_rows)

    @property
    def epoch(self) -> int:
        """The epoch, from 0, whose negatives are drawn."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw as in this epoch. A trainer does it at the start of each."""
        self._epoch.fill_(epoch)

    def swap(self, mined: MinedSet | None, n: int) -> None:
        """From the next batch on, take n negatives per row (at most 64) from this set; none without one or if n = 0.

        Data loaders with workers see it in the next epoch, with persistent workers in the next call of train().

        Raises:
            TrainingError: the set is of another collection, or has no teacher scores to balance by.
        """
        if not isinstance(n, int | np.integer) or not 0 <= n <= MOST_NEGATIVES:
            raise TrainingError(f"n is {n!r}; a row has from 0 to {MOST_NEGATIVES} negatives")
        if mined is None or n == 0:
            self._negatives = None
            return
        _check_collection(mined, self.collection)
        if self._draw == "balanced" and mined.manifest.teacher is None:
            raise TrainingError(
                f"{mined.path}: the balanced draw is by a teacher's margins, and this set was mined without one; "
                "draw uniformly, or mine with a teacher"
            )
        self._negatives = _Negatives(mined, self.collection, n)

    def prompts(self, query_prompt: str | None, document_prompt: str | None) -> dict[str, str]:
        """The prompt of each column that has one, for the trainer's `prompts`."""
        named = {"anchor": query_prompt, "positive": document_prompt}
        named |= {f"negative_{i + 1}": document_prompt for i in range(MOST_NEGATIVES)}
        return {column: prompt for column, prompt in named.items() if prompt}

    def batch(self, rows: npt.NDArray[Any]) -> dict[str, list[Any]]:
        """The columns that some rows, int (b), have in this epoch."""
        query, positive = self.query_rows[rows], self.positive_rows[rows]
        documents = positive[:, np.newaxis]
        weights = np.empty((len(rows), 0), dtype=np.float32)
        scores = np.full((len(rows), 1), np.nan, dtype=np.float32)
        if self._negatives is not None:
            of_epoch = np.array([[self._seed % 2**64], [self.epoch]], dtype=np.uint64)
            keys = _hashed(np.concatenate([np.repeat(of_epoch, len(rows), axis=1), rows.astype(np.uint64)[np.newaxis]]))
            drawn, is_drawn = self._negatives.draw(rows, keys, self._draw)
            documents, weights, scores = self._negatives.columns(rows, positive, drawn, is_drawn)
        texts = self.collection.documents.take(documents.ravel(order="F"))  # column after column
        names = ["positive", *(f"negative_{i}" for i in range(1, documents.shape[1]))]
        columns: dict[str, list[Any]] = {"anchor": self.collection.queries.take(query)}
        columns |= {name: texts[i * len(rows) : (i + 1) * len(rows)] for i, name in enumerate(names)}
        return columns | {"label": list(pack(query, documents, weights, scores))}


class _Transform:
    """What the data set calls; the rows are put in afterwards, as `datasets` hashes what a transform holds."""

    rows: TrainingRows

    def __call__(self, batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        return self.rows.batch(np.asarray(batch["row"], dtype=np.int64))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: a copy of the data set has the same texts, and the same epoch."""
        return self


class _Negatives:
    """What a mined set has for each row, and n to be drawn of it."""

    def __init__(self, mined: MinedSet, collection: Collection, n: int) -> None:
        scale: Scale = mined.manifest.teacher.scale if mined.manifest.teacher else "logit"
        self._of: Examples = examples(mined, collection)
        self._positive_score = _logits(self._of.positive_score, scale)
        self._score = _logits(self._of.score, scale)
        self._n = n

    def draw(self, rows: LongArray, keys: _UnsignedArray, how: Draw) -> tuple[LongArray, BoolArray]:
        """Indices of negatives, int64 (b, n), and whether each is one drawn, not a repetition. keys: uint64 (b)."""
        begin, counts = self._of.begin[rows], self._of.counts[rows]
        flat = ranges(begin, counts)
        owner = np.repeat(np.arange(len(rows)), counts)
        chance = _hashed(np.stack([keys[owner], self._of.negative[flat].astype(np.uint64)]))
        if how == "uniform":
            order = np.lexsort((chance, owner))
        else:
            margins = self._positive_score[rows][owner] - self._score[flat]
            order = balanced_order(margins, owner, keys, chance, self._n)
        places = np.cumsum(counts) - counts
        wanted = np.minimum(np.arange(self._n), np.maximum(counts - 1, 0)[:, np.newaxis])
        drawn = np.zeros((len(rows), self._n), dtype=np.int64)
        has_any = counts > 0
        drawn[has_any] = flat[order[(places[:, np.newaxis] + wanted)[has_any]]]
        return drawn, np.arange(self._n) < counts[:, np.newaxis]

    def columns(
        self, rows: LongArray, positive: IntArray, drawn: LongArray, is_drawn: BoolArray
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Documents int32 (b, 1 + n), weights float32 (b, n), scores float32 (b, 1 + n), as `labels.pack` takes."""
        documents = np.repeat(positive[:, np.newaxis], 1 + self._n, axis=1)
        scores = np.repeat(self._positive_score[rows][:, np.newaxis], 1 + self._n, axis=1)
        weights = np.zeros(drawn.shape, dtype=np.float32)
        has_any = is_drawn[:, 0]
        documents[has_any, 1:] = self._of.negative[drawn[has_any]]
        scores[has_any, 1:] = self._score[drawn[has_any]]
        weights[is_drawn] = self._of.weight[drawn[is_drawn]]
        return documents, weights, scores


def balanced_order(
    margins: FloatArray, owner: LongArray, keys: _UnsignedArray, chance: _UnsignedArray, n: int
) -> LongArray:
    """An order of negatives, by row, in which the first n of each row are a balanced draw.

    One by one, a tenth of the range of the row's margins is drawn uniformly among those that have one left, then a
    negative in it. Margins that are all equal are one tenth; negatives without a score are one beside the ten.

    margins: float32 (m), NaN where there is no score; owner: int64 (m), the row of each, ascending, below b.
    keys: uint64 (b), chance: uint64 (m), numbers as good as random, for the choice of tenths and of negatives.
    """
    b, m = len(keys), len(margins)
    tenth = tenths(margins, owner, b)
    order = np.lexsort((chance, tenth, owner))
    left = np.bincount(owner * (_BINS + 1) + tenth, minlength=b * (_BINS + 1)).reshape(b, _BINS + 1)
    following = (np.cumsum(left) - left.ravel()).reshape(left.shape)  # the place in `order` of the next of each tenth
    rank = np.full(m, n, dtype=np.int64)
    for draw in range(n):
        is_open = left > 0
        row = np.flatnonzero(is_open.any(axis=1))
        luck = _hashed(np.stack([keys[row], np.full(len(row), draw, dtype=np.uint64)]))
        nth = luck % is_open[row].sum(axis=1).astype(np.uint64)
        of = (np.cumsum(is_open[row], axis=1) > nth[:, np.newaxis]).argmax(axis=1)
        rank[order[following[row, of]]] = draw
        following[row, of] += 1
        left[row, of] -= 1
    return np.lexsort((rank, owner))


def tenths(margins: FloatArray, owner: LongArray, b: int) -> LongArray:
    """int64 (m): which tenth, 0 to 9, of the range of its row's margins each is in; 10 where there is no margin."""
    known = ~np.isnan(margins)
    low, high = np.full(b, np.inf), np.full(b, -np.inf)
    np.minimum.at(low, owner[known], margins[known])
    np.maximum.at(high, owner[known], margins[known])
    width = (high - low)[owner[known]]
    above = margins[known] - low[owner[known]]
    share = np.divide(above, width, out=np.zeros_like(above), where=width > 0)
    found = np.full(len(margins), _BINS, dtype=np.int64)
    found[known] = np.minimum((share * _BINS).astype(np.int64), _BINS - 1)
    return found


def _check_collection(mined: MinedSet, collection: Collection) -> None:
    of = mined.manifest.collection
    if collection.digest == of.digest:
        return
    if mined.manifest.recipe.relabel and mined.collection.digest == collection.digest:
        return
    raise TrainingError(
        f"{mined.path}: this set was mined from {of.name}, split {of.split}, as it was then, and the rows are of "
        f"{collection.name}, split {collection.split}; mine again, or give the rows that collection"
    )


def _logits(scores: Column, scale: Scale) -> FloatArray:
    """float32 (n): logits, or cosines where the teacher gives those; NaN where it was not asked."""
    return np.where(scores.valid, in_unit(scores.values, scale), np.nan).astype(np.float32)


def _hashed(parts: _UnsignedArray) -> _UnsignedArray:
    """uint64 (k, m) to uint64 (m), numbers as good as random."""
    mixed = np.zeros(parts.shape[1:], dtype=np.uint64)
    for part in parts:
        mixed = mix(mixed ^ part)
    return mixed
