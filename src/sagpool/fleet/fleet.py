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

from sagpool.fleet.evaluate import predict, score
from sagpool.fleet.memory import MemoryShortageError
from sagpool.fleet.order import Order, epoch_batches, epoch_orders
from sagpool.fleet.schedule import Slots, shape_of, split_of
from sagpool.fleet.shard import Shard, Sizes, shards_of, side_by_side
from sagpool.fleet.stack import AdamState, Stack, initial_weights, row_length
from sagpool.fleet.state import FleetState, MemberState
from sagpool.fleet.stopping import Verdict
from sagpool.fleet.training import Curve, Result, Score, Training
from sagpool.graphs import Graphs, Split
from sagpool.models import Shape, build, count_parameters

log = logging.getLogger("sagpool")

_NOTHING = Score(float("nan"), float("nan"))
_NO_GRAPHS = Split(*[np.zeros(0, np.int64)] * 3)


class Fleet:
    """Trainings of one shape, some of them running, the others waiting for a slot.

    Args:
        graphs: on the device to train on
        trainings: all of them; elsewhere they are called by their numbers in this list
        slots: who runs and who waits
        dtype: of the weights
        suspended: trainings that have begun before
        keeps: whether the result of a training carries its best weights
        parts: in which a batch is done, for lack of memory
    """

    def __init__(
        self,
        graphs: Graphs,
        trainings: Sequence[Training],
        slots: Slots,
        dtype: torch.dtype = torch.float32,
        suspended: Mapping[int, MemberState] = MappingProxyType({}),
        keeps: Callable[[Training], bool] = lambda training: False,
        parts: int = 1,
    ) -> None:
        self.graphs, self.trainings, self.slots, self.dtype = graphs, trainings, slots, dtype
        self.keeps, self.parts = keeps, parts
        self.suspended = dict(suspended)
        self.first = trainings[next(n for n in (*slots.running, *slots.waiting) if n >= 0)]
        assert graphs.y is not None
        self.y = graphs.y.cpu().numpy()
        self._seat()

    def epoch(self, between_steps: Callable[[], None] = lambda: None) -> dict[int, Result]:
        """Train every member for one epoch; the results of those that are done, by number.

        Their slots are theirs until `refill`, so that nothing that goes wrong there loses a result.
        Whatever is raised, by ``between_steps`` or for lack of memory: it is then as if the epoch
        had not begun.
        """
        before = self.state.snapshot()
        try:
            verdict = self._train_and_validate(between_steps)
            finished = verdict.finished & self.slots.active
            results = self._finish(np.flatnonzero(finished), verdict.diverged)
        except BaseException:
            self.state.restore(before)
            raise
        self.finished = finished
        return results

    def shrink(self) -> None:
        """Make do with less memory.

        That is with half of the slots; the members of the others wait, with all they learnt. Or,
        with one slot, with twice the parts.
        """
        if len(self.slots.running) == 1 and self.parts >= self.first.batch_size:
            raise MemoryShortageError(self.graphs.device)
        self.suspended = self.members()
        if len(self.slots.running) > 1:
            self.slots.halve()
        else:
            self.parts = min(2 * self.parts, self.first.batch_size)
        self._seat()
        log.warning(
            "Out of memory: going on with %d members, batches in %d parts.",
            len(self.slots.running),
            self.parts,
        )

    def members(self) -> dict[int, MemberState]:
        """All trainings that have begun and not ended, by number."""
        # Who has got a slot and not entered it, for something went wrong, has not begun there.
        running = {
            int(number): self.state.get(slot)
            for slot, number in enumerate(self.slots.running)
            if number >= 0 and self.splits[slot] is not _NO_GRAPHS
        }
        return running | self.suspended

    def _seat(self) -> None:
        """Make room for as many members as there are slots, and let them in."""
        members = len(self.slots.running)
        self.splits = [_NO_GRAPHS] * members
        # What they hold is let go of first.
        self.shards: list[tuple[slice, Shard]] = []
        self.state = FleetState.empty(0, torch.zeros(0, 0))
        shape = replace(shape_of(self.graphs, self.first), members=members)
        # The pooling layers look at this array, so a new member brings its own k.
        self.k = np.full((members, 1), shape.k)
        self.parameters = count_parameters(self.first.method, shape)
        with torch.device("meta"):
            numbers = row_length(build(self.first.method, shape))
        weights = torch.zeros(members, numbers, dtype=self.dtype, device=self.graphs.device)
        self.state = FleetState.empty(members, weights)
        self.lr = torch.zeros(members, dtype=torch.float64, device=self.graphs.device)
        self.weight_decay = torch.zeros_like(self.lr)
        self.keys = torch.zeros(members, 2, dtype=torch.int64, device=self.graphs.device)
        self.order_keys = np.zeros(members, np.uint64)
        self.orders: list[Order] = []
        self.finished = np.zeros(members, bool)
        self.shards = [
            (rows, self._wing(rows, shape)) for rows in shards_of(members, self.graphs.device)
        ]
        for slot, number in enumerate(self.slots.running.tolist()):
            if number >= 0:
                self._enter(slot, number)

    def _wing(self, rows: slice, shape: Shape) -> Shard:
        """A shard whose every tensor is the fleet's own, at these rows."""
        k, state = self.k[rows], self.state
        model = build(self.first.method, replace(shape, members=len(k), k=k))
        return Shard(
            Stack(model.to(self.graphs.device, self.dtype), state.weights[rows]),
            AdamState(state.weights[rows], state.mean[rows], state.square[rows], state.steps[rows]),
            self.lr[rows],
            self.weight_decay[rows],
            self.keys[rows],
            Sizes.of(self.first.batch_size, self.parts),
            in_parts=self.parts > 1,
        )

    def _enter(self, slot: int, number: int) -> None:
        """Give a slot to a training, fresh or as it was left."""
        training = self.trainings[number]
        parts = split_of(self.graphs, training)
        shape = shape_of(self.graphs, training, parts)
        member = self.suspended.get(number)
        if member is None:
            seed = training.stream("weights", self.graphs.name)
            member = MemberState.fresh(initial_weights(lambda: build(training.method, shape), seed))
        self.state.put(slot, member, training.patience, training.max_epochs)
        self.k[slot] = shape.k
        self.lr[slot], self.weight_decay[slot] = training.lr, training.weight_decay
        streams = [training.stream(use, self.graphs.name) for use in ("dropout", "evaluation")]
        self.keys[slot] = torch.tensor(streams)
        self.order_keys[slot] = np.int64(training.stream("order", self.graphs.name)).astype(
            np.uint64
        )
        self.splits[slot] = parts
        self.suspended.pop(number, None)

    def refill(self) -> None:
        """Hand the slots of those that are done to those that wait; to be called after an epoch."""
        finished = self.finished
        if not finished.any():
            return
        self.finished = np.zeros_like(finished)
        filled = self.slots.release(finished)
        # An empty slot has no graphs, so a continued run, which does not know who was there before,
        # has batches of the same shape and rounds as this one does.
        for slot in np.flatnonzero(finished).tolist():
            self.splits[slot] = _NO_GRAPHS
        for _, shard in self.shards:
            shard.validation = None
        for slot in filled:
            self._enter(slot, int(self.slots.running[slot]))
        if self.slots.too_empty:
            self.suspended = self.members()
            self.slots.close_ranks()
            self._seat()

    def _train_and_validate(self, between_steps: Callable[[], None]) -> Verdict:
        """One epoch of all members, and what follows from their losses."""
        begin = time.perf_counter()
        state, active = self.state, self.slots.active
        train = [split.train for split in self.splits]
        epoch = state.stopping.epoch
        orders = epoch_orders(train, self.order_keys, epoch, self.orders)
        batches = epoch_batches(orders, self.first.batch_size)
        validation = [split.validation for split in self.splits]
        numbers = side_by_side(
            [
                partial(shard.epoch, self.graphs, batches[:, rows], validation[rows], between_steps)
                for rows, shard in self.shards
            ]
        )
        # While the device is at work: most members will want their next epoch.
        self.orders = epoch_orders(train, self.order_keys, epoch + 1)
        # The one moment of the epoch at which the host waits for the device.
        train_loss, validation_loss, accuracy = torch.cat(numbers, dim=1).cpu().numpy()
        verdict = state.stopping.update(train_loss, validation_loss)
        improved = torch.from_numpy(verdict.improved & active).to(self.graphs.device)
        state.best = torch.where(improved[:, None], state.weights, state.best)
        for slot in np.flatnonzero(active):
            state.curves[slot].append(
                (float(train_loss[slot]), float(validation_loss[slot]), float(accuracy[slot]))
            )
        share = (time.perf_counter() - begin) / active.sum()
        state.seconds = state.seconds + np.where(active, share, 0)
        return verdict

    def _finish(self, finished: np.ndarray, diverged: np.ndarray) -> dict[int, Result]:
        """The results of these slots, by the weights of their best epochs."""
        if not len(finished):
            return {}
        begin = time.perf_counter()
        shape = replace(
            shape_of(self.graphs, self.first), members=len(finished), k=self.k[finished].copy()
        )
        stack = Stack(build(self.first.method, shape).to(self.graphs.device, self.dtype))
        stack.load(self.state.best[torch.from_numpy(finished).to(self.graphs.device)])
        keys = self.keys[torch.from_numpy(finished).to(self.graphs.device), 1]
        # There is room for as many graphs as in a training step; so few members take more of each.
        chunk = Sizes.of(self.first.batch_size, self.parts).train
        chunk *= max(1, len(self.slots.running) // len(finished))
        log_share = predict(stack.model.eval(), self.graphs, len(finished), keys, chunk)
        kept = [self.keeps(self.trainings[self.slots.running[slot]]) for slot in finished]
        weights = stack.state_dicts(kept)
        share = (time.perf_counter() - begin) / len(finished)
        return {
            int(self.slots.running[slot]): self._result(
                slot, bool(diverged[slot]), log_share[i], weights[i], share
            )
            for i, slot in enumerate(finished)
        }

    def _result(
        self,
        slot: int,
        diverged: bool,
        log_share: np.ndarray,
        weights: dict[str, Tensor] | None,
        seconds: float,
    ) -> Result:
        stopping, parts = self.state.stopping, self.splits[slot]
        learnt = stopping.best_epoch[slot] > 0
        classes = self.graphs.num_classes
        confusion = np.zeros((classes, classes), np.int64)
        if learnt:
            predicted = log_share[parts.test].argmax(1)
            np.add.at(confusion, (self.y[parts.test], predicted), 1)
        curve = np.array(self.state.curves[slot])
        return Result(
            training=self.trainings[self.slots.running[slot]],
            diverged=diverged,
            best_epoch=int(stopping.best_epoch[slot]),
            epochs=int(stopping.epoch[slot]),
            train=score(log_share, self.y, parts.train) if learnt else _NOTHING,
            validation=score(log_share, self.y, parts.validation) if learnt else _NOTHING,
            test=score(log_share, self.y, parts.test) if learnt else _NOTHING,
            confusion=confusion,
            curve=Curve(*curve.T.copy()),
            parameters=self.parameters,
            seconds=float(self.state.seconds[slot] + seconds),
            weights=weights,
        )
