"""A queue of document vectors as additional negatives, and the slow encoder that makes them (He et al., MoCo, 2020)."""

from __future__ import annotations

import logging
import weakref
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from foolsgold.errors import TrainingError
from foolsgold.files import written_whole
from foolsgold.training.labels import NOBODYS
from foolsgold.training.losses import Features, MultipleNegativesRankingLoss
from foolsgold.training.vectors import Similarity, comparable, gathered, part_sizes

log = logging.getLogger(__name__)

FILE = "memory_bank.safetensors"


class MemoryBankLoss(MultipleNegativesRankingLoss):
    """The in-batch softmax with the documents of earlier batches in it, as soon as there are `size` of them.

    Those are masked and counted once as the batch's own are: known positives of a query, and passages that the batch
    has too, are left out. After each batch its documents, of all processes, are put into the queue as the momentum
    encoder sees them, and the oldest leave it. After each step of the optimizer, however many batches it is of, the
    momentum encoder goes a part of 1 - momentum towards the student. Only the student is trained.

    The trainer's checkpoints hold the bank if `BankCheckpoint(loss)` is among its callbacks. Made for one process, or
    several that each hold the whole model (DistributedDataParallel).

    Raises:
        TrainingError: as there, or size or momentum is out of range.
    """

    def __init__(
        self, model: SentenceTransformer, *, size: int = 16_384, momentum: float = 0.999, **settings: Any
    ) -> None:
        super().__init__(model, **settings)
        if size < 1 or not 0 <= momentum <= 1:
            raise TrainingError(f"a memory bank of {size:,} with momentum {momentum}: 1 or more, and from 0 to 1")
        self.bank = MemoryBank(model, size, momentum, self.similarity)
        _follow_after_steps(self)

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """The mean over the rows. Where gradients are off, as in evaluation, the bank is used but stays as it is."""
        features = list(sentence_features)
        # Models write into the features they read, and the momentum encoder is to read them as they came.
        documents = [dict(column) for column in features[1:]]
        batch = self.batch(embed_columns(self.model, features), labels)
        if self.bank.is_full:
            ids = None if batch.ids is None else torch.cat([batch.ids, self.bank.ids])
            # A copy: the bank is written to before the backward pass reads what the forward pass has read.
            batch = batch._replace(bank=self.bank.vectors.to(batch.query.dtype, copy=True), ids=ids)
        loss = self.losses(batch).sum() / batch.rows_a_process
        if torch.is_grad_enabled():
            self.bank.remember(self.model, documents, None if batch.labels is None else batch.labels.ids())
        return loss


class MemoryBank(nn.Module):
    """Vectors of the latest documents, and the momentum encoder they are from.

    vectors: float32 (size, d), of unit length where the similarity is cosine. ids: int64 (size), document rows,
    `NOBODYS` where a newer vector of the same document is in the queue, or where rows are not known. count: how many
    were ever put in; they go round.
    """

    vectors: Tensor
    ids: Tensor
    count: Tensor

    def __init__(self, model: SentenceTransformer, size: int, momentum: float, similarity: Similarity) -> None:
        super().__init__()
        self._similarity: Similarity = similarity
        dimensions = model.get_embedding_dimension()
        assert dimensions is not None
        # Its first update, before the first batch, makes it equal to the student; so does the first after `empty`.
        average = get_ema_multi_avg_fn(momentum)  # type: ignore[no-untyped-call]
        self.encoder = AveragedModel(model, multi_avg_fn=average).requires_grad_(False)
        self.register_buffer("vectors", torch.zeros(size, dimensions))
        self.register_buffer("ids", torch.full((size,), NOBODYS))
        self.register_buffer("count", torch.tensor(0))
        self.to(model.device)

    @property
    def is_full(self) -> bool:
        """Whether as many documents as fit were put in."""
        return int(self.count) >= len(self.ids)

    def follow(self, student: nn.Module) -> None:
        """Go a part of the way to the student; at first, all of it."""
        self.encoder.update_parameters(student)

    @torch.no_grad()
    def remember(self, student: nn.Module, documents: list[dict[str, Tensor]], ids: Tensor | None) -> None:
        """Put the batch's documents in: the features of each column, and their rows, int64 (b, 1 + n), if known."""
        if int(self.encoder.n_averaged) == 0:
            self.follow(student)
        self.encoder.eval()
        vectors = torch.stack(embed_columns(self.encoder, documents, separate_first=False), dim=1)
        vectors = comparable(vectors, self._similarity)
        rows = vectors.new_full(vectors.shape[:2], NOBODYS, dtype=torch.int64) if ids is None else ids
        sizes = part_sizes(rows)
        vectors, rows = gathered(vectors, sizes).flatten(0, 1), gathered(rows, sizes).flatten()
        if ids is not None:
            vectors, rows = vectors[rows != NOBODYS], rows[rows != NOBODYS]
        self._put(vectors[-len(self.ids) :].to(self.vectors.dtype), rows[-len(self.ids) :])

    def _put(self, vectors: Tensor, rows: Tensor) -> None:
        self.ids[torch.isin(self.ids, rows)] = NOBODYS
        place = (self.count + torch.arange(len(rows), device=rows.device)) % len(self.ids)
        self.vectors[place], self.ids[place] = vectors, rows
        self.count += len(rows)

    def empty(self) -> None:
        """Start again: an empty queue, and an encoder that equals the student."""
        self.count.zero_()
        self.encoder.n_averaged.zero_()
        self.ids.fill_(NOBODYS)

    def save(self, folder: Path) -> None:
        """Write `memory_bank.safetensors`, whole or not at all."""
        with written_whole(folder / FILE) as partial:
            save_model(self, str(partial))

    def load(self, folder: Path) -> None:
        """Read it.

        Raises:
            TrainingError: it is of another model, or a bank of another size.
        """
        try:
            load_model(self, str(folder / FILE), device=str(self.vectors.device))
        except (RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())[:200]
            raise TrainingError(
                f"{folder / FILE}: does not fit this student or a bank of {len(self.ids):,} ({said}); "
                "use the settings it was written with, or delete it"
            ) from None


class BankCheckpoint(TrainerCallback):
    """Keeps a bank in the trainer's checkpoints, and reads it from the one that training resumes from.

    A checkpoint without a bank makes the bank start again, with a warning. All processes hold the same bank; the first
    writes it.
    """

    def __init__(self, loss: MemoryBankLoss) -> None:
        self._bank = loss.bank

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write it beside what the trainer has just written."""
        del control, kwargs
        if state.is_world_process_zero:
            self._bank.save(_checkpoint(args, state))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read it where training resumes."""
        del control, kwargs
        if state.global_step == 0:
            return
        folder = _checkpoint(args, state)
        if (folder / FILE).is_file():
            self._bank.load(folder)
        else:
            log.warning("%s has no %s; the memory bank starts again", folder, FILE)
            self._bank.empty()


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"


def _follow_after_steps(loss: MemoryBankLoss) -> None:
    """Let the momentum encoder follow each step of whichever optimizer trains the student.

    A forward pass cannot tell a step from a batch whose gradients are accumulated, and a callback can be forgotten.
    """
    held = weakref.ref(loss)

    def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if (one := held()) is not None:
            trained = {id(weights) for group in optimizer.param_groups for weights in group["params"]}
            if any(id(weights) in trained for weights in one.model.parameters()):
                one.bank.follow(one.model)

    weakref.finalize(loss, register_optimizer_step_post_hook(after_step).remove)
