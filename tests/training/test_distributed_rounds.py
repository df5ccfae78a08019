"""A whole run in two processes: masks, topic batches, mining with the student, and one that mines and evaluates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small

from foolsgold.training.run import RunState

SCRIPT = """
import json, sys
import torch
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import small_training as small
from foolsgold.training import train

sections = {
    "schedule": [
        {"name": "warmup", "from": 0, "to": 1, "mode": "bm25", "n": 2},
        {"name": "own", "from": 1, "to": 3, "mode": {"sources": {"self": {"depth": 8}}}, "n": 2},
    ],
    "remine": {"every": "1 epoch"},
    "student": {"batch_size": 8, "batches": "topics"},
}
trained = train(small.recipe(Path(sys.argv[2]), **sections), sys.argv[3], collection=small.collection())
torch.distributed.destroy_process_group()  # its threads would outlive the interpreter, and abort it
print(json.dumps({"version": trained.version, "rounds": [one.set_version for one in trained.rounds]}))
"""


def test_two_processes_train_together_and_agree(tmp_path: Path) -> None:
    student = small.student(tmp_path / "student")
    processes = []
    for rank in range(2):
        environment = os.environ | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(29_500 + os.getpid() % 2_000),
            "OMP_NUM_THREADS": "1",
            "FOOLSGOLD_CACHE": str(tmp_path / "cache"),
            "ACCELERATE_USE_CPU": "1",
        }
        command = [sys.executable, "-c", SCRIPT, str(Path(small.__file__).parent), str(student), str(tmp_path / "runs")]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    one, other = (json.loads(out.splitlines()[-1]) for out, _ in said)
    assert one == other
    state = RunState.load(tmp_path / "runs" / one["version"])
    assert state.is_finished
    assert len(set(one["rounds"])) == 4  # none at the start, then three sets
    assert state.best.measures["nDCG@10"] > state.rounds[0].measures["nDCG@10"]
