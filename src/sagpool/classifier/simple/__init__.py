"""Simple models: counts of whole graphs with a linear model or a forest."""

from sagpool.classifier.simple.contributions import Contribution, Explained, Importance
from sagpool.classifier.simple.model import SimpleModel, fit_simple, simple_names

__all__ = [
    "Contribution",
    "Explained",
    "Importance",
    "SimpleModel",
    "fit_simple",
    "simple_names",
]
