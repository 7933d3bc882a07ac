"""The paper's readout layer."""

from torch import Tensor

from sagpool.ops import Rows, segment_mean_max


def readout(x: Tensor, adjacency: Rows) -> Tensor:
    """``s = 1/N Σ x_i ‖ max x_i`` over the nodes of each graph (the paper's Equation 11).

    Args:
        x: ``[rows, channels]``
        adjacency: says which rows belong to which graph

    Returns:
        ``[members * graphs, 2 * channels]``
    """
    return segment_mean_max(x, adjacency.node_ptr, adjacency.graph)
