"""The state of members between two epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.stopping import DeviceStopping, EarlyStopping
from sagpool.ops import to_device, to_host

TENSORS = ("weights", "mean", "square", "best")
_CHANGED_IN_PLACE = ("weights", "mean", "square", "best", "steps")


@dataclass(eq=False)
class MemberState:
    """One member, on the host."""

    weights: Tensor  # [numbers]
    mean: Tensor  # [numbers], Adam's average of the gradients
    square: Tensor  # [numbers], Adam's average of the squared gradients
    best: Tensor  # [numbers], the weights of the best epoch
    steps: int  # optimiser steps so far
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
    """The members of all slots; the contents of an empty slot are stale."""

    weights: Tensor  # [members, numbers], on the device; the model's parameters are views of it
    mean: Tensor
    square: Tensor
    best: Tensor
    steps: Tensor  # [members] int64, on the device
    stopping: EarlyStopping
    on_device: DeviceStopping
    seconds: np.ndarray  # [members] training time so far
    curves: list[list[tuple[float, float, float]]]  # train loss, validation loss and accuracy

    def snapshot(self) -> FleetState:
        """A state to `restore` from: copies of what an epoch changes in place, except curves."""
        copies = {name: getattr(self, name).clone() for name in _CHANGED_IN_PLACE}
        on_device = DeviceStopping(*(tensor.clone() for tensor in self.on_device))
        return replace(self, **copies, stopping=replace(self.stopping), on_device=on_device)

    def restore(self, before: FleetState) -> None:
        """Undo an epoch. The weights are restored in place, since the model has views of them."""
        for name in _CHANGED_IN_PLACE:
            getattr(self, name).copy_(getattr(before, name))
        for tensor, old in zip(self.on_device, before.on_device, strict=True):
            tensor.copy_(old)
        self.stopping, self.seconds = before.stopping, before.seconds
        for curve, epochs in zip(self.curves, before.stopping.epoch.tolist(), strict=True):
            del curve[epochs:]

    def take(self, slots: np.ndarray) -> FleetState:
        """A copy with only these slots."""
        rows = torch.from_numpy(slots).to(self.weights.device)
        return FleetState(
            **{name: getattr(self, name)[rows] for name in (*TENSORS, "steps")},
            stopping=EarlyStopping(
                **{n: of_all[slots] for n, of_all in vars(self.stopping).items()}
            ),
            on_device=DeviceStopping(*(tensor[rows] for tensor in self.on_device)),
            seconds=self.seconds[slots],
            curves=[list(self.curves[slot]) for slot in slots.tolist()],
        )

    def on_host(self) -> FleetState:
        """A copy on the host, from which members are read one by one."""
        if self.weights.device.type == "cpu":
            return self
        on_host: dict[str, Any] = {n: to_host(getattr(self, n)) for n in (*TENSORS, "steps")}
        return replace(self, **on_host)

    def get(self, slot: int) -> MemberState:
        stopping = self.stopping
        return MemberState(
            **{name: to_host(getattr(self, name)[slot].detach()).clone() for name in TENSORS},
            steps=int(self.steps[slot]),
            best_loss=float(stopping.best_loss[slot]),
            best_epoch=int(stopping.best_epoch[slot]),
            epoch=int(stopping.epoch[slot]),
            seconds=float(self.seconds[slot]),
            curve=list(self.curves[slot]),
        )

    def put(
        self,
        slots: Sequence[int],
        members: Sequence[MemberState],
        patience: Sequence[int],
        max_epochs: Sequence[int],
    ) -> None:
        """Load members into these slots."""
        device, stopping = self.steps.device, self.stopping
        rows = to_device(np.array(slots), device)
        for name in TENSORS:
            stacked = torch.stack([getattr(member, name) for member in members])
            getattr(self, name)[rows] = stacked.to(self.weights)
        self.steps[rows] = to_device(np.array([member.steps for member in members]), device)
        for name in ("best_loss", "best_epoch", "epoch"):
            getattr(stopping, name)[slots] = [getattr(member, name) for member in members]
        stopping.patience[slots], stopping.max_epochs[slots] = patience, max_epochs
        for slot, member in zip(slots, members, strict=True):
            self.seconds[slot] = member.seconds
            self.curves[slot] = list(member.curve)
        for tensor, values in zip(self.on_device, stopping.for_device(), strict=True):
            tensor[rows] = to_device(values[slots], device)

    @staticmethod
    def empty(weights: Tensor) -> FleetState:
        """The state of empty slots, around the tensor ``[members, numbers]`` of their weights."""
        members = len(weights)
        return FleetState(
            weights=weights,
            mean=torch.zeros_like(weights),
            square=torch.zeros_like(weights),
            best=torch.zeros_like(weights),
            steps=torch.zeros(members, dtype=torch.int64, device=weights.device),
            stopping=EarlyStopping.start(np.ones(members), np.ones(members)),
            on_device=DeviceStopping.start(members, weights.device),
            seconds=np.zeros(members),
            curves=[[] for _ in range(members)],
        )
