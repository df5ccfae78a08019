"""Which documents are positives of which query, so that no loss counts one as a negative, whatever row it came from.

A document is a query's positive too where its text is that of one, or the query's text that of another query (design,
rule 9). What mining found to be a false negative can be added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foolsgold.collection import Collection
from foolsgold.records import pair_keys

_NOT_A_DOCUMENT = -1


class KnownPositives(nn.Module):
    """The positives of a collection's queries, by row; a module, so that it moves to the device with its loss."""

    def __init__(self, collection: Collection) -> None:
        super().__init__()
        self.keys: Tensor
        self.text_of_query: Tensor
        self.passage_of_document: Tensor
        self.register_buffer("text_of_query", _whole(collection.queries.passage), persistent=False)
        self.register_buffer("passage_of_document", _whole(collection.documents.passage), persistent=False)
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64), persistent=False)
        self.add(collection.positive_query, collection.positive_rows)

    def add(self, query: npt.NDArray[Any], document: npt.NDArray[Any]) -> None:
        """From now on these pairs of rows, int (n), are positives too."""
        texts = self.text_of_query.cpu().numpy()[query]
        passages = self.passage_of_document.cpu().numpy()[document]
        keys = np.union1d(self.keys.cpu().numpy(), pair_keys(texts, passages))
        self.keys = torch.from_numpy(keys).to(self.keys.device)

    def forward(self, query: Tensor, document: Tensor) -> Tensor:
        """bool (b, m): whether each document, int64 (m), is a positive of each query, int64 (b). Rows, -1 for none."""
        texts, passages = self.text_of_query[query], self.passages(document)
        return torch.isin(texts[:, None] << 32 | passages[None, :].clamp(min=0), self.keys) & (passages >= 0)

    def passages(self, document: Tensor) -> Tensor:
        """int64: one number for all documents of one normalised text; -1 stays -1."""
        found = self.passage_of_document[document.clamp(min=0)]
        return torch.where(document == _NOT_A_DOCUMENT, document, found)


def _whole(rows: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(rows.astype(np.int64))
