"""Members that have ended: they are evaluated together, after their slots have been refilled."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from sagpool.fleet.evaluate import Truth
from sagpool.fleet.slot_settings import SlotSettings
from sagpool.fleet.state import FleetState
from sagpool.fleet.training import Curve, Result, Training
from sagpool.graphs import Split

# On a GPU the evaluation of one member takes as long as that of many, so they wait for each other:
# until this many have ended, or the first of them has waited for this many epochs.
MEMBERS, EPOCHS = 32, 100


@dataclass(frozen=True, eq=False)
class Finished:
    """A member that has ended."""

    number: int  # number of its training
    split: Split
    diverged: bool
    best_epoch: int
    epochs: int
    curve: Curve
    seconds: float
    best: Tensor  # [numbers] weights of the best epoch
    key: Tensor  # key of its random stream for evaluation
    k: np.ndarray  # [1], how many nodes the pooling layers keep

    @staticmethod
    def of(
        number: int, state: FleetState, settings: SlotSettings, slot: int, *, diverged: bool
    ) -> "Finished":
        """The member in this slot."""
        return Finished(
            number=number,
            split=settings.splits[slot],
            diverged=diverged,
            best_epoch=int(state.stopping.best_epoch[slot]),
            epochs=int(state.stopping.epoch[slot]),
            curve=Curve.of(state.curves[slot]),
            seconds=float(state.seconds[slot]),
            best=state.best[slot].clone(),
            key=settings.keys[slot, 1].clone(),
            k=settings.k[slot].copy(),
        )

    def result(
        self,
        training: Training,
        outputs: np.ndarray,
        truth: Truth,
        weights: dict[str, Tensor] | None,
        *,
        parameters: int,
        seconds: float,
        keep_predictions: bool = False,
    ) -> Result:
        """The result of its training.

        Args:
            training: its settings
            outputs: ``[graphs, outputs]`` computed with the weights of the best epoch
            truth: the targets
            weights: state dict to store in the result
            parameters: number of parameters of the model
            seconds: duration of the evaluation
            keep_predictions: whether to store the outputs for test and validation graphs
        """
        # Without a best epoch, scores are NaN and the confusion is zero, as for an empty split.
        train, validation, test = (
            part if self.best_epoch > 0 else part[:0]
            for part in (self.split.train, self.split.validation, self.split.test)
        )
        unit = truth.unit(self.split.train, outputs.shape[1], training.class_weight)
        return Result(
            training=training,
            diverged=self.diverged,
            best_epoch=self.best_epoch,
            epochs=self.epochs,
            train=truth.score(outputs, train, unit),
            validation=truth.score(outputs, validation, unit),
            test=truth.score(outputs, test, unit),
            confusion=truth.confusion(outputs, test),
            curve=self.curve,
            parameters=parameters,
            seconds=self.seconds + seconds,
            weights=weights,
            more_tests={
                name: truth.score(outputs, graphs if self.best_epoch > 0 else graphs[:0], unit)
                for name, graphs in self.split.more_tests.items()
            },
            predictions=outputs[self.split.test] if keep_predictions else None,
            validation_predictions=outputs[self.split.validation] if keep_predictions else None,
        )


@dataclass(eq=False)
class WaitingRoom:
    """Ended members that have not been evaluated yet.

    Args:
        patient: whether members wait for each other at all
        members: the waiting members
        epochs: epochs since the first of them ended
    """

    patient: bool
    members: list[Finished] = field(default_factory=list)
    epochs: int = 0

    def enter(self, ended: Sequence[Finished], epochs: int = 1) -> None:
        """Add the members that ended in the last ``epochs`` epochs."""
        self.epochs = self.epochs + epochs if self.members else 0
        self.members = [*self.members, *ended]

    @property
    def due(self) -> bool:
        """Whether they should be evaluated now."""
        if not self.patient:
            return bool(self.members)
        return len(self.members) >= MEMBERS or (bool(self.members) and self.epochs >= EPOCHS)
