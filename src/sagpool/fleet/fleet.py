"""`Fleet`: members of one shape, trained in lock-step."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import Truth, predict
from sagpool.fleet.finished import Finished, WaitingRoom
from sagpool.fleet.first_weights import FirstWeights, StartFromGraphs
from sagpool.fleet.lockstep import Lockstep, Sizes
from sagpool.fleet.memory import MemoryShortageError
from sagpool.fleet.order import Members, Orders
from sagpool.fleet.pace import Pace
from sagpool.fleet.profile import Profile
from sagpool.fleet.random_guard import SkippedDraws
from sagpool.fleet.recorded_size import GraphSizes
from sagpool.fleet.recording import RecordingMemory
from sagpool.fleet.schedule import Slots, shape_of, split_of, trained_on
from sagpool.fleet.slot_settings import NO_GRAPHS, SlotSettings
from sagpool.fleet.stack import AdamState, Stack, row_length
from sagpool.fleet.state import FleetState, MemberState
from sagpool.fleet.stopping import RULES, Verdict
from sagpool.fleet.training import Outcome, Paused, Training
from sagpool.graphs import Graphs
from sagpool.models import build, count_parameters
from sagpool.ops import to_host

log = logging.getLogger("sagpool")


class Fleet:
    """Trainings of one shape, some of them running, the others waiting for a slot.

    Args:
        graphs: on the device to train on
        trainings: all of them; all other arguments refer to them by their position in this list
        slots: the running and the waiting trainings
        dtype: precision of the weights
        suspended: states of trainings that have begun and have no slot
        keep_weights: whether the result of a training contains its best weights
        parts: number of parts into which each batch is cut, to save memory
        until: the epoch after which trainings pause
        profile: collects where the time goes
        share: fraction of the device that this fleet has; other fleets use the rest
        keep_predictions: whether results contain the outputs for test and validation graphs
        memory: shared by its recordings
    """

    def __init__(
        self,
        graphs: Graphs,
        trainings: Sequence[Training],
        slots: Slots,
        dtype: torch.dtype = torch.float32,
        suspended: Mapping[int, MemberState] = MappingProxyType({}),
        keep_weights: Callable[[Training], bool] = lambda training: False,
        parts: int = 1,
        until: int | None = None,
        profile: Profile | None = None,
        share: Callable[[], float] = lambda: 1.0,
        keep_predictions: bool = False,
        memory: RecordingMemory | None = None,
    ) -> None:
        self.graphs, self.trainings, self.slots, self.dtype = graphs, trainings, slots, dtype
        self.keep_predictions = keep_predictions
        self.keep_weights, self.parts, self.until, self.share = keep_weights, parts, until, share
        self.profile, self.suspended = profile or Profile(graphs.device), dict(suspended)
        self.first_weights: dict[object, FirstWeights] = {}
        self.ended = WaitingRoom(patient=graphs.device.type == "cuda")
        self.first = trainings[next(n for n in (*slots.running, *slots.waiting) if n >= 0)]
        self.rule, self.memory = RULES[self.first.stopping], memory or RecordingMemory()
        self.shape, self.pace = shape_of(graphs, self.first), Pace.of(graphs, self.first)
        self.graph_sizes = GraphSizes.of(graphs, trained_on(graphs, self.first))
        self.parameters = count_parameters(self.first.method, self.shape)
        self.start = StartFromGraphs(partial(build, self.first.method, self.shape))
        self.truth = Truth.of(graphs)
        self.epochs_trained = 0  # sum over all members
        self.wasted = 0  # epochs of empty slots, since the fleet was built
        self._allocate()

    def advance(self, between_steps: Callable[[], None] = lambda: None) -> dict[int, Outcome]:
        """Train every member for one or more epochs; returns new outcomes, by number.

        Finished members stay in their slots until `refill`, so an error there loses no result. If
        anything raises, ``between_steps`` included, these epochs are undone.
        """
        before, ended = self.state.snapshot(), replace(self.ended)
        epochs = self._epochs_at_once()
        try:
            verdict = self._train_and_validate(epochs, between_steps)
            finished = verdict.finished & self.slots.active
            self.ended.enter(
                [
                    Finished.of(
                        int(self.slots.running[slot]),
                        self.state,
                        self.settings,
                        slot,
                        diverged=bool(verdict.diverged[slot]),
                    )
                    for slot in np.flatnonzero(finished).tolist()
                ],
                epochs,
            )
            paused = ~finished & self.slots.active
            paused &= self.until is not None and self.state.stopping.epoch >= self.until
            outcomes = self._paused(paused)
            last = not self.slots.waiting and not (self.slots.active & ~finished & ~paused).any()
            if self.ended.due or last:
                outcomes |= self.evaluate()
        except BaseException:
            self.state.restore(before)
            self.ended = ended
            raise
        self.finished = finished | paused
        trained = self.state.stopping.epoch - before.stopping.epoch
        self.epochs_trained += int(trained[self.slots.active].sum())
        self.wasted += epochs * int((~self.slots.active).sum())
        self.profile.collect(int(trained[self.slots.active].sum()))
        return outcomes

    def shrink(self) -> None:
        """Use less memory: half of the slots, or with a single slot twice the parts.

        The members of the removed slots are suspended, and continue later.
        """
        if len(self.slots.running) == 1 and self.parts >= self.first.batch_size:
            raise MemoryShortageError(self.graphs.device)
        self.suspended = self.members()
        if len(self.slots.running) > 1:
            self.slots.halve()
        else:
            self.parts = min(2 * self.parts, self.first.batch_size)
        self._allocate()
        log.warning(
            "Out of memory: continuing with %d members, batches in %d parts.",
            len(self.slots.running),
            self.parts,
        )

    def members(self) -> dict[int, MemberState]:
        """The states of all trainings that have begun and not ended, by number."""
        # After an error in a refill, a slot may belong to a training that was not loaded into it.
        state = self.state.on_host()
        running = {
            int(number): state.get(slot)
            for slot, number in enumerate(self.slots.running)
            if number >= 0 and self.settings.splits[slot] is not NO_GRAPHS
        }
        return running | self.suspended

    def _allocate(self) -> None:
        """Make the state and the model for the current number of slots, and load the members."""
        members, device = len(self.slots.running), self.graphs.device
        weighted = self.first.class_weight != "none"
        self.settings = SlotSettings.empty(members, self.shape, device, weighted=weighted)
        # Frees the memory of the previous state and model.
        self.lockstep: Lockstep | None = None
        self.wasted = 0
        self.state = FleetState.empty(torch.zeros(0, 0))
        with torch.device("meta"):
            numbers = row_length(build(self.first.method, self.shape))
        weights = torch.zeros(members, numbers, dtype=self.dtype, device=device)
        self.state = FleetState.empty(weights)
        self.finished = np.zeros(members, bool)
        self.lockstep = self._lockstep()
        self._load(np.flatnonzero(self.slots.active).tolist())

    def _compact(self) -> None:
        """Remove the empty slots."""
        kept = np.flatnonzero(self.slots.active)
        state, settings = self.state.take(kept), self.settings.take(kept)
        self.lockstep = None  # frees the memory of its recordings
        self.wasted = 0
        self.slots.compact()
        self.state, self.settings = state, settings
        self.finished = np.zeros(len(kept), bool)
        self.lockstep = self._lockstep()

    def _stack(self, k: np.ndarray, weights: Tensor | None = None) -> Stack:
        """A model with one member for each row of k."""
        with SkippedDraws():  # the weights will be loaded
            model = build(self.first.method, replace(self.shape, members=len(k), k=k))
        return Stack(model.to(self.graphs.device, self.dtype), weights)

    def _lockstep(self) -> Lockstep:
        state, settings = self.state, self.settings
        weights = state.weights.clone()
        stack = self._stack(settings.k, state.weights)
        stack.load(weights)  # instead of the layers' initial ones
        size, order = self.first.batch_size, self.first.order
        self.orders = Orders(self.graphs, size, len(weights), order)
        return Lockstep(
            self.graphs,
            stack,
            AdamState(state.weights, state.mean, state.square, state.steps),
            state.best,
            state.on_device,
            settings.lr,
            settings.weight_decay,
            settings.keys,
            Sizes.of(size, self.parts),
            in_parts=self.parts > 1,
            whole=self.pace.whole_epochs(len(weights)),
            memory=self.memory,
            profile=self.profile,
            rule=self.rule,
            graph_sizes=self.graph_sizes,
            class_weight=settings.class_weight,
        )

    def _load(self, slots: Sequence[int]) -> None:
        """Load the trainings of these slots, with fresh or with their suspended states."""
        if not slots:
            return
        numbers = self.slots.running[slots].tolist()
        trainings = [self.trainings[number] for number in numbers]
        self.state.put(
            slots,
            [self.suspended.get(n) or self._fresh(self.trainings[n]) for n in numbers],
            [training.patience for training in trainings],
            [training.max_epochs for training in trainings],
        )
        self.settings.put(slots, trainings, self.graphs)
        for number in numbers:
            self.suspended.pop(number, None)

    def _fresh(self, training: Training) -> MemberState:
        shape = shape_of(self.graphs, training)
        # One for each k, the only difference between the shapes of a fleet.
        weights = self.first_weights.setdefault(
            shape.k, FirstWeights(partial(build, training.method, shape))
        )
        drawn = weights.draw(training.stream("weights", self.graphs.name))
        self.start.put(drawn, self.graphs, split_of(self.graphs, training).train)
        return MemberState.fresh(drawn)

    def refill(self) -> None:
        """Give the slots of finished trainings to waiting ones; to be called after each epoch."""
        if self.finished.any():
            self._release_finished()
        if self.pace.should_compact(self.slots, self.wasted):
            self._compact()

    def _release_finished(self) -> None:
        finished, self.finished = self.finished, np.zeros_like(self.finished)
        filled = self.slots.release(finished)
        # An empty slot has no graphs. So batches have the same shape, and round the same way, as in
        # a continued run, where it is unknown which training had the slot before.
        for slot in np.flatnonzero(finished).tolist():
            self.settings.splits[slot] = NO_GRAPHS
        assert self.lockstep is not None
        self.lockstep.forget_validation()
        self._load(filled)

    def _train_and_validate(self, count: int, between_steps: Callable[[], None]) -> Verdict:
        """Some epochs of all members; returns which of them improved, diverged or finished."""
        begin = time.perf_counter()
        state, splits, active = self.state, self.settings.splits, self.slots.active
        train, validation = zip(*((split.train, split.validation) for split in splits), strict=True)
        members = Members(train, self.settings.order_keys, state.stopping.epoch)
        self.orders.prepare(members, count)
        curves = self.settings.lr.new_empty(count, 3, len(active))
        assert self.lockstep is not None
        for number in range(count):
            batches = self.orders.batches(members.after(number))
            self.settings.follow_schedules(members.epochs + number)
            curves[number] = self.lockstep.epoch(batches, validation, between_steps)
        self.orders.prepare(members.after(count), count)
        # Here the host waits for the device.
        verdict = self._decide(to_host(curves).numpy())
        seconds = (time.perf_counter() - begin) * self.share() / active.sum()
        state.seconds = state.seconds + np.where(active, seconds, 0)
        return verdict

    def _decide(self, curves: np.ndarray) -> Verdict:
        """Decide from the losses of some epochs, ``[epochs, 3, members]``, which members go on."""
        state, active = self.state, self.slots.active
        none = np.zeros_like(active)
        total = Verdict(none, none, none)
        for of_epoch in curves:
            going_on = active & ~total.finished
            train, validation, _ = of_epoch
            verdict = state.stopping.update(train, validation, total.finished, self.rule)
            total = total | verdict
            for slot in np.flatnonzero(going_on):
                state.curves[slot].append(tuple(of_epoch[:, slot].tolist()))
        return total

    def _epochs_at_once(self) -> int:
        if self.slots.waiting:
            return 1
        epochs = self.pace.epochs_at_once(len(self.slots.running))
        if self.until is None:
            return epochs
        furthest = int(self.state.stopping.epoch[self.slots.active].max())
        return max(1, min(epochs, self.until - furthest))

    def _paused(self, slots: np.ndarray) -> dict[int, Outcome]:
        numbers = {int(self.slots.running[slot]): slot for slot in np.flatnonzero(slots).tolist()}
        state = self.state.on_host() if numbers else self.state
        return {
            number: Paused.of(self.trainings[number], state.get(slot))
            for number, slot in numbers.items()
        }

    def evaluate(self) -> dict[int, Outcome]:
        """The results of all members that have ended, with the weights of their best epochs."""
        ended = self.ended.members
        if not ended:
            return {}
        begin, trainings = time.perf_counter(), [self.trainings[one.number] for one in ended]
        with self.profile.spent("evaluation"):
            stack = self._stack(np.stack([member.k for member in ended]))
            stack.load(torch.stack([member.best for member in ended]))
            # All slots at once fit into memory, so fewer members can have more graphs each.
            chunk = Sizes.of(self.first.batch_size, self.parts).validation
            chunk = max(1, chunk * len(self.slots.running) // len(ended))
            keys = torch.stack([member.key for member in ended])
            outputs = predict(
                stack.model.eval(), self.graphs, len(ended), keys, chunk, self.graphs.task
            )
        weights = stack.state_dicts([self.keep_weights(training) for training in trainings])
        seconds = (time.perf_counter() - begin) * self.share() / len(ended)
        own = zip(ended, trainings, outputs, weights, strict=True)
        results: dict[int, Outcome] = {
            member.number: member.result(
                *(training, own_outputs, self.truth, own_weights),
                parameters=self.parameters,
                seconds=seconds,
                keep_predictions=self.keep_predictions,
            )
            for member, training, own_outputs, own_weights in own
        }
        self.ended.members = []
        return results
