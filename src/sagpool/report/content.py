"""What a report needs from a run store, read in one go."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import experiment_names, load_experiment
from sagpool.bench.records import DeviceTime, Invocation, Run
from sagpool.bench.store import Store
from sagpool.bench.summary import Pair, Summary, compare_methods, latest, summarise
from sagpool.errors import SagpoolError
from sagpool.explain import Trace
from sagpool.graphs import Statistics
from sagpool.report.names import in_order


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a run store.

    The shown cells are those requested last for each data set and method, methods in the paper's
    order; without cells in which every training diverged at once.
    """

    name: str  # file name of the store
    summaries: list[Summary]  # all cells, in the order of their last request
    shown: list[Summary]
    pairs: list[Pair]  # comparisons of the shown cells
    runs: list[Run]  # all finished trainings
    statistics: dict[str, Statistics]  # of the data sets, by fingerprint
    invocations: list[Invocation]  # the commands that filled the store
    profiles: dict[int, DeviceTime]  # how the time was spent, by the number of the command
    traces: dict[str, list[Trace]]  # of the first run of each shown cell, by its key
    experiment: Experiment | None = None  # whose claims are judged

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(summary.cell.dataset for summary in self.shown))

    def of(self, dataset: str) -> list[Summary]:
        """The shown cells of a data set."""
        return [summary for summary in self.shown if summary.cell.dataset == dataset]

    def majority(self, dataset: str) -> float | None:
        """The accuracy, in percent, of always predicting the most frequent class."""
        fraction = self.statistics[self.of(dataset)[0].cell.fingerprint].majority
        return None if fraction is None else 100 * fraction

    def note(self, dataset: str) -> str:
        """How the data differ from those of the published experiment; empty if they do not."""
        return next(s.cell.note for s in self.summaries if s.cell.dataset == dataset)

    def label(self, dataset: str) -> str:
        return f"{dataset} ({self.note(dataset)})" if self.note(dataset) else dataset


def read_content(path: Path, experiment: Experiment | None = None) -> Content:
    """Read a store; another process may be writing to it.

    Args:
        path: of the store
        experiment: whose claims are judged; by default that of the last command whose experiment
            comes with the package and has claims
    """
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
        invocations = store.invocations()
        return Content(
            name=path.name,
            summaries=summaries,
            shown=shown,
            pairs=compare_methods(shown),
            runs=runs,
            statistics=store.data(),
            invocations=invocations,
            profiles=store.profiles(),
            traces={s.runs[0].key: store.traces(s.runs[0].key) for s in shown},
            experiment=experiment or _with_claims(invocations),
        )


def _with_claims(invocations: Sequence[Invocation]) -> Experiment | None:
    for name in dict.fromkeys(one.experiment for one in reversed(invocations)):
        if name in experiment_names() and (found := load_experiment(name)).claims:
            return found
    return None


def _by_method(summaries: list[Summary]) -> list[Summary]:
    """Data sets in the order of their requests, methods in the paper's order."""
    datasets = list(dict.fromkeys(summary.cell.dataset for summary in summaries))
    methods = in_order(summary.cell.method for summary in summaries)
    return sorted(
        summaries, key=lambda s: (datasets.index(s.cell.dataset), methods.index(s.cell.method))
    )
