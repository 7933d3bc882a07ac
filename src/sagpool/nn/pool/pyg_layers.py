"""PyG's ``SAGPooling`` and ``TopKPooling`` on our operators: the same call, weights and results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Structure
from sagpool.nn.pool.gpool import unit
from sagpool.nn.pool.pool import Context
from sagpool.nn.pool.pyg_scores import pyg_product_score, pyg_score_weight, pyg_scores
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Activation, Scores, gated, is_tanh
from sagpool.nn.pool.selection import Ratio, Selection
from sagpool.ops.pool_by_product import ProductScore


class PyGPool(ScorePool):
    """The common base: PyG's modules that hold the weight and the options."""

    select: Any  # PyG's SelectTopK
    connect: Any  # PyG's FilterEdges

    def __init__(
        self, in_channels: int, ratio: Ratio | None, min_score: float | None, multiplier: float
    ) -> None:
        # PyG reads 1.0 as a number of nodes too, contrary to its documentation.
        k = int(ratio) if ratio is not None and ratio >= 1 else None
        super().__init__(
            in_channels,
            ratio if k is None else None,
            k=k,
            min_score=min_score,
            multiplier=multiplier,
        )
        self.ratio = ratio

    def set_parts(self, select: nn.Module, connect: nn.Module) -> None:
        self.select, self.connect = select, connect
        ratio, fraction = self.selection.ratio, self.selection.fraction
        # Products with fractions like 0.5 are exact in floating point.
        if self.selection.k is None and float(np.float32(ratio)) != fraction:
            self.selection = RoundedSelection(ratio, dtype_of=select)

    def direction(self) -> Tensor:
        """``[1, channels]``, the weight of the select part; of length 1 without a min_score."""
        weight = self.select.weight
        return weight if self.min_score is not None else unit(weight)

    def __repr__(self) -> str:
        name = "ratio" if self.min_score is None else "min_score"
        gnn = f"{type(self.gnn).__name__}, " if isinstance(self, SAGPooling) else ""
        options = f"{self.in_channels}, {name}={getattr(self, name)}, multiplier={self.multiplier}"
        return f"{type(self).__name__}({gnn}{options})"


class SAGPooling(PyGPool):
    """PyG's ``SAGPooling``: `SAGPool` with PyG's defaults and its second weight.

    ``Z = tanh(w/|w| GNN(X, A))``, or with a min_score ``Z = softmax(w GNN(X, A))``. Arguments,
    attributes and the state dict are PyG's.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes to keep; from 1 on, the number of nodes
        GNN: a convolution of PyG, called ``GNN(in_channels, 1, **kwargs)``; None for GraphConv
        min_score: keep the nodes whose softmax score is above this instead
        multiplier: factor of the rows that are kept
        nonlinearity: in place of tanh, a function or its name in PyG
        **kwargs: arguments of the GNN

    Shapes:
        ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a `PoolOutput`
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | None = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Activation = "tanh",
        **kwargs: Any,
    ) -> None:
        from torch_geometric.nn import GraphConv

        super().__init__(in_channels, ratio, min_score, multiplier)
        # In PyG's order, and twice, so that the same seed gives the same weights.
        self.gnn = (GNN or GraphConv)(in_channels, 1, **kwargs)
        self.set_parts(*_parts(1, ratio, min_score, nonlinearity))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.gnn.reset_parameters()  # type: ignore[operator]
        self.select.reset_parameters()

    def score_weight(self) -> Tensor | None:
        return pyg_score_weight(self.gnn)

    def product_score(self) -> ProductScore | None:
        known = pyg_product_score(self.gnn)
        usual = is_tanh(self.select.act) and type(self).scores is SAGPooling.scores
        if known is None or not usual:
            return None
        sign = self.direction().view(())
        bias = None if known.bias is None else known.bias * sign
        return ProductScore(known.weight * sign, bias, neighbours=True)

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        raw = pyg_scores(self.gnn, x, self.product_of(x, context), structure, context.edges)
        return gated(raw * self.direction().view(-1), self.select.act, self.min_score)


class TopKPooling(PyGPool):
    """PyG's ``TopKPooling``: `GPool` with PyG's attributes and state dict.

    ``Z = tanh(X p / ‖p‖)``, or with a min_score ``Z = softmax(X p)``.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes to keep; from 1 on, the number of nodes
        min_score: keep the nodes whose softmax score is above this instead
        multiplier: factor of the rows that are kept
        nonlinearity: in place of tanh, a function or its name in PyG

    Shapes:
        ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a `PoolOutput`
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Activation = "tanh",
    ) -> None:
        super().__init__(in_channels, ratio, min_score, multiplier)
        self.set_parts(*_parts(in_channels, ratio, min_score, nonlinearity))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.select.reset_parameters()

    def score_weight(self) -> Tensor:
        return self.direction().view(1, -1, 1)

    def product_score(self) -> ProductScore | None:
        usual = is_tanh(self.select.act) and type(self).scores is TopKPooling.scores
        return ProductScore(self.direction(), None, neighbours=False) if usual else None

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        product = self.product_of(x, context)
        assert product is not None
        return gated(product.view(-1), self.select.act, self.min_score)


def _parts(
    channels: int,
    ratio: Ratio | None,
    min_score: float | None,
    nonlinearity: str | Activation,
) -> tuple[nn.Module, nn.Module]:
    from torch_geometric.nn.pool.connect import FilterEdges
    from torch_geometric.nn.pool.select import SelectTopK

    return SelectTopK(channels, ratio, min_score, nonlinearity), FilterEdges()


@dataclass(eq=False)
class RoundedSelection(Selection):
    """PyG's number of nodes: ⌈ratio · N⌉ with the rounding of the scores' type.

    Args:
        dtype_of: a layer whose weight has the type of the scores
    """

    dtype_of: Any = None

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        nodes = torch.tensor(sizes, dtype=self.dtype_of.weight.dtype)
        return np.minimum((float(self.ratio) * nodes).ceil().long().numpy(), sizes)

    @property
    def rounds(self) -> bool:
        return True

    @property
    def one_k_per_member(self) -> bool:
        return False  # a kernel that counts on the device would use the exact fraction
