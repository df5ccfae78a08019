"""The losses that a student can be trained with, and which fields of `student` belong to which of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

LossName = Literal["mnr", "cached_mnr", "margin_mse", "kl", "memory_bank"]


class LossKind(NamedTuple):
    """How a loss is set up.

    arguments: fields of `student` that only this kind of loss reads, and the arguments of the loss that they become; a
    field that is null leaves the loss's own default.
    distils: it learns the teacher's scores of a row's own documents, and needs them. Otherwise it ranks a row's
    positive before the documents of the whole batch.
    """

    arguments: dict[str, str]
    distils: bool = False


LOSSES: dict[LossName, LossKind] = {
    "mnr": LossKind({}),
    "cached_mnr": LossKind({"mini_batch_size": "mini_batch_size"}),
    "memory_bank": LossKind({"bank_size": "size", "momentum": "momentum"}),
    "margin_mse": LossKind({"contrastive_weight": "contrastive_weight"}, distils=True),
    "kl": LossKind(
        {"contrastive_weight": "contrastive_weight", "teacher_temperature": "teacher_temperature"}, distils=True
    ),
}
