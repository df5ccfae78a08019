from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from table_student import TableStudent, columns, static_student
from tiny_models import WORDS
from torch import nn
from toy import collection

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray
from foolsgold.training.known import KnownPositives
from foolsgold.training.labels import NOBODYS, pack
from foolsgold.training.losses import MultipleNegativesRankingLoss
from foolsgold.training.memory_bank import FILE, BankCheckpoint, MemoryBankLoss

# Three queries, ten documents, text 3 + i of the student for document i; documents 1 and 8 are one passage.
PASSAGE = {document: 1 if document == 8 else document for document in range(10)}
POSITIVES = {0: {0, 4}, 1: {1}, 2: {2}}
TOY = collection(
    {f"d{document}": f"passage {passage}" for document, passage in PASSAGE.items()},
    {f"q{query}": f"query {query}" for query in POSITIVES},
    {f"q{query}": {f"d{document}": 1 for document in documents} for query, documents in POSITIVES.items()},
)
# (queries, rows of documents, weights) of one batch after another
BATCHES: Any = [
    ([0, 1], [[0, 5], [1, 6]], [[1.0], [1.0]]),
    ([2, 0], [[2, 7], [4, 4]], [[1.0], [0.0]]),
    ([1, 2], [[1, 9], [2, 3]], [[0.5], [1.0]]),
    ([0, 2], [[0, 8], [2, 5]], [[1.0], [1.0]]),
    ([1, 0], [[1, 3], [4, 9]], [[1.0], [0.5]]),
    ([2, 1], [[2, 6], [1, 7]], [[1.0], [1.0]]),
]


def inputs(queries: list[int], rows: list[list[int]], weights: list[list[float]]) -> Any:
    documents = np.array(rows)
    labels = pack(np.array(queries), documents, np.array(weights), np.zeros(documents.shape))
    return columns(queries, *(documents + 3).T.tolist()), labels


def reference(table: FloatArray, bank: list[tuple[int, FloatArray]], queries: Any, rows: Any, weights: Any) -> float:
    """In float64: the loss of a batch with a bank of (document, vector); a passage counts once, the bank's last."""
    unit = lambda vector: vector / np.linalg.norm(vector)  # noqa: E731
    total = 0.0
    for i, query in enumerate(queries):
        positives = {PASSAGE[document] for document in POSITIVES[query]}
        odds: dict[int, float] = {}  # by passage
        own = dict(zip(rows[i], [1.0, *weights[i]], strict=True)) | {rows[i][0]: 1.0}
        candidates = [(document, weight, table[3 + document]) for document, weight in own.items()]
        candidates += [(d, float(k == 0 or w[k - 1] > 0), table[3 + d])
                       for r, w in zip(rows, weights, strict=True) for k, d in enumerate(r)]  # fmt: skip
        candidates += [(document, 1.0, vector) for document, vector in bank]
        for document, weight, vector in candidates:
            passage = PASSAGE[document]
            is_own_positive = not odds
            if weight and passage not in odds and (is_own_positive or passage not in positives):
                odds[passage] = weight * np.exp(20 * unit(table[query]) @ unit(vector))
        total -= np.log(odds[PASSAGE[rows[i][0]]] / sum(odds.values()))
    return total / len(queries)


def test_it_is_the_softmax_over_the_batch_and_a_queue_of_slowly_moving_vectors() -> None:
    student = TableStudent(13)
    loss = MemoryBankLoss(student, known=KnownPositives(TOY), size=6, momentum=0.9)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    slow = student.table.detach().numpy().copy()
    queue: list[tuple[int, FloatArray] | None] = []
    put, values = 0, []
    for one in BATCHES:
        table = student.table.detach().numpy().copy()
        bank = [entry for entry in queue if entry is not None] if put >= 6 else []
        value = loss(*inputs(*one))
        values.append(value.item())
        assert value.item() == pytest.approx(reference(table, bank, *one), rel=1e-6)
        for row, weights in zip(one[1], one[2], strict=True):
            for document, weight in zip(row, [1.0, *weights], strict=True):
                if weight:
                    queue = [None if entry is not None and entry[0] == document else entry for entry in queue]
                    queue.append((document, slow[3 + document].copy()))
                    put += 1
        queue = queue[-6:]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        slow = 0.9 * slow + 0.1 * student.table.detach().numpy()
        np.testing.assert_allclose(loss.bank.encoder.module.table, slow, rtol=1e-12)
    assert sorted(loss.bank.ids[loss.bank.ids != NOBODYS].tolist()) == sorted(e[0] for e in queue if e is not None)


def test_until_the_queue_is_full_it_is_the_in_batch_loss() -> None:
    student = TableStudent(13)
    loss, plain = MemoryBankLoss(student, size=8), MultipleNegativesRankingLoss(student)
    found = [(loss(*inputs(*one)).item(), plain(*inputs(*one)).item()) for one in BATCHES[:4]]
    assert [with_bank == without for with_bank, without in found] == [True, True, True, False]  # 4, 7 and 11 documents
    assert found[3][0] > found[3][1]


def test_a_document_that_comes_again_has_the_place_of_its_newest_vector_only() -> None:
    loss = MemoryBankLoss(TableStudent(13), size=9)
    for one in (BATCHES[0], BATCHES[0], BATCHES[2]):  # the second and third share document 1
        loss(*inputs(*one))
    # 12 went into 9 places: the last three stand where the first three stood.
    assert loss.bank.ids.tolist() == [9, 2, 3, NOBODYS, 0, 5, NOBODYS, 6, 1]


def test_without_gradients_the_bank_is_used_and_stays_as_it_is() -> None:
    loss = MemoryBankLoss(TableStudent(13), size=4)
    for one in BATCHES[:2]:
        loss(*inputs(*one))
    before = {name: tensor.clone() for name, tensor in loss.bank.state_dict().items()}
    with torch.no_grad():
        first, second = (loss(*inputs(*BATCHES[3])).item() for _ in range(2))
    assert first == second != MultipleNegativesRankingLoss(loss.model)(*inputs(*BATCHES[3])).item()
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.bank.state_dict().items())


def test_without_labels_there_is_a_bank_without_masks() -> None:
    student = TableStudent(13)
    loss = MemoryBankLoss(student, size=4)
    features, _ = inputs(*BATCHES[0])
    first = loss(features).item()
    # The same four documents again, in the bank: every other document counts twice, the positive as well.
    table = torch.nn.functional.normalize(student.table.detach(), dim=-1)
    odds = (20 * table[[0, 1]] @ table[[3, 8, 4, 9]].T).exp()
    wanted = -(odds[[0, 1], [0, 2]] / (2 * odds.sum(dim=1))).log().mean().item()
    assert loss(features).item() == pytest.approx(wanted, rel=1e-6)
    assert first == pytest.approx(wanted - np.log(2), rel=1e-6)


def data() -> Dataset:
    words = WORDS[:8]
    documents = np.stack([np.arange(8), (np.arange(8) + 3) % 8], axis=1)
    labels = pack(np.arange(8), documents, np.ones((8, 1)), np.zeros((8, 2)))
    return Dataset.from_dict(
        {
            "anchor": [f"the {word}" for word in words],
            "positive": [f"{word} is" for word in words],
            "negative": [f"{words[i]} is" for i in documents[:, 1]],
            "label": labels.tolist(),
        }
    )


def trainer(folder: Path, loss: MemoryBankLoss, **settings: Any) -> SentenceTransformerTrainer:
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        learning_rate=0.02,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        **{"save_strategy": "no", **settings},
    )
    return SentenceTransformerTrainer(
        model=loss.model, args=arguments, train_dataset=data(), loss=loss, callbacks=[BankCheckpoint(loss)]
    )


@pytest.mark.parametrize("accumulate", [1, 2])
def test_in_the_trainer_the_momentum_encoder_moves_once_a_step_and_is_not_trained(
    tmp_path: Path, accumulate: int
) -> None:
    loss = MemoryBankLoss(static_student(), size=6, momentum=0.5)
    student, slow = loss.model, loss.bank.encoder.module
    made = trainer(tmp_path, loss, max_steps=3, gradient_accumulation_steps=accumulate)
    seen: list[torch.Tensor] = [student[0].embedding.weight.detach().clone()]

    def after_step(*_: Any) -> None:
        seen.append(student[0].embedding.weight.detach().clone())

    made.create_optimizer()
    made.optimizer.register_step_post_hook(after_step)
    made.train()
    assert loss.bank.encoder.module is slow is not student
    trained = [weights for group in made.optimizer.param_groups for weights in group["params"]]
    assert [id(weights) for weights in trained] == [id(weights) for weights in student.parameters()]
    wanted = 0.5**3 * seen[0] + 0.5**3 * seen[1] + 0.5**2 * seen[2] + 0.5 * seen[3]
    assert len(seen) == 4
    torch.testing.assert_close(slow[0].embedding.weight, wanted)
    assert int(loss.bank.count) == 3 * accumulate * 4


def test_a_wrapped_student_takes_the_place_of_the_student_only(tmp_path: Path) -> None:
    class Wrapped(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    loss = MemoryBankLoss(static_student(), size=6)
    slow, wrapped = loss.bank.encoder.module, Wrapped(loss.model)
    made = trainer(tmp_path, loss)
    made.override_model_in_loss(loss, wrapped)
    assert loss.model is wrapped
    assert loss.bank.encoder.module is slow


def test_a_run_that_goes_on_from_a_checkpoint_ends_where_one_in_a_piece_ends(tmp_path: Path) -> None:
    whole = MemoryBankLoss(static_student(), size=6, momentum=0.5)
    trainer(tmp_path, whole, max_steps=6, save_strategy="steps", save_steps=4).train()
    assert (tmp_path / "checkpoint-4" / FILE).is_file()
    again = MemoryBankLoss(static_student(seed=9), size=6, momentum=0.5)
    trainer(tmp_path, again, max_steps=6).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    wanted = whole.state_dict()
    for name, tensor in again.state_dict().items():
        torch.testing.assert_close(tensor, wanted[name], rtol=0, atol=0, msg=name)


def test_a_checkpoint_without_a_bank_lets_it_begin_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer(
        tmp_path, MemoryBankLoss(static_student(), size=6), max_steps=4, save_strategy="steps", save_steps=4
    ).train()
    (tmp_path / "checkpoint-4" / FILE).unlink()
    loss = MemoryBankLoss(static_student(), size=6, momentum=0.5)
    with caplog.at_level(logging.WARNING):
        trainer(tmp_path, loss, max_steps=5).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert "the memory bank starts again" in caplog.text
    assert int(loss.bank.count) == 4
    assert int(loss.bank.encoder.n_averaged) == 2  # once to be the student of step 4, once after the fifth


@pytest.mark.parametrize("settings", [{"size": 0}, {"momentum": 1.5}, {"similarity": "cos"}, {"scale": 0.0}])
def test_settings_that_make_no_loss_are_an_error(settings: Any) -> None:
    with pytest.raises(TrainingError):
        MemoryBankLoss(TableStudent(3), **settings)


def test_a_bank_of_another_size_is_an_error(tmp_path: Path) -> None:
    MemoryBankLoss(static_student(), size=6).bank.save(tmp_path)
    with pytest.raises(TrainingError, match="does not fit this student or a bank of 7"):
        MemoryBankLoss(static_student(), size=7).bank.load(tmp_path)


def test_a_loss_that_is_gone_is_not_held_by_the_optimizers_of_others() -> None:
    from torch.optim import optimizer

    before = len(optimizer._global_optimizer_post_hooks)
    loss = MemoryBankLoss(TableStudent(3), size=4)
    assert len(optimizer._global_optimizer_post_hooks) == before + 1
    del loss
    assert len(optimizer._global_optimizer_post_hooks) == before
