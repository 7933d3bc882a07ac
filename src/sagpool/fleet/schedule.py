"""Which trainings run together in a fleet, and which come next."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.stopping import RULES
from sagpool.fleet.task_splits import drawn_split
from sagpool.fleet.training import Training
from sagpool.fleet.validation_metrics import METRICS, REGRESSION_METRICS
from sagpool.graphs import NO_TEST, Graphs, Split, fixed_split
from sagpool.models import Shape, build, method_settings, sort_k
from sagpool.models.methods import LARGER, SIX_TENTHS
from sagpool.nn.pool import pools_of
from sagpool.ops import to_host


class _Known(NamedTuple):
    split: Split
    sort_k: dict[float, int]  # SortPool's K for its training graphs, by the fraction above K


# Cached, because thousands of trainings share a few splits.
_SPLITS: WeakKeyDictionary[Graphs, dict[Hashable, _Known]] = WeakKeyDictionary()


def split_of(graphs: Graphs, training: Training) -> Split:
    return _known(graphs, training).split


def _known(graphs: Graphs, training: Training) -> _Known:
    known = _SPLITS.setdefault(graphs, {})
    kind = (training.split, training.folds, training.validation)
    fold = (training.seed, training.fold, *kind)
    if fold not in known:
        known[fold] = _Known(_split_of(graphs, training), {})
    return known[fold]


def _sort_k(graphs: Graphs, training: Training) -> int:
    own = {**method_settings(training.method), **dict(training.method_settings)}
    larger = own.get(LARGER, SIX_TENTHS)
    if not isinstance(larger, (int, float)) or not 0 < larger <= 1:
        raise SagpoolError(
            f"{LARGER} is a fraction of the graphs, above 0 and at most 1, not {larger}."
        )
    split, found = _known(graphs, training)
    if larger not in found:
        found[larger] = sort_k(graphs.node_counts[split.train], larger)
    return found[larger]


def _split_of(graphs: Graphs, training: Training) -> Split:
    if graphs.task == "classification":
        if graphs.y is None or graphs.num_classes < 2:
            raise SagpoolError(f"{graphs.name} has fewer than two classes.")
    elif graphs.targets is None:
        raise SagpoolError(f"{graphs.name} has no targets for its task, {graphs.task}.")
    if training.split == "fixed":
        return _own_split(graphs, training)
    found = drawn_split(graphs, training)
    if training.fold == NO_TEST and not training.validation:
        # Nothing is held out: validation on the training graphs leaves max_epochs to stop.
        return replace(found, validation=found.train)
    if not len(found.train) or not len(found.validation):
        raise SagpoolError(
            f"{graphs.name} has too few graphs to train on some and validate on others, with "
            f"{training.folds} folds and a validation fraction of {training.validation}."
        )
    return found


def _own_split(graphs: Graphs, training: Training) -> Split:
    if graphs.part is None:
        raise SagpoolError(f"{graphs.name} has no split of its own.")
    if training.fold:
        raise SagpoolError(f"A fixed split has fold 0 alone, not {training.fold}.")
    return fixed_split(to_host(graphs.part).numpy(), graphs.part_names)


def trained_on(graphs: Graphs, training: Training) -> np.ndarray | slice:
    """The graphs that batches are made of; test graphs of a fixed split may have other sizes."""
    if training.split != "fixed":
        return slice(None)
    own = split_of(graphs, training)
    return np.concatenate([own.train, own.validation])


def shape_of(graphs: Graphs, training: Training) -> Shape:
    """The shape of the training's model, with one member."""
    return Shape(
        in_channels=graphs.num_features,
        classes=graphs.num_outputs,
        hidden=training.hidden,
        ratio=training.ratio,
        k=_sort_k(graphs, training),
        max_nodes=int(graphs.node_counts.max()),
        dropout=training.dropout,
        settings=dict(training.method_settings),
        task=graphs.task,
        mean_nodes=float(graphs.node_counts.mean()),
    )


def representative(training: Training) -> Training:
    """The training that stands for all trainings of its shape, on one data set."""
    fold = NO_TEST if training.fold == NO_TEST else 0
    return replace(training, seed=0, fold=fold, lr=1.0, weight_decay=0.0, patience=1, max_epochs=1)


def group_by_shape(graphs: Graphs, trainings: Sequence[Training]) -> list[list[int]]:
    """The positions of the trainings that can be stacked, in order of their first appearance.

    Members of a fleet have the same method, shapes of weights, pooling ratio, dropout, batch size,
    order of batches, rule for stopping and whether classes have weights, and for some layers the
    same k; they may differ in learning rate, weight decay, patience, split, seed and fold.
    """
    for training in trainings:
        _check_stopping(graphs, training.stopping)
        if training.class_weight != "none" and graphs.task != "classification":
            raise SagpoolError(
                f"{graphs.name} is a {graphs.task}, which has no classes to weight; leave "
                "class_weight at none."
            )
    groups: dict[Hashable, list[int]] = {}
    parameters: dict[Hashable, Hashable] = {}
    for position, training in enumerate(trainings):
        shape = shape_of(graphs, training)
        common = (training.method, training.method_settings, training.ratio, training.dropout)
        layers = (*common, training.hidden, shape.k)
        if layers not in parameters:
            with torch.device("meta"):
                model = build(training.method, shape)
            shapes = tuple(tuple(parameter.shape) for parameter in model.parameters())
            one_k = any(pool.one_k for pool in pools_of(model))
            if any(pool.supervision for pool in pools_of(model)):
                _check_node_targets(graphs)
            parameters[layers] = (shapes, shape.k) if one_k else shapes
        lockstep = (
            *(training.batch_size, training.order, training.stopping),
            training.class_weight,
        )
        key = (*common, *lockstep, parameters[layers])
        groups.setdefault(key, []).append(position)
    return list(groups.values())


def _check_stopping(graphs: Graphs, stopping: str) -> None:
    known = ("", *(REGRESSION_METRICS if graphs.task == "regression" else METRICS))
    if RULES[stopping].metric not in known:
        possible = [name for name, rule in RULES.items() if rule.metric in known]
        raise SagpoolError(
            f"{graphs.name} is a {graphs.task}, which cannot stop by {stopping}; choose from "
            f"{', '.join(possible)}."
        )


def _check_node_targets(graphs: Graphs) -> None:
    if graphs.batch_source.node_target is None:
        raise SagpoolError(
            f"{graphs.name} has no node targets, which supervision needs: give a file of them "
            "(--node-targets), or set supervision to 0."
        )


def deal(
    trainings: Sequence[Training], groups: Sequence[Sequence[int]], fleets: int = 1
) -> list[list[int]]:
    """Divide trainings among fleets, by number.

    Trainings with a low learning rate take longest, so they come first in each fleet; the others
    fill the slots as they become free.

    Args:
        trainings: all of them
        groups: numbers of the trainings that can be stacked
        fleets: at least this many, if there are enough trainings
    """
    each = -(-fleets // len(groups))
    shares = []
    for group in groups:
        longest_first = sorted(group, key=lambda number: trainings[number].lr)
        count = min(each, len(group))
        shares += [longest_first[first::count] for first in range(count)]
    return shares


@dataclass(eq=False)
class Slots:
    """The slots of a fleet and the queue; numbers stand for trainings.

    Args:
        running: the training in each slot, -1 for an empty slot
        waiting: the trainings that come next
    """

    running: np.ndarray
    waiting: deque[int] = field(default_factory=deque)

    @staticmethod
    def fill(trainings: Iterable[int], members: int) -> Slots:
        waiting = deque(trainings)
        first = [waiting.popleft() for _ in range(min(members, len(waiting)))]
        return Slots(np.array(first, np.int64), waiting)

    def copy(self) -> Slots:
        return Slots(self.running.copy(), self.waiting.copy())

    @property
    def unfinished(self) -> list[int]:
        """All trainings, those with a slot first."""
        return [*self.running[self.active].tolist(), *self.waiting]

    def without(self, done: Container[int]) -> Slots:
        """A copy in which these trainings have ended."""
        running = [-1 if number in done else number for number in self.running.tolist()]
        waiting = deque(number for number in self.waiting if number not in done)
        return Slots(np.array(running, np.int64), waiting)

    @property
    def active(self) -> np.ndarray:
        return self.running >= 0

    def release(self, finished: np.ndarray) -> list[int]:
        """Empty finished slots and refill empty ones from the queue; returns the refilled slots."""
        self.running = np.where(finished, -1, self.running)
        filled = []
        for slot in np.flatnonzero(self.running < 0):
            if not self.waiting:
                break
            self.running[slot] = self.waiting.popleft()
            filled.append(int(slot))
        return filled

    def too_empty(self, most: float) -> bool:
        """Whether no training waits and more than this fraction of the slots is empty."""
        return not self.waiting and 0 < self.active.sum() < (1 - most) * len(self.running)

    def compact(self) -> None:
        """Remove the empty slots."""
        self.running = self.running[self.active]

    def halve(self) -> None:
        """Remove half of the slots; the trainings that lose theirs go to the head of the queue."""
        half = max(1, len(self.running) // 2)
        running = self.running[self.active]
        self.waiting.extendleft(reversed(running[half:].tolist()))
        self.running = running[:half]
