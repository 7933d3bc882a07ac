"""When a member stops training: decided from its losses alone."""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.validation_metrics import METRICS, REGRESSION_METRICS
from sagpool.ops.device import kernels_for

T = TypeVar("T", np.ndarray, Tensor)


class Rule(NamedTuple):
    """Which epoch is the best, and how long a member waits for a better one."""

    adds_norm: bool  # adds the norm of the weights, times the weight decay, to the validation loss
    accepts_ties: bool  # an equal loss is an improvement
    exceeds_patience: bool  # stops after ``patience`` + 1 epochs instead of ``patience``
    metric: str = ""  # metric of the validation part, used instead of the loss

    def improves(self, loss: T, best: T) -> T:
        return loss <= best if self.accepts_ties else loss < best

    def has_waited(self, epochs: T, patience: T) -> T:
        return epochs > patience if self.exceeds_patience else epochs >= patience


# By name, as in `Training.stopping`. The second rule is that of the authors' first released code;
# its norm is √Σθ² over all parameters, not squared.
RULES = {"loss": Rule(False, False, False), "loss+norm": Rule(True, True, True)} | {
    name: Rule(False, False, False, name) for name in (*METRICS, *REGRESSION_METRICS)
}
LOSS = RULES["loss"]


@dataclass(frozen=True, eq=False)
class Verdict:
    improved: np.ndarray  # [members] bool: this epoch is the best so far
    diverged: np.ndarray  # [members] bool: a loss is not finite
    finished: np.ndarray  # [members] bool: no further epoch

    def __or__(self, later: "Verdict") -> "Verdict":
        return Verdict(
            self.improved | later.improved,
            self.diverged | later.diverged,
            self.finished | later.finished,
        )


@dataclass(eq=False)
class EarlyStopping:
    """Patience and best epoch of each member of a fleet.

    A member stops after ``patience`` epochs without a strictly lower validation loss, after
    ``max_epochs``, or as soon as a loss is not finite. For other rules see `RULES`.

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

    def update(
        self,
        train_loss: np.ndarray,
        validation_loss: np.ndarray,
        ended: np.ndarray | bool = False,
        rule: Rule = LOSS,
    ) -> Verdict:
        """Add the losses of one more epoch, except for members that have already ended.

        If the rule adds the norm of the weights, the validation loss already includes it.
        """
        going_on = ~np.broadcast_to(ended, self.epoch.shape)
        self.epoch = self.epoch + going_on
        diverged = ~(np.isfinite(train_loss) & np.isfinite(validation_loss)) & going_on
        improved = going_on & ~diverged & rule.improves(validation_loss, self.best_loss)
        self.best_loss = np.where(improved, validation_loss, self.best_loss)
        self.best_epoch = np.where(improved, self.epoch, self.best_epoch)
        waited = rule.has_waited(self.epoch - self.best_epoch, self.patience)
        finished = diverged | waited | (self.epoch >= self.max_epochs)
        return Verdict(improved, diverged, finished)

    def for_device(self) -> tuple[np.ndarray, ...]:
        """The values for the fields of `DeviceStopping`, in their order."""
        waited, left = self.epoch - self.best_epoch, self.max_epochs - self.epoch
        return self.best_loss, waited, left, self.patience, np.zeros_like(self.epoch, bool)


class DeviceStopping(NamedTuple):
    """`EarlyStopping` on the device, changed in place, so that epochs can run without the host.

    The device keeps the best weights; the host later makes the other decisions again from the same
    numbers.
    """

    best_loss: Tensor  # [members] float64
    waited: Tensor  # [members] int64, epochs since the best one
    left: Tensor  # [members] int64, epochs until max_epochs
    patience: Tensor  # [members] int64
    stopped: Tensor  # [members] bool

    @staticmethod
    def start(members: int, device: torch.device) -> "DeviceStopping":
        best_loss = torch.full((members,), float("inf"), dtype=torch.float64, device=device)
        ones = torch.ones_like(best_loss, dtype=torch.int64)
        stopped = torch.zeros_like(best_loss, dtype=torch.bool)
        return DeviceStopping(best_loss, ones, ones.clone(), ones.clone(), stopped)

    def update(self, curves: Tensor, weights: Tensor, best: Tensor, rule: Rule = LOSS) -> None:
        """Add an epoch.

        Args:
            curves: ``[3, members]``; the first two rows are the losses
            weights: ``[members, numbers]`` after this epoch
            best: ``[members, numbers]`` weights of the best epoch
            rule: if it adds the norm of the weights, the validation loss already includes it
        """
        if (kernels := kernels_for(curves)) is not None:
            kernels.end_epoch(
                *(curves, weights, best, *self),
                accepts_ties=rule.accepts_ties,
                exceeds_patience=rule.exceeds_patience,
            )
            return
        train, validation, _ = curves
        finite = train.isfinite() & validation.isfinite()
        improved = finite & rule.improves(validation, self.best_loss) & ~self.stopped
        best.copy_(torch.where(improved[:, None], weights, best))
        self.best_loss.copy_(torch.where(improved, validation, self.best_loss))
        self.waited.add_(1).masked_fill_(improved, 0)
        self.left.sub_(1)
        waited = rule.has_waited(self.waited, self.patience)
        self.stopped.logical_or_(~finite | waited | (self.left <= 0))
