"""Running cells: missing trainings are trained, and every finished one is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from sagpool.bench.engines import Engine, Job
from sagpool.bench.engines.engine import FailedTraining, Outcome
from sagpool.bench.experiment_plan import ExperimentPlan
from sagpool.bench.pictures import traces_of
from sagpool.bench.plan import Cell, repeat, settings_of, training_of
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.records import CellRecord, Ranked, Validation
from sagpool.bench.search import Search, choose
from sagpool.bench.store import Store
from sagpool.fleet import NUMERICS, MemoryShortageError, Progress, Training
from sagpool.fleet.memory import step_bytes


@dataclass(eq=False)
class CellState:
    """The progress of a cell."""

    cell: Cell
    stage: str = "waiting"  # then searching, training, done or failed
    done: int = 0  # stored trainings of this stage
    total: int = 0  # trainings of this stage
    accuracies: list[float] = field(default_factory=list)  # test, with the final settings
    progress: Progress | None = None  # of the running fleet
    failures: list[FailedTraining] = field(default_factory=list)
    reason: str = ""  # why the whole cell failed


@dataclass(eq=False)
class ExperimentRunner:
    """Runs the cells of a plan into an open store."""

    plan: ExperimentPlan
    store: Store
    engine: Engine
    invocation: int
    watch: Callable[[CellState], None] = lambda state: None  # called after every change

    def __post_init__(self) -> None:
        self.stored = self.store.keys()
        for data in self.plan.data.values():
            self.store.add_data(data.graphs, data.fingerprint)

    def run(self) -> list[CellState]:
        """Run what is missing, cell by cell; one that does not fit into memory is skipped."""
        states = [CellState(cell) for cell in self.plan.cells]
        for state in states:
            self.watch(state)
        for state in states:
            try:
                self._run_cell(state)
                state.stage = "done"
            except MemoryShortageError as error:
                state.stage, state.reason = "failed", str(error)
            state.progress = None
            self.watch(state)
        return states

    def _run_cell(self, state: CellState) -> None:
        cell, search = state.cell, self.plan.search
        chosen, ranking = cell.default, tuple[Ranked, ...]()
        if search is not Search.NONE:
            state.stage = "searching"
            ranking = tuple(
                choose(search, cell.candidates, lambda some: self._validate(state, some))
            )
            chosen = training_of(cell.method, ranking[0].settings)
        # Before the trainings, so that a report can be made at any time.
        self.store.add_cell(self._record(cell, chosen, ranking))
        trainings = repeat(chosen, self.plan.seeds)
        state.stage = "training"
        state.accuracies = self.store.test_accuracy(self.plan.keys(cell, trainings))
        self._train(state, trainings)

    def _record(self, cell: Cell, chosen: Training, ranking: tuple[Ranked, ...]) -> CellRecord:
        plan, data = self.plan, self.plan.data[cell.dataset.name]
        kind = data.graphs.feature_kind
        published = plan.experiment.feature_kinds.get(cell.dataset.name, kind)
        record = CellRecord(
            dataset=cell.dataset.name,
            name=data.graphs.name,
            fingerprint=data.fingerprint,
            method=cell.method,
            settings=settings_of(chosen),
            precision=plan.precision,
            numerics=NUMERICS,
            seeds=plan.seeds,
            invocation=self.invocation,
            search=str(plan.search),
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
                known = step_bytes(data.graphs, chosen, PRECISIONS[plan.precision].dtype)
        return replace(record, bytes=known)

    def _validate(self, state: CellState, trainings: Sequence[Training]) -> list[Validation]:
        self._train(state, trainings)
        return self.store.validation(self.plan.keys(state.cell, trainings))

    def _train(self, state: CellState, trainings: Sequence[Training]) -> None:
        """Train what is not stored."""
        cell, data = state.cell, self.plan.data[state.cell.dataset.name]
        keys = dict(zip(trainings, self.plan.keys(cell, trainings), strict=True))
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
            origin = (self.plan.precision, self.invocation)
            if isinstance(result, FailedTraining):
                self.store.add(*identity, result, *origin)
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

        job = Job(data.graphs, tuple(trainings), done, self.plan.precision, keep_weights)
        self.engine.run(job, on_result, on_progress)
