"""Fleet training: many models in lock-step, each independent of the others (see README.md)."""

from sagpool.fleet.memory import MemoryShortageError
from sagpool.fleet.train import train
from sagpool.fleet.training import NUMERICS, Curve, Outcome, Paused, Result, Score, Training
from sagpool.fleet.work import Progress

__all__ = [
    "NUMERICS",
    "Curve",
    "MemoryShortageError",
    "Outcome",
    "Paused",
    "Progress",
    "Result",
    "Score",
    "Training",
    "train",
]
