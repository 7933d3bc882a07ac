"""`Fleet`: members of one shape, trained in lock-step."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import predict
from sagpool.fleet.finished import Finished, WaitingRoom
from sagpool.fleet.lockstep import Lockstep, Sizes
from sagpool.fleet.memory import MemoryShortageError
from sagpool.fleet.order import Order, epoch_batches, epoch_orders
from sagpool.fleet.profile import Profile
from sagpool.fleet.random_guard import SeededDraws
from sagpool.fleet.recording import RecordingMemory
from sagpool.fleet.schedule import Slots, shape_of, split_of
from sagpool.fleet.stack import AdamState, Stack, initial_weights, row_length
from sagpool.fleet.state import FleetState, MemberState
from sagpool.fleet.stopping import Verdict
from sagpool.fleet.training import Curve, Outcome, Paused, Training
from sagpool.graphs import Graphs, Split
from sagpool.models import build, count_parameters

log = logging.getLogger("sagpool")

SMALL = 2**24  # numbers in a layer of a small step: rows x channels of all members
FEW_MEMBERS = 8  # a step of fewer is no shorter

_NO_GRAPHS = Split(*[np.zeros(0, np.int64)] * 3)


class Fleet:
    """Trainings of one shape, some of them running, the others waiting for a slot.

    Args:
        graphs: on the device to train on
        trainings: all of them; everywhere else a training is its number in this list
        slots: the running and the waiting trainings
        dtype: of the weights
        suspended: states of trainings that have begun and have no slot
        keep_weights: whether the result of a training contains its best weights
        parts: into which each batch is cut, to save memory
        until: the epoch after which trainings pause
        profile: where the time is noted
        share: part of the device that this fleet has; the others train beside it
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
    ) -> None:
        self.graphs, self.trainings, self.slots, self.dtype = graphs, trainings, slots, dtype
        self.keep_weights, self.parts, self.until, self.share = keep_weights, parts, until, share
        self.profile, self.memory = profile or Profile(graphs.device), RecordingMemory()
        self.suspended = dict(suspended)
        self.ended = WaitingRoom(patient=graphs.device.type == "cuda")
        self.first = trainings[next(n for n in (*slots.running, *slots.waiting) if n >= 0)]
        self.shape = shape_of(graphs, self.first)
        self.parameters = count_parameters(self.first.method, self.shape)
        assert graphs.y is not None
        self.y = graphs.y.cpu().numpy()
        self._allocate()

    def epoch(self, between_steps: Callable[[], None] = lambda: None) -> dict[int, Outcome]:
        """Train every member for one epoch; returns new outcomes, by number.

        Those that are done stay in their slots until `refill`, so an error there loses no result.
        If anything raises, ``between_steps`` included, the epoch is undone.
        """
        before, ended = self.state.snapshot(), replace(self.ended)
        try:
            verdict = self._train_and_validate(between_steps)
            finished = verdict.finished & self.slots.active
            self.ended.enter(
                [
                    self._finished(slot, bool(verdict.diverged[slot]))
                    for slot in np.flatnonzero(finished).tolist()
                ]
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
        self.profile.collect(int(self.slots.active.sum()))
        return outcomes

    def shrink(self) -> None:
        """Use less memory: half of the slots, or with a single slot twice the parts.

        The members of the other slots are suspended, and go on later.
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
            if number >= 0 and self.splits[slot] is not _NO_GRAPHS
        }
        return running | self.suspended

    def _allocate(self) -> None:
        """Make the state and the model for as many members as there are slots, and load them."""
        members, device = len(self.slots.running), self.graphs.device
        self.splits = [_NO_GRAPHS] * members
        # Frees the memory of the previous ones.
        self.lockstep: Lockstep | None = None
        self.state = FleetState.empty(torch.zeros(0, 0))
        with torch.device("meta"):
            numbers = row_length(build(self.first.method, self.shape))
        weights = torch.zeros(members, numbers, dtype=self.dtype, device=device)
        self.state = FleetState.empty(weights)
        self.k = np.full((members, 1), self.shape.k)
        self.lr = torch.zeros(members, dtype=torch.float64, device=device)
        self.weight_decay = torch.zeros_like(self.lr)
        self.keys = torch.zeros(members, 2, dtype=torch.int64, device=device)
        self.order_keys = np.zeros(members, np.uint64)
        self.orders: list[Order] = []
        self.finished = np.zeros(members, bool)
        self.lockstep = self._lockstep()
        for slot, number in enumerate(self.slots.running.tolist()):
            if number >= 0:
                self._load(slot, number)

    @property
    def _small(self) -> bool:
        """Whether a step takes a GPU less time than the host needs to launch it."""
        numbers = self.graphs.node_counts.mean() * self.first.batch_size * self.shape.hidden
        return self.graphs.device.type == "cuda" and numbers * len(self.slots.running) < SMALL

    @property
    def _most_empty(self) -> float:
        """The largest fraction of empty slots.

        A smaller fleet must be recorded anew, which is worth it only where a step takes long.
        """
        if not self._small:
            return 0.25
        return 0.5 if len(self.slots.running) > FEW_MEMBERS else 1.0

    def _compact(self) -> None:
        """Remove the empty slots."""
        kept = np.flatnonzero(self.slots.active)
        rows = torch.from_numpy(kept).to(self.graphs.device)
        state = self.state.take(kept)
        lr, weight_decay, keys = (t[rows] for t in (self.lr, self.weight_decay, self.keys))
        self.lockstep = None  # frees the memory of its recordings
        self.slots.compact()
        self.state, self.lr, self.weight_decay, self.keys = state, lr, weight_decay, keys
        self.k, self.order_keys = self.k[kept], self.order_keys[kept]
        self.splits = [self.splits[slot] for slot in kept.tolist()]
        self.finished = np.zeros(len(kept), bool)
        self.lockstep = self._lockstep()

    def _stack(self, k: np.ndarray, weights: Tensor | None = None) -> Stack:
        """A model with as many members as there are rows of k."""
        with SeededDraws(0):  # the weights will be loaded
            model = build(self.first.method, replace(self.shape, members=len(k), k=k))
        return Stack(model.to(self.graphs.device, self.dtype), weights)

    def _lockstep(self) -> Lockstep:
        """For the state as it is. The pooling layers read a new member's k from ``self.k``."""
        state = self.state
        weights = state.weights.clone()
        stack = self._stack(self.k, state.weights)
        stack.load(weights)  # instead of those that the layers began with
        return Lockstep(
            self.graphs,
            stack,
            AdamState(state.weights, state.mean, state.square, state.steps),
            self.lr,
            self.weight_decay,
            self.keys,
            Sizes.of(self.first.batch_size, self.parts),
            in_parts=self.parts > 1,
            whole=self._small,
            memory=self.memory,
            profile=self.profile,
        )

    def _load(self, slot: int, number: int) -> None:
        """Load a training into a slot, with fresh or with its suspended state."""
        training = self.trainings[number]
        split = split_of(self.graphs, training)
        shape = shape_of(self.graphs, training, split)
        member = self.suspended.get(number)
        if member is None:
            seed = training.stream("weights", self.graphs.name)
            member = MemberState.fresh(initial_weights(lambda: build(training.method, shape), seed))
        self.state.put(slot, member, training.patience, training.max_epochs)
        self.k[slot] = shape.k
        self.lr[slot], self.weight_decay[slot] = training.lr, training.weight_decay
        streams = [training.stream(use, self.graphs.name) for use in ("dropout", "evaluation")]
        self.keys[slot] = torch.tensor(streams)
        order = training.stream("order", self.graphs.name)
        self.order_keys[slot] = np.int64(order).astype(np.uint64)
        self.splits[slot] = split
        self.suspended.pop(number, None)

    def refill(self) -> None:
        """Give the slots of finished trainings to waiting ones; to be called after each epoch."""
        finished = self.finished
        if not finished.any():
            return
        self.finished = np.zeros_like(finished)
        filled = self.slots.release(finished)
        # An empty slot has no graphs. So batches have the same shape, and round the same way, as in
        # a continued run, where it is unknown which training had the slot before.
        for slot in np.flatnonzero(finished).tolist():
            self.splits[slot] = _NO_GRAPHS
        assert self.lockstep is not None
        self.lockstep.forget_validation()
        for slot in filled:
            self._load(slot, int(self.slots.running[slot]))
        if self.slots.too_empty(self._most_empty):
            self._compact()

    def _train_and_validate(self, between_steps: Callable[[], None]) -> Verdict:
        """One epoch of all members; which of them improved, diverged or finished."""
        begin = time.perf_counter()
        state, active = self.state, self.slots.active
        train = [split.train for split in self.splits]
        epoch = state.stopping.epoch
        orders = epoch_orders(train, self.order_keys, epoch, self.orders)
        batches = epoch_batches(orders, self.first.batch_size)
        validation = [split.validation for split in self.splits]
        assert self.lockstep is not None
        losses = self.lockstep.epoch(batches, validation, between_steps)
        # While the device computes: most members will need their next order.
        self.orders = epoch_orders(train, self.order_keys, epoch + 1)
        # Here the host waits for the device, once in an epoch.
        curves = losses.cpu().numpy()
        train_loss, validation_loss, _ = curves
        verdict = state.stopping.update(train_loss, validation_loss)
        improved = torch.from_numpy(verdict.improved & active).to(self.graphs.device)
        state.best = torch.where(improved[:, None], state.weights, state.best)
        for slot in np.flatnonzero(active):
            state.curves[slot].append(tuple(curves[:, slot].tolist()))
        seconds = (time.perf_counter() - begin) * self.share() / active.sum()
        state.seconds = state.seconds + np.where(active, seconds, 0)
        return verdict

    def _finished(self, slot: int, diverged: bool) -> Finished:
        stopping = self.state.stopping
        return Finished(
            number=int(self.slots.running[slot]),
            split=self.splits[slot],
            diverged=diverged,
            best_epoch=int(stopping.best_epoch[slot]),
            epochs=int(stopping.epoch[slot]),
            curve=Curve.of(self.state.curves[slot]),
            seconds=float(self.state.seconds[slot]),
            best=self.state.best[slot].clone(),
            key=self.keys[slot, 1].clone(),
            k=self.k[slot].copy(),
        )

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
        begin = time.perf_counter()
        with self.profile.spent("evaluation"):
            stack = self._stack(np.stack([member.k for member in ended]))
            stack.load(torch.stack([member.best for member in ended]))
            # As many graphs fit as in a training step of all slots: fewer members get more.
            chunk = Sizes.of(self.first.batch_size, self.parts).train
            chunk *= max(1, len(self.slots.running) // len(ended))
            keys = torch.stack([member.key for member in ended])
            log_probability = predict(stack.model.eval(), self.graphs, len(ended), keys, chunk)
        trainings = [self.trainings[member.number] for member in ended]
        weights = stack.state_dicts([self.keep_weights(training) for training in trainings])
        seconds = (time.perf_counter() - begin) * self.share() / len(ended)
        results: dict[int, Outcome] = {
            member.number: member.result(
                training,
                scores,
                self.y,
                own_weights,
                parameters=self.parameters,
                seconds=seconds,
            )
            for member, training, scores, own_weights in zip(
                ended, trainings, log_probability, weights, strict=True
            )
        }
        self.ended.members = []
        return results
