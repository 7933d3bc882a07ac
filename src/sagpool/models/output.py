"""What a model says about a batch, and the classifier at its end."""

from typing import NamedTuple

from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.nn import Dropout, Linear, Pooled, Streams


class Output(NamedTuple):
    logits: Tensor  # [members, graphs, classes]; fillers have some too, to be ignored
    auxiliary: Tensor | None  # [members, graphs], losses that pooling layers add (DiffPool)
    levels: tuple[Pooled, ...]  # what each pooling kept, for methods that keep nodes


class Classifier(nn.Module):
    """The authors' MLP: to h, ReLU, dropout, to h / 2, ReLU, to the classes.

    Shapes:
        x: ``[members * graphs, in_channels]``, result: ``[members * graphs, classes]``
    """

    def __init__(
        self, in_channels: int, hidden: int, classes: int, *, dropout: float, members: int
    ) -> None:
        super().__init__()
        if hidden < 2:
            raise SagpoolError(f"The hidden size must be at least 2, not {hidden}.")
        self.first = Linear(in_channels, hidden, members=members)
        self.second = Linear(hidden, hidden // 2, members=members)
        self.last = Linear(hidden // 2, classes, members=members)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, streams: Streams) -> Tensor:
        x = self.dropout(self.first(x).relu(), streams)
        return self.last(self.second(x).relu())
