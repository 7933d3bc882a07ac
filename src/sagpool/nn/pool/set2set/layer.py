"""Set2Set."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.linear import Linear
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.nn.pool.set2set.attend import Segments, attend, attend_backward, attend_backward_rows
from sagpool.nn.pool.set2set.lstm import lstm_cell, lstm_cell_backward
from sagpool.ops.linear import product


class Set2Set(Pool):
    """Attention over the nodes of a graph, with queries from an LSTM (Vinyals et al., 2016).

    For each processing step: ``q = LSTM(q*)``, ``a = softmax(x_i · q)`` over the graph's nodes,
    ``r = Σ a_i x_i``, ``q* = q ‖ r``.

    Args:
        in_channels: size of each input row
        steps: number of processing steps (the paper uses 10)
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[members * graphs, 2 * in_channels]``
    """

    leaves = "graphs"

    def __init__(self, in_channels: int, *, steps: int = 10, members: int = 1) -> None:
        super().__init__()
        if steps < 1:
            raise SagpoolError(f"Set2Set needs at least 1 processing step, not {steps}.")
        self.in_channels, self.steps = in_channels, steps
        self.from_input = Linear(2 * in_channels, 4 * in_channels, members=members)
        self.from_state = Linear(in_channels, 4 * in_channels, members=members)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels)  # as torch.nn.LSTM
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        # The state is also the first half of the input: one product with the sum of the weights is
        # two thirds of the work of two products.
        weight = self.from_input.weight + pad(self.from_state.weight, (0, 0, 0, self.in_channels))
        bias = self.from_input.bias + self.from_state.bias  # type: ignore[operator]
        layout = structure.layout
        segments = Segments(layout.node_ptr, layout.graph, layout.filler)
        out = _Process.apply(x, weight, bias, segments, self.steps, torch.is_grad_enabled())
        return Pooled(out, structure)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return np.ones_like(sizes)

    def can_record(self, dtype: torch.dtype) -> bool:
        return True

    def graph_channels(self) -> int:
        return 2 * self.in_channels


class _Process(Function):
    """All processing steps.

    With one function per step, autograd would allocate and add a gradient of x and of the weights
    for each step. Here each is computed once, from the saved results of all steps.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        segments: Segments,
        steps: int,
        with_grad: bool,
    ) -> Tensor:
        x = x.contiguous()
        members, graphs, channels = len(weight), (len(segments.ptr) - 1) // len(weight), x.shape[1]
        # Without the filler graphs, 128 graphs do not need an extra tile of a product.
        real = graphs - segments.filler
        slots = steps if with_grad else 1  # without a backward pass, steps reuse the buffers
        queries = x.new_empty(members, slots, graphs, 2 * channels)
        gates = x.new_empty(members, slots, graphs, 4 * channels)
        cells = x.new_empty(slots + 1, members, graphs, channels)
        cells[0] = 0
        traces: list[Tensor] = []  # two per step
        for step in range(steps):
            slot = step % slots
            state, attended = queries[:, slot].chunk(2, dim=2)
            if step == 0:  # there is no query yet; it would be zero
                gates[:, slot] = bias
            else:
                query = queries[:, (step - 1) % slots, :real]
                product(query, weight, bias, out=gates[:, slot, :real])
                gates[:, slot, real:] = 0
            old, new = cells[step % (slots + 1)], cells[(step + 1) % (slots + 1)]
            lstm_cell(gates[:, slot], old, new, state)
            trace = attend(x, state, segments, attended)
            if with_grad:
                traces += trace
        if with_grad:
            ctx.segments = segments
            ctx.save_for_backward(x, weight, queries, gates, cells, *traces)
        return queries[:, -1].reshape(-1, 2 * channels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, queries, gates, cells, *traces = ctx.saved_tensors
        steps, graphs = queries.shape[1:3]
        real = graphs - ctx.segments.filler
        grad_queries, grad_gates = torch.empty_like(queries), torch.empty_like(gates)
        grad_queries[:, -1] = grads[0].reshape(len(weight), graphs, -1)
        grad_cell = torch.zeros_like(cells[0])
        back = []
        for step in reversed(range(steps)):
            energy, level = traces[2 * step : 2 * step + 2]
            attended = queries[:, step].chunk(2, dim=2)[1]
            to_state, to_attended = grad_queries[:, step].chunk(2, dim=2)
            back.append(
                attend_backward(x, energy, level, attended, to_attended, to_state, ctx.segments)
            )
            lstm_cell_backward(
                gates[:, step], cells[step], to_state, grad_cell, grad_gates[:, step]
            )
            if step > 0:
                out = grad_queries[:, step - 1]
                to_gates = grad_gates[:, step, :real]
                product(to_gates, weight.transpose(1, 2), out=out[:, :real])
                out[:, real:] = 0
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            alpha, slope = (torch.stack(parts[::-1]) for parts in zip(*back, strict=True))
            state, to_attended = queries.chunk(2, dim=3)[0], grad_queries.chunk(2, dim=3)[1]
            grad_x = attend_backward_rows(alpha, slope, state, to_attended, ctx.segments)
        if ctx.needs_input_grad[1]:
            before = queries[:, :-1].flatten(1, 2)  # [members, (steps - 1) * graphs, 2 * channels]
            grad_weight = torch.bmm(before.transpose(1, 2), grad_gates[:, 1:].flatten(1, 2))
        return grad_x, grad_weight, grad_gates.sum((1, 2))[:, None], None, None, None
