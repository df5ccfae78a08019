"""From a recipe to the trainer of its student: the model, its rows, what orders them into batches, and the loss."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import TrainerCallback, set_seed

from foolsgold.collection import Collection
from foolsgold.files import cache_folder
from foolsgold.models.protocol import Role
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import ModelSpec, Recipe
from foolsgold.recipe.losses import LOSSES, LossName
from foolsgold.records import FloatArray
from foolsgold.stores.encoders import described_encoder
from foolsgold.stores.vectors import encode_all
from foolsgold.training import samplers
from foolsgold.training.distillation import ListwiseKLLoss, MarginMSELoss
from foolsgold.training.guide import Guide
from foolsgold.training.known import KnownPositives
from foolsgold.training.launch import are_several
from foolsgold.training.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
from foolsgold.training.memory_bank import BankCheckpoint, MemoryBankLoss
from foolsgold.training.regimes import negatives_of, regimes_of
from foolsgold.training.rows import TrainingRows
from foolsgold.training.student import load_student, student_spec
from foolsgold.training.trainer import SegmentTrainer
from foolsgold.training.vectors import Similarity

log = logging.getLogger(__name__)

LOSS_CLASSES: dict[LossName, Callable[..., nn.Module]] = {
    "mnr": MultipleNegativesRankingLoss,
    "cached_mnr": CachedMultipleNegativesRankingLoss,
    "memory_bank": MemoryBankLoss,
    "margin_mse": MarginMSELoss,
    "kl": ListwiseKLLoss,
}
_TEMPERATURE = 0.05  # of cosines, as sentence-transformers has it

_Encode = Callable[[ModelSpec, Role], FloatArray]


def build_trainer(
    recipe: Recipe,
    collection: Collection,
    known: KnownPositives | None,
    *,
    epochs: float,
    folder: Path,
    cache: str | Path | None = None,
    progress: Progress = SILENT,
) -> SegmentTrainer:
    """The trainer of a recipe's student on a collection, before its first step and without mined negatives.

    known: what no loss may count as a negative; None for no masks. epochs: of the whole schedule.

    Raises:
        FoolsgoldError: the student cannot be loaded or trained. MissingExtra: torch or peft is not installed.
    """
    store = cache_folder(cache)

    def encode(model: ModelSpec, role: Role) -> FloatArray:
        texts = collection.queries if role == "query" else collection.documents
        return encode_all(described_encoder(model, store), texts, role, cache=store, progress=progress)

    set_seed(recipe.training_seed % 2**32)  # adapters start at random
    student = load_student(recipe)
    rows = TrainingRows(collection, seed=recipe.training_seed, draw=recipe.student.draw)
    loss = _loss(recipe, student, known, encode)
    callbacks: list[TrainerCallback] = [BankCheckpoint(loss)] if isinstance(loss, MemoryBankLoss) else []
    trainer = SegmentTrainer(
        recipe,
        student,
        loss,
        rows,
        _batch_sampler(recipe, rows, encode),
        epochs=epochs,
        folder=folder,
        callbacks=callbacks,
    )
    if isinstance(loss, MemoryBankLoss):
        most = 1 + max(negatives_of(regime, recipe) for regime in regimes_of(recipe))
        seen = trainer.total_steps * recipe.student.gradient_accumulation * recipe.student.batch_size * most
        if seen < recipe.student.bank_size:
            log.warning(
                "student.bank_size is %s, and the whole run has %s documents: the bank is never full, so the loss is "
                "that of mnr; set bank_size to a tenth of them or less", f"{recipe.student.bank_size:,}", f"{seen:,}",
            )  # fmt: skip
    return trainer


def _loss(recipe: Recipe, student: SentenceTransformer, known: KnownPositives | None, encode: _Encode) -> nn.Module:
    spec, kind = recipe.student, LOSSES[recipe.student.loss]
    similarity = _similarity(student)
    # dot products are of the logits' size by themselves, as TAS-B takes them
    temperature = spec.temperature or (_TEMPERATURE if similarity == "cosine" else 1.0)
    settings: dict[str, Any] = {"similarity": similarity, "scale": 1 / temperature}
    own = {argument: value for field, argument in kind.arguments.items() if (value := getattr(spec, field)) is not None}
    if spec.ranks:
        guide = _guide(recipe, encode)
        ranking = {**settings, "known": known, "guide": guide, "gather_across_devices": are_several()}
        if kind.distils:
            own["contrastive"] = MultipleNegativesRankingLoss(student, **ranking)
        else:
            settings = ranking
    return LOSS_CLASSES[spec.loss](student, **settings, **own)


def _similarity(student: SentenceTransformer) -> Similarity:
    return "dot" if student.similarity_fn_name in ("dot", "dot_score") else "cosine"


def _guide(recipe: Recipe, encode: _Encode) -> Guide | None:
    name = recipe.student.guide
    if name is None:
        return None
    model = ModelSpec(model=name, device=recipe.student.device)
    return Guide(encode(model, "query"), encode(model, "document"))


def _batch_sampler(recipe: Recipe, rows: TrainingRows, encode: _Encode) -> Any:
    spec = recipe.student
    if spec.batches == "random":
        return samplers.at_random(rows)
    if spec.batches == "no_duplicates":
        return samplers.no_duplicates(rows)
    vectors = encode(recipe.retriever or student_spec(recipe), "query")
    return samplers.topics(
        rows, vectors, n_clusters=spec.topics, clusters_per_batch=spec.topics_per_batch, seed=recipe.training_seed
    )
