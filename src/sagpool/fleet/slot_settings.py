"""Settings of the member in each slot: graphs, learning rates, random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import Truth
from sagpool.fleet.rates import SCHEDULES
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs, Split
from sagpool.models import Shape
from sagpool.ops import to_device

_NONE = np.zeros(0, np.int64)
NO_GRAPHS = Split(_NONE, _NONE, _NONE)


@dataclass(eq=False)
class SlotSettings:
    """The settings of all slots. The tensors are on the device and changed in place."""

    k: np.ndarray  # [members, 1], how many nodes to keep; pooling layers read it from here
    lr: Tensor  # [members] float64
    weight_decay: Tensor  # [members] float64
    keys: Tensor  # [members, 2] int64, keys of the random streams for training and for evaluation
    order_keys: np.ndarray  # [members] uint64
    splits: list[Split]  # an empty slot has no graphs
    class_weight: Tensor | None  # [members, classes] float64; None if all are 1
    trainings: list[Training | None]  # the training in each slot; None if empty

    @staticmethod
    def empty(
        members: int, shape: Shape, device: torch.device, *, weighted: bool = False
    ) -> SlotSettings:
        lr = torch.zeros(members, dtype=torch.float64, device=device)
        return SlotSettings(
            k=np.full((members, 1), shape.k),
            lr=lr,
            weight_decay=torch.zeros_like(lr),
            keys=torch.zeros(members, 2, dtype=torch.int64, device=device),
            order_keys=np.zeros(members, np.uint64),
            splits=[NO_GRAPHS] * members,
            class_weight=lr.new_ones(members, shape.classes) if weighted else None,
            trainings=[None] * members,
        )

    def put(self, slots: Sequence[int], trainings: Sequence[Training], graphs: Graphs) -> None:
        """Give these slots to these trainings."""
        device = self.lr.device
        rows = to_device(np.asarray(slots, np.int64), device)
        self.lr[rows] = to_device(np.array([t.lr for t in trainings]), device)
        self.weight_decay[rows] = to_device(np.array([t.weight_decay for t in trainings]), device)
        dropout, evaluation, order = (
            np.array([t.stream(use, graphs.name) for t in trainings], np.int64)
            for use in ("dropout", "evaluation", "order")
        )
        self.keys[rows] = to_device(np.stack([dropout, evaluation], axis=1), device)
        self.order_keys[slots] = order.view(np.uint64)
        for slot, training in zip(slots, trainings, strict=True):
            self.k[slot] = shape_of(graphs, training).k
            self.splits[slot] = split_of(graphs, training)
            self.trainings[slot] = training
        if self.class_weight is not None:
            truth = Truth.of(graphs)
            weights = [
                truth.unit(self.splits[slot].train, self.class_weight.shape[1], t.class_weight)
                for slot, t in zip(slots, trainings, strict=True)
            ]
            self.class_weight[rows] = to_device(np.stack(weights), device)

    def take(self, slots: np.ndarray) -> SlotSettings:
        """A copy with only these slots."""
        rows = to_device(slots, self.lr.device)
        return SlotSettings(
            k=self.k[slots],
            lr=self.lr[rows],
            weight_decay=self.weight_decay[rows],
            keys=self.keys[rows],
            order_keys=self.order_keys[slots],
            splits=[self.splits[slot] for slot in slots.tolist()],
            class_weight=None if self.class_weight is None else self.class_weight[rows],
            trainings=[self.trainings[slot] for slot in slots.tolist()],
        )

    def follow_schedules(self, epochs: np.ndarray) -> None:
        """Set the learning rates of members that have trained for ``[members]`` epochs.

        The host does not wait for the device, and a recorded step reads the new rates.
        """
        if all(one is None or one.schedule == "constant" for one in self.trainings):
            return
        rates = [
            0.0 if one is None else one.lr * SCHEDULES[one.schedule](int(epoch), one.max_epochs)
            for one, epoch in zip(self.trainings, epochs, strict=True)
        ]
        self.lr.copy_(to_device(np.array(rates), self.lr.device))
