"""Values of settings that need no mention in the name of a cell, if no experiment has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sagpool.bench.variants import Chosen


class CellValue(NamedTuple):
    """The value of a setting in a cell; None if its search varied it."""

    dataset: str
    method: str
    chosen: Chosen
    value: Any


def usual_values(cells: Iterable[CellValue], default: Any) -> dict[tuple[str, Chosen], Any]:
    """The value that most methods share, by data set and way of choosing settings.

    If no two methods share one on a data set, its usual value is that of most cells on all data
    sets. In a tie, it is the default of a training.
    """
    everywhere: defaultdict[Chosen, Counter[Any]] = defaultdict(Counter)
    here: defaultdict[tuple[str, Chosen], Counter[Any]] = defaultdict(Counter)
    for one in dict.fromkeys(cells):
        everywhere[one.chosen][one.value] += 1
        here[one.dataset, one.chosen][one.value] += 1
    return {
        (dataset, chosen): _most_frequent(
            counts if max(counts.values()) > 1 else everywhere[chosen], default
        )
        for (dataset, chosen), counts in here.items()
    }


def _most_frequent(counts: Counter[Any], default: Any) -> Any:
    return max(counts, key=lambda value: (counts[value], value == default))
