"""Graph convolutions, by name."""

from sagpool.errors import SagpoolError
from sagpool.nn.conv.cheb import ChebConv
from sagpool.nn.conv.conv import Activated, Conv, HiddenLevel, InputLevel, Level
from sagpool.nn.conv.gat import GATConv
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.conv.gin import GINConv
from sagpool.nn.conv.mlp import MLPConv
from sagpool.nn.conv.sage import SAGEConv
from sagpool.nn.conv.triangle import TriangleConv

__all__ = [
    "CONVS",
    "Activated",
    "ChebConv",
    "Conv",
    "GATConv",
    "GCNConv",
    "GINConv",
    "HiddenLevel",
    "InputLevel",
    "Level",
    "MLPConv",
    "SAGEConv",
    "TriangleConv",
    "find_conv",
]

CONVS: dict[str, type[Conv]] = {
    "gcn": GCNConv,
    "cheb": ChebConv,
    "sage": SAGEConv,
    "gat": GATConv,
    "gin": GINConv,
    "mlp": MLPConv,
    "triangle": TriangleConv,
}


def find_conv(name: str) -> type[Conv]:
    if name not in CONVS:
        raise SagpoolError(f"Unknown convolution '{name}'; choose from {', '.join(CONVS)}.")
    return CONVS[name]
