from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.util import pairwise_cos_sim, pairwise_dot_score
from table_student import TableStudent, columns

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray
from foolsgold.training.distillation import ListwiseKLLoss, MarginMSELoss
from foolsgold.training.labels import pack
from foolsgold.training.losses import MultipleNegativesRankingLoss

B, N = 4, 3
DOCUMENTS = B + np.arange(B * (1 + N)).reshape(1 + N, B)  # texts by column, row
RNG = np.random.default_rng(2)
SCORES = RNG.normal(scale=4.0, size=(B, 1 + N)).astype(np.float32)  # some margins are negative
FUNCTIONS = [("cosine", pairwise_cos_sim), ("dot", pairwise_dot_score)]


def student() -> TableStudent:
    return TableStudent(B + B * (1 + N))


def features() -> Any:
    return columns(list(range(B)), *DOCUMENTS.tolist())


def labels(scores: FloatArray = SCORES, weights: FloatArray | None = None) -> torch.Tensor:
    weights = np.ones((B, N), dtype=np.float32) if weights is None else weights
    return pack(np.arange(B), DOCUMENTS.T - B, weights, scores)


def similarity(table: FloatArray, how: str) -> FloatArray:
    """Of each query with each row's documents, (B, B, 1 + N), float64."""
    vectors = table / np.linalg.norm(table, axis=1, keepdims=True) if how == "cosine" else table
    found: FloatArray = np.einsum("id,kjd->ijk", vectors[:B], vectors[DOCUMENTS])
    return found


@pytest.mark.parametrize(("how", "function"), FUNCTIONS)
def test_margin_mse_of_complete_scores_is_that_of_sentence_transformers(how: Any, function: Any) -> None:
    model = student()
    wanted = theirs.MarginMSELoss(model, function)(features(), torch.from_numpy(SCORES))
    ours = MarginMSELoss(model, similarity=how)
    assert ours(features(), labels()).item() == pytest.approx(wanted.item(), rel=1e-6)
    margins = torch.from_numpy(SCORES[:, :1] - SCORES[:, 1:])
    for others in (torch.from_numpy(SCORES), margins):
        assert ours(features(), others).item() == pytest.approx(wanted.item(), rel=1e-6)
    one = ours(features()[:3], margins[:, 0]).item()
    assert one == pytest.approx(theirs.MarginMSELoss(model, function)(features()[:3], margins[:, 0]).item(), rel=1e-6)


def test_margin_mse_leaves_out_what_is_not_scored_and_what_has_no_weight() -> None:
    model, scores, weights = student(), SCORES.copy(), np.ones((B, N), dtype=np.float32)
    scores[0, 2] = scores[1, 0] = np.nan  # a negative; a positive, and with it its whole row
    weights[2, 1], weights[3, 0] = 0.0, 0.2  # the second is as good as any
    own = 3.0 * np.einsum("iik->ik", similarity(model.table.detach().numpy(), "cosine"))
    kept = [(0, 1), (0, 3), (2, 1), (2, 3), (3, 1), (3, 2), (3, 3)]
    errors = [(own[i, 0] - own[i, k]) - (float(scores[i, 0]) - float(scores[i, k])) for i, k in kept]
    loss = MarginMSELoss(model, similarity="cosine", scale=3.0)(features(), labels(scores, weights))
    assert loss.item() == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
    loss.backward()
    assert torch.isfinite(model.table.grad).all()


@pytest.mark.parametrize("loss", [MarginMSELoss, ListwiseKLLoss])
def test_a_batch_without_any_scores_is_a_loss_of_zero_with_gradients(loss: Any) -> None:
    model = student()
    value = loss(model)(features(), labels(np.full_like(SCORES, np.nan)))
    value.backward()
    assert value.item() == 0.0
    assert torch.equal(model.table.grad, torch.zeros_like(model.table))


def test_dual_supervision_adds_the_margins_to_the_documents_of_other_rows() -> None:
    model = student()
    teacher = RNG.normal(scale=3.0, size=(B, B * (1 + N)))
    weights = np.ones((B, N), dtype=np.float32)
    weights[1, 2] = 0.0

    def score(query: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(teacher)[query][:, document]

    given = similarity(model.table.detach().numpy(), "dot")
    wanted = teacher[:, DOCUMENTS - B].transpose(0, 2, 1)  # query, row, column
    halves: tuple[list[float], list[float]] = ([], [])
    for i in range(B):
        for j in range(B):
            for k in range(1 + N):
                if i != j and (j, k) != (1, 3):
                    margin = given[i, i, 0] - given[i, j, k]
                    halves[k > 0].append((margin - (wanted[i, i, 0] - wanted[i, j, k])) ** 2)
    pairs = MarginMSELoss(model)(features(), labels(weights=weights)).item()
    both = MarginMSELoss(model, in_batch_teacher=score)(features(), labels(weights=weights)).item()
    assert both == pytest.approx(pairs + 0.75 * (np.mean(halves[0]) + np.mean(halves[1])) / 2, rel=1e-9)


@pytest.mark.parametrize("loss", [MarginMSELoss, ListwiseKLLoss])
def test_a_contrastive_loss_over_the_batch_is_added_with_its_weight(loss: Any) -> None:
    model = student()
    contrastive = MultipleNegativesRankingLoss(model, scale=5.0)
    alone, batch = loss(model)(features(), labels()), contrastive(features(), labels())
    (alone + 0.3 * batch).backward()
    wanted, model.table.grad = model.table.grad, None
    both = loss(model, contrastive=contrastive, contrastive_weight=0.3)(features(), labels())
    both.backward()
    assert both.item() == pytest.approx(alone.item() + 0.3 * batch.item(), rel=1e-6)
    assert torch.allclose(model.table.grad, wanted, rtol=1e-5)
    missing = labels(np.full_like(SCORES, np.nan))  # without scores there is still the batch
    left = loss(model, contrastive=contrastive, contrastive_weight=0.3)(features(), missing).item()
    assert left == pytest.approx(0.3 * batch.item(), rel=1e-6)


@pytest.mark.parametrize(("how", "function"), FUNCTIONS)
def test_kl_is_that_of_sentence_transformers_but_for_the_square_of_the_temperature(how: Any, function: Any) -> None:
    model = student()
    other = theirs.DistillKLDivLoss(model, function, student_temperature=0.2, teacher_temperature=3.0)
    wanted = other(features(), torch.from_numpy(SCORES)).item() / 0.2**2
    ours = ListwiseKLLoss(model, similarity=how, scale=5.0, teacher_temperature=3.0)
    assert ours(features(), labels()).item() == pytest.approx(wanted, rel=1e-5)
    assert ours(features(), torch.from_numpy(SCORES)).item() == pytest.approx(wanted, rel=1e-5)


def test_kl_is_over_the_documents_with_scores_and_weight_and_the_rows_with_two_of_them() -> None:
    model, scores, weights = student(), SCORES.copy(), np.ones((B, N), dtype=np.float32)
    scores[0, 2] = scores[1, 0] = np.nan
    weights[2, 1] = 0.0
    scores[3, 1:] = np.nan  # leaves a positive, over which any distribution is the same
    own = 20.0 * np.einsum("iik->ik", similarity(model.table.detach().numpy(), "cosine"))
    total = 0.0
    for i, kept in ((0, [0, 1, 3]), (1, [1, 2, 3]), (2, [0, 1, 3])):
        p, q = (np.exp(values - values.max()) for values in (scores[i, kept].astype(np.float64) / 2, own[i, kept]))
        p, q = p / p.sum(), q / q.sum()
        total += np.sum(p * np.log(p / q))
    loss = ListwiseKLLoss(model, teacher_temperature=2.0)(features(), labels(scores, weights))
    assert loss.item() == pytest.approx(total / 3, rel=1e-5)
    loss.backward()
    assert torch.isfinite(model.table.grad).all()


@pytest.mark.parametrize(("loss", "given", "said"), [
    (MarginMSELoss, None, "no column `label`"),
    (ListwiseKLLoss, None, "no column `label`"),
    (ListwiseKLLoss, torch.zeros(B, N), "not margins"),
    (MarginMSELoss, torch.zeros(B, N + 2), "4 documents and its label 5 numbers"),
    (MarginMSELoss, torch.zeros((B, 6), dtype=torch.int64), "4 documents and its label 6 numbers"),
])  # fmt: skip
def test_labels_that_do_not_fit_are_an_error(loss: Any, given: torch.Tensor | None, said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        loss(student())(features(), given)


def test_an_in_batch_teacher_needs_rows() -> None:
    loss = MarginMSELoss(student(), in_batch_teacher=lambda query, document: torch.zeros(len(query), len(document)))
    with pytest.raises(TrainingError, match="in_batch_teacher scores rows"):
        loss(features(), torch.from_numpy(SCORES))
