"""Graph classification with pooling: Self-Attention Graph Pooling and its peers."""

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, load

__version__ = "0.1.0.dev0"

__all__ = ["Graphs", "SagpoolError", "__version__", "load"]
