"""Graph classification with pooling: Self-Attention Graph Pooling and its peers."""

from importlib import import_module
from typing import TYPE_CHECKING

from sagpool.errors import SagpoolError

if TYPE_CHECKING:
    from sagpool.classifier.auto_estimator import AutoGraphClassifier, AutoGraphRegressor
    from sagpool.classifier.estimator import (
        GraphPoolingClassifier,
        GraphPoolingRegressor,
        SAGPoolClassifier,
        SAGPoolRegressor,
    )
    from sagpool.classifier.model import TrainedModel
    from sagpool.explain import explain  # the package, which is called like its main function
    from sagpool.graphs import Graphs, load

__version__ = "0.1.0.dev0"

__all__ = [
    "AutoGraphClassifier",
    "AutoGraphRegressor",
    "GraphPoolingClassifier",
    "GraphPoolingRegressor",
    "Graphs",
    "SAGPoolClassifier",
    "SAGPoolRegressor",
    "SagpoolError",
    "TrainedModel",
    "__version__",
    "explain",
    "load",
]

_MODULES = {
    "AutoGraphClassifier": "sagpool.classifier.auto_estimator",
    "AutoGraphRegressor": "sagpool.classifier.auto_estimator",
    "GraphPoolingClassifier": "sagpool.classifier.estimator",
    "GraphPoolingRegressor": "sagpool.classifier.estimator",
    "Graphs": "sagpool.graphs",
    "SAGPoolClassifier": "sagpool.classifier.estimator",
    "SAGPoolRegressor": "sagpool.classifier.estimator",
    "TrainedModel": "sagpool.classifier.model",
    "load": "sagpool.graphs",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, because torch takes seconds to import."""
    if name == "explain":
        return import_module("sagpool.explain")
    if name not in _MODULES:
        raise AttributeError(f"module 'sagpool' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
