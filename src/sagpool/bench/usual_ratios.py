"""The ratio that needs no mention in the name of a cell, if no experiment defines it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from sagpool.fleet import Training

if TYPE_CHECKING:
    from sagpool.bench.variants import Chosen


class CellRatio(NamedTuple):
    """The ratio of a cell; None if its search varied it."""

    dataset: str
    method: str
    chosen: Chosen
    value: Any


def usual_ratios(cells: Iterable[CellRatio]) -> dict[tuple[str, Chosen], Any]:
    """The ratio that most methods share, by data set and way of choosing settings.

    If no two methods share one on a data set, its usual ratio is that of most cells on all data
    sets. In a tie, it is the default of a training.
    """
    everywhere: defaultdict[Chosen, Counter[Any]] = defaultdict(Counter)
    here: defaultdict[tuple[str, Chosen], Counter[Any]] = defaultdict(Counter)
    for one in dict.fromkeys(cells):
        everywhere[one.chosen][one.value] += 1
        here[one.dataset, one.chosen][one.value] += 1
    return {
        (dataset, chosen): _most_frequent(
            counts if max(counts.values()) > 1 else everywhere[chosen]
        )
        for (dataset, chosen), counts in here.items()
    }


def _most_frequent(counts: Counter[Any]) -> Any:
    return max(counts, key=lambda value: (counts[value], value == Training.ratio))
