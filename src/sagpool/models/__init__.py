"""Architectures, and the registry of methods."""

from sagpool.models import (
    clustering_methods,  # noqa: F401, registers its methods
    sparse_methods,  # noqa: F401, registers methods
)
from sagpool.models.architectures import Classifier, GlobalPooling, HierarchicalPooling, Output
from sagpool.models.methods import global_, hierarchical, sort_k
from sagpool.models.plugins import load_plugin, loaded_plugins
from sagpool.models.pyg_methods import register_pyg
from sagpool.models.registry import (
    Display,
    Shape,
    Value,
    build,
    count_parameters,
    method_settings,
    method_version,
    methods,
    register,
)
from sagpool.models.sagnet import GIN, SAGNet

__all__ = [
    "GIN",
    "Classifier",
    "Display",
    "GlobalPooling",
    "HierarchicalPooling",
    "Output",
    "SAGNet",
    "Shape",
    "Value",
    "build",
    "count_parameters",
    "global_",
    "hierarchical",
    "load_plugin",
    "loaded_plugins",
    "method_settings",
    "method_version",
    "methods",
    "register",
    "register_pyg",
    "sort_k",
]
