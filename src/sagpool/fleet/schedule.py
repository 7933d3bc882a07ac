"""Who trains with whom, and who comes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.training import Training
from sagpool.graphs import NO_TEST, Graphs, Split, split
from sagpool.models import Shape, build, sort_k

# With this share of its slots empty and nobody waiting, a fleet closes ranks.
MOST_EMPTY = 0.25


def split_of(graphs: Graphs, training: Training) -> Split:
    if graphs.y is None or graphs.num_classes < 2:
        raise SagpoolError(f"{graphs.name} has no two classes to tell apart.")
    parts = split(
        graphs.y.cpu(),
        training.seed,
        training.fold,
        folds=training.folds,
        validation=training.validation,
    )
    if training.fold == NO_TEST and not training.validation:
        # With nothing held out, a training goes on for the number of epochs that it is given.
        return replace(parts, validation=parts.train)
    if not len(parts.train) or not len(parts.validation):
        raise SagpoolError(
            f"{graphs.name} has too few graphs to train on some and validate on others, with "
            f"{training.folds} folds and a validation share of {training.validation}."
        )
    return parts


def shape_of(graphs: Graphs, training: Training, parts: Split | None = None) -> Shape:
    """The layers of the training's model, as a fleet of one; its split is made if not given."""
    train = (parts or split_of(graphs, training)).train
    return Shape(
        in_channels=graphs.num_features,
        classes=graphs.num_classes,
        hidden=training.hidden,
        ratio=training.ratio,
        k=sort_k(graphs.node_counts[train]),
        max_nodes=int(graphs.node_counts.max()),
        dropout=training.dropout,
        settings=dict(training.method_settings),
    )


def group_by_shape(graphs: Graphs, trainings: Sequence[Training]) -> list[list[int]]:
    """The positions of the trainings that can be stacked, in order of their first appearance.

    Members of a fleet share the shapes of their weights, the pooling ratio, dropout and the batch
    size; learning rate, weight decay, patience, seed and fold are each member's own.
    """
    groups: dict[Hashable, list[int]] = {}
    splits: dict[Hashable, Split] = {}  # thousands of trainings share a few splits and shapes
    stacks: dict[Hashable, Hashable] = {}
    for position, training in enumerate(trainings):
        part = (training.seed, training.fold, training.folds, training.validation)
        if part not in splits:
            splits[part] = split_of(graphs, training)
        shape = shape_of(graphs, training, splits[part])
        layers = (
            *(training.method, training.method_settings, training.hidden, training.ratio),
            *(training.dropout, shape.k),
        )
        if layers not in stacks:
            with torch.device("meta"):
                model = build(training.method, shape)
            stacks[layers] = tuple(tuple(parameter.shape) for parameter in model.parameters())
        key = (
            training.method,
            training.method_settings,
            training.ratio,
            training.dropout,
            training.batch_size,
            stacks[layers],
        )
        groups.setdefault(key, []).append(position)
    return list(groups.values())


@dataclass(eq=False)
class Slots:
    """The places of a fleet and the queue before them; numbers stand for trainings.

    Args:
        running: the training in each slot, -1 for an empty one
        waiting: who comes next
    """

    running: np.ndarray
    waiting: deque[int] = field(default_factory=deque)

    @staticmethod
    def fill(trainings: Iterable[int], members: int) -> Slots:
        waiting = deque(trainings)
        first = [waiting.popleft() for _ in range(min(members, len(waiting)))]
        return Slots(np.array(first, np.int64), waiting)

    def holds(self, trainings: Iterable[int]) -> bool:
        """Whether one of these is running or waiting here."""
        return not {*self.running.tolist(), *self.waiting}.isdisjoint(trainings)

    @property
    def active(self) -> np.ndarray:
        return self.running >= 0

    def release(self, finished: np.ndarray) -> list[int]:
        """Empty the finished slots and hand them to those waiting; the slots that got someone."""
        self.running = np.where(finished, -1, self.running)
        filled = []
        for slot in np.flatnonzero(self.running < 0):
            if not self.waiting:
                break
            self.running[slot] = self.waiting.popleft()
            filled.append(int(slot))
        return filled

    @property
    def too_empty(self) -> bool:
        """Whether it is time to close ranks."""
        return not self.waiting and 0 < self.active.sum() < (1 - MOST_EMPTY) * len(self.running)

    def close_ranks(self) -> None:
        """Do away with the empty slots."""
        self.running = self.running[self.active]

    def halve(self) -> None:
        """Do with half of the slots; those who lose theirs go to the head of the queue."""
        half = max(1, len(self.running) // 2)
        running = self.running[self.active]
        self.waiting.extendleft(reversed(running[half:].tolist()))
        self.running = running[:half]
