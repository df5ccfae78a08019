"""Training on mined sets: losses, samplers, rows, the memory bank, curricula, and the loop around them.

Each piece also works alone in a training script: `from foolsgold.training.losses import ...`. Nothing here imports
torch until it is needed.
"""

from foolsgold.training.plan import Plan, PlannedRegime, plan
from foolsgold.training.rounds import Trained, train
from foolsgold.training.run import Round, RunState

__all__ = ["Plan", "PlannedRegime", "Round", "RunState", "Trained", "plan", "train"]
