"""The trace of a forward pass: which nodes were kept at each level, with what score."""

from sagpool.explain.forward import explain, explain_many
from sagpool.explain.trace import Level, Trace

__all__ = ["Level", "Trace", "explain", "explain_many"]
