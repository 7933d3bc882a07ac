"""The trace of a forward pass: which nodes were kept at each level, with what score."""

import sys
from types import ModuleType
from typing import Any

from sagpool.explain.fidelity import Fidelity, fidelity
from sagpool.explain.forward import explain, explain_many
from sagpool.explain.trace import Level, Trace

__all__ = ["Fidelity", "Level", "Trace", "explain", "explain_many", "fidelity"]


class _Callable(ModuleType):
    def __call__(self, model: Any, graph: Any, number: int = 0) -> Trace:
        return explain(model, graph, number)


# `sagpool.explain(model, graph)` is how one asks for it, and this room is `sagpool.explain` too.
sys.modules[__name__].__class__ = _Callable
