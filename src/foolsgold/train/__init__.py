"""Training on mined sets: losses, samplers, rows, the memory bank, curricula, and the loop around them.

Each piece works alone in a training script of one's own: `from foolsgold.train.losses import ...`. Nothing here imports
torch before it is asked for.
"""

from foolsgold.train.plan import Plan, PlannedRegime, plan
from foolsgold.train.rounds import Trained, train
from foolsgold.train.run import Round, RunState

__all__ = ["Plan", "PlannedRegime", "Round", "RunState", "Trained", "plan", "train"]
