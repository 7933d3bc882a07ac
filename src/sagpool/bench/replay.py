"""What a run store already has of a cell: its search is replayed with the stored results."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sagpool.bench.per_fold import Selected, choose_per_fold
from sagpool.bench.plan import Cell, repeat, training_of
from sagpool.bench.ranked_by import ranked_by
from sagpool.bench.records import Ranked, Validation
from sagpool.bench.rounds import Round
from sagpool.bench.search import Search, choose
from sagpool.bench.selection import Select
from sagpool.bench.store import Store
from sagpool.fleet import Training

if TYPE_CHECKING:
    from sagpool.bench.experiment_plan import ExperimentPlan

SearchProgram = Generator[Round, Sequence[Validation], list[Ranked] | Selected]


class StoredSearch(NamedTuple):
    """How far a search has come with the results of a run store."""

    begun: int  # trainings that it has asked for so far
    stored: int  # those of them that are stored as far as it needs them
    results: tuple[Sequence[Validation], ...]  # of its complete rounds
    reached: Mapping[Training, float]  # stored epochs of what it has asked for; infinite: ended


class StoredCell(NamedTuple):
    """What a run store has of a cell."""

    # The trainings of its result; None as long as a search has not chosen their settings.
    final: tuple[Training, ...] | None
    stored: int | None  # how many of them are stored
    search: StoredSearch | None = None  # None without a search


def search_program(plan: ExperimentPlan, cell: Cell) -> SearchProgram:
    if plan.select is Select.PER_FOLD:
        return choose_per_fold(plan.search, cell.candidates, plan.seeds)
    return choose(plan.search, cell.candidates)


def search_results(
    plan: ExperimentPlan, store: Store, keys: Iterable[str], until: int | None
) -> list[Validation]:
    """What a search may know about the trainings of a round."""
    keys = list(keys)
    if plan.select is Select.TEST:
        return store.tested(keys)
    seen = store.validation(keys, until)
    return ranked_by(plan.select_by, store, keys, seen, early=until is not None)


def stored_cell(plan: ExperimentPlan, cell: Cell, store: Store | None) -> StoredCell:
    """What the store has of the cell; without a store, nothing."""
    if plan.search is Search.NONE:
        final = tuple(repeat(cell.default, plan.seeds))
        return StoredCell(final, _ended(plan, cell, final, store))
    found, search = _replay(plan, cell, store)
    if found is None:
        return StoredCell(None, None, search)
    if isinstance(found, Selected):
        final = tuple(found.chosen)
    else:
        final = tuple(repeat(training_of(cell.method, found[0].settings), plan.seeds))
    return StoredCell(final, _ended(plan, cell, final, store), search)


def _replay(
    plan: ExperimentPlan, cell: Cell, store: Store | None
) -> tuple[list[Ranked] | Selected | None, StoredSearch]:
    """The choice, if the store has all results that it depends on, and how far the search is."""
    program, results = search_program(plan, cell), list[Sequence[Validation]]()
    asked, reached = next(program), dict[Training, float]()
    begun, short = set[Training](), set[Training]()  # short: without enough stored epochs
    while True:
        keys = plan.keys(cell, asked.trainings)
        known = {} if store is None else store.reached(keys)
        wanted = float("inf") if asked.until is None else asked.until
        for training, key in zip(asked.trainings, keys, strict=True):
            begun.add(training)
            reached[training] = known.get(key, 0)
            if reached[training] < wanted:
                short.add(training)
        found = None
        if store is not None and not short:
            results.append(search_results(plan, store, keys, asked.until))
            try:
                asked = program.send(results[-1])
                continue
            except StopIteration as end:
                found = end.value
        stored = len(begun) - len(short)
        return found, StoredSearch(len(begun), stored, tuple(results), reached)


def _ended(
    plan: ExperimentPlan, cell: Cell, trainings: Iterable[Training], store: Store | None
) -> int:
    if store is None:
        return 0
    return list(store.reached(plan.keys(cell, trainings)).values()).count(float("inf"))
