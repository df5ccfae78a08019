"""Training on mined sets: losses, samplers, rows, the memory bank, curricula, and the loop around them.

Each piece works alone in a training script of one's own: `from foolsgold.train.losses import ...`. Nothing here imports
torch before it is asked for.
"""
