"""Any network as a regression: it learns standardised targets and predicts in their units."""

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Batch, Graphs
from sagpool.models.architectures import Output
from sagpool.nn import FromGraphs, Streams
from sagpool.nn.from_graphs import mean_and_scale


class Rescaled(FromGraphs):
    """``μ + σ ⊙ model(batch)``, with mean μ and standard deviation σ of the training targets.

    Args:
        model: the network
        outputs: its number of outputs
        members: how many models train side by side
    """

    from_graphs = ("mean", "spread")

    def __init__(self, model: nn.Module, outputs: int, *, members: int = 1) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.empty(members, 1, outputs))  # μ
        self.spread = nn.Parameter(torch.empty(members, 1, outputs))  # σ
        self.model = model
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.mean)
        nn.init.ones_(self.spread)

    @property
    def in_channels(self) -> int:
        return int(self.model.in_channels)  # type: ignore[arg-type]

    def start_from(self, graphs: Graphs, train: np.ndarray) -> dict[str, Tensor]:
        if graphs.targets is None:
            raise SagpoolError(f"{graphs.name} has no targets to learn.")
        mean, scale = mean_and_scale(graphs.targets.cpu()[train])
        return {"mean": mean, "spread": 1 / scale}

    def forward(self, batch: Batch, streams: Streams | None = None) -> Output:
        output: Output = self.model(batch, streams)
        values = torch.addcmul(self.mean, output.logits, self.spread)
        return output._replace(logits=values, spread=self.spread)
