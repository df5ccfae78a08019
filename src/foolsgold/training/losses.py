"""Contrastive losses with in-batch negatives that know which documents are not negatives: mnr and cached_mnr.

They take sentence-transformers' place in its trainer. Their labels are rows and weights (see `labels`); without labels
they are the losses that sentence-transformers has under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin, has_static_embedding_input
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import get_rank
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from foolsgold.errors import TrainingError
from foolsgold.training.guide import Guide
from foolsgold.training.known import KnownPositives
from foolsgold.training.labels import NOBODYS, RowLabels, is_packed
from foolsgold.training.vectors import Similarity, check_similarity, comparable, gathered, part_sizes, products

Features = Iterable[dict[str, Tensor]]


class MultipleNegativesRankingLoss(nn.Module):
    """InfoNCE (Henderson et al., 2017, section 4.4; van den Oord et al., 2018): a softmax over the batch's documents.

    The columns are queries, positives and n negatives. A query's documents are its own and those of all other rows. A
    negative of weight w gets log w added to its logit, for its own query only, and with weight 0 it counts for no query
    (it repeats a document that is there already). A passage counts once, however many rows have it.

    known: masks the positives of a query wherever they come from. scale: of the similarity, 1 / temperature.
    guide: masks, own negatives too, what it finds closer than the positive. gather_across_devices: the documents of
    all processes are negatives; the means of loss and gradients over the processes, whose parts need not be equal,
    are then those of one process with the whole batch.

    Raises:
        TrainingError: unusable similarity or scale; in `forward`, there are masks but no rows in the labels, or rows of
            another number of negatives.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        known: KnownPositives | None = None,
        scale: float = 20.0,
        similarity: Similarity = "cosine",
        guide: Guide | None = None,
        gather_across_devices: bool = False,
    ) -> None:
        super().__init__()
        check_similarity(similarity, scale)
        self.model = model
        self.known = known
        self.scale = scale
        self.similarity: Similarity = similarity
        self.guide = guide
        self.gather_across_devices = gather_across_devices

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """The mean over the rows; labels: int64 (b, 3 + 3 n), packed, or anything else, which is not looked at."""
        return self.of(embed_columns(self.model, sentence_features), labels)

    def of(self, columns: list[Tensor], labels: Tensor | None) -> Tensor:
        """The same of vectors (b, d), one tensor a column."""
        batch = self.batch(columns, labels)
        return self.losses(batch).sum() / batch.rows_a_process

    def batch(self, columns: list[Tensor], labels: Tensor | None) -> Batch:
        """What the vectors (b, d) of the columns and the labels say, with the documents of the other processes."""
        query = comparable(columns[0], self.similarity)
        documents = comparable(torch.stack(columns[1:], dim=1), self.similarity)
        rows = self._row_labels(labels, documents.shape[1] - 1)
        sizes = part_sizes(documents) if self.gather_across_devices else [len(documents)]
        first = sum(sizes[: get_rank()]) if len(sizes) > 1 else 0
        own = torch.arange(first, first + len(query), device=query.device)[:, None] * documents.shape[1]
        return Batch(
            query=query,
            documents=gathered(documents, sizes).flatten(0, 1),
            own=own + torch.arange(documents.shape[1], device=query.device),
            labels=rows,
            ids=None if rows is None else gathered(rows.ids(), sizes).flatten(),
            rows_a_process=sum(sizes) / len(sizes),
        )

    def losses(self, batch: Batch, some: slice = slice(None)) -> Tensor:
        """float (b): the loss of each row, or of some of them."""
        query = batch.query[some]
        logits = self.scale * products(query, batch.documents)
        if batch.bank is not None:
            logits = torch.cat([logits, self.scale * products(query, batch.bank)], dim=1)
        own, rows = batch.own[some], batch.labels
        if rows is not None:
            assert batch.ids is not None
            logits = logits + _log_weights(rows.query[some], own, rows.weights[some], batch.ids, self.known, self.guide)
        return cross_entropy(logits, own[:, 0], reduction="none")

    def _row_labels(self, labels: Tensor | None, negatives: int) -> RowLabels | None:
        if labels is not None and is_packed(labels):
            rows = RowLabels.unpack(labels)
            if rows.weights.shape[1] != negatives:
                raise TrainingError(
                    f"the labels are of {rows.weights.shape[1]} negatives per row and the batch has {negatives}; "
                    "pack as many document rows as there are columns of documents"
                )
            return rows
        if self.known is not None or self.guide is not None:
            raise TrainingError(
                f"{type(self).__name__} masks by row, and the labels of this batch have no rows; make the column "
                "`label` with foolsgold.training.labels.pack, or leave out known and guide"
            )
        return None


class Batch(NamedTuple):
    """b queries and the documents that each of them is compared with, as vectors whose products are similarities.

    query: float (b, d). documents: float (m, d). own: int64 (b, 1 + n), which of the m are a query's own, its positive
    first. labels: of the b rows, if they have any. ids: int64 (m), as `RowLabels.ids`, None without labels.
    bank: float (k, d), more documents, which have no gradient and no owner; their ids follow those of the others.
    rows_a_process: what the sum over the b rows is divided by, so that its mean over the processes is that of all rows.
    """

    query: Tensor
    documents: Tensor
    own: Tensor
    labels: RowLabels | None
    ids: Tensor | None
    rows_a_process: float
    bank: Tensor | None = None


class CachedMultipleNegativesRankingLoss(CachedLossMixin, MultipleNegativesRankingLoss):
    """The same loss and gradients in the memory of a small batch (Gao et al., GradCache, 2021), a third slower.

    mini_batch_size: texts encoded, and queries compared, at once.

    Raises:
        TrainingError: the student is a table of token embeddings, whose batches cannot be cut and need not be.
    """

    def __init__(self, model: SentenceTransformer, *, mini_batch_size: int = 32, **settings: Any) -> None:
        super().__init__(model, **settings)
        if has_static_embedding_input(model):
            raise TrainingError("cached_mnr cannot cut the batches of a static student, which fit as they are; use mnr")
        self.mini_batch_size = mini_batch_size

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """The mean over the rows; its backward pass encodes the texts again."""
        loss: Tensor = self.forward_cached(sentence_features, labels)
        return loss

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """The mean over the rows, from vectors in mini-batches; with_backward leaves gradients at those."""
        batch = self.batch([torch.cat(column) for column in reps], labels)
        # The cut ends take up the gradients of all parts, so that other processes are sent their share once.
        ends = [vectors.detach().requires_grad_(with_backward) for vectors in (batch.query, batch.documents)]
        cut = batch._replace(query=ends[0], documents=ends[1])
        total = torch.zeros((), device=batch.query.device)
        for begin in range(0, len(batch.query), self.mini_batch_size):
            part = self.losses(cut, slice(begin, begin + self.mini_batch_size)).sum() / batch.rows_a_process
            if with_backward:
                torch.autograd.backward(part)
            total = total + part.detach()
        if with_backward:
            torch.autograd.backward([batch.query, batch.documents], [end.grad for end in ends])
        return total


def _log_weights(
    query: Tensor,
    own: Tensor,
    weights: Tensor,
    documents: Tensor,
    known: KnownPositives | None = None,
    guide: Guide | None = None,
) -> Tensor:
    """float32 (b, m): what is added to the logits of b queries and m documents, -inf where one does not count.

    query: int64 (b), rows. own: int64 (b, 1 + n), which of the m are a query's own, its positive first.
    weights: float32 (b, n), of its own negatives. documents: int64 (m), rows, `NOBODYS` for what counts for no query.

    A query's positive counts, a mined negative as much as its weight says, and another document fully, except for

    - a passage that the query has itself, as its positive or with a weight, and any but the first copy of a passage;
    - known positives of the query, be they mined for it or not (`known`);
    - what `guide` finds at least about as close as the positive.
    """
    passages = documents if known is None else known.passages(documents)
    blocked = (~_first_of_each(passages) | (passages == NOBODYS)).repeat(len(query), 1)
    for column in passages[own].T:
        blocked |= column[:, None] == passages
    blocked.scatter_(1, own, False)
    if known is not None:
        blocked |= known(query, documents)
    if guide is not None:
        blocked |= guide.prefers(query, documents, documents[own[:, 0]])
    blocked.scatter_(1, own[:, :1], False)
    added = torch.zeros(blocked.shape, device=weights.device).scatter_(1, own[:, 1:], weights.log())
    return added.masked_fill_(blocked, -torch.inf)


def _first_of_each(values: Tensor) -> Tensor:
    """bool (m): which of some numbers, int64 (m), do not stand further to the front."""
    ordered, order = torch.sort(values, stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return torch.empty_like(is_first).scatter_(0, order, is_first)
