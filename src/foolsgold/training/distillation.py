"""Losses that teach a student the teacher's scores of a row's own documents: margin_mse and kl.

Labels are those of `labels`, whose scores are logits, or floats as sentence-transformers' losses of the same kind take
them. A document that the teacher was not asked about (NaN), or that is only there to fill up a row, counts for nothing.

Both compare a row's own documents, and do not push the rest of the corpus away. `contrastive`, a ranking loss of the
same model over the batch, does, and is added with `contrastive_weight` (Wang et al., E5, 2022, who take 0.2 with KL).
The defaults were chosen on held-out queries (docs/results.md); a margin's error is in squared logits, so its is larger.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from torch import Tensor, nn

from foolsgold.errors import TrainingError
from foolsgold.training.labels import RowLabels, is_packed
from foolsgold.training.losses import Features, MultipleNegativesRankingLoss
from foolsgold.training.vectors import Similarity, check_similarity, comparable, products


class MarginMSELoss(nn.Module):
    """Squared error of the margin between a positive and a negative (Hofstätter et al., 2020, section 3.1).

    Margins are signed: where the teacher prefers a negative, so does the student. The mean is over all negatives with
    known scores. similarity, scale: the student's score is scale * similarity, which has to reach the teacher's range:
    1 for dot products, as in the paper, about 20 for cosines with a teacher of logits.

    in_batch_teacher: scores query rows, int64 (b), and document rows, int64 (m), as float (b, m), in the unit of the
    teacher; then the loss is that of TAS-B's dual supervision (Hofstätter et al., 2021, section 3.3), L_pair +
    `in_batch_weight` * L_inBatch, where L_inBatch compares each positive with the documents of the other rows:
    half the mean over their positives and half the mean over their negatives. The paper's is a ColBERT; a `Guide`'s
    `similarity`, times what brings it into the teacher's range, is a cheaper one.

    Raises:
        TrainingError: unusable similarity or scale; in `forward`, there are no scores in the labels, or no rows for an
            in_batch_teacher.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        similarity: Similarity = "dot",
        scale: float = 1.0,
        in_batch_teacher: Callable[[Tensor, Tensor], Tensor] | None = None,
        in_batch_weight: float = 0.75,
        contrastive: MultipleNegativesRankingLoss | None = None,
        contrastive_weight: float = 1000.0,
    ) -> None:
        super().__init__()
        check_similarity(similarity, scale)
        self.model = model
        self.similarity: Similarity = similarity
        self.scale = scale
        self.in_batch_teacher = in_batch_teacher
        self.in_batch_weight = in_batch_weight
        self.contrastive = contrastive
        self.contrastive_weight = contrastive_weight

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """One number. labels: packed, or float: margins (b) or (b, n), or scores (b, 1 + n)."""
        columns = embed_columns(self.model, sentence_features)
        query, documents = _query_and_documents(columns, self.similarity)
        student = self.scale * products(query, documents)
        teacher, counts = _teacher(labels, documents, "margin_mse")
        margins = teacher if teacher.shape[1] == documents.shape[1] - 1 else teacher[:, :1] - teacher[:, 1:]
        error = student[:, :1] - student[:, 1:] - margins
        loss = _mean_square(error, margins.isfinite() & counts[:, 1:])
        if self.contrastive is not None:
            loss = loss + self.contrastive_weight * self.contrastive.of(columns, labels)
        if self.in_batch_teacher is None:
            return loss
        if labels is None or not is_packed(labels):
            raise TrainingError(
                "margin_mse: in_batch_teacher scores rows, and the labels of this batch have none; make the column "
                "`label` with foolsgold.training.labels.pack"
            )
        return loss + self.in_batch_weight * self._in_batch(query, documents, RowLabels.unpack(labels), counts)

    def _in_batch(self, query: Tensor, documents: Tensor, rows: RowLabels, counts: Tensor) -> Tensor:
        assert self.in_batch_teacher is not None
        b, width = documents.shape[:2]
        student = self.scale * products(query, documents.flatten(0, 1))
        error = (student - self.in_batch_teacher(rows.query, rows.documents.flatten())).view(b, b, width)
        error = error.diagonal()[0][:, None, None] - error  # of the margin to each row's documents
        others = ~torch.eye(b, dtype=torch.bool, device=query.device)[:, :, None] & counts & error.isfinite()
        positives = _mean_square(error[..., :1], others[..., :1])
        return (positives + _mean_square(error[..., 1:], others[..., 1:])) / 2


class ListwiseKLLoss(nn.Module):
    """KL(teacher || student) over a row's documents, positive and negatives (Lin et al., 2020, equation 2).

    The student's distribution is softmax(scale * similarity), so that its temperature is 1 / scale; the teacher's is
    softmax(score / teacher_temperature). The mean is over the rows with at least two known scores; unlike
    sentence-transformers' DistillKLDivLoss it is not multiplied by the square of the student's temperature.

    Raises:
        TrainingError: unusable similarity or scale; in `forward`, there are no scores in the labels.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        similarity: Similarity = "cosine",
        scale: float = 20.0,
        teacher_temperature: float = 1.0,
        contrastive: MultipleNegativesRankingLoss | None = None,
        contrastive_weight: float = 10.0,
    ) -> None:
        super().__init__()
        check_similarity(similarity, scale)
        if not teacher_temperature > 0:
            raise TrainingError(f"teacher_temperature is {teacher_temperature}; it must be above 0")
        self.model = model
        self.similarity: Similarity = similarity
        self.scale = scale
        self.teacher_temperature = teacher_temperature
        self.contrastive = contrastive
        self.contrastive_weight = contrastive_weight

    def forward(self, sentence_features: Features, labels: Tensor | None = None) -> Tensor:
        """One number. labels: packed, or float scores (b, 1 + n)."""
        columns = embed_columns(self.model, sentence_features)
        query, documents = _query_and_documents(columns, self.similarity)
        student = self.scale * products(query, documents)
        teacher, counts = _teacher(labels, documents, "kl")
        if teacher.shape != student.shape:
            raise TrainingError(
                f"kl: a row has {student.shape[1]} documents and its label {teacher.shape[1]} numbers; give the "
                "teacher's score of each document, not margins"
            )
        counts = counts & teacher.isfinite()
        usable = counts.sum(dim=1) >= 2  # a softmax over one document says nothing
        missing = ~counts[usable]
        wanted = (teacher[usable] / self.teacher_temperature).masked_fill(missing, -torch.inf).log_softmax(dim=1)
        given = student[usable].masked_fill(missing, -torch.inf).log_softmax(dim=1)
        divergence = wanted.exp() * (wanted - given).masked_fill(missing, 0.0)
        # The second term keeps a batch without scores differentiable, as DistributedDataParallel needs it.
        loss = divergence.sum() / usable.sum().clamp(min=1) + 0.0 * student.sum()
        if self.contrastive is not None:
            loss = loss + self.contrastive_weight * self.contrastive.of(columns, labels)
        return loss


def _query_and_documents(columns: list[Tensor], similarity: Similarity) -> tuple[Tensor, Tensor]:
    """float (b, d) and (b, 1 + n, d), vectors whose products are similarities, of a query, a positive, n negatives."""
    query, *documents = columns
    return comparable(query, similarity), comparable(torch.stack(documents, dim=1), similarity)


def _teacher(labels: Tensor | None, documents: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """The teacher's numbers, float (b, 1 + n) scores or (b, n) margins, and which documents count, bool (b, 1 + n)."""
    b, width = documents.shape[:2]
    everyone = torch.ones((b, width), dtype=torch.bool, device=documents.device)
    if labels is None:
        raise TrainingError(
            f"{loss} learns from a teacher's scores, and the data has no column `label`; add them there"
        )
    if is_packed(labels) and labels.shape[1] == 3 * width:
        rows = RowLabels.unpack(labels)
        numbers = rows.scores
        counts = torch.cat([everyone[:, :1], rows.weights > 0], dim=1)
    else:
        numbers, counts = labels.reshape(b, -1).to(torch.promote_types(labels.dtype, torch.float32)), everyone
    if numbers.shape[1] not in (width - 1, width):
        raise TrainingError(
            f"{loss}: a row has {width} documents and its label {numbers.shape[1]} numbers; give one score per document"
        )
    return numbers, counts


def _mean_square(error: Tensor, counts: Tensor) -> Tensor:
    return error.where(counts, 0.0).square().sum() / counts.sum().clamp(min=1)
