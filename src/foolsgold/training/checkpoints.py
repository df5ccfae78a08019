"""The checkpoints of a run: which are whole, and how training goes back to an older one, safe against being killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

STATE, ARGUMENTS, OPTIMIZER = "trainer_state.json", "training_args.bin", "optimizer.pt"
# Files of a checkpoint, with rng_state*, that belong to the step and not to the weights.
_OF_THE_STEP = ("scheduler.pt", STATE, ARGUMENTS)
_MADE, _PAST = ".made-", ".past-"  # before a checkpoint's name, while a rollback puts another in its place


class Checkpoints:
    """The folders checkpoint-STEP of a run.

    last_file: what is written last into each, beside the trainer's state; a checkpoint without it is not whole.
    """

    def __init__(self, folder: Path, last_file: str = STATE) -> None:
        self.folder, self._last_file = folder, last_file

    def at(self, step: int) -> Path:
        """The folder of the checkpoint at a step."""
        return self.folder / f"checkpoint-{step}"

    def steps(self) -> list[int]:
        """The steps that there are checkpoints of, whole or not."""
        names = (path.name.removeprefix("checkpoint-") for path in self.folder.glob("checkpoint-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def newest(self) -> int:
        """The step of the newest whole checkpoint, 0 if there is none."""
        return max((step for step in self.steps() if self._is_whole(self.at(step))), default=0)

    def losses(self) -> list[tuple[int, float]]:
        """(step, training loss) up to the newest checkpoint."""
        newest = self.newest()
        history = json.loads((self.at(newest) / STATE).read_text("utf-8"))["log_history"] if newest else []
        return [(int(entry["step"]), entry["loss"]) for entry in history if "loss" in entry]

    def delete(self, steps: list[int]) -> None:
        """Delete the checkpoints of some steps."""
        for step in steps:
            shutil.rmtree(self.at(step), ignore_errors=True)

    def give_newest_the_weights_of(self, step: int) -> None:
        """Put weights and optimizer memory of an older step into the newest checkpoint.

        What belongs to the step stays: learning rate, random states, the trainer's state. Before the first step the
        optimizer has no memory. Doing it twice is the same as doing it once, so a run that was killed may do it again.
        """
        old, now = self.at(step), self.at(self.newest())
        if old == now:
            return
        groups = torch.load(now / OPTIMIZER, weights_only=True)["param_groups"]  # has the rate of now
        memory = torch.load(old / OPTIMIZER, weights_only=True)["state"] if (old / OPTIMIZER).is_file() else {}
        made, past = now.with_name(f"{_MADE}{now.name}"), now.with_name(f"{_PAST}{now.name}")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(old, made, ignore=shutil.ignore_patterns(*_OF_THE_STEP, "rng_state*", OPTIMIZER))
        for name in (*_OF_THE_STEP, *(path.name for path in now.glob("rng_state*"))):
            shutil.copy(now / name, made / name)
        torch.save({"state": memory, "param_groups": groups}, made / OPTIMIZER)
        now.rename(past)  # after a kill from here on, `repair` finishes this when the run is resumed
        made.rename(now)
        shutil.rmtree(past)

    def repair(self) -> None:
        """Finish a rollback whose run was killed: its new checkpoint was whole, but not yet in its place."""
        for made in self.folder.glob(f"{_MADE}checkpoint-*"):
            now = made.with_name(made.name.removeprefix(_MADE))
            if now.exists():
                shutil.rmtree(made)  # perhaps not whole
            else:
                made.rename(now)
        for past in self.folder.glob(f"{_PAST}checkpoint-*"):
            shutil.rmtree(past)

    def _is_whole(self, checkpoint: Path) -> bool:
        try:
            json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return (checkpoint / self._last_file).is_file()
