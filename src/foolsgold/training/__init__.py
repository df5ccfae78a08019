"""Training on mined sets: `rounds` is the loop, `remining` and `outcomes` are what it does after each segment.

Losses, samplers, rows and the memory bank also work alone in a training script: `from foolsgold.training.losses import
...`. Nothing is imported from torch before it is needed.
"""

from foolsgold.training.dry_run import Plan, PlannedRegime, plan
from foolsgold.training.rounds import Trained, train
from foolsgold.training.run import Round, RunState

__all__ = ["Plan", "PlannedRegime", "Round", "RunState", "Trained", "plan", "train"]
