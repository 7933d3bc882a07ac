"""Set2Set."""

import math

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.linear import Linear
from sagpool.ops import segment_expand, segment_softmax, segment_sum


class Set2Set(nn.Module):
    """Attention over the nodes of a graph, steered by an LSTM (Vinyals et al., 2016).

    For each processing step: ``q = LSTM(q*)``, ``a = softmax(x_i · q)`` over the graph's nodes,
    ``r = Σ a_i x_i``, ``q* = q ‖ r``.

    Args:
        in_channels: size of each input row
        steps: number of processing steps (the paper uses 10)
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[members * graphs, 2 * in_channels]``
    """

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

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        ptr, graph = adjacency.node_ptr, adjacency.graph
        state = cell = x.new_zeros(adjacency.sizes.size, self.in_channels)
        query = x.new_zeros(adjacency.sizes.size, 2 * self.in_channels)
        for _ in range(self.steps):
            gates = self.from_input(query) + self.from_state(state)
            keep_in, forget, new, out = gates.chunk(4, dim=1)
            cell = forget.sigmoid() * cell + keep_in.sigmoid() * new.tanh()
            state = out.sigmoid() * cell.tanh()
            energy = (x * segment_expand(state, ptr, graph)).sum(1, keepdim=True)
            attended = segment_sum(segment_softmax(energy, ptr, graph) * x, ptr, graph)
            query = torch.cat([state, attended], dim=1)
        return query
