"""Two processes of a real trainer see every row between them, and neither waits for ever for the other.

As a script, this file is one of the two.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

TESTS = Path(__file__).resolve().parents[1]
PROCESSES, EPOCHS, BATCH = 2, 2, 4
QUERIES = 27  # with 31 positives: no multiple of the processes, nor of the batch
SAMPLERS = ("no_duplicates", "topics", "a user's texts")


def train(name: str, folder: Path) -> list[tuple[int, list[int]]]:
    """What this process's loss was given: of each batch the epoch and its rows."""
    import numpy as np
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss as TheirLoss
    from table_student import static_student
    from toy import collection

    from foolsgold.training.known import KnownPositives
    from foolsgold.training.labels import RowLabels
    from foolsgold.training.losses import MultipleNegativesRankingLoss
    from foolsgold.training.rows import TrainingRows
    from foolsgold.training.samplers import no_duplicates, topics

    made = collection(
        {f"d{i}": f"passage {i}" for i in range(QUERIES + 4)},
        {f"q{i}": f"query {i}" for i in range(QUERIES)},
        {f"q{i}": {f"d{i}": 1} | ({f"d{QUERIES + i}": 1} if i < 4 else {}) for i in range(QUERIES)},
    )
    rows = TrainingRows(made)
    number = {pair: i for i, pair in enumerate(zip(rows.query_rows.tolist(), rows.positive_rows.tolist(), strict=True))}
    student = static_student()
    vectors = np.random.default_rng(1).normal(size=(QUERIES, 8)).astype(np.float32)
    data, batch_sampler, loss = rows.dataset, no_duplicates(rows), None
    if name == "topics":
        batch_sampler = topics(rows, vectors, clusters_per_batch=2)
    elif name == "a user's texts":
        texts = {column: rows.dataset[:][column] for column in ("anchor", "positive")}
        data, batch_sampler = (
            Dataset.from_dict({**texts, "label": [float(i) for i in range(len(rows))]}),
            no_duplicates(),
        )
        loss = TheirLoss(student)
    loss = loss or MultipleNegativesRankingLoss(student, known=KnownPositives(made), gather_across_devices=True)
    seen: list[tuple[int, list[int]]] = []

    class Noting(torch.nn.Module):
        """The loss, and a note of what it was given."""

        def __init__(self) -> None:
            super().__init__()
            self.loss = loss

        def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
            if name == "a user's texts":
                of = [int(label) for label in labels.tolist()]
            else:
                told = RowLabels.unpack(labels)
                of = [number[pair] for pair in zip(told.query.tolist(), told.documents[:, 0].tolist(), strict=True)]
            seen.append((rows.epoch if name != "a user's texts" else int(trainer.state.epoch), of))
            value: torch.Tensor = self.loss(features, labels)
            return value

    trainer = SentenceTransformerTrainer(
        model=student,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, use_cpu=True,
            ddp_backend="gloo", ddp_find_unused_parameters=False, batch_sampler=batch_sampler, save_strategy="no",
            report_to="none", disable_tqdm=True,
        ),
        train_dataset=data,
        loss=Noting(),
    )  # fmt: skip
    trainer.train()
    return seen


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[Any]]]:
    """What `train` gave in each of two processes, by the sampler's name."""
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(PROCESSES), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder)],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(PROCESSES)
    ]
    try:
        assert [process.wait(timeout=180) for process in started] == [0] * PROCESSES
    finally:
        for process in started:
            process.kill()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(PROCESSES)]


@pytest.mark.parametrize("name", SAMPLERS)
def test_two_processes_see_every_row_once_an_epoch_in_as_many_batches(
    name: str, two_processes: list[dict[str, list[Any]]]
) -> None:
    for epoch in range(EPOCHS):
        batches = [[rows for at, rows in process[name] if at == epoch] for process in two_processes]
        assert len(batches[0]) == len(batches[1]) == 4  # 31 rows, in 2 batches of at most 4 a step
        assert sorted(row for process in batches for rows in process for row in rows) == list(range(31))


def _main(rank: int, folder: Path) -> None:
    import torch

    seen = {name: train(name, folder / "out") for name in SAMPLERS}
    torch.distributed.destroy_process_group()  # its threads must not outlive the interpreter
    (folder / f"{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]))
