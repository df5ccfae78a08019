"""What the int8 screen of dense search (`search/screen.py`) buys a whole run of mining, in one process.

    python benchmarks/whole_run.py --documents 100000 --queries 10000

The same recipe (bm25 + dense, vectors given, a teacher that costs nothing) is mined in turn with the screen and
without it. Prints one line of JSON: wall and CPU seconds (median, lowest, highest) and the CPU's features.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from numba.core.registry import cpu_target
from scaling import _DEBIAN, _inputs, _mine

from foolsgold.search import screen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--data", type=Path, default=_DEBIAN)
    options = parser.parse_args()
    options.size = options.documents
    has_screen = screen.available
    ways = {"with the screen": has_screen, "without it": _never}
    walls: dict[str, list[float]] = {way: [] for way in ways}
    cpus: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _inputs(work, options)
        _mine(work, options)  # compiles, and reads the collection once
        for _ in range(options.rounds):
            for way, available in ways.items():
                screen.available = available
                shutil.rmtree(work / "mined")
                wall, cpu = time.perf_counter(), time.process_time()
                _mine(work, options)
                walls[way].append(time.perf_counter() - wall)
                cpus[way].append(time.process_time() - cpu)
        screen.available = has_screen
    print(
        json.dumps(
            {
                "benchmark": "whole_run",
                "documents": options.documents,
                "queries": options.queries,
                "cpu": _features(),
                "wall_seconds": {way: _spread(values) for way, values in walls.items()},
                "cpu_seconds": {way: _spread(values) for way, values in cpus.items()},
            }
        )
    )


def _never(dimension: int) -> bool:
    del dimension
    return False


def _spread(values: list[float]) -> list[float]:
    return [round(value, 2) for value in (statistics.median(values), min(values), max(values))]


def _features() -> list[str]:
    features: Any = cpu_target.target_context.codegen().magic_tuple()[2]
    wanted = ("+avx2", "+avx512f", "+avx512vnni", "+avx512bf16")
    return [name[1:] for name in features.split(",") if name in wanted]


if __name__ == "__main__":
    main()
