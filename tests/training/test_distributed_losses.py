"""Two processes with half a batch each do what one does with the whole. As a script, this file is one of the two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

TESTS = Path(__file__).resolve().parents[1]
LOSSES = ["mnr", "cached_mnr", "memory_bank"]
STEPS, ROWS, NEGATIVES, DOCUMENTS = 3, 9, 2, 12  # nine rows: the parts are of four and five


def run(name: str, rank: int, processes: int) -> dict[str, Any]:
    """Three steps of SGD on this process's part of each batch: its losses, and the student's table and bank after."""
    from table_student import TableStudent, columns
    from torch.nn.parallel import DistributedDataParallel
    from toy import collection

    from foolsgold.training.guide import Guide
    from foolsgold.training.known import KnownPositives
    from foolsgold.training.labels import pack
    from foolsgold.training.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
    from foolsgold.training.memory_bank import MemoryBankLoss

    made = collection(
        {f"d{i}": f"passage {i % 10}" for i in range(DOCUMENTS)},
        {f"q{i}": f"query {i % 7}" for i in range(ROWS)},
        {f"q{i}": {f"d{i}": 1, f"d{(i * 5) % DOCUMENTS}": 1} for i in range(ROWS)},
    )
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(ROWS + DOCUMENTS, 4)).astype(np.float32)
    settings: dict[str, Any] = {"known": KnownPositives(made), "gather_across_devices": True}
    student: Any = TableStudent(ROWS + DOCUMENTS)
    loss: Any
    if name == "mnr":
        loss = MultipleNegativesRankingLoss(student, guide=Guide(vectors[:ROWS], vectors[ROWS:]), **settings)
    elif name == "cached_mnr":
        loss = CachedMultipleNegativesRankingLoss(student, mini_batch_size=3, **settings)
    else:
        loss = MemoryBankLoss(student, size=30, momentum=0.7, **settings)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    if processes > 1:
        loss.model = DistributedDataParallel(student)
    values = []
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    for _ in range(STEPS):
        query = rng.permutation(ROWS)
        documents = np.concatenate([query[:, None], rng.integers(0, DOCUMENTS, (ROWS, NEGATIVES))], axis=1)
        weights = rng.choice([0.0, 0.5, 1.0], (ROWS, NEGATIVES))
        labels = pack(query[part], documents[part], weights[part], np.zeros_like(documents[part]))
        value = loss(columns(query[part].tolist(), *(documents[part] + ROWS).T.tolist()), labels)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    found: dict[str, Tensor] = {"losses": torch.tensor(values), "table": student.table.detach()}
    return found | (
        {f"bank.{key}": tensor for key, tensor in loss.bank.state_dict().items()} if name == "memory_bank" else {}
    )


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What `run` gave in each of two processes, by the loss's name."""
    folder = tmp_path_factory.mktemp("processes")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, __file__, str(rank), str(folder)], env=environment) for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=300) for process in started] == [0, 0]
    finally:
        for process in started:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_have_the_losses_and_gradients_of_one(name: str, two_processes: list[dict[str, Any]]) -> None:
    wanted = run(name, 0, 1)
    found = [dict(one[name]) for one in two_processes]
    losses = (found[0].pop("losses") + found[1].pop("losses")) / 2
    torch.testing.assert_close(losses, wanted.pop("losses"), rtol=1e-6, atol=0)
    for one in found:  # both processes hold the same student, and the same bank in the same order
        torch.testing.assert_close(one, wanted, rtol=1e-6, atol=1e-9)


def _main(rank: int, folder: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/met", rank=rank, world_size=2)
    torch.save({name: run(name, rank, 2) for name in LOSSES}, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]))
