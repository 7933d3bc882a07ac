"""Searches that pause trainings: survivors go on, and a repetition makes the same choice."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from sagpool.bench import Overrides, Search, Store, plan_experiment, rows, run_experiment
from sagpool.bench.engines import Local
from sagpool.fleet import Paused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def halve(small, path, pretend):
    """Halving with four candidates, whose trainings take 40 epochs."""
    pretend.accuracy, pretend.epochs = {1e-3: 0.9, 1e-2: 0.5}, 40

    def run(engine=pretend, **options):
        usual = {"search": Search.HALVING, "settings": {"max_epochs": (50,)}, "store": path}
        return run_experiment(small, methods="gpool-h", engine=engine, **usual | options)

    return run


def test_survivors_go_on_and_the_others_are_dropped(halve, path, pretend):
    (summary,) = halve().summaries
    assert summary.cell.settings["lr"] == 1e-3
    assert len(summary.runs) == 4
    assert len(pretend.asked) == len(set(pretend.asked)) == 4 * 2 + 2
    # Four candidates on two folds for 16 epochs, two of them for 24 more, then the second seed.
    assert pretend.trained == 4 * 2 * 16 + 2 * 2 * 24 + 2 * 40
    assert len(rows(path, frame=False)) == 2 * 2 + 2, "nothing that is half trained"
    assert [entry.runs for entry in summary.cell.ranking] == [2] * 4


def test_a_repetition_trains_nothing_and_chooses_the_same(halve, path, pretend):
    first = halve()
    pretend.asked.clear()
    pretend.accuracy = {}
    second = halve()
    assert pretend.asked == []
    assert second.summaries[0].cell.ranking == first.summaries[0].cell.ranking
    assert second.summaries[0].cell.cost == first.summaries[0].cell.cost


@pytest.mark.parametrize(
    ("search", "stop_after"),
    [
        *((Search.HALVING, after) for after in (10, 40, 50)),
        *((Search.RACE, after) for after in (10, 36, 40)),  # a race begins fewer trainings
    ],
)
def test_a_killed_search_repeats_no_training_of_a_dropped_candidate(
    halve, path, pretend, search, stop_after
):
    """16 candidates on two folds; at least half of them leave after the first 32 trainings."""
    pretend.accuracy = {lr / 100: 0.9 - lr / 20 for lr in range(1, 17)}
    settings = {"lr": tuple(pretend.accuracy), "hidden": (4,), "max_epochs": (50,)}
    options = {"search": search, "settings": settings}
    other = path.with_name("other.sqlite")
    expected = halve(replace(pretend, asked=[]), store=other, **options)
    with Store.reading(other) as store:
        needed = store.reached()
    pretend.stop_after = stop_after
    with pytest.raises(KeyboardInterrupt):
        halve(**options)
    with Store.reading(path) as store:
        known = store.reached()
    enough = {key for key, epochs in known.items() if epochs >= needed[key]}
    assert len(enough) >= 16 if stop_after > 32 else len(known) == stop_after
    pretend.stop_after = None
    pretend.asked.clear()
    result = halve(**options)
    plan = plan_experiment("quick", Overrides(datasets=("MUTAG",), methods=("gpool-h",)))
    assert enough.isdisjoint(plan.keys(plan.cells[0], pretend.asked))
    cell = expected.summaries[0].cell
    assert result.summaries[0].cell.ranking == cell.ranking
    assert result.summaries[0].cell.cost == cell.cost
    with Store.reading(path) as store:
        assert store.reached() == needed


def test_a_full_run_answers_every_round(halve, path, pretend):
    grid = halve(search=Search.GRID)
    pretend.asked.clear()
    halving = halve()
    assert pretend.asked == []
    assert halving.summaries[0].cell.settings == grid.summaries[0].cell.settings


def test_what_was_seen_first_stays(path, mutag, trainings, result):
    """A training that was lost with its process has other rounding errors when it is repeated."""

    def paused(epochs, loss):
        curve = result(trainings[0], epochs=epochs).curve
        return Paused(trainings[0], replace(curve, validation_loss=loss * np.ones(epochs)), None)

    with Store.writing(path) as store:
        store.begin("sagpool bench", "small", "a CPU", {})
        store.add_data(mutag, "print")
        for epochs, loss in ((2, 0.5), (4, 0.25), (3, 0.125)):
            store.add("key", "MUTAG", "print", paused(epochs, loss), "float32", 1)
        (seen,) = store.validation(["key"], until=4)
        (early,) = store.validation(["key"], until=2)
        assert store.reached() == {"key": 4}
        assert seen.curve[0].tolist() == [0.5, 0.5, 0.25, 0.25]
        assert (seen.loss, seen.epochs, seen.ended) == (0.25, 4, False)
        assert (early.loss, early.epochs, early.ended) == (0.5, 2, False)
        assert store.runs() == []
        assert store.keys() == set()


def test_the_result_of_a_round_is_the_best_epoch_so_far(path, mutag, trainings, result):
    ended = result(trainings[0], epochs=5)
    curve = replace(
        ended.curve,
        validation_loss=np.array([0.5, 0.25, 0.75, 0.125, np.nan]),
        validation_accuracy=np.array([0.5, 0.75, 0.5, 0.25, 0.0]),
    )
    with Store.writing(path) as store:
        store.begin("sagpool bench", "small", "a CPU", {})
        store.add_data(mutag, "print")
        store.add("key", "MUTAG", "print", replace(ended, curve=curve), "float32", 1)
        found = [store.validation(["key"], until)[0] for until in (1, 3, 4, 5, 9)]
        (failed,) = store.validation(["no such training"], until=3)
        (whole,) = store.validation(["key"])
    assert [one.accuracy for one in found] == [0.5, 0.75, 0.25, 0.25, 0.25]
    assert [one.best_epoch for one in found] == [1, 2, 4, 4, 4]
    assert [(one.epochs, one.ended) for one in found] == [
        (1, False), (3, False), (4, False), (5, True), (5, True),
    ]  # fmt: skip
    assert np.isnan([failed.accuracy, failed.loss]).all()
    assert (failed.epochs, failed.ended) == (0, True)
    assert (whole.accuracy, whole.epochs, whole.ended) == (0.75, 5, True), "as in the row"


def test_an_older_store_without_paused_trainings(halve, path):
    halve(search=Search.GRID)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE migrations")
        connection.execute("DROP TABLE paused")
        connection.execute("ALTER TABLE cells DROP COLUMN chosen")
        connection.execute("ALTER TABLE cells DROP COLUMN cost")
    connection.close()
    with Store.reading(path) as store:
        (cell,) = store.cells()
        assert (cell.chosen, cell.cost, len(cell.ranking)) == ((), None, 4)
        assert len(store.reached()) == len(store.runs())
        assert store.validation(store.keys(), until=2)[0].epochs == 2
    (summary,) = halve().summaries
    assert summary.cell.cost is not None


def test_real_trainings_that_pause(small, path, tmp_path):
    """The rows of a search that pauses are those of uninterrupted trainings."""
    options = {"methods": "gpool-h", "seeds": 1, "precision": "float64"}
    settings = {"max_epochs": (20,), "lr": (0.001, 0.01, 0.1), "hidden": (4,)}
    result = run_experiment(
        small,
        store=path,
        engine=Local(tmp_path / "checkpoints"),
        settings=settings,
        search=Search.HALVING,
        **options,
    )
    (summary,) = result.summaries
    chosen = summary.cell.settings
    alone = run_experiment(
        small,
        store=tmp_path / "alone.sqlite",
        engine=Local(tmp_path / "checkpoints"),
        settings={name: (chosen[name],) for name in settings},
        **options,
    )
    for one, other in zip(summary.runs, alone.summaries[0].runs, strict=True):
        assert (one.key, one.epochs) == (other.key, other.epochs)
        assert one.validation_loss == pytest.approx(other.validation_loss, rel=1e-9)
    with Store.reading(path) as store:
        assert set(store.reached().values()) == {16, float("inf")}
        assert len(store.runs()) == 2 * 2
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_training_may_be_asked_for_in_any_order(halve, path, pretend):
    """Rounds with fewer epochs than are known are answered from the store."""
    halve()
    with Store.reading(path) as store:
        paused = [key for key, epochs in store.reached().items() if epochs == 16]
        assert len(paused) == 4
        assert {found.epochs for found in store.validation(paused, until=8)} == {8}
