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
        """The sizes if each batch is cut into ``parts``."""
        train = -(-batch_size // parts)
        # Without a backward pass, more graphs fit than in training. But where parts are needed,
        # single graphs may be large, so the chunks stay small.
        return Sizes(train, 4 * train if parts == 1 else train)


class Shard:
    """Members in lock-step. All tensors are views of rows of the fleet's, changed in place.

    Args:
        stack: the model and the members' weights
        adam: their weights and Adam's averages
        lr: ``[members]``
        weight_decay: ``[members]``
        keys: ``[members, 2]`` of the random streams for training and for evaluation
        sizes: how many graphs of each member go through the model at a time
        in_parts: whether batches are larger than that
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
            validation: validation graphs of each member; read if the cached batches were dropped
            between_steps: called after each step

        Returns:
            ``[3, members]`` training loss, validation loss and validation accuracy
        """
        model = self.stack.model.train()
        for pool in pools_of(model):
            pool.refresh()  # a new member may have another k
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
                pack(graphs, [ids[first : first + self.sizes.validation] for ids in validation])
                for first in range(0, max(map(len, validation)), self.sizes.validation)
            ]
        losses = validate(model, self.validation, self.keys[:, 1])
        return torch.stack([self.loss_sum / self.graph_sum, losses.loss, losses.accuracy])

    def _step(self, graphs: Graphs) -> Callable[[np.ndarray], None]:
        """A function that trains on the graphs of a batch, ``[members, batch size]``."""
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
        """Add up the gradients of all parts for one step of Adam.

        The loss is a mean over graphs. So with the sum of each part divided by the count of the
        whole batch, losses and gradients add up to those of the whole.
        """
        count = to_device((ids != NO_GRAPH).sum(1), self.lr.device)
        divisor, keys = count.clamp(min=1), self._step_keys()
        loss = grad = None
        for first in range(0, ids.shape[1], self.sizes.train):
            batch = pack(graphs, ids[:, first : first + self.sizes.train])
            part = self.stack.model(batch, Streams(keys, first)).loss_sums(batch) / divisor
            part_grad = self.stack.gradients(part.sum())
            loss = part.detach() if loss is None else loss + part.detach()
            grad = part_grad if grad is None else grad.add_(part_grad)
        assert loss is not None
        assert grad is not None
        self._learn(loss, grad, count)

    def _learn(self, loss: Tensor, grad: Tensor, count: Tensor) -> None:
        adam_step(self.adam, grad, self.lr, self.weight_decay, count > 0)
        self.loss_sum += loss * count
        self.graph_sum += count

    def _step_keys(self) -> Tensor:
        """Keys of this step's random numbers, from each member's key and steps so far."""
        return mix(self.keys[:, 0] + mix(self.adam.steps + 1))


def shards_of(members: int, device: torch.device) -> list[slice]:
    """The slots of each shard: all on a GPU, one shard for each of torch's threads on a CPU.

    Threads that split every small operation would spend much of their time waiting for each other.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    ends = np.linspace(0, members, min(threads, members) + 1).round().astype(int)
    return [slice(a, b) for a, b in pairwise(ends.tolist())]


def side_by_side(calls: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
    """The results of all calls, each in its own thread; returns or raises when all have ended."""
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
        torch.set_num_threads(before)  # BLAS has one setting for all threads
    return [future.result() for future in futures]
