"""Running an experiment: what is missing is trained, and every finished training is stored."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch

import sagpool
from sagpool.bench.engines import Engine, Job
from sagpool.bench.engines.engine import Failed, Outcome
from sagpool.bench.pictures import traces_of
from sagpool.bench.plan import Cell, repeat, run_key, settings_of
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.records import CellRecord, Ranked, Validation
from sagpool.bench.search import Search, choose
from sagpool.bench.store import Store
from sagpool.fleet import NUMERICS, MemoryShortageError, Progress, Training
from sagpool.fleet.memory import step_bytes
from sagpool.fleet.schedule import group_by_shape
from sagpool.graphs import Graphs, load

log = logging.getLogger("sagpool")


@dataclass(eq=False)
class CellState:
    """How far a cell is, for those who watch.

    Args:
        cell: what is run
        stage: waiting, searching, training, done or failed
        done: trainings of this stage that are stored
        total: trainings of this stage
        accuracies: on test, of the trainings of the chosen settings that are stored
        progress: of the fleet that is running
        lost: trainings that came to no result, however often they were tried
        reason: why it failed
    """

    cell: Cell
    stage: str = "waiting"
    done: int = 0
    total: int = 0
    accuracies: list[float] = field(default_factory=list)
    progress: Progress | None = None
    lost: list[Failed] = field(default_factory=list)
    reason: str = ""


Watch = Callable[[CellState], None]


@dataclass(frozen=True)
class Loaded:
    graphs: Graphs
    fingerprint: str


def load_data(
    cells: Sequence[Cell], published: Mapping[str, Mapping[str, float]]
) -> dict[str, Loaded]:
    """The data sets of the cells, by name; all that can be wrong with them is told now.

    Args:
        cells: what is to be run
        published: statistics that others have published for these data sets
    """
    loaded: dict[str, Loaded] = {}
    for cell in cells:
        name = cell.dataset.name
        if name not in loaded:
            graphs = load(cell.dataset.source, cell.dataset.features)
            loaded[name] = Loaded(graphs, graphs.fingerprint())
            _compare_statistics(graphs, published.get(name, {}))
        group_by_shape(loaded[name].graphs, [cell.default, *cell.candidates])
    return loaded


def versions() -> dict[str, str]:
    """Of what decides a result."""
    found = {
        "sagpool": sagpool.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numerics": str(NUMERICS),
    }
    return found | ({"cuda": torch.version.cuda} if torch.version.cuda else {})


@dataclass(eq=False)
class Bench:
    """One run of the bench on an open store.

    Args:
        store: to which rows are added
        engine: that trains
        data: the data sets of the cells
        seeds: how many
        search: how settings are chosen
        precision: of the trainings
        invocation: number of this run in the store
        watch: told whenever something has changed
        feature_kinds: node features of the published experiment, by data set
    """

    store: Store
    engine: Engine
    data: Mapping[str, Loaded]
    seeds: int
    search: Search
    precision: str
    invocation: int
    watch: Watch = lambda state: None
    feature_kinds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored = self.store.keys()
        for loaded in self.data.values():
            self.store.add_data(loaded.graphs, loaded.fingerprint)

    def run(self, cells: Sequence[Cell]) -> list[CellState]:
        """Do all that is missing, cell after cell.

        One that does not fit into memory is left out, and the others go on.
        """
        states = [CellState(cell) for cell in cells]
        for state in states:
            try:
                self._run_cell(state)
                state.stage = "done"
            except MemoryShortageError as error:
                state.stage, state.reason = "failed", str(error)
            self.watch(state)
        return states

    def _run_cell(self, state: CellState) -> None:
        cell = state.cell
        chosen, ranking = cell.default, tuple[Ranked, ...]()
        if self.search is not Search.NONE:
            state.stage = "searching"
            ranking = tuple(
                choose(self.search, cell.candidates, lambda wanted: self._validate(state, wanted))
            )
            chosen = Training(cell.method, **ranking[0].settings)
        # Before the trainings, so that a report can be made at any time.
        self.store.add_cell(self._record(cell, chosen, ranking))
        wanted = repeat(chosen, self.seeds)
        state.stage = "training"
        state.accuracies = self.store.test_accuracy(
            self._key(cell, training) for training in wanted
        )
        self._train(state, wanted)

    def _record(self, cell: Cell, chosen: Training, ranking: tuple[Ranked, ...]) -> CellRecord:
        loaded = self.data[cell.dataset.name]
        kind = loaded.graphs.feature_kind
        published = self.feature_kinds.get(cell.dataset.name, kind)
        record = CellRecord(
            dataset=cell.dataset.name,
            name=loaded.graphs.name,
            fingerprint=loaded.fingerprint,
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
            # A batch that is too large for a try may still be trained in parts.
            with suppress(MemoryShortageError):
                known = step_bytes(loaded.graphs, chosen, PRECISIONS[self.precision].dtype)
        return replace(record, bytes=known)

    def _validate(self, state: CellState, wanted: Sequence[Training]) -> list[Validation]:
        self._train(state, wanted)
        return self.store.validation(self._key(state.cell, training) for training in wanted)

    def _train(self, state: CellState, wanted: Sequence[Training]) -> None:
        """Do those of the trainings that are not stored."""
        cell, loaded = state.cell, self.data[state.cell.dataset.name]
        keys = {training: self._key(cell, training) for training in wanted}
        done = frozenset(training for training, key in keys.items() if key in self.stored)
        state.done, state.total, state.progress = len(done), len(wanted), None
        self.watch(state)
        if len(done) == len(wanted):
            return

        def keep(result: Outcome) -> None:
            key = keys[result.training]
            if key in self.stored:
                return
            of_what = (key, loaded.graphs.name, loaded.fingerprint)
            how = (self.precision, self.invocation)
            if isinstance(result, Failed):
                self.store.add_failure(*of_what, result.training, result.reason, *how)
                state.lost.append(result)
                self.watch(state)
                return
            self.store.add(*of_what, result, *how, traces_of(loaded.graphs, result))
            self.stored.add(key)
            state.done += 1
            if state.stage == "training" and not np.isnan(result.test.accuracy):
                state.accuracies.append(result.test.accuracy)
            self.watch(state)

        def progress(told: Progress) -> None:
            state.progress = told
            self.watch(state)

        # The first run of a full training is kept to be drawn.
        full = {template.max_epochs for template in (cell.default, *cell.candidates)}

        def keeps(training: Training) -> bool:
            return training.seed == 0 and training.fold == 0 and training.max_epochs in full

        job = Job(loaded.graphs, tuple(wanted), done, self.precision, keeps)
        self.engine.run(job, keep, progress)

    def _key(self, cell: Cell, training: Training) -> str:
        loaded = self.data[cell.dataset.name]
        return run_key(loaded.graphs, loaded.fingerprint, training, self.precision)


def _compare_statistics(graphs: Graphs, published: Mapping[str, float]) -> None:
    ours = vars(graphs.statistics())
    for name, theirs in published.items():
        if round(ours[name], 2) != theirs:
            log.warning(
                "%s has %s = %.2f here and %.2f in the paper; is it the same data set?",
                graphs.name,
                name,
                ours[name],
                theirs,
            )
