"""When a member stops training: decided from its losses alone."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Verdict:
    improved: np.ndarray  # [members] bool: this epoch is the best so far
    diverged: np.ndarray  # [members] bool: a loss is not finite
    finished: np.ndarray  # [members] bool: no further epoch


@dataclass(eq=False)
class EarlyStopping:
    """Patience and best epoch of each member of a fleet.

    A member stops after ``patience`` epochs without a strictly lower validation loss, after
    ``max_epochs``, or as soon as a loss is not finite.

    Args:
        patience: ``[members]``
        max_epochs: ``[members]``
        best_loss: ``[members]`` lowest so far
        best_epoch: ``[members]`` epoch of the lowest loss, counted from 1; 0 before the first
        epoch: ``[members]`` epochs so far
    """

    patience: np.ndarray
    max_epochs: np.ndarray
    best_loss: np.ndarray
    best_epoch: np.ndarray
    epoch: np.ndarray

    @staticmethod
    def start(patience: np.ndarray, max_epochs: np.ndarray) -> "EarlyStopping":
        members = len(patience)
        return EarlyStopping(
            np.asarray(patience, np.int64),
            np.asarray(max_epochs, np.int64),
            np.full(members, np.inf),
            np.zeros(members, np.int64),
            np.zeros(members, np.int64),
        )

    def update(self, train_loss: np.ndarray, validation_loss: np.ndarray) -> Verdict:
        """Add the losses of one more epoch."""
        self.epoch = self.epoch + 1
        diverged = ~(np.isfinite(train_loss) & np.isfinite(validation_loss))
        improved = ~diverged & (validation_loss < self.best_loss)
        self.best_loss = np.where(improved, validation_loss, self.best_loss)
        self.best_epoch = np.where(improved, self.epoch, self.best_epoch)
        waited = self.epoch - self.best_epoch >= self.patience
        finished = diverged | waited | (self.epoch >= self.max_epochs)
        return Verdict(improved, diverged, finished)
