"""Ranks of methods over data sets, and significant differences between them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sagpool.bench.summary import Summary
from sagpool.statistics import SAME, SIGNIFICANT, friedman, holm, mean_ranks, wilcoxon

FEWEST = 3  # least number of methods, and of data sets


@dataclass(frozen=True, eq=False)
class Ranks:
    """Methods that were run on the same data sets, the best mean rank first."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: np.ndarray  # [data sets, methods], 1 for the highest mean
    friedman: float  # p of Friedman's test
    p: np.ndarray  # [methods, methods] p of Wilcoxon's test, after Holm's correction over all pairs

    @property
    def means(self) -> np.ndarray:
        """``[methods]`` mean ranks."""
        return np.asarray(self.ranks.mean(0))

    @property
    def alike(self) -> list[tuple[int, int]]:
        """First and last method of the longest runs in which no two differ significantly."""
        runs: list[tuple[int, int]] = []
        for first in range(len(self.methods)):
            last = first
            while last + 1 < len(self.methods) and self._none_differ(first, last + 1):
                last += 1
            if last > first and (not runs or last > runs[-1][1]):
                runs.append((first, last))
        return runs

    def _none_differ(self, first: int, last: int) -> bool:
        among = self.p[first : last + 1, first : last + 1]
        return bool((among >= SIGNIFICANT).all())

    @property
    def least_p(self) -> float:
        """The lowest possible corrected p of a pair: one method is better on all data sets."""
        pairs = len(self.methods) * (len(self.methods) - 1) // 2
        return min(1.0, pairs * wilcoxon(np.arange(1, len(self.datasets) + 1.0)))


def rank_methods(summaries: Sequence[Summary]) -> Ranks | None:
    """Rank methods on the data sets that they share; None if there are too few of either.

    The methods are those with results on all data sets. If these are too few, data sets are left
    out, one at a time: the one without which most methods are left.

    Args:
        summaries: cells of one protocol
    """
    means = {(s.cell.dataset, s.method): s.spread.mean for s in summaries}
    datasets = tuple(dict.fromkeys(s.cell.dataset for s in summaries))
    sizes = Counter(dataset for dataset, _ in means)
    while len(methods := _on_all(datasets, means)) < FEWEST and len(datasets) > FEWEST:
        fewer = [tuple(d for d in datasets if d != one) for one in datasets]
        datasets = max(
            fewer, key=lambda some: (len(_on_all(some, means)), sum(sizes[d] for d in some))
        )
    if len(methods) < FEWEST or len(datasets) < FEWEST:
        return None
    table = np.array([[means[dataset, method] for method in methods] for dataset in datasets])
    table = (table / SAME).round() * SAME  # in another order of runs, equal means differ a little
    ranks = np.stack([mean_ranks(-row) for row in table])
    order = np.argsort(ranks.mean(0), kind="stable")
    table, ranks = table[:, order], ranks[:, order]
    pairs = [(i, j) for i in range(len(methods)) for j in range(i)]
    p = np.ones((len(methods), len(methods)))
    adjusted = holm([wilcoxon(table[:, i] - table[:, j]) for i, j in pairs])
    for (i, j), value in zip(pairs, adjusted, strict=True):
        p[i, j] = p[j, i] = value
    named = tuple(methods[i] for i in order)
    return Ranks(named, datasets, ranks, friedman(ranks), p)


def _on_all(datasets: Sequence[str], results: Iterable[tuple[str, str]]) -> list[str]:
    """The methods with results on all of these data sets."""
    known = dict.fromkeys(results)
    every = dict.fromkeys(method for _, method in known)
    return [method for method in every if all((d, method) in known for d in datasets)]
