"""Runs cells: missing trainings are trained, and every outcome is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from sagpool.bench.cost import search_cost
from sagpool.bench.engines import Engine, Job
from sagpool.bench.engines.engine import FailedTraining, Outcome
from sagpool.bench.experiment_plan import ExperimentPlan
from sagpool.bench.learnt_ratios import learnt_ratios
from sagpool.bench.per_fold import choose_per_fold, settings_of_all
from sagpool.bench.pictures import traces_of
from sagpool.bench.plan import Cell, repeat, settings_of, training_of
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.predictions import Predicted
from sagpool.bench.records import CellRecord, SearchCost, Validation
from sagpool.bench.replay import search_results
from sagpool.bench.retention import retention
from sagpool.bench.rounds import Round
from sagpool.bench.search import Search, choose
from sagpool.bench.selection import BY_ACCURACY, BY_TEST, SELECTED, Select
from sagpool.bench.store import Store
from sagpool.bench.stored_cells import cell_key
from sagpool.fleet import NUMERICS, MemoryShortageError, Paused, Progress, Result, Score, Training
from sagpool.fleet.memory import step_bytes
from sagpool.graphs import Graphs
from sagpool.graphs.splits import TRAIN, VALIDATION

OTHER_GRAPHS = "other graphs than the paper's"

T = TypeVar("T")
Rounds = Generator[Round, Sequence[Validation], T]


@dataclass(eq=False)
class CellState:
    """The progress of a cell."""

    cell: Cell
    stage: str = "waiting"  # then searching, training, done or failed
    round: int = 0  # round of the search, counted from 1; 0 if not searching
    done: int = 0  # trainings of this stage, or of this round of the search, with stored outcomes
    total: int = 0  # trainings of this stage or round
    later: int | None = 0  # trainings of later stages; None if not known yet
    # Test accuracies, with the final settings.
    accuracies: list[float] = field(default_factory=list)
    progress: Progress | None = None  # progress of the running job
    failures: list[FailedTraining] = field(default_factory=list)
    reason: str = ""  # why the whole cell failed


class _Running(NamedTuple):
    """A job, and the cell that waits for it."""

    state: CellState
    program: Rounds[None]
    asked: Round
    keys: dict[Training, str]
    missing: set[str]  # keys without an outcome
    stage: str


@dataclass(eq=False)
class ExperimentRunner:
    """Runs the cells of a plan into an open store, all at once.

    Every cell is a program that asks for rounds of trainings; each round is a job of the engine.
    When the job has ended, the program goes on with the next round.
    """

    plan: ExperimentPlan
    store: Store
    engine: Engine
    invocation: int
    watch: Callable[[CellState], None] = lambda state: None  # called after every change

    def __post_init__(self) -> None:
        self.reached: dict[str, float] = {}  # epochs reached by each requested training, by key
        self.running: dict[Job, _Running] = {}
        self.records: dict[CellState, CellRecord] = {}  # records of finished cells
        # First runs of candidates, by key; only the chosen one is drawn.
        self.candidates: defaultdict[CellState, dict[str, Result]] = defaultdict(dict)
        for data in self.plan.data.values():
            self.store.add_data(data.graphs, data.fingerprint)

    def run(self) -> list[CellState]:
        """Run missing trainings. A cell that does not fit into memory fails; others continue."""
        states = [CellState(cell) for cell in self.plan.cells]
        for state in states:
            self.watch(state)
        # A generator, so that an engine does not need all trainings in memory at once.
        first = (job for state in states for job in self._next(state, self._program(state)))
        self.engine.run(first, self)
        for state in states:
            # Store cells again, with their memory, in the order of the plan.
            if state in self.records:
                self.store.add_cell(self.records[state])
        return states

    def as_searched(self, cells: Iterable[CellRecord]) -> list[CellRecord]:
        """Stored cells, each with what the search of this command found.

        If settings are chosen per fold, the store may also have the choices of further seeds.
        """
        own = {cell_key(record): record for record in self.records.values()}
        pairs = [(cell, own.get(cell_key(cell), cell)) for cell in cells]
        return [
            replace(cell, chosen=found.chosen, ranking=found.ranking, cost=found.cost)
            for cell, found in pairs
        ]

    def outcome(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of a training; repeated reports are ignored."""
        running = self.running[job]
        state, key = running.state, running.keys[outcome.training]
        state.stage = running.stage
        if isinstance(outcome, Result) and outcome.weights and running.stage == "searching":
            self.candidates[state][key] = outcome
        if key not in running.missing:
            return
        data = self.plan.data[state.cell.dataset.name]
        identity = (key, data.graphs.name, data.fingerprint)
        origin = (self.plan.precision, self.invocation)
        if isinstance(outcome, FailedTraining):
            self.store.add(*identity, outcome, *origin)
            state.failures.append(outcome)
        else:
            paused = isinstance(outcome, Paused)
            epochs = len(outcome.curve.train_loss) if paused else float("inf")
            if self.reached.get(key, 0) < epochs:  # two cells may have the same training
                traces, tests, predicted = [], {}, None
                if isinstance(outcome, Result):
                    tests = named_tests(data.graphs, outcome)
                    predicted = Predicted.of(data.graphs, outcome)
                if isinstance(outcome, Result) and running.stage == "training":
                    traces = traces_of(data.graphs, outcome)
                    self.store.add_ratios(key, learnt_ratios(data.graphs, outcome))
                self.store.add(*identity, outcome, *origin, traces, tests, predicted)
                self.reached[key] = epochs
            running.missing.remove(key)
            state.done += 1
            if running.stage == "training":
                state.accuracies += self.store.test_accuracy([key])
        self.watch(state)

    def _draw_chosen(self, state: CellState, keys: Iterable[str]) -> None:
        """Store the pictures of the chosen settings, if the search has their first run.

        A killed search may have lost its weights; then there are no pictures.
        """
        graphs = self.plan.data[state.cell.dataset.name].graphs
        candidates = self.candidates.pop(state, {})
        for key in candidates.keys() & set(keys):
            self.store.add_traces(key, traces_of(graphs, candidates[key]))
            self.store.add_ratios(key, learnt_ratios(graphs, candidates[key]))

    def progress(self, job: Job, progress: Progress) -> None:
        running = self.running[job]
        running.state.stage, running.state.progress = running.stage, progress
        self.watch(running.state)

    def ended(self, job: Job, problem: str) -> Sequence[Job]:
        """The next job of the cell, if it has one."""
        state, program, asked, keys, *_ = self.running.pop(job)
        if not problem:
            seen = search_results(self.plan, self.store, keys.values(), asked.until)
            self._forget(keys.values())
            return self._next(state, program, seen)
        state.stage, state.reason, state.progress = "failed", problem, None
        self.watch(state)
        return []

    def _forget(self, keys: Iterable[str]) -> None:
        """Forget which trainings are stored; the store is asked again if they are needed."""
        others = [running.missing for running in self.running.values()]
        for key in keys:
            if not any(key in missing for missing in others):
                self.reached.pop(key, None)

    def _next(
        self, state: CellState, program: Rounds[None], seen: Sequence[Validation] | None = None
    ) -> list[Job]:
        """The job of the round that the program asks for next; none if the program has ended.

        A job is returned even if all its trainings are stored: the engine may have to remove
        checkpoints of a killed run.
        """
        try:
            asked = program.send(seen)  # type: ignore[arg-type]  # None begins a generator
        except StopIteration:
            state.stage, state.progress = "done", None
            self.watch(state)
            return []
        keys = dict(zip(asked.trainings, self.plan.keys(state.cell, asked.trainings), strict=True))
        self.reached |= self.store.reached(keys.values())
        done = frozenset(one for one, key in keys.items() if self._is_known(key, asked))
        state.done, state.total, state.progress = len(done), len(keys), None
        graphs, precision = self.plan.data[state.cell.dataset.name].graphs, self.plan.precision
        job = Job(graphs, tuple(keys), done, precision, _keep_weights, asked.until)
        stage = "searching" if state.round else "training"
        missing = {key for training, key in keys.items() if training not in done}
        self.running[job] = _Running(state, program, asked, keys, missing, stage)
        if state.stage != "waiting":
            state.stage = stage
        self.watch(state)
        return [job]

    def _is_known(self, key: str, asked: Round) -> bool:
        wanted = float("inf") if asked.until is None else asked.until
        return self.reached.get(key, 0) >= wanted

    def _program(self, state: CellState) -> Rounds[None]:
        """A search, then the trainings with the chosen settings."""
        cell, plan, record = state.cell, self.plan, self._record(state.cell)
        if plan.select is Select.PER_FOLD:
            yield from self._select_per_fold(state, record)
            return
        if plan.search is not Search.NONE:
            search = choose(plan.search, cell.candidates)
            # A grid has trained the first seed already.
            later = (plan.seeds - 1) * cell.default.folds
            ranking, cost = yield from self._searching(state, search, 1, later)
            record = replace(
                record, settings=ranking[0].settings, ranking=tuple(ranking), cost=cost
            )
        trainings = repeat(training_of(cell.method, record.settings), plan.seeds)
        keys = plan.keys(cell, trainings)
        if plan.select is Select.TEST:
            # Marks a cell whose settings were chosen by test accuracy.
            settings = {**record.settings, SELECTED: BY_TEST}
            record = replace(record, settings=settings, ranking=(), chosen=tuple(keys))
        record = replace(record, bytes=self.store.bytes_of(record))
        # Stored before the trainings, so that a report can be made at any time.
        self.store.add_cell(record)
        self._draw_chosen(state, keys)
        state.accuracies = self.store.test_accuracy(keys)
        yield Round(tuple(trainings), None)
        self.records[state] = self._measured(cell, record, trainings[0])

    def _select_per_fold(self, state: CellState, record: CellRecord) -> Rounds[None]:
        """Search in every fold; the chosen trainings are those of the cell."""
        cell, plan = state.cell, self.plan
        search = choose_per_fold(plan.search, cell.candidates, plan.seeds)
        (chosen, ranking), cost = yield from self._searching(state, search, plan.seeds, later=0)
        keys = plan.keys(cell, chosen)
        record = replace(
            record,
            settings=settings_of_all(record.search, cell.candidates),
            ranking=tuple(ranking),
            chosen=tuple(keys),
            cost=cost,
        )
        self.store.add_cell(record)
        self._draw_chosen(state, keys)
        state.accuracies = self.store.test_accuracy(keys)
        self.records[state] = record

    def _searching(
        self, state: CellState, search: Rounds[T], seeds: int, later: int
    ) -> Rounds[tuple[T, SearchCost]]:
        """Run a search on these seeds; returns its result and cost.

        ``later`` trainings follow after a grid; for other searches the number of later trainings
        depends on their results.
        """
        cell, seen = state.cell, dict[Training, Validation]()
        state.later = later if self.plan.search is Search.GRID else None
        try:
            asked = next(search)
            while True:
                state.round += 1
                results = yield asked
                for training, result in zip(asked.trainings, results, strict=True):
                    if training not in seen or result.epochs >= seen[training].epochs:
                        seen[training] = result
                asked = search.send(results)
        except StopIteration as stop:
            found: T = stop.value
        state.round = state.later = 0
        whole = [one for candidate in cell.candidates for one in repeat(candidate, seeds)]
        epochs = zip(whole, self.store.epochs(self.plan.keys(cell, whole)), strict=True)
        ended = {training: count for training, count in epochs if count is not None}
        return found, search_cost(cell.candidates, seeds, seen, ended)

    def _record(self, cell: Cell) -> CellRecord:
        """The record of the cell, with its settings without a search."""
        plan, data = self.plan, self.plan.data[cell.dataset.name]
        kind = data.graphs.feature_kind
        usual = plan.experiment.feature_kinds.get(cell.dataset.name_in_experiment, kind)
        notes = [OTHER_GRAPHS] if data.different else []
        notes += ["structure only" if kind == "degree" else kind] if kind != usual else []
        published = None if data.different else cell.published
        tests = () if data.different else cell.published_tests
        return CellRecord(
            dataset=cell.dataset.name,
            name=data.graphs.name,
            fingerprint=data.fingerprint,
            method=cell.method,
            settings=settings_of(cell.default),
            precision=plan.precision,
            numerics=NUMERICS,
            seeds=plan.seeds,
            invocation=self.invocation,
            search=_search_text(plan),
            ranking=(),
            bytes=0,
            paper_mean=published.mean if published else None,
            paper_std=published.std if published else None,
            note=", ".join(notes),
            paper_tests={name: (one.mean, one.std) for name, one in tests},
            retention=retention(data.graphs, cell.default) if plan.match else None,
        )

    def _measured(self, cell: Cell, record: CellRecord, training: Training) -> CellRecord:
        """The record with the memory of a training step, unless known."""
        if record.bytes:
            return record
        graphs, dtype = self.plan.data[cell.dataset.name].graphs, PRECISIONS[record.precision].dtype
        # A batch that is too large to measure may still be trained in parts.
        with suppress(MemoryShortageError):
            return replace(record, bytes=step_bytes(graphs, training, dtype))
        return record


def named_tests(graphs: Graphs, result: Result) -> dict[str, Score]:
    """The scores of all tests of a fixed split, by name; {} for other splits."""
    if result.training.split != "fixed":
        return {}
    first = next(name for name in graphs.part_names if name not in (TRAIN, VALIDATION))
    return {first: result.test, **result.more_tests}


def _search_text(plan: ExperimentPlan) -> str:
    by = "" if plan.select_by == BY_ACCURACY else f" by {plan.select_by.replace('_', ' ')}"
    return f"{plan.search}{by}"


def _keep_weights(training: Training) -> bool:
    """Whether to keep the weights: reports draw graphs of the first run of each cell."""
    return training.seed == 0 and training.fold == 0
