"""The paper's two architectures, and the methods by name."""

from sagpool.models.global_pooling import GlobalPooling
from sagpool.models.hierarchical import HierarchicalPooling
from sagpool.models.output import Classifier, Output
from sagpool.models.registry import Shape, build, count_parameters, methods, register, sort_k

__all__ = [
    "Classifier",
    "GlobalPooling",
    "HierarchicalPooling",
    "Output",
    "Shape",
    "build",
    "count_parameters",
    "methods",
    "register",
    "sort_k",
]
