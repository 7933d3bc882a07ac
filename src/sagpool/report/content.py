"""The content of a report, read from a run store at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sagpool.bench.against import NOTHING, Against, check_reference, compare_with
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import experiment_names, load_experiment
from sagpool.bench.learnt_ratios import LearntRatio
from sagpool.bench.majority import compare_with_majority
from sagpool.bench.records import DeviceTime, Invocation, Run
from sagpool.bench.run_table import RunTable, column, read_curves, read_runs
from sagpool.bench.scores import CellScores, scores_of
from sagpool.bench.store import Store
from sagpool.bench.summary import Pair, Summary, compare_methods, summarise
from sagpool.bench.variants import Chosen, Group, group_cells
from sagpool.errors import SagpoolError
from sagpool.explain import Trace
from sagpool.graphs import Statistics
from sagpool.models import Display, methods
from sagpool.models.registry import find_method
from sagpool.report import names
from sagpool.statistics import evenly_spaced

MOST_CURVES = 500  # most curves of a cell


@dataclass(frozen=True, eq=False)
class ComparedGroup:
    """The cells of a table, compared with the requested method."""

    group: Group
    comparisons: Sequence[Against]


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a run store.

    Cells are in groups that may share a table. The shown cells are the first group, which is empty
    if there are only regressions; data sets are in the order of their requests, methods in the
    paper's order. Cells in which every training diverged at once are in no group.
    """

    name: str  # file name of the store
    summaries: list[Summary]  # all cells, in the order of their last request
    groups: list[Group]
    pairs: list[Pair]  # comparisons of the shown cells
    runs: RunTable  # all finished trainings
    statistics: dict[str, Statistics]  # statistics of the data sets, by fingerprint
    invocations: list[Invocation]  # the commands that filled the store
    profiles: dict[int, DeviceTime]  # how the time was spent, by the number of the invocation
    traces: dict[str, list[Trace]]  # traces of the first run of each shown cell, by its key
    ratios: dict[str, list[LearntRatio]]  # learnt ratios of the same runs, if any
    # Curves of runs of each shown cell, by the key of the first.
    curves: dict[str, list[np.ndarray]]
    regressions: list[Group]  # cells without accuracies, which are in no other group
    # Scores of the shown cells and regressions, by the key of the first run.
    scores: dict[str, CellScores]
    experiment: Experiment | None = None  # the experiment whose claims are judged
    against: Sequence[ComparedGroup] = ()  # of the tables that have the requested method
    display: Mapping[str, Display] = field(default_factory=dict)  # names and colours of methods

    @property
    def first(self) -> tuple[str, ...]:
        """Methods that are listed before all others."""
        return _first_methods(self.experiment)

    @property
    def shown(self) -> Sequence[Summary]:
        return self.groups[0].cells

    @property
    def datasets(self) -> list[str]:
        """The data sets of the shown cells."""
        return list(dict.fromkeys(summary.cell.dataset for summary in self.shown))

    def of(self, dataset: str) -> list[Summary]:
        """The shown cells of a data set."""
        return [summary for summary in self.shown if summary.cell.dataset == dataset]

    def majority(self, cells: Sequence[Summary]) -> float | None:
        """The accuracy, in percent, of always predicting the most frequent class.

        Args:
            cells: cells of a data set that share a table, and so the kind of split
        """
        if of_split := [s.majority for s in cells if s.majority is not None]:
            return of_split[0]
        fraction = self.statistics[cells[0].cell.fingerprint].majority
        return None if fraction is None else 100 * fraction

    def note(self, dataset: str) -> str:
        """How the data differ from the published data; empty if they do not."""
        return next(s.cell.note for s in self.summaries if s.cell.dataset == dataset)

    def kernels(self, summary: Summary) -> list[str]:
        """The hashes of the kernels that made the runs of a cell, in the order of the commands."""
        used = set(column(summary.runs, "invocation").tolist())
        return list(dict.fromkeys(one.kernels for one in self.invocations if one.id in used))

    def cell_id(self, summary: Summary) -> str:
        """The id of a cell on the page."""
        return next(
            f"{number}-{group.cells.index(summary)}"
            for number, group in enumerate(self.groups)
            if summary in group.cells
        )

    def label(self, dataset: str) -> str:
        return f"{dataset} ({self.note(dataset)})" if self.note(dataset) else dataset


def read_content(
    path: Path, experiment: Experiment | None = None, against: str | None = None
) -> Content:
    """Read a store; another process may be writing to it.

    Args:
        path: the run store
        experiment: the experiment whose claims are judged; by default that of the last command
            whose experiment comes with the package and has more than a list of runs
        against: the method that all others are compared with
    """
    with Store.reading(path) as store:
        runs = read_runs(store)
        summaries = compare_with_majority(store, summarise(store.cells(), runs, store.failures()))
        if not summaries:
            raise SagpoolError(f"{path} has no finished trainings yet; run `sagpool bench` first.")
        invocations = store.invocations()
        experiment = experiment or _packaged_experiment(invocations)
        display = _display(summaries, experiment)
        with names.displayed(display, _first_methods(experiment)):
            groups = _ordered(group_cells([s for s in summaries if s.learnt], experiment))
            without = [s for s in summaries if s.loss is not None]
            regressions = _ordered(group_cells(without, experiment))
        if regressions and not groups:
            groups = [Group(Chosen.FIXED, (), ())]
        if not groups:
            raise SagpoolError(
                f"Every training in {path} diverged at once; run `sagpool bench` with a lower "
                "learning rate."
            )
        shown = groups[0].cells
        return Content(
            name=path.name,
            summaries=summaries,
            groups=groups,
            pairs=compare_methods(groups[0].main),
            runs=runs,
            statistics=store.data(),
            invocations=invocations,
            profiles=store.profiles(),
            traces={s.runs[0].key: store.traces(s.runs[0].key) for s in shown},
            ratios={s.runs[0].key: store.ratios(s.runs[0].key) for s in shown},
            curves={s.runs[0].key: _curves(store, s.runs) for s in shown},
            regressions=regressions,
            scores={
                s.runs[0].key: scores_of(store, s)
                for group in (groups[0], *regressions)
                for s in group.cells
            },
            experiment=experiment,
            display=display,
            against=_compare_groups(groups, against) if against else [],
        )


def _compare_groups(groups: Sequence[Group], reference: str) -> list[ComparedGroup]:
    """Comparisons with the reference in each table that has it."""
    check_reference([s for group in groups for s in group.cells], reference)
    having = [group for group in groups if reference in {s.method for s in group.cells}]
    compared = [ComparedGroup(group, compare_with(group.cells, reference)) for group in having]
    found = [one for one in compared if one.comparisons]
    if not found:
        raise SagpoolError(NOTHING.format(reference=reference))
    return found


def _first_methods(experiment: Experiment | None) -> tuple[str, ...]:
    return tuple(experiment.display) if experiment else ()


def _display(summaries: Sequence[Summary], experiment: Experiment | None) -> dict[str, Display]:
    """Display names and colours, from the experiment and the registration of each method."""
    said = dict(experiment.display) if experiment else {}
    trained = list(dict.fromkeys(s.cell.method for s in summaries))
    for method in trained:
        if method not in methods():  # a plugin that is not loaded
            continue
        own, given = find_method(method).display, said.get(method)
        if given is not None:
            said[method] = Display(given.name or own.name, given.colour or own.colour)
        elif own != Display():
            said[method] = own
    return said | _told_apart(trained, said)


def _told_apart(trained: Sequence[str], said: Mapping[str, Display]) -> dict[str, Display]:
    """Methods that would be displayed under one name, with their registered names added."""
    with names.displayed(said):
        shown = {method: names.plain(method) for method in trained}
        count = Counter(shown.values())
        return {
            # The registered name is in front: figures cut long labels.
            method: Display(f"{method} ({name})", names.display(method).colour)
            for method, name in shown.items()
            if count[name] > 1
        }


def _curves(store: Store, runs: Sequence[Run]) -> list[np.ndarray]:
    """Curves of all runs, or of some if there are many."""
    return read_curves(store, [runs[i] for i in evenly_spaced(len(runs), MOST_CURVES)])


def _packaged_experiment(invocations: Sequence[Invocation]) -> Experiment | None:
    for name in dict.fromkeys(one.experiment for one in reversed(invocations)):
        if name in experiment_names():
            found = load_experiment(name)
            if found.claims or found.elsewhere or found.display:
                return found
    return None


def _ordered(groups: Sequence[Group]) -> list[Group]:
    """The groups with data sets in the order of their requests, methods in the paper's order."""
    datasets = list(dict.fromkeys(s.cell.dataset for group in groups for s in group.cells))
    ordered = names.in_order(s.method for group in groups for s in group.cells)

    def place(summary: Summary) -> tuple[int, int]:
        return datasets.index(summary.cell.dataset), ordered.index(summary.method)

    return [replace(group, cells=tuple(sorted(group.cells, key=place))) for group in groups]
