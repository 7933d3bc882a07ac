"""All that a fleet has to remember of its members between two epochs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.stopping import EarlyStopping


@dataclass(eq=False)
class MemberState:
    """One member, on the host."""

    weights: Tensor  # [numbers]
    mean: Tensor  # [numbers], Adam's first average
    square: Tensor  # [numbers], Adam's second average
    best: Tensor  # [numbers], the weights of the best epoch
    steps: int  # of the optimiser
    best_loss: float
    best_epoch: int
    epoch: int
    seconds: float
    curve: list[tuple[float, float, float]] = field(default_factory=list)

    @staticmethod
    def fresh(weights: Tensor) -> MemberState:
        zero = torch.zeros_like(weights)
        return MemberState(weights, zero, zero.clone(), weights.clone(), 0, float("inf"), 0, 0, 0.0)


@dataclass(eq=False)
class FleetState:
    """The members of all slots; an empty slot holds what was left in it."""

    weights: Tensor  # [members, numbers], on the device
    mean: Tensor
    square: Tensor
    best: Tensor
    steps: Tensor  # [members] int64, on the device
    stopping: EarlyStopping
    seconds: np.ndarray  # [members]
    curves: list[list[tuple[float, float, float]]]  # train loss, validation loss and accuracy

    def snapshot(self) -> FleetState:
        """A copy of what an epoch changes in place; the rest it replaces."""
        return replace(
            self,
            weights=self.weights.clone(),
            mean=self.mean.clone(),
            square=self.square.clone(),
            steps=self.steps.clone(),
            stopping=replace(self.stopping),
            curves=[list(curve) for curve in self.curves],
        )

    def restore(self, before: FleetState) -> None:
        """Take an epoch back. The weights stay where they are: the model looks at them."""
        for name in ("weights", "mean", "square", "steps"):
            getattr(self, name).copy_(getattr(before, name))
        self.best, self.stopping = before.best, before.stopping
        self.seconds, self.curves = before.seconds, before.curves

    def get(self, slot: int) -> MemberState:
        row = {
            name: getattr(self, name)[slot].detach().cpu().clone()
            for name in ("weights", "mean", "square", "best")
        }
        stopping = self.stopping
        return MemberState(
            **row,
            steps=int(self.steps[slot]),
            best_loss=float(stopping.best_loss[slot]),
            best_epoch=int(stopping.best_epoch[slot]),
            epoch=int(stopping.epoch[slot]),
            seconds=float(self.seconds[slot]),
            curve=list(self.curves[slot]),
        )

    def put(self, slot: int, member: MemberState, patience: int, max_epochs: int) -> None:
        for name in ("weights", "mean", "square", "best"):
            getattr(self, name)[slot] = getattr(member, name).to(self.weights)
        self.steps[slot] = member.steps
        stopping = self.stopping
        stopping.best_loss[slot] = member.best_loss
        stopping.best_epoch[slot] = member.best_epoch
        stopping.epoch[slot] = member.epoch
        stopping.patience[slot], stopping.max_epochs[slot] = patience, max_epochs
        self.seconds[slot] = member.seconds
        self.curves[slot] = list(member.curve)

    @staticmethod
    def empty(members: int, weights: Tensor) -> FleetState:
        """Room for so many members, around the tensor that the model's parameters look into."""
        return FleetState(
            weights=weights,
            mean=torch.zeros_like(weights),
            square=torch.zeros_like(weights),
            best=torch.zeros_like(weights),
            steps=torch.zeros(members, dtype=torch.int64, device=weights.device),
            stopping=EarlyStopping.start(np.ones(members), np.ones(members)),
            seconds=np.zeros(members),
            curves=[[] for _ in range(members)],
        )
