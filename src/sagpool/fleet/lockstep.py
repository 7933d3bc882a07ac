"""`Lockstep`: one epoch of all members of a fleet, step by step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import Losses, validate
from sagpool.fleet.order import DeviceBatches, Padded, on_device
from sagpool.fleet.profile import Profile
from sagpool.fleet.recorded_size import GraphSizes
from sagpool.fleet.recording import Pass, Recorder, RecordingMemory
from sagpool.fleet.stack import AdamState, Stack, adam_step
from sagpool.fleet.stopping import LOSS, DeviceStopping, Rule
from sagpool.fleet.validation_metrics import SeenOutputs, as_loss
from sagpool.graphs import Batch, Graphs, pack
from sagpool.graphs.batch import NO_GRAPH, as_matrix, pack_on_device
from sagpool.nn import Streams
from sagpool.nn.pool import pools_of
from sagpool.nn.random import step_keys
from sagpool.ops import to_device
from sagpool.ops.device import kernels_for


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


class _Validation(NamedTuple):
    """The validation graphs of all members, in chunks that fit into memory."""

    chunks: dict[int, Batch | DeviceBatches]  # by the position of the first graph
    together: DeviceBatches | None  # all of them, if passes are recorded


class Lockstep:
    """Trains and validates the members. The fleet's tensors are changed in place.

    Args:
        graphs: the data set
        stack: the model and the members' weights
        adam: their weights and Adam's averages
        best: ``[members, numbers]``, weights of the best epochs
        stopping: when members stop
        lr: ``[members]``
        weight_decay: ``[members]``
        keys: ``[members, 2]`` keys of the random streams for training and for evaluation
        sizes: how many graphs of each member go through the model at a time
        in_parts: whether batches are larger than ``sizes`` and cut into parts
        whole: whether to record whole epochs, because the steps are too short to copy each batch
            alone
        memory: shared by the recordings
        profile: collects where the time goes
        rule: decides when members stop
        graph_sizes: sizes of the graphs that batches are made of, by default of all graphs
        class_weight: ``[members, classes]``, if classes have weights
    """

    def __init__(
        self,
        graphs: Graphs,
        stack: Stack,
        adam: AdamState,
        best: Tensor,
        stopping: DeviceStopping,
        lr: Tensor,
        weight_decay: Tensor,
        keys: Tensor,
        sizes: Sizes,
        *,
        in_parts: bool,
        whole: bool,
        memory: RecordingMemory,
        profile: Profile,
        rule: Rule = LOSS,
        graph_sizes: GraphSizes | None = None,
        class_weight: Tensor | None = None,
    ) -> None:
        self.graphs, self.stack, self.adam, self.sizes = graphs, stack, adam, sizes
        self.best, self.stopping, self.rule = best, stopping, rule
        self.graph_sizes, self.class_weight = graph_sizes, class_weight
        self.lr, self.weight_decay, self.keys = lr, weight_decay, keys
        self.in_parts, self.whole, self.memory, self.profile = in_parts, whole, memory, profile
        # [2, members] sums over an epoch: training losses, graphs
        self.sums = lr.new_zeros(2, len(lr))
        self.curves = lr.new_zeros(3, len(lr))
        self.pools = pools_of(stack.model)
        self.losses = Losses.zeros(keys[:, 1], stack.weights.dtype)
        self.seen = None
        if rule.metric:
            self.seen = SeenOutputs(graphs, len(lr), stack.weights.dtype)
        self.recorders: dict[tuple[str, int], Recorder] = {}
        self.validation: _Validation | None = None

    def epoch(
        self,
        batches: DeviceBatches,
        validation: Sequence[np.ndarray],
        between_steps: Callable[[], None],
    ) -> Tensor:
        """One epoch of all members.

        Args:
            batches: the training graphs
            validation: validation graphs of each member; read if `forget_validation` was called
            between_steps: called after each step

        Returns:
            ``[3, members]`` training loss, validation loss (as the rule for stopping sees it) and
            validation accuracy
        """
        for pool in self.pools:
            pool.refresh(self.lr.device, len(self.lr))  # a new member may have a different k
        self.sums.zero_()
        self.losses.reset()
        if self.seen is not None:
            self.seen.reset()
        if self.whole and self._records:
            self._whole_epoch(batches, validation)
            between_steps()
            return self.curves
        for step in self._steps(batches):
            step()
            between_steps()
        for first, chunk in self._validation_of(validation).chunks.items():
            self._validate(first, chunk)
        self._end_epoch()
        return self.curves

    def forget_validation(self) -> None:
        """Call this when members, and so their validation graphs, have changed."""
        self.validation = None

    def _recorder(self, kind: str, first: int = 0) -> Recorder:
        """The recorder for passes of one kind over graphs from this position on."""
        if (kind, first) not in self.recorders:
            self.recorders[kind, first] = Recorder(
                *(self.stack.model, self.graphs, self.memory, self.profile),
                *(kind, self.graph_sizes),
            )
        return self.recorders[kind, first]

    @property
    def _records(self) -> bool:
        return not self.in_parts and Recorder.works_for(self.stack.model, self.graphs)

    def _whole_epoch(self, batches: DeviceBatches, validation: Sequence[np.ndarray]) -> None:
        """All steps and the validation in one recording, with all batches copied at once."""
        chunks, together = self._validation_of(validation)
        assert together is not None
        *firsts, last = chunks
        passes: list[Pass] = [
            *[self._step_on_device] * len(batches.shapes),
            *(partial(self._validate_on_device, first) for first in firsts),
            partial(self._validate_and_end, last),
        ]
        self._recorder("steps")(passes, batches.followed_by(together))

    def _validate_and_end(self, first: int, padded: Padded) -> None:
        self._validate_on_device(first, padded)
        self._end_epoch()

    def _end_epoch(self) -> None:
        loss, count = self.sums
        validation, accuracy = self.losses.means()
        if self.rule.adds_norm:
            validation = validation + self.weight_decay * self.stack.norms()
        if self.seen is not None:
            metric = as_loss(self.rule.metric, self.seen.value(self.rule.metric))
            validation = torch.where(validation.isfinite(), metric, validation.double())
        torch.stack([loss / count, validation, accuracy], out=self.curves)
        self.stopping.update(self.curves, self.stack.weights, self.best, self.rule)

    def _steps(self, batches: DeviceBatches) -> list[Callable[[], None]]:
        """A list of functions, each of which trains on one batch."""
        if self._records:
            recorder = self._recorder("steps")
            return [partial(recorder, [self._step_on_device], batch) for batch in batches.each()]
        return [partial(self._timed_step, ids) for ids in batches.on_host()]

    def _timed_step(self, ids: np.ndarray) -> None:
        with self.profile.spent("steps"):
            self._step_in_parts(ids)

    def _step_on_device(self, padded: Padded) -> None:
        batch = pack_on_device(self.graphs.batch_source, *padded)
        count = batch.real.sum(1)
        output = self.stack.model.train()(batch, Streams(self._step_keys()))
        loss = output.loss_sums(batch, self.class_weight) / count.clamp(min=1)
        self._learn(loss.detach(), self.stack.gradients(loss), count)

    def _step_in_parts(self, ids: np.ndarray) -> None:
        """Add up the gradients of all parts for one step of Adam.

        The loss is a mean over graphs. So with the sum of each part divided by the count of the
        whole batch, losses and gradients add up to those of the whole.
        """
        count = to_device((ids != NO_GRAPH).sum(1), self.lr.device)
        divisor, keys, model = count.clamp(min=1), self._step_keys(), self.stack.model.train()
        loss = grad = None
        for first in range(0, ids.shape[1], self.sizes.train):
            batch = pack(self.graphs, ids[:, first : first + self.sizes.train])
            output = model(batch, Streams(keys, first))
            part = output.loss_sums(batch, self.class_weight) / divisor
            part_grad = self.stack.gradients(part)
            loss = part.detach() if loss is None else loss + part.detach()
            grad = part_grad if grad is None else grad.add_(part_grad)
        assert loss is not None
        assert grad is not None
        self._learn(loss, grad, count)

    def _learn(self, loss: Tensor, grad: Tensor, count: Tensor) -> None:
        with self.stack.keeping_fixed():
            adam_step(self.adam, grad, self.lr, self.weight_decay, count > 0)
        if (kernels := kernels_for(loss)) is not None:
            kernels.add_losses(self.sums, loss, count)
        else:
            self.sums.add_(torch.stack([loss * count, count]))

    def _step_keys(self) -> Tensor:
        return step_keys(self.keys[:, 0], self.adam.steps)

    def _validation_of(self, ids: Sequence[np.ndarray]) -> _Validation:
        if self.validation is None:
            self.validation = self._in_chunks(ids)
        return self.validation

    def _in_chunks(self, ids: Sequence[np.ndarray]) -> _Validation:
        size = self.sizes.validation
        firsts = range(0, max(map(len, ids)), size)
        chunks = [as_matrix([of_member[f : f + size] for of_member in ids]) for f in firsts]
        if not self._records:
            packed = [pack(self.graphs, chunk) for chunk in chunks]
            return _Validation(dict(zip(firsts, packed, strict=True)), None)
        # The validation parts of folds differ by a graph or two; padded, one recording fits all.
        padded = [
            np.pad(chunk, ((0, 0), (0, -chunk.shape[1] % 16)), constant_values=NO_GRAPH)
            for chunk in chunks
        ]
        together = on_device(self.graphs, padded)
        return _Validation(dict(zip(firsts, together.each(), strict=True)), together)

    def _validate(self, first: int, chunk: Batch | DeviceBatches) -> None:
        if isinstance(chunk, DeviceBatches):
            self._recorder("evaluation", first)([partial(self._validate_on_device, first)], chunk)
        else:
            with self.profile.spent("evaluation"):
                self._validate_batch(first, chunk)

    def _validate_on_device(self, first: int, padded: Padded) -> None:
        self._validate_batch(first, pack_on_device(self.graphs.batch_source, *padded))

    def _validate_batch(self, first: int, batch: Batch) -> None:
        streams = Streams(self.keys[:, 1], first)
        model = self.stack.model.eval()
        logits = validate(model, batch, streams, self.losses, self.class_weight)
        if self.seen is not None:
            self.seen.add(first, logits, batch)
