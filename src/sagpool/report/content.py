"""What a report is made of, read from a store in one go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sagpool.bench.records import Invocation, Run
from sagpool.bench.store import Store
from sagpool.bench.summary import Pair, Summary, compare_methods, latest, summarise
from sagpool.errors import SagpoolError
from sagpool.explain import Trace
from sagpool.graphs import Statistics
from sagpool.report.names import in_order, is_variant

CELLS_TO_DRAW = 4  # of each data set
GRAPHS_TO_DRAW = 3  # of each cell; fewer where there are many data sets
FEW_DATASETS = 2


@dataclass(frozen=True, eq=False)
class Drawn:
    """Graphs of the first run of a cell."""

    summary: Summary
    traces: tuple[Trace, ...]


@dataclass(frozen=True, eq=False)
class Content:
    """A store, as the sections of the report need it.

    Args:
        name: of the store's file
        summaries: all cells, in the order in which they were asked for
        shown: the cell asked for last of each data set and method, methods in the paper's order;
            without those of which no training came to anything
        pairs: comparisons of the shown cells
        runs: all finished trainings
        statistics: of the data sets, by fingerprint
        invocations: of the bench
        drawn: what is there of pooled graphs
    """

    name: str
    summaries: list[Summary]
    shown: list[Summary]
    pairs: list[Pair]
    runs: list[Run]
    statistics: dict[str, Statistics]
    invocations: list[Invocation]
    drawn: list[Drawn]

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(summary.cell.dataset for summary in self.shown))

    def of(self, dataset: str) -> list[Summary]:
        """The shown cells of a data set."""
        return [summary for summary in self.shown if summary.cell.dataset == dataset]

    def majority(self, dataset: str) -> float | None:
        """The accuracy, in percent, of always naming the most frequent class."""
        share = self.statistics[self.of(dataset)[0].cell.fingerprint].majority
        return None if share is None else 100 * share

    def note(self, dataset: str) -> str:
        """How the data differ from those of the published experiment, if they do."""
        return next(s.cell.note for s in self.summaries if s.cell.dataset == dataset)

    def label(self, dataset: str) -> str:
        return f"{dataset} ({self.note(dataset)})" if self.note(dataset) else dataset


def read_content(path: Path) -> Content:
    """All that the report tells; somebody may be writing the store."""
    with Store.reading(path) as store:
        runs = store.runs()
        summaries = summarise(store.cells(), runs, store.failures())
        if not summaries:
            raise SagpoolError(f"{path} has no finished trainings yet; run `sagpool bench` first.")
        shown = _by_method([s for s in latest(summaries) if s.learnt])
        if not shown:
            raise SagpoolError(
                f"Every training in {path} diverged at once; run `sagpool bench` with a lower "
                "learning rate."
            )
        return Content(
            name=path.name,
            summaries=summaries,
            shown=shown,
            pairs=compare_methods(shown),
            runs=runs,
            statistics=store.data(),
            invocations=store.invocations(),
            drawn=_drawn(store, shown),
        )


def _by_method(summaries: list[Summary]) -> list[Summary]:
    """Data sets in the order in which they were asked for, methods in the paper's."""
    datasets = list(dict.fromkeys(summary.cell.dataset for summary in summaries))
    methods = in_order(summary.cell.method for summary in summaries)
    return sorted(
        summaries, key=lambda s: (datasets.index(s.cell.dataset), methods.index(s.cell.method))
    )


def _drawn(store: Store, shown: list[Summary]) -> list[Drawn]:
    """A few cells of each data set: SAGPool before its rivals, and variants last."""
    found: list[Drawn] = []
    datasets = dict.fromkeys(summary.cell.dataset for summary in shown)
    graphs = GRAPHS_TO_DRAW if len(datasets) <= FEW_DATASETS else GRAPHS_TO_DRAW - 1
    for dataset in datasets:
        here = [summary for summary in shown if summary.cell.dataset == dataset]
        here.sort(key=lambda s: (is_variant(s.cell.method), "sagpool" not in s.cell.method))
        with_traces = (
            Drawn(summary, tuple(traces[:graphs]))
            for summary in here
            if (traces := store.traces(summary.runs[0].key))
        )
        found += [drawn for drawn, _ in zip(with_traces, range(CELLS_TO_DRAW), strict=False)]
    return found
