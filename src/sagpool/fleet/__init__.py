"""Fleet training: many models in lock-step, each independent of the others (see README.md)."""

from sagpool.fleet.memory import MemoryShortageError
from sagpool.fleet.train import Progress, train
from sagpool.fleet.training import NUMERICS, Curve, Result, Score, Training

__all__ = [
    "NUMERICS",
    "Curve",
    "MemoryShortageError",
    "Progress",
    "Result",
    "Score",
    "Training",
    "train",
]
