"""Simple models: counts of whole graphs with a linear model or a forest."""

from sagpool.classifier.simple.model import SimpleModel, fit_simple, simple_names

__all__ = ["SimpleModel", "fit_simple", "simple_names"]
