"""Fleet training: many models in lock-step, each as if it were alone. See README.md beside this."""

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
