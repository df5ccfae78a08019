"""Which documents count as negatives of which query, and how much: what a batch's ids and weights say to a softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from foolsgold.training.guide import Guide
from foolsgold.training.known import KnownPositives
from foolsgold.training.labels import NOBODYS


def log_weights(
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

    A query's positive counts, a mined negative as much as its weight says, and another document fully, but for

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
