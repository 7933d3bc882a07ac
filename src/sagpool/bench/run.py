"""Running cells: missing trainings are trained, and every finished one is stored."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch

import sagpool
from sagpool.bench.engines import Engine, Job
from sagpool.bench.engines.engine import FailedTraining, Outcome
from sagpool.bench.pictures import traces_of
from sagpool.bench.plan import Cell, repeat, run_key, settings_of, training_of
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.records import CellRecord, Ranked, Validation
from sagpool.bench.search import Search, choose
from sagpool.bench.store import Store
from sagpool.fleet import NUMERICS, MemoryShortageError, Progress, Training
from sagpool.fleet.memory import step_bytes
from sagpool.fleet.schedule import group_by_shape
from sagpool.graphs import Graphs, load
from sagpool.models import method_version

log = logging.getLogger("sagpool")


@dataclass(eq=False)
class CellState:
    """The progress of a cell.

    Args:
        cell: that is run
        stage: waiting, searching, training, done or failed
        done: stored trainings of this stage
        total: trainings of this stage
        accuracies: test accuracies of stored trainings with the final settings
        progress: of the running fleet
        failures: trainings that failed on every attempt
        reason: why the whole cell failed
    """

    cell: Cell
    stage: str = "waiting"
    done: int = 0
    total: int = 0
    accuracies: list[float] = field(default_factory=list)
    progress: Progress | None = None
    failures: list[FailedTraining] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True)
class FingerprintedGraphs:
    """A data set with a hash of its content, which takes a while to compute."""

    graphs: Graphs
    fingerprint: str

    def key(self, training: Training, precision: str) -> str:
        return run_key(self.graphs, self.fingerprint, training, precision)


def load_data(
    cells: Sequence[Cell], published: Mapping[str, Mapping[str, float]]
) -> dict[str, FingerprintedGraphs]:
    """Load the data sets of the cells, by name, and check that all trainings are possible.

    Args:
        cells: to be run
        published: published statistics of the data sets
    """
    data: dict[str, FingerprintedGraphs] = {}
    for cell in cells:
        name = cell.dataset.name
        if name not in data:
            graphs = load(cell.dataset.source, cell.dataset.features)
            data[name] = FingerprintedGraphs(graphs, graphs.fingerprint())
            _compare_statistics(graphs, published.get(name, {}))
        group_by_shape(data[name].graphs, [cell.default, *cell.candidates])
    return data


def versions(methods: Iterable[str] = ()) -> dict[str, str]:
    """Versions of everything that decides a result.

    Args:
        methods: that are used; those of the package have no version of their own
    """
    found = {
        "sagpool": sagpool.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numerics": str(NUMERICS),
    }
    found |= {"cuda": torch.version.cuda} if torch.version.cuda else {}
    return found | {
        f"method {name}": method_version(name) for name in methods if method_version(name)
    }


@dataclass(eq=False)
class Bench:
    """Runs cells into an open store.

    Args:
        store: for the results
        engine: that trains
        data: the data sets of the cells
        seeds: how many
        search: for settings
        precision: of the trainings
        invocation: its number in the store
        watch: called whenever the state of a cell changes
        feature_kinds: node features of the published experiment, by data set
    """

    store: Store
    engine: Engine
    data: Mapping[str, FingerprintedGraphs]
    seeds: int
    search: Search
    precision: str
    invocation: int
    watch: Callable[[CellState], None] = lambda state: None
    feature_kinds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored = self.store.keys()
        for data in self.data.values():
            self.store.add_data(data.graphs, data.fingerprint)

    def run(self, cells: Sequence[Cell]) -> list[CellState]:
        """Run what is missing, cell by cell; one that does not fit into memory is skipped."""
        states = [CellState(cell) for cell in cells]
        for state in states:
            self.watch(state)
        for state in states:
            try:
                self._run_cell(state)
                state.stage = "done"
            except MemoryShortageError as error:
                state.stage, state.reason = "failed", str(error)
            self.watch(state)
        return states

    def _run_cell(self, state: CellState) -> None:
        cell, data = state.cell, self.data[state.cell.dataset.name]
        chosen, ranking = cell.default, tuple[Ranked, ...]()
        if self.search is not Search.NONE:
            state.stage = "searching"
            ranking = tuple(
                choose(self.search, cell.candidates, lambda some: self._validate(state, some))
            )
            chosen = training_of(cell.method, ranking[0].settings)
        # Before the trainings, so that a report can be made at any time.
        self.store.add_cell(self._record(cell, chosen, ranking))
        trainings = repeat(chosen, self.seeds)
        state.stage = "training"
        state.accuracies = self.store.test_accuracy(
            data.key(training, self.precision) for training in trainings
        )
        self._train(state, trainings)

    def _record(self, cell: Cell, chosen: Training, ranking: tuple[Ranked, ...]) -> CellRecord:
        data = self.data[cell.dataset.name]
        kind = data.graphs.feature_kind
        published = self.feature_kinds.get(cell.dataset.name, kind)
        record = CellRecord(
            dataset=cell.dataset.name,
            name=data.graphs.name,
            fingerprint=data.fingerprint,
            method=cell.method,
            settings=settings_of(chosen),
            precision=self.precision,
            numerics=NUMERICS,
            seeds=self.seeds,
            invocation=self.invocation,
            search=str(self.search),
            ranking=ranking,
            bytes=0,
            paper_mean=cell.published.mean if cell.published else None,
            paper_std=cell.published.std if cell.published else None,
            note="" if kind == published else "structure only" if kind == "degree" else kind,
        )
        known = self.store.bytes_of(record)
        if not known:
            # A batch that is too large to measure may still be trained in parts.
            with suppress(MemoryShortageError):
                known = step_bytes(data.graphs, chosen, PRECISIONS[self.precision].dtype)
        return replace(record, bytes=known)

    def _validate(self, state: CellState, trainings: Sequence[Training]) -> list[Validation]:
        self._train(state, trainings)
        data = self.data[state.cell.dataset.name]
        return self.store.validation(data.key(training, self.precision) for training in trainings)

    def _train(self, state: CellState, trainings: Sequence[Training]) -> None:
        """Train what is not stored."""
        cell, data = state.cell, self.data[state.cell.dataset.name]
        keys = {training: data.key(training, self.precision) for training in trainings}
        done = frozenset(training for training, key in keys.items() if key in self.stored)
        state.done, state.total, state.progress = len(done), len(trainings), None
        self.watch(state)
        if len(done) == len(trainings):
            return

        def on_result(result: Outcome) -> None:
            key = keys[result.training]
            if key in self.stored:
                return
            identity = (key, data.graphs.name, data.fingerprint)
            origin = (self.precision, self.invocation)
            if isinstance(result, FailedTraining):
                self.store.add_failure(*identity, result.training, result.reason, *origin)
                state.failures.append(result)
            else:
                self.store.add(*identity, result, *origin, traces_of(data.graphs, result))
                self.stored.add(key)
                state.done += 1
                if state.stage == "training" and not np.isnan(result.test.accuracy):
                    state.accuracies.append(result.test.accuracy)
            self.watch(state)

        def on_progress(progress: Progress) -> None:
            state.progress = progress
            self.watch(state)

        # Reports draw graphs of the first run of each cell, never of a shortened search training.
        full = {template.max_epochs for template in (cell.default, *cell.candidates)}

        def keep_weights(training: Training) -> bool:
            return training.seed == 0 and training.fold == 0 and training.max_epochs in full

        job = Job(data.graphs, tuple(trainings), done, self.precision, keep_weights)
        self.engine.run(job, on_result, on_progress)


def _compare_statistics(graphs: Graphs, published: Mapping[str, float]) -> None:
    ours = vars(graphs.statistics())
    for name, theirs in published.items():
        if round(ours[name], 2) != theirs:
            log.warning(
                "%s has %s = %.2f here and %.2f in the paper; is it the same data set?",
                *(graphs.name, name, ours[name], theirs),
            )
