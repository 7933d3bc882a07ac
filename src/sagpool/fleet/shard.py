"""`Shard`: the slots of a fleet that one thread trains."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import validate
from sagpool.fleet.recording import Recorder
from sagpool.fleet.stack import AdamState, Stack, adam_step
from sagpool.graphs import Batch, Graphs, pack
from sagpool.graphs.batch import NO_GRAPH, BatchSource, pack_on_device
from sagpool.nn import Streams
from sagpool.nn.pool import pools_of
from sagpool.nn.random import mix
from sagpool.ops import to_device


class Sizes(NamedTuple):
    """How many graphs of each member go through the model at a time."""

    train: int
    validation: int

    @staticmethod
    def of(batch_size: int, parts: int) -> "Sizes":
        """Those of a training whose batches are done in ``parts``."""
        train = -(-batch_size // parts)
        # Nothing is kept for a way back, so there is room for more graphs than in training. But
        # where parts are needed, single graphs may be large: better be careful.
        return Sizes(train, 4 * train if parts == 1 else train)


class Shard:
    """Members in lock-step. All tensors are rows of the fleet's, changed in place.

    Args:
        stack: the model, over the members' weights
        adam: their weights and averages
        lr: ``[members]``
        weight_decay: ``[members]``
        keys: ``[members, 2]`` of the streams for training and for evaluation
        sizes: how many graphs of each member go through the model at a time
        in_parts: whether batches have to be cut up for that
    """

    def __init__(
        self,
        stack: Stack,
        adam: AdamState,
        lr: Tensor,
        weight_decay: Tensor,
        keys: Tensor,
        sizes: Sizes,
        *,
        in_parts: bool,
    ) -> None:
        self.stack, self.adam, self.sizes = stack, adam, sizes
        self.lr, self.weight_decay, self.keys = lr, weight_decay, keys
        self.in_parts = in_parts
        self.loss_sum, self.graph_sum = torch.zeros_like(lr), torch.zeros_like(lr)
        self.recorder: Recorder | None = None
        self.validation: list[Batch] | None = None

    def epoch(
        self,
        graphs: Graphs,
        batches: np.ndarray,
        validation: Sequence[np.ndarray],
        between_steps: Callable[[], None],
    ) -> Tensor:
        """One epoch of all members.

        Args:
            graphs: the data set
            batches: ``[batches, members, batch size]`` graph numbers
            validation: for each member, its validation part; looked at when it has changed
            between_steps: called after each step

        Returns:
            ``[3, members]`` training loss, validation loss and validation accuracy
        """
        model = self.stack.model.train()
        for pool in pools_of(model):
            pool.refresh()  # a slot may have another member now
        self.loss_sum.zero_()
        self.graph_sum.zero_()
        step = self._step(graphs)
        for ids in batches:
            # Members with fewer graphs are padded at the end; the last batch is short for all.
            most = int((ids != NO_GRAPH).sum(1).max())
            step(ids[:, : max(1, most)])
            between_steps()
        model.eval()
        if self.validation is None:
            self.validation = [
                pack(graphs, [part[first : first + self.sizes.validation] for part in validation])
                for first in range(0, max(map(len, validation)), self.sizes.validation)
            ]
        seen = validate(model, self.validation, self.keys[:, 1])
        return torch.stack([self.loss_sum / self.graph_sum, seen.loss, seen.correct])

    def _step(self, graphs: Graphs) -> Callable[[np.ndarray], None]:
        """What trains on the graphs of a batch, ``[members, batch size]``."""
        if self.in_parts or not Recorder.works_for(self.stack.model, graphs):
            return partial(self._step_in_parts, graphs)
        if self.recorder is None:
            self.recorder = Recorder(self.stack.model, graphs)
        return partial(self.recorder, partial(self._step_on_device, graphs.batch_source))

    def _step_on_device(self, source: BatchSource, ids: Tensor, rows: int, entries: int) -> None:
        batch = pack_on_device(source, ids, rows, entries)
        count = batch.real.sum(1)
        output = self.stack.model(batch, Streams(self._step_keys()))
        loss = output.loss_sums(batch) / count.clamp(min=1)
        self._learn(loss.detach(), self.stack.gradients(loss.sum()), count)

    def _step_in_parts(self, graphs: Graphs, ids: np.ndarray) -> None:
        count = to_device((ids != NO_GRAPH).sum(1), self.lr.device)
        loss, grad = self._parts(graphs, ids, count.clamp(min=1))
        self._learn(loss, grad, count)

    def _learn(self, loss: Tensor, grad: Tensor, count: Tensor) -> None:
        adam_step(self.adam, grad, self.lr, self.weight_decay, count > 0)
        self.loss_sum += loss * count
        self.graph_sum += count

    def _step_keys(self) -> Tensor:
        """New random numbers for each step, from the member's key and its steps so far."""
        return mix(self.keys[:, 0] + mix(self.adam.steps + 1))

    def _parts(self, graphs: Graphs, ids: np.ndarray, count: Tensor) -> tuple[Tensor, Tensor]:
        """Loss ``[members]`` and gradients ``[members, numbers]`` of a batch, part by part.

        The loss is a mean over graphs. So with each part's sum divided by the ``count`` of the
        whole batch, losses and gradients add up to those of the whole.
        """
        keys = self._step_keys()
        loss = grad = None
        for first in range(0, ids.shape[1], self.sizes.train):
            batch = pack(graphs, ids[:, first : first + self.sizes.train])
            part = self.stack.model(batch, Streams(keys, first)).loss_sums(batch) / count
            part_grad = self.stack.gradients(part.sum())
            loss = part.detach() if loss is None else loss + part.detach()
            grad = part_grad if grad is None else grad.add_(part_grad)
        assert loss is not None
        assert grad is not None
        return loss, grad


def shards_of(members: int, device: torch.device) -> list[slice]:
    """The slots of each shard.

    A CPU has a shard for each of torch's threads: threads that share every small operation would
    spend much of their time waiting for each other.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    ends = np.linspace(0, members, min(threads, members) + 1).round().astype(int)
    return [slice(a, b) for a, b in pairwise(ends.tolist())]


def side_by_side(calls: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
    """The results of all calls, each in a thread of its own; none is left running."""
    if len(calls) == 1:
        return [calls[0]()]
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(
            len(calls), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            futures = [pool.submit(call) for call in calls]
            wait(futures)
    finally:
        torch.set_num_threads(before)  # the matrix library has one setting for all threads
    return [future.result() for future in futures]
