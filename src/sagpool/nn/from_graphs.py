"""Layers with parameters that come from the training graphs, for standardisation."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Graphs
from sagpool.ops import Layout, asinh


class FromGraphs(nn.Module, ABC):
    """A layer with parameters that are statistics of the training graphs, such as their mean.

    A fleet sets them for each member before the first step, only from that member's training part.
    They are saved and loaded like all weights, but training does not change them: steps of the
    learning rate, or weight decay, have no meaning on the scale of measurements.
    """

    from_graphs: ClassVar[tuple[str, ...]]  # names of these parameters

    @abstractmethod
    def start_from(self, graphs: Graphs, train: np.ndarray) -> dict[str, Tensor]:
        """The values of these parameters for one member, by name.

        Args:
            graphs: the data set
            train: the graphs that the member trains on
        """


def layers_from_graphs(model: nn.Module) -> dict[str, FromGraphs]:
    """The layers of a model that start from the training graphs, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, FromGraphs)}


class Standardise(FromGraphs):
    """``asinh((x - μ) ⊙ s)``, with μ and s = 1 / σ of a new model's rows for training graphs.

    Has the benefits of batch normalisation without its dependence on the other graphs of a batch:
    channels begin with the same scale, and outliers are small, because asinh is logarithmic there.
    A fleet runs the new model once on some of the training graphs to get μ and σ.

    Args:
        channels: size of each row
        members: how many models train side by side

    Shapes:
        x: ``[members * graphs, channels]``, result: the same
    """

    from_graphs = ("mean", "scale")

    def __init__(self, channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.empty(members, 1, channels))  # μ
        self.scale = nn.Parameter(torch.empty(members, 1, channels))  # s
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.mean)
        nn.init.ones_(self.scale)

    def start_from(self, graphs: Graphs, train: np.ndarray) -> dict[str, Tensor]:
        channels = self.mean.shape[2]
        return {"mean": torch.zeros(channels), "scale": torch.ones(channels)}

    def start_from_rows(self, x: Tensor) -> dict[str, Tensor]:
        """The values for one member, from the inputs of the layer, ``[graphs, channels]``."""
        mean, scale = mean_and_scale(x)
        return {"mean": mean, "scale": scale}

    def forward(self, x: Tensor) -> Tensor:
        members, _, channels = self.mean.shape
        stacked = x.view(members, -1, channels)  # [members, graphs, channels]
        return asinh((stacked - self.mean) * self.scale).view_as(x)


class StandardisedLinear(FromGraphs):
    """``y = ((x - μ) ⊙ s) W + b``, with μ and s = 1 / σ of the nodes of the training graphs.

    Columns of measurements (`Graphs.continuous`) use their mean and standard deviation; the other
    columns, labels and counts, use 0 and 1.

    Args:
        in_channels: size of each input row
        out_channels: size of each output row
        members: how many models train side by side

    Shapes:
        x: ``[members * rows, in_channels]``, result: ``[members * rows, out_channels]``
    """

    from_graphs = ("mean", "scale")

    def __init__(self, in_channels: int, out_channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.empty(members, 1, in_channels))  # μ
        self.scale = nn.Parameter(torch.empty(members, 1, in_channels))  # s
        self.weight = nn.Parameter(torch.empty(members, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(members, 1, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.mean)
        nn.init.ones_(self.scale)
        nn.init.uniform_(self.weight, -0.5, 0.5)  # most columns of a row are zero
        nn.init.zeros_(self.bias)

    def start_from(self, graphs: Graphs, train: np.ndarray) -> dict[str, Tensor]:
        mean, scale = torch.zeros(graphs.num_features), torch.ones(graphs.num_features)
        if graphs.continuous and graphs.node_attr is not None:
            measured = graphs[train].node_attr[:, : graphs.continuous]  # type: ignore[index]
            own = mean_and_scale(measured)
            mean[: graphs.continuous], scale[: graphs.continuous] = own
        return {"mean": mean, "scale": scale}

    def forward(self, x: Tensor) -> Tensor:
        # Applied to the weights: they are fewer than the rows, which then need no gradient.
        members, fan_in, fan_out = self.weight.shape
        weight = self.scale.mT * self.weight
        bias = self.bias - torch.bmm(self.mean, weight)
        return torch.baddbmm(bias, x.view(members, -1, fan_in), weight).view(-1, fan_out)


class SumMeanMax(FromGraphs):
    """Sum ‖ mean ‖ max over the nodes of each graph, the sum in units of an average graph.

    The sum is divided by the mean number of nodes of the training graphs. So it still counts nodes,
    but has the scale of a mean for any data set.

    Args:
        members: how many models train side by side

    Shapes:
        mean_max: ``[members * graphs, 2 * channels]``, mean ‖ max of each graph
        result: ``[members * graphs, 3 * channels]``
    """

    from_graphs = ("scale",)

    def __init__(self, *, members: int = 1) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(members, 1, 1))  # 1 / nodes of an average graph
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scale)

    def start_from(self, graphs: Graphs, train: np.ndarray) -> dict[str, Tensor]:
        return {"scale": torch.tensor([1 / graphs.node_counts[train].mean()])}

    def forward(self, mean_max: Tensor, layout: Layout) -> Tensor:
        mean = mean_max[:, : mean_max.shape[1] // 2]
        nodes = layout.node_ptr.diff().view(layout.members, layout.graphs, 1).to(mean.dtype)
        scaled = mean.view(layout.members, layout.graphs, -1) * (nodes * self.scale)
        return torch.cat([scaled.view_as(mean), mean_max], 1)


def mean_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation of each column, without NaN; 0 and 1 for empty columns.

    A constant column has the scale 1.
    """
    values = values.cpu().double()
    known = ~values.isnan()
    count = known.sum(0).clamp(min=1)
    mean = torch.where(known, values, 0).sum(0) / count
    spread = (torch.where(known, values - mean, 0).square().sum(0) / count).sqrt()
    # Equal numbers may differ by rounding.
    varies = spread > 1e-5 * mean.abs() + 1e-30
    return mean.float(), torch.where(varies, 1 / spread, 1).float()
