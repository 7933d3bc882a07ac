"""What a run store already has of a search, and how long the rest takes."""

from contextlib import suppress

import pytest

from sagpool.bench import Overrides, Search, plan_experiment, run_experiment
from sagpool.bench.plan import training_of
from sagpool.bench.time_estimate import estimate_time
from sagpool.bench.workload import reference_figures

SETTINGS = {"max_epochs": (50,)}


@pytest.fixture(autouse=True)
def steps_take_no_time(monkeypatch):
    """So the time is in proportion to the work; by the steps of these trainings it is constant."""
    monkeypatch.setitem(reference_figures(), "seconds_per_step", 0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def run(small, path, pretend):
    """A search among four candidates on two folds, then another seed; trainings take 40 epochs."""
    pretend.accuracy, pretend.epochs = {1e-3: 0.9, 1e-2: 0.5}, 40

    def start(search, stop_after=None, **options):
        pretend.stop_after = stop_after
        pretend.asked.clear()
        chosen = {"methods": "gpool-h", "settings": SETTINGS, "store": path, "search": search}
        return run_experiment(small, engine=pretend, **chosen, **options)

    return start


@pytest.fixture
def plan(small, path):
    def new(search, **options):
        overrides = Overrides(methods=("gpool-h",), settings=SETTINGS)
        return plan_experiment(small, overrides, search=search, store=path, **options)

    return new


def cell_of(plan):
    (stored,), (row,) = plan.stored(), plan.describe()
    return stored, row, estimate_time(plan, "a toaster").cells[0]


@pytest.mark.parametrize("search", [Search.GRID, Search.HALVING, Search.RACE])
def test_nothing_is_stored_at_first(plan, search):
    stored, row, time = cell_of(plan(search))
    assert stored.final is None
    assert (row["stored"], row["search_stored"], row["chosen"]) == (None, 0, False)
    assert "lr" not in row
    assert time.search > 0
    assert time.training > 0


@pytest.mark.parametrize("search", [Search.GRID, Search.HALVING, Search.RACE])
def test_a_finished_search_and_its_final_runs(plan, run, search):
    (summary,) = run(search).summaries
    stored, row, time = cell_of(plan(search))
    assert training_of("gpool-h", summary.cell.settings) == stored.final[0]
    assert (row["stored"], row["trainings"], row["chosen"]) == (4, 4, True)
    assert row["search_stored"] == row["search"] == stored.search.begun
    assert row["lr"] == 1e-3
    assert (time.search, time.training) == (0, 0)


@pytest.mark.parametrize("search", [Search.GRID, Search.HALVING, Search.RACE])
@pytest.mark.parametrize("stop_after", range(1, 15, 2))
def test_what_is_missing_of_a_killed_command_is_what_the_next_one_trains(
    plan, run, pretend, search, stop_after
):
    before = cell_of(plan(search))[2]
    with suppress(KeyboardInterrupt):
        run(search, stop_after)
    stored, row, time = cell_of(plan(search))
    assert time.total < before.total
    run(search)
    if stored.final is not None:
        assert time.search == 0
        assert len(pretend.asked) == row["trainings"] - row["stored"]
        assert set(pretend.asked) <= set(stored.final)
        assert (time.training == 0) == (not pretend.asked)
    else:
        assert time.search > 0
        assert stored.search.stored < stored.search.begun
        if search is Search.GRID:
            first = [one for one in pretend.asked if one.seed == 0]
            assert row["search"] - row["search_stored"] == len(first)


def test_a_choice_per_fold(plan, run):
    with pytest.raises(KeyboardInterrupt):
        run(Search.GRID, 5, select="per-fold")
    _, row, time = cell_of(plan(Search.GRID, select="per-fold"))
    assert (row["stored"], row["search_stored"], row["search"]) == (None, 5, 16)
    assert time.training == 0
    run(Search.GRID, select="per-fold")
    _, row, time = cell_of(plan(Search.GRID, select="per-fold"))
    assert (row["stored"], row["search_stored"], row["chosen"]) == (4, 16, True)
    assert "lr" not in row, "each fold has its own"
    assert time.total == 0


def test_trainings_of_a_grid_answer_a_race(plan, run):
    run(Search.GRID)
    assert cell_of(plan(Search.RACE))[0].final is not None


def test_final_runs_that_are_stored_already_take_no_time(plan, small, path, pretend):
    """Both seeds of three of the four candidates, without a search."""
    pretend.epochs = 50  # as expected
    before = cell_of(plan(Search.GRID))[2]
    for lr, hidden in ((1e-3, 4), (1e-2, 4), (1e-3, 6)):
        settings = SETTINGS | {"lr": (lr,), "hidden": (hidden,)}
        run_experiment(small, methods="gpool-h", settings=settings, store=path, engine=pretend)
    _, row, time = cell_of(plan(Search.GRID))
    assert (row["search_stored"], row["search"], row["chosen"]) == (6, 8, False)
    # The fourth is chosen with a chance of 6 in 20, in proportion to the hidden sizes.
    assert time.training == pytest.approx(time.search * 6 / 20)
    assert time.training < before.training / 2
