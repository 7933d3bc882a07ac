"""Columns of predictions for each graph, and for its kept or dropped nodes alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sagpool.explain.effects import Effect, PartNumber, PartPrediction
from sagpool.explain.numbers import PredictedNumbers
from sagpool.explain.trace import Trace

Part = PartPrediction | PartNumber | None


def prediction_columns(
    traces: Sequence[Trace], effects: Sequence[Effect | None]
) -> dict[str, np.ndarray]:
    """Predictions of classes or numbers; in columns of parts, kept and dropped alternate."""
    parts: list[Part] = []
    for effect in effects:
        parts += (None, None) if effect is None else (effect.only_kept, effect.only_dropped)
    numbers = [trace.numbers for trace in traces if trace.numbers is not None]
    net = np.array([trace.net_output for trace in traces])
    return _number_columns(numbers, parts, net) if numbers else _class_columns(traces, parts, net)


def _class_columns(
    traces: Sequence[Trace], parts: Sequence[Part], net: np.ndarray
) -> dict[str, np.ndarray]:
    given = [part if isinstance(part, PartPrediction) else None for part in parts]
    return {
        "true": np.array([-1 if (y := trace.true_class) is None else y for trace in traces]),
        "predicted": np.array([trace.prediction for trace in traces]),
        "probability": np.concatenate([trace.probabilities for trace in traces]),
        "net_predicted": np.array([trace.net_outputs.argmax() for trace in traces]),
        "net_probability": net,
        "part_predicted": np.array([-1 if part is None else part.prediction for part in given]),
        "part_probability": np.array(
            [np.nan if part is None else part.probability for part in given]
        ),
    }


def _number_columns(
    numbers: Sequence[PredictedNumbers], parts: Sequence[Part], net: np.ndarray
) -> dict[str, np.ndarray]:
    """Predictions of all targets for each graph; of the net and of parts, the explained one."""
    ends = [(np.nan, np.nan) if pair is None else pair for one in numbers for pair in one.intervals]
    return {
        "value": np.array([value for one in numbers for value in one.values]),
        "low": np.array([low for low, _ in ends]),
        "high": np.array([high for _, high in ends]),
        "measured": np.array([known for one in numbers for known in one.truth], float),
        "net_value": net,
        "part_value": np.array(
            [part.value if isinstance(part, PartNumber) else np.nan for part in parts]
        ),
    }
