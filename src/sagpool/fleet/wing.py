"""`Wing`: the slots of a fleet that one thread trains."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.adam import AdamState, adam_step
from sagpool.fleet.evaluate import member_losses, validate
from sagpool.fleet.stack import Stack
from sagpool.graphs import Batch, Graphs, pack
from sagpool.nn import Streams
from sagpool.nn.streams import mix


class Wing:
    """Members in lock-step. All tensors are rows of the fleet's, changed in place.

    Args:
        stack: the model, over the members' weights
        adam: their weights and averages
        lr: ``[members]``
        weight_decay: ``[members]``
        keys: ``[members, 2]`` of the streams for training and for evaluation
    """

    def __init__(
        self, stack: Stack, adam: AdamState, lr: Tensor, weight_decay: Tensor, keys: Tensor
    ) -> None:
        self.stack, self.adam = stack, adam
        self.lr, self.weight_decay, self.keys = lr, weight_decay, keys
        self.validation: Batch | None = None

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
        loss_sum = torch.zeros_like(self.lr)
        graph_sum = torch.zeros_like(self.lr)
        for ids in batches:
            batch = pack(graphs, ids)
            # New random numbers for each step, from the member's key and its steps so far.
            streams = Streams(mix(self.keys[:, 0] + mix(self.adam.steps + 1)))
            loss = member_losses(model(batch, streams), batch)
            grad = self.stack.gradients(loss.sum())
            count = batch.real.sum(1)
            adam_step(self.adam, grad, self.lr, self.weight_decay, count > 0)
            loss_sum += loss.detach() * count
            graph_sum += count
            between_steps()
        model.eval()
        if self.validation is None:
            self.validation = pack(graphs, validation)
        seen = validate(model, self.validation, Streams(self.keys[:, 1]))
        return torch.stack([loss_sum / graph_sum, seen.loss, seen.correct])


def wings_of(members: int, device: torch.device) -> list[slice]:
    """The slots of each wing.

    A CPU has a wing for each of torch's threads: threads that share every small operation would
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
