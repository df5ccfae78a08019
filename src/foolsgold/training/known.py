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
from foolsgold.errors import TrainingError
from foolsgold.records import pair_keys
from foolsgold.training.labels import NOBODYS


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
        """bool (b, m): whether documents, int64 (m), are positives of queries, int64 (b); rows, `NOBODYS` for none.

        Raises:
            TrainingError: rows that the collection does not have (on a GPU the device's own error).
        """
        try:
            texts, passages = self.text_of_query[query], self.passages(document)
        except IndexError:
            raise TrainingError(
                "a row is not one of the collection of these known positives; make them and the rows of one collection"
            ) from None
        theirs = self.keys[torch.isin(self.keys >> 32, texts)]
        found = torch.zeros((len(texts), len(passages)), dtype=torch.bool, device=texts.device)
        some = torch.isin(passages, theirs & 0xFFFFFFFF).nonzero()[:, 0]  # few of the thousands in a memory bank
        found[:, some] = torch.isin(texts[:, None] << 32 | passages[some], theirs)
        return found

    def passages(self, document: Tensor) -> Tensor:
        """int64: one number for all documents of one normalised text; `NOBODYS` stays what it is."""
        return torch.where(document == NOBODYS, document, self.passage_of_document[document.clamp(min=0)])


def _whole(rows: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(rows.astype(np.int64))
