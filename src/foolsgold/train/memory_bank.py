"""A queue of document vectors as additional negatives, and the slow encoder that makes them (He et al., MoCo, 2020)."""

from __future__ import annotations

import logging
import weakref
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_model, save_model
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import all_gather
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from foolsgold.train.candidates import NOBODYS
from foolsgold.train.losses import Features, MultipleNegativesRankingLoss

log = logging.getLogger(__name__)

FILE = "memory_bank.safetensors"


class MemoryBankLoss(MultipleNegativesRankingLoss):
    """The in-batch softmax with the documents of earlier batches in it, as soon as there are `size` of them.

    Those are masked and counted once as the batch's own are: known positives of a query, and passages that the batch
    has too, are left out. After each batch its documents, of all processes, are put in the queue as the momentum
    encoder sees them, and the oldest leave it. After each step of the optimizer the momentum encoder goes a part of
    `1 - momentum` towards the student; only the student is trained. Labels without rows mean a bank without masks.

    The bank is not in the checkpoints of the trainer unless it has `BankCheckpoint(loss)` among its callbacks.
    """

    def __init__(
        self, model: SentenceTransformer, *, size: int = 16_384, momentum: float = 0.999, **settings: Any
    ) -> None:
        super().__init__(model, **settings)
        self.bank = MemoryBank(model, size, momentum)
        _after_each_step_of(self)

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """The mean over the rows. Where gradients are off, as in evaluation, the bank is used but stays as it is."""
        features = list(sentence_features)
        # Models write into the features they read, and the momentum encoder is to read them as they were.
        documents = [dict(column) for column in features[1:]]
        batch = self.batch(embed_columns(self.model, features), labels)
        both = batch
        if self.bank.is_full:
            ids = None if batch.ids is None else torch.cat([batch.ids, self.bank.ids])
            vectors = self.bank.vectors.to(batch.documents.dtype)
            both = batch._replace(documents=torch.cat([batch.documents, vectors]), ids=ids)
        loss = self.losses(both).mean()
        if torch.is_grad_enabled():
            rows = batch.labels
            self.bank.remember(self.model, documents, None if rows is None else rows.documents, rows.weights)
        return loss
