"""Fleet training: many models in lock-step, each as if it were alone. See README.md beside this."""

from sagpool.fleet.train import Progress, train
from sagpool.fleet.training import Curve, Result, Score, Training

__all__ = ["Curve", "Progress", "Result", "Score", "Training", "train"]
