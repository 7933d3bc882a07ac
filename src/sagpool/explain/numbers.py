"""`PredictedNumbers`: what a regression says about one graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PredictedNumbers:
    """The numbers that a model predicts for one graph, target by target."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float] | None, ...]  # None without a promised coverage
    truth: tuple[float | None, ...]  # None where it was not measured
    place: int  # of the target that is explained

    @staticmethod
    def of(
        names: tuple[str, ...], values: np.ndarray, truth: np.ndarray | None, place: int
    ) -> PredictedNumbers:
        """From ``[targets]`` values and, if any are known, true ones, NaN where not measured."""
        none: tuple[None, ...] = (None,) * len(names)
        known: tuple[float | None, ...] = none
        if truth is not None:
            # With the digits of the input: float32 -3.3 is not equal to float64 -3.3.
            known = tuple(None if np.isnan(one) else float(str(one)) for one in truth)
        return PredictedNumbers(names, tuple(values.tolist()), none, known, place)

    def with_predictions(self, values: np.ndarray, interval: np.ndarray | None) -> PredictedNumbers:
        """With these values ``[targets]`` and ends ``[targets, 2]`` of their intervals."""
        intervals = self.intervals
        if interval is not None:
            # With too few graphs for the promised coverage, an interval is infinite.
            intervals = tuple(
                (low, high) if np.isfinite([low, high]).all() else None
                for low, high in interval.tolist()
            )
        return replace(self, values=tuple(values.tolist()), intervals=intervals)

    @staticmethod
    def from_json(record: dict[str, Any]) -> PredictedNumbers:
        ends = (None if one is None else tuple(one) for one in record["intervals"])
        columns = {name: tuple(record[name]) for name in ("names", "values", "truth")}
        return PredictedNumbers(**record | columns | {"intervals": tuple(ends)})

    @property
    def name(self) -> str:
        """Of the explained target."""
        return self.names[self.place]

    @property
    def value(self) -> float:
        """The prediction of the explained target."""
        return self.values[self.place]

    @property
    def error(self) -> float | None:
        """The absolute error of that prediction; None if the truth is unknown."""
        truth = self.truth[self.place]
        return None if truth is None else abs(self.value - truth)

    @property
    def caption(self) -> list[str]:
        """The truth, if it is known, and the prediction."""
        truth, ends = self.truth[self.place], self.intervals[self.place]
        between = "" if ends is None else f" ({number_text(ends[0])} to {number_text(ends[1])})"
        told = f"predicted {number_text(self.value)}{between}"
        if truth is None:
            return [f"{self.name} {told}"]
        return [f"{self.name} {number_text(truth)}", told]

    def by_name(self) -> dict[str, dict[str, Any]]:
        """The numbers of each target, as JSON values."""
        columns = zip(self.values, self.intervals, self.truth, strict=True)
        return {
            name: {"value": value, "interval": None if ends is None else list(ends), "truth": truth}
            for name, (value, ends, truth) in zip(self.names, columns, strict=True)
        }


def number_text(value: float) -> str:
    """Four significant digits with a true minus sign."""
    return f"{value:.4g}".replace("-", "−")
