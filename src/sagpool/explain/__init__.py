"""Explanations: which nodes a net kept at each pooling, what a simple model counted."""

import sys
from types import ModuleType
from typing import Any

from sagpool.explain.fidelity import Fidelity, fidelity
from sagpool.explain.forward import explain, explain_many
from sagpool.explain.numbers import PredictedNumbers
from sagpool.explain.parts import Reason
from sagpool.explain.trace import Level, Trace

__all__ = [
    "Fidelity",
    "Level",
    "PredictedNumbers",
    "Reason",
    "Trace",
    "explain",
    "explain_many",
    "fidelity",
]


class _CallableModule(ModuleType):
    def __call__(
        self, model: Any, graph: Any, number: int = 0, *, target: str | None = None
    ) -> Trace:
        return explain(model, graph, number, target=target)


# `sagpool.explain` is both this package and the function that users call.
sys.modules[__name__].__class__ = _CallableModule
