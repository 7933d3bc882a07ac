"""Dropout with a stream of its own for each member."""

from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.nn.streams import Streams


class Dropout(nn.Module):
    """Zeroes entries with probability p in training, and scales the others by 1 / (1 - p).

    Args:
        p: in [0, 1)

    Shapes:
        x: ``[members * graphs, channels]``
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise SagpoolError(f"The dropout rate must be at least 0 and below 1, not {p}.")
        self.p = p

    def forward(self, x: Tensor, streams: Streams) -> Tensor:
        if not self.training or self.p == 0:
            return x
        members = len(streams.keys)
        # A part of a batch draws what its graphs draw in the whole of it.
        start = streams.first_graph * x.shape[1]
        kept = streams.uniform(x.numel() // members, start).view_as(x) >= self.p
        return x * (kept.to(x.dtype) / (1 - self.p))
