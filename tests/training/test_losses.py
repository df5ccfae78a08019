from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.util import cos_sim, dot_score
from table_student import TableStudent, columns, static_student
from tiny_models import WORDS, bert
from torch import Tensor
from toy import collection

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray
from foolsgold.training.guide import Guide
from foolsgold.training.known import KnownPositives
from foolsgold.training.labels import pack
from foolsgold.training.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss

# Four queries; the text of document i is text 4 + i of the student. Documents 0 and 4 are one passage.
DOCUMENTS = {f"d{i}": f"passage {0 if i == 4 else i}" for i in range(10)}
TOY = collection(
    DOCUMENTS,
    {"q0": "one", "q1": "two", "q2": "three", "q3": "four"},
    {"q0": {"d0": 1, "d1": 1}, "q1": {"d1": 1}, "q2": {"d2": 1, "d7": 1}, "q3": {"d3": 1}},
)


def batch(rows: Sequence[Sequence[int]], weights: Any = None, queries: Sequence[int] = (0, 1, 2, 3)) -> Any:
    """Features and labels of rows, each a query's documents, its positive first."""
    documents = np.array(rows)
    weights = np.ones((len(rows), documents.shape[1] - 1)) if weights is None else np.array(weights)
    labels = pack(np.array(queries), documents, weights, np.full(documents.shape, np.nan))
    return columns(list(queries), *(documents + 4).T.tolist()), labels


def reference(
    student: TableStudent,
    rows: Sequence[Sequence[int]],
    counts: Callable[[int, int, int], float],
    scale: float = 20.0,
    cosine: bool = True,
    queries: Sequence[int] = (0, 1, 2, 3),
) -> float:
    """In float64 numpy. counts(i, j, k): the weight, for query i, of document k of row j."""
    table = student.table.detach().numpy()
    if cosine:
        table = table / np.linalg.norm(table, axis=1, keepdims=True)
    total = 0.0
    for i, query in enumerate(queries):
        odds = {
            (j, k): counts(i, j, k) * np.exp(scale * table[query] @ table[4 + document])
            for j, documents in enumerate(rows)
            for k, document in enumerate(documents)
        }
        total -= np.log(odds[i, 0] / sum(odds.values()))
    return total / len(queries)


def gradient(loss: torch.nn.Module, features: Any, labels: Tensor | None) -> tuple[float, Tensor]:
    loss.zero_grad()
    value = loss(features, labels)
    value.backward()
    found = torch.cat([weights.grad.flatten() for weights in loss.parameters() if weights.grad is not None])
    return value.item(), found


@pytest.mark.parametrize(("similarity", "function"), [("cosine", cos_sim), ("dot", dot_score)])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_without_labels_it_is_the_loss_of_sentence_transformers(similarity: Any, function: Any, n: int) -> None:
    student = TableStudent(4 + 4 * (1 + n))
    features = columns(*np.arange(4 * (2 + n)).reshape(2 + n, 4).tolist())
    ours = gradient(MultipleNegativesRankingLoss(student, scale=7.0, similarity=similarity), features, None)
    other = gradient(theirs.MultipleNegativesRankingLoss(student, scale=7.0, similarity_fct=function), features, None)
    assert ours[0] == pytest.approx(other[0], rel=1e-12)
    torch.testing.assert_close(ours[1], other[1], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_with_labels_but_nothing_to_mask_it_is_the_plain_softmax(similarity: Any) -> None:
    student = TableStudent(14)
    rows = [[0, 5], [1, 6], [2, 8], [3, 9]]
    found = MultipleNegativesRankingLoss(student, scale=3.0, similarity=similarity)(*batch(rows)).item()
    wanted = reference(student, rows, lambda i, j, k: 1.0, scale=3.0, cosine=similarity == "cosine")
    assert found == pytest.approx(wanted, rel=1e-12)


def test_positives_of_a_query_are_no_negatives_of_it_whichever_row_they_are_in() -> None:
    student = TableStudent(14)
    rows = [[0, 5], [1, 7], [2, 4], [3, 6]]
    masked = {
        (0, 1, 0),  # d1, the positive of q1, is one of q0 too
        (2, 1, 1),  # d7, mined for q1, is a positive of q2
        (0, 2, 1),  # d4, mined for q2, has the text of d0
        *((1, 2, 1), (3, 2, 1), (2, 0, 0)),  # ... and counts once for the others, for q2 as its own
    }
    wanted = reference(student, rows, lambda i, j, k: (i, j, k) not in masked)
    found = MultipleNegativesRankingLoss(student, known=KnownPositives(TOY))(*batch(rows))
    assert found.item() == pytest.approx(wanted, rel=1e-12)


def test_a_known_positive_that_was_mined_for_the_query_itself_does_not_count() -> None:
    student = TableStudent(14)
    rows = [[0, 1], [2, 5]]
    loss = MultipleNegativesRankingLoss(student, known=KnownPositives(TOY))
    found = loss(*batch(rows, queries=(0, 2))).item()
    wanted = reference(student, rows, lambda i, j, k: (i, j, k) != (0, 0, 1), queries=(0, 2))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_the_positive_itself_always_counts() -> None:
    student = TableStudent(14)
    rows = [[0, 5], [1, 6], [4, 8]]  # twice q0, whose positive is d0, and d4, its copy
    found = MultipleNegativesRankingLoss(student, known=KnownPositives(TOY))(*batch(rows, queries=(0, 1, 0))).item()
    masked = {(0, 1, 0), (0, 2, 0), (1, 2, 0), (2, 0, 0), (2, 1, 0)}
    wanted = reference(student, rows, lambda i, j, k: (i, j, k) not in masked, queries=(0, 1, 0))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_weights_count_for_the_query_that_a_negative_was_mined_for() -> None:
    student = TableStudent(14)
    weights = [[0.25, 1.0], [1.0, 0.5], [1.0, 1.0], [0.125, 1.0]]
    rows = [[0, 5, 6], [1, 7, 8], [2, 9, 5], [3, 6, 4]]
    # d5 and d6 are in two rows each; a query with a copy of its own counts that one, others the first.
    masked = {(0, 2, 2), (0, 3, 1), (1, 2, 2), (1, 3, 1), (2, 0, 1), (2, 3, 1), (3, 2, 2), (3, 0, 2)}

    def counts(i: int, j: int, k: int) -> float:
        return 0.0 if (i, j, k) in masked else weights[i][k - 1] if i == j and k else 1.0

    found = MultipleNegativesRankingLoss(student)(*batch(rows, weights)).item()
    assert found == pytest.approx(reference(student, rows, counts), rel=1e-12)


def test_a_document_of_weight_0_counts_for_no_query() -> None:
    student = TableStudent(14)
    rows = [[0, 5, 5], [1, 6, 7], [2, 2, 2], [3, 8, 9]]  # q2 has no negatives, q0 one
    weights = [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    nobodys = {(0, 2), (2, 1), (2, 2)}
    value, gradients = gradient(MultipleNegativesRankingLoss(student), *batch(rows, weights))
    assert value == pytest.approx(reference(student, rows, lambda i, j, k: (j, k) not in nobodys), rel=1e-12)
    assert torch.isfinite(gradients).all()


@pytest.mark.parametrize(("margin", "strategy"), [(0.0, "absolute"), (0.3, "absolute"), (0.5, "relative")])
def test_the_guide_masks_what_gistembed_masks(tmp_path: Path, margin: float, strategy: Any) -> None:
    student = SentenceTransformer(str(bert(tmp_path / "student", "BertModel")), device="cpu").eval()
    guide = copy.deepcopy(student)
    with torch.no_grad():
        for weights in guide.parameters():
            weights.add_(torch.randn(weights.shape, generator=torch.Generator().manual_seed(7)) * 0.3)
    texts = [f"{a} {b}" for a in WORDS[:3] for b in WORDS[3:8]]
    queries, positives, negatives = texts[:5], texts[5:10], texts[10:]
    gist = theirs.GISTEmbedLoss(
        student, guide, 0.05, strategy, margin, contrast_anchors=False, contrast_positives=False
    )
    wanted = gist([student.preprocess(column) for column in (queries, positives, negatives)], None).item()
    ours = MultipleNegativesRankingLoss(
        student,
        guide=Guide.from_model(guide, queries, positives + negatives, margin=margin, margin_strategy=strategy),
    )
    documents = np.arange(10).reshape(2, 5).T
    labels = pack(np.arange(5), documents, np.ones((5, 1)), np.zeros((5, 2)))
    features = [student.preprocess(column) for column in (queries, positives, negatives)]
    assert ours(features, labels).item() == pytest.approx(wanted, rel=1e-5)
    plain = theirs.MultipleNegativesRankingLoss(student)
    unmasked = plain([student.preprocess(column) for column in (queries, positives, negatives)], None).item()
    assert wanted < unmasked - 0.01, "the guide masks nothing here, so this compares nothing"


@pytest.mark.parametrize("mini_batch_size", [1, 3, 8])
def test_cached_gives_the_value_and_the_gradients_of_uncached(mini_batch_size: int) -> None:
    rng = np.random.default_rng(11)
    queries = [0, 1, 2, 3, 0, 2, 1]
    rows = [[{0: 0, 1: 1, 2: 2, 3: 3}[q], *rng.choice(10, 2, replace=False)] for q in queries]
    features, labels = batch(rows, rng.choice([0.0, 0.3, 1.0], (7, 2)), queries)
    vectors: FloatArray = rng.normal(size=(14, 6)).astype(np.float32)
    guide = Guide(vectors[:4], vectors[4:])
    student = TableStudent(14)
    plain = MultipleNegativesRankingLoss(student, known=KnownPositives(TOY), guide=guide)
    cached = CachedMultipleNegativesRankingLoss(
        student, known=KnownPositives(TOY), guide=guide, mini_batch_size=mini_batch_size
    )
    wanted, found = gradient(plain, features, labels), gradient(cached, features, labels)
    assert found[0] == pytest.approx(wanted[0], rel=1e-12)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-10, atol=1e-14)
    with torch.no_grad():
        assert cached(features, labels).item() == pytest.approx(wanted[0], rel=1e-12)


def test_cached_gives_the_gradients_of_uncached_on_a_transformer_with_dropout(tmp_path: Path) -> None:
    model = SentenceTransformer(str(bert(tmp_path / "student", "BertModel")), device="cpu").train()
    texts = [["bees make honey", "paris is the capital", "bread"], ["honey", "paris in france", "river"]]

    def run(loss: torch.nn.Module) -> tuple[float, Tensor]:
        torch.manual_seed(1)
        return gradient(loss, [model.preprocess(column) for column in texts], None)

    # One mini-batch a column, so that the same dropout is drawn.
    wanted = run(MultipleNegativesRankingLoss(model))
    found = run(CachedMultipleNegativesRankingLoss(model, mini_batch_size=3))
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-6)


def test_cached_says_that_a_static_student_cannot_be_cut() -> None:
    with pytest.raises(TrainingError, match="use mnr"):
        CachedMultipleNegativesRankingLoss(static_student())


def test_masks_without_rows_are_an_error_and_not_left_out_in_silence() -> None:
    loss = MultipleNegativesRankingLoss(TableStudent(14), known=KnownPositives(TOY))
    with pytest.raises(TrainingError, match="have no rows"):
        loss(columns([0, 1], [4, 5]), None)


def test_labels_of_another_number_of_negatives_are_an_error() -> None:
    features, labels = batch([[0, 5], [1, 6], [2, 8], [3, 9]])
    with pytest.raises(TrainingError, match="1 negatives per row and the batch has 0"):
        MultipleNegativesRankingLoss(TableStudent(14))(features[:2], labels)


def test_low_precision_training_keeps_the_similarities_precise() -> None:
    student = TableStudent(14).float()
    features, _ = batch([[0, 5], [1, 6], [2, 8], [3, 9]])
    loss = MultipleNegativesRankingLoss(student, scale=100.0)
    wanted = loss(features).item()
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(features).item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_trainer_of_sentence_transformers_trains_with_it(tmp_path: Path, accumulate: int) -> None:
    student = static_student()
    words = WORDS[:8]
    positives = np.arange(8)
    negatives = (positives + 3) % 8
    labels = pack(positives, np.stack([positives, negatives], axis=1), np.ones((8, 1)), np.zeros((8, 2)))
    data = Dataset.from_dict(
        {
            "anchor": [f"the {word}" for word in words],
            "positive": [f"{word} is" for word in words],
            "negative": [f"{words[i]} is" for i in negatives],
            "label": labels.tolist(),
        }
    )
    made = collection(
        {f"d{i}": f"{word} is" for i, word in enumerate(words)},
        {f"q{i}": f"the {word}" for i, word in enumerate(words)},
        {f"q{i}": {f"d{i}": 1} for i in range(8)},
    )
    loss = MultipleNegativesRankingLoss(student, known=KnownPositives(made))
    features = [student.preprocess(data[column]) for column in ("anchor", "positive", "negative")]
    before = loss(features, labels).item()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=5,
        learning_rate=0.05,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
    )
    SentenceTransformerTrainer(model=student, args=arguments, train_dataset=data, loss=loss).train()
    features = [student.preprocess(data[column]) for column in ("anchor", "positive", "negative")]
    assert loss(features, labels).item() < before / 2
