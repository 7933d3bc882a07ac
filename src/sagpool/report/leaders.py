"""The best method of each architecture on a data set, and whether its lead is significant."""

from collections.abc import Sequence
from dataclasses import dataclass

from sagpool.bench.summary import Pair, Summary
from sagpool.bench.variants import Group
from sagpool.report import names
from sagpool.statistics import SAME, SIGNIFICANT


@dataclass(frozen=True)
class Leader:
    """The method with the highest mean, and the runner-up."""

    method: str
    second: str | None
    p: float | None  # p of the difference, after Holm's correction; None if not compared
    tied: tuple[str, ...] = ()  # other methods with the same mean

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < SIGNIFICANT

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods with the highest mean."""
        return (self.method, *self.tied)

    def beats_others(self, method: str) -> bool:
        return method in self.methods and self.second is not None


NO_LEADER = Leader("", None, None)  # for cells that are not compared


def by_architecture(group: Group) -> dict[str, list[Summary]]:
    """The main cells without variants of SAGPool, grouped for comparison."""
    main = [s for s in group.main if not names.is_variant(s.cell.method)]
    groups = {
        architecture: [s for s in main if names.architecture(s.cell.method) == architecture]
        for architecture in names.ARCHITECTURES
    }
    return {architecture: members for architecture, members in groups.items() if members}


def leader(summaries: Sequence[Summary], pairs: Sequence[Pair]) -> Leader:
    """The leader among cells of one data set."""
    best, *others = sorted(summaries, key=lambda s: -s.spread.mean)
    if not others:
        return Leader(best.method, None, None)
    second = others[0].method
    here = [pair for pair in pairs if pair.dataset == best.cell.dataset]
    p = {frozenset((pair.first, pair.second)): pair.holm for pair in here}
    tied = tuple(s.method for s in others if abs(s.spread.mean - best.spread.mean) < SAME)
    return Leader(best.method, second, p.get(frozenset((best.method, second))), tied)
