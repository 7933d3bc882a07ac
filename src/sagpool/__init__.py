"""Graph classification with pooling: Self-Attention Graph Pooling and its peers."""

from importlib import import_module
from typing import TYPE_CHECKING

from sagpool.errors import SagpoolError

if TYPE_CHECKING:
    from sagpool import explain
    from sagpool.estimator import GraphPoolingClassifier, SAGPoolClassifier
    from sagpool.graphs import Graphs, load
    from sagpool.trained import TrainedModel

__version__ = "0.1.0.dev0"

__all__ = [
    "GraphPoolingClassifier",
    "Graphs",
    "SAGPoolClassifier",
    "SagpoolError",
    "TrainedModel",
    "__version__",
    "explain",
    "load",
]

_HOMES = {
    "GraphPoolingClassifier": "sagpool.estimator",
    "Graphs": "sagpool.graphs",
    "SAGPoolClassifier": "sagpool.estimator",
    "TrainedModel": "sagpool.trained",
    "load": "sagpool.graphs",
}


def __getattr__(name: str) -> object:
    """Load what is asked for when it is asked for: torch alone takes seconds."""
    if name == "explain":
        return import_module("sagpool.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'sagpool' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
