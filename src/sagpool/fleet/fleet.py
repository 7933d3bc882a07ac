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
from sagpool.fleet.training import Curve, Result, Training
from sagpool.graphs import Graphs, Split
from sagpool.models import build, count_parameters

log = logging.getLogger("sagpool")

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
    ) -> None:
        self.graphs, self.trainings, self.slots, self.dtype = graphs, trainings, slots, dtype
        self.keep_weights, self.parts = keep_weights, parts
        self.suspended = dict(suspended)
        self.first = trainings[next(n for n in (*slots.running, *slots.waiting) if n >= 0)]
        self.shape = shape_of(graphs, self.first)
        self.parameters = count_parameters(self.first.method, self.shape)
        assert graphs.y is not None
        self.y = graphs.y.cpu().numpy()
        self._allocate()

    def epoch(self, between_steps: Callable[[], None] = lambda: None) -> dict[int, Result]:
        """Train every member for one epoch; returns the results of those that are done, by number.

        They stay in their slots until `refill`, so an error there loses no result. If anything
        raises, ``between_steps`` included, the epoch is undone.
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
        running = {
            int(number): self.state.get(slot)
            for slot, number in enumerate(self.slots.running)
            if number >= 0 and self.splits[slot] is not _NO_GRAPHS
        }
        return running | self.suspended

    def _allocate(self) -> None:
        """Build the model and the state for as many members as there are slots, and load them."""
        members = len(self.slots.running)
        self.splits = [_NO_GRAPHS] * members
        # Frees the memory of the previous ones.
        self.shards: list[tuple[slice, Shard]] = []
        self.state = FleetState.empty(torch.zeros(0, 0))
        # The pooling layers have views of this array, and read a new member's k from it.
        self.k = np.full((members, 1), self.shape.k)
        with torch.device("meta"):
            numbers = row_length(build(self.first.method, self.shape))
        weights = torch.zeros(members, numbers, dtype=self.dtype, device=self.graphs.device)
        self.state = FleetState.empty(weights)
        self.lr = torch.zeros(members, dtype=torch.float64, device=self.graphs.device)
        self.weight_decay = torch.zeros_like(self.lr)
        self.keys = torch.zeros(members, 2, dtype=torch.int64, device=self.graphs.device)
        self.order_keys = np.zeros(members, np.uint64)
        self.orders: list[Order] = []
        self.finished = np.zeros(members, bool)
        self.shards = [(rows, self._shard(rows)) for rows in shards_of(members, self.graphs.device)]
        for slot, number in enumerate(self.slots.running.tolist()):
            if number >= 0:
                self._load(slot, number)

    def _stack(self, k: np.ndarray, weights: Tensor | None = None) -> Stack:
        """A model with as many members as there are rows of k."""
        model = build(self.first.method, replace(self.shape, members=len(k), k=k))
        return Stack(model.to(self.graphs.device, self.dtype), weights)

    def _shard(self, rows: slice) -> Shard:
        """A shard that works on views of these rows of the fleet's tensors."""
        state = self.state
        return Shard(
            self._stack(self.k[rows], state.weights[rows]),
            AdamState(state.weights[rows], state.mean[rows], state.square[rows], state.steps[rows]),
            self.lr[rows],
            self.weight_decay[rows],
            self.keys[rows],
            Sizes.of(self.first.batch_size, self.parts),
            in_parts=self.parts > 1,
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
        for _, shard in self.shards:
            shard.validation = None
        for slot in filled:
            self._load(slot, int(self.slots.running[slot]))
        if self.slots.too_empty:
            self.suspended = self.members()
            self.slots.compact()
            self._allocate()

    def _train_and_validate(self, between_steps: Callable[[], None]) -> Verdict:
        """One epoch of all members; which of them improved, diverged or finished."""
        begin = time.perf_counter()
        state, active = self.state, self.slots.active
        train = [split.train for split in self.splits]
        epoch = state.stopping.epoch
        orders = epoch_orders(train, self.order_keys, epoch, self.orders)
        batches = epoch_batches(orders, self.first.batch_size)
        validation = [split.validation for split in self.splits]
        losses = side_by_side(
            [
                partial(shard.epoch, self.graphs, batches[:, rows], validation[rows], between_steps)
                for rows, shard in self.shards
            ]
        )
        # While the device computes: most members will need their next order.
        self.orders = epoch_orders(train, self.order_keys, epoch + 1)
        # Here the host waits for the device, once in an epoch.
        curves = torch.cat(losses, dim=1).cpu().numpy()
        train_loss, validation_loss, _ = curves
        verdict = state.stopping.update(train_loss, validation_loss)
        improved = torch.from_numpy(verdict.improved & active).to(self.graphs.device)
        state.best = torch.where(improved[:, None], state.weights, state.best)
        for slot in np.flatnonzero(active):
            state.curves[slot].append(tuple(curves[:, slot].tolist()))
        seconds = (time.perf_counter() - begin) / active.sum()
        state.seconds = state.seconds + np.where(active, seconds, 0)
        return verdict

    def _finish(self, finished: np.ndarray, diverged: np.ndarray) -> dict[int, Result]:
        """The results of these slots, with the weights of their best epochs."""
        count = len(finished)
        if not count:
            return {}
        begin = time.perf_counter()
        stack = self._stack(self.k[finished])
        rows = torch.from_numpy(finished).to(self.graphs.device)
        stack.load(self.state.best[rows])
        # As many graphs fit as in a training step of all slots: fewer members get larger chunks.
        chunk = Sizes.of(self.first.batch_size, self.parts).train
        chunk *= max(1, len(self.slots.running) // count)
        keys = self.keys[rows, 1]
        log_probability = predict(stack.model.eval(), self.graphs, count, keys, chunk)
        numbers = self.slots.running[finished].tolist()
        weights = stack.state_dicts([self.keep_weights(self.trainings[n]) for n in numbers])
        seconds = (time.perf_counter() - begin) / count
        return {
            number: self._result(
                slot, bool(diverged[slot]), log_probability[i], weights[i], seconds
            )
            for i, (slot, number) in enumerate(zip(finished.tolist(), numbers, strict=True))
        }

    def _result(
        self,
        slot: int,
        diverged: bool,
        log_probability: np.ndarray,
        weights: dict[str, Tensor] | None,
        seconds: float,
    ) -> Result:
        stopping = self.state.stopping
        # Without a best epoch, scores are NaN and the confusion is zero, as for an empty split.
        split = self.splits[slot] if stopping.best_epoch[slot] > 0 else _NO_GRAPHS
        confusion = np.zeros((self.graphs.num_classes,) * 2, np.int64)
        predicted = log_probability[split.test].argmax(1)
        np.add.at(confusion, (self.y[split.test], predicted), 1)
        return Result(
            training=self.trainings[self.slots.running[slot]],
            diverged=diverged,
            best_epoch=int(stopping.best_epoch[slot]),
            epochs=int(stopping.epoch[slot]),
            train=score(log_probability, self.y, split.train),
            validation=score(log_probability, self.y, split.validation),
            test=score(log_probability, self.y, split.test),
            confusion=confusion,
            curve=Curve(*np.array(self.state.curves[slot]).T.copy()),
            parameters=self.parameters,
            seconds=float(self.state.seconds[slot] + seconds),
            weights=weights,
        )
