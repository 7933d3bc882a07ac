"""`Work`: a list of trainings on one data set, and how far they are."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.fleet.defined_metrics import check_stopping
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots, deal, group_by_shape, representative
from sagpool.fleet.state import MemberState
from sagpool.fleet.training import Outcome, Training
from sagpool.graphs import Graphs

IDLE = 2**21  # numbers in a layer of a step; on a GPU smaller steps take as long
ETA_SECONDS = 0.25  # time between two estimates, each of which takes as long as a small step


@dataclass(frozen=True)
class Progress:
    """How far a list of trainings is, reported after each epoch."""

    running: int
    done: int
    total: int
    epochs: int  # sum over all members, since the start
    epochs_per_second: float  # models · epochs
    eta_seconds: float | None  # None until the first training is done


@dataclass(eq=False)
class Work:
    """Trainings on one data set.

    The callbacks are called in the thread that runs the scheduler.

    Args:
        graphs: the data set, with classes
        trainings: what to train
        dtype: float32 or float64
        members: most models of one shape that train side by side; by default as many as fit
        keep_weights: whether the result of a training contains its best weights
        keep_predictions: whether results contain the outputs for test and validation graphs
        until: the epoch after which trainings pause; None: they run to their end
        begun: states of paused trainings, which go on from there
        checkpoint: file to continue a stopped work from
        keep_checkpoint: whether to leave it, with all results, when all trainings have ended
        on_result: called with each outcome as soon as it is known
        on_progress: called after each epoch of each fleet
        on_end: called when all trainings have an outcome, or with an error that concerns only this
            work; returns works to run next
    """

    graphs: Graphs
    trainings: Sequence[Training]
    dtype: torch.dtype = torch.float32
    members: int | None = None
    keep_weights: Callable[[Training], bool] = lambda training: False
    keep_predictions: bool = False
    until: int | None = None
    begun: Mapping[Training, MemberState] = field(default_factory=dict)
    checkpoint: Path | None = None
    keep_checkpoint: bool = True
    on_result: Callable[[Outcome], None] = lambda outcome: None
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_end: Callable[[SagpoolError | None], Iterable[Work]] = lambda error: ()
    fleets: list[FleetOfWork] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check(self.trainings, self.members, self.dtype)
        self.trainings = list(self.trainings)

    def prepare(self, fleets: int) -> None:
        """Load the checkpoint and divide the remaining trainings into fleets, see `deal`.

        The division depends only on this work and the argument. So in every run a training shares
        its fleet with the same others and rounds in the same way.
        """
        groups = group_by_shape(self.graphs, self.trainings)
        check_stopping(self.graphs, self.trainings)
        identity = identity_of(
            *(self.graphs, self.trainings, self.dtype, self.keep_weights, self.until),
            keep_predictions=self.keep_predictions,
        )
        begun = {n: self.begun[one] for n, one in enumerate(self.trainings) if one in self.begun}
        self.saved = Checkpoint(identity, members=begun)
        if self.checkpoint is not None:
            self.saved = Checkpoint.load(self.checkpoint, identity) or self.saved
            self.save()  # fails now rather than later if the file cannot be written
        divided = self.saved.fleets
        if not divided:
            fleets = fleets if self.members is None else min(fleets, self.members)
            divided = [Slots.fill(share, 0) for share in deal(self.trainings, groups, fleets)]
        known = {*self.saved.results, *(n for slots in divided for n in slots.unfinished)}
        if len(known) < len(self.trainings):
            raise SagpoolError(
                f"The checkpoint {self.checkpoint} is damaged (it lacks trainings); remove it."
            )
        left = [slots.without(self.saved.results) for slots in divided]
        alive = [slots for slots in left if slots.unfinished]
        shares = _slot_limits(self.members, groups, alive)
        self.fleets = [
            FleetOfWork(self, slots, share) for slots, share in zip(alive, shares, strict=True)
        ]
        self.watch = _Watch(self.trainings, self.saved.results)

    @property
    def left(self) -> int:
        """Number of trainings without an outcome."""
        return len(self.trainings) - len(self.saved.results)

    def outcomes(self) -> list[Outcome]:
        return [self.saved.results[number] for number in range(len(self.trainings))]

    def add(self, outcomes: Mapping[int, Outcome]) -> None:
        self.saved.results.update(outcomes)
        self.watch.add(outcomes)

    def save(self) -> None:
        """Write the checkpoint."""
        if self.checkpoint is None:
            return
        done = self.saved.results
        if self.fleets:
            self.saved.fleets = [fleet.saved_slots.without(done) for fleet in self.fleets]
            members = {n: state for fleet in self.fleets for n, state in fleet.members.items()}
            self.saved.members = {n: state for n, state in members.items() if n not in done}
        self.saved.save(self.checkpoint)


def _slot_limits(
    members: int | None, groups: Sequence[Sequence[int]], fleets: Sequence[Slots]
) -> list[int | None]:
    """The most slots of each fleet, such that the fleets of a group together have that many."""
    if members is None:
        return [None] * len(fleets)
    group_of = {number: place for place, group in enumerate(groups) for number in group}
    places = [group_of[slots.unfinished[0]] for slots in fleets]
    shares: list[int | None] = []
    for position, place in enumerate(places):
        before, count = places[:position].count(place), places.count(place)
        shares.append(max(1, (members + count - 1 - before) // count))
    return shares


@dataclass(eq=False)
class FleetOfWork:
    """A fleet of a work, before, during and after its training."""

    work: Work
    slots: Slots
    share: int | None  # most slots; None for no limit
    fleet: Fleet | None = None
    priority: int = 0  # priority of its CUDA stream: below 0 for long fleets

    def __post_init__(self) -> None:
        self.saved_slots = self.slots
        saved = self.work.saved.members
        self.members = {n: saved[n] for n in self.slots.unfinished if n in saved}
        self.shape = (self.work.graphs, representative(self.trainings[0]), self.work.dtype)
        self.wanted = False  # whether the scheduler wants to save its state
        self.unreported, self.reported_at = 0, 0.0  # epochs, summed over its members
        self.handled = threading.Event()  # set when the scheduler has handled the last report

    @property
    def trainings(self) -> list[Training]:
        return [self.work.trainings[number] for number in self.slots.unfinished]

    @property
    def cost(self) -> float:
        """Estimated time of all its trainings together, in arbitrary units."""
        first, graphs = self.trainings[0], self.work.graphs
        return len(self.trainings) * float(graphs.node_counts.sum()) * first.hidden

    @property
    def duration(self) -> float:
        """Estimated time of its longest training on a GPU, in arbitrary units.

        Smaller models and lower rates take more epochs. Epochs of larger models take longer, except
        among small models, which leave most of a GPU idle.
        """
        first, graphs = self.trainings[0], self.work.graphs
        numbers = float(graphs.node_counts.mean()) * first.batch_size * first.hidden
        lowest = min(training.lr for training in self.trainings)
        return max(numbers, IDLE) / (first.hidden * lowest) ** 0.5

    def take_down(self) -> None:
        """Copy the state of the fleet, for a checkpoint or to continue later."""
        if self.fleet is not None:
            self.saved_slots = slots = self.fleet.slots.copy()
            # Members that have ended but are not evaluated, because of an error, train again.
            ended = [member.number for member in self.fleet.ended.members]
            slots.waiting.extend(n for n in ended if n not in slots.unfinished)
            self.members = self.fleet.members()


class _Watch:
    """Counts epochs and estimates the remaining time."""

    def __init__(self, trainings: Sequence[Training], results: Mapping[int, Outcome]) -> None:
        self.trainings, self.total = trainings, len(trainings)
        self.done = self.epochs = 0
        self.start = time.monotonic()
        self.epoch = np.zeros(self.total, np.int64)  # epochs of each training so far
        self.ended = np.zeros(self.total, bool)
        # Epochs of ended trainings, by learning rate.
        self.lengths: dict[float, list[int]] = defaultdict(list)
        self.fleets: dict[FleetOfWork, tuple[np.ndarray, float]] = {}
        self.add(results)
        self.eta: float | None = None
        self.eta_at = float("-inf")

    def add(self, outcomes: Mapping[int, Outcome]) -> None:
        for number, outcome in outcomes.items():
            self.done += 1
            self.ended[number] = True
            self.lengths[outcome.training.lr].append(len(outcome.curve.train_loss))

    def count(
        self,
        fleet: FleetOfWork,
        count: int,
        running: np.ndarray,
        epochs: np.ndarray,
        seconds: float,
    ) -> None:
        """A fleet has trained ``count`` more epochs, and continues with these trainings."""
        self.epochs += count
        self.epoch[running] = epochs
        _, before = self.fleets.get(fleet, (running, seconds))
        self.fleets[fleet] = (running, seconds or before)

    def progress(self) -> Progress:
        passed = max(time.monotonic() - self.start, 1e-9)
        rate = self.epochs / passed
        running = sum(len(numbers) for numbers, _ in self.fleets.values())
        old = time.monotonic() - self.eta_at > ETA_SECONDS
        if old or self.eta is None or self.done == self.total:
            self.eta, self.eta_at = self._eta(rate), time.monotonic()
        return Progress(running, self.done, self.total, self.epochs, rate, self.eta)

    def _eta(self, rate: float) -> float | None:
        """The time for the remaining trainings at the current rate, at least for the longest one.

        A training is expected to take as many epochs as the mean of ended trainings with its
        learning rate.
        """
        if not self.lengths or not rate:
            return None
        means = {lr: np.mean(lengths) for lr, lengths in self.lengths.items()}
        # Lower rates take longer; without ended trainings of a rate, use the lowest known rate.
        guess = means[min(means)]
        expected = np.array([means.get(training.lr, guess) for training in self.trainings])
        # A training that has exceeded the mean is expected to stop soon.
        left = np.maximum(expected - self.epoch, 0.2 * expected) * ~self.ended
        longest = max(
            (left[numbers].max(initial=0) * seconds for numbers, seconds in self.fleets.values()),
            default=0.0,
        )
        return float(max(left.sum() / rate, longest))


def _check(trainings: Sequence[Training], members: int | None, dtype: torch.dtype) -> None:
    if not isinstance(trainings, Sequence) or not all(isinstance(t, Training) for t in trainings):
        raise SagpoolError("The trainings must be a list of Training.")
    if not trainings:
        raise SagpoolError("There is nothing to train.")
    if members is not None and not isinstance(members, int | np.integer):
        raise SagpoolError(f"The number of members must be a whole number, not {members!r}.")
    if members is not None and members < 1:
        raise SagpoolError(f"A fleet needs at least 1 member, not {members}.")
    if dtype not in (torch.float32, torch.float64):
        raise SagpoolError(f"Weights are float32 or float64, not {dtype}.")
