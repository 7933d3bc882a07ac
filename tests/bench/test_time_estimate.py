"""How long an experiment takes, before it is run."""

import math
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.bench import Overrides, Search, plan_experiment, run_experiment
from sagpool.bench.search import choose
from sagpool.bench.time_estimate import estimate_time
from sagpool.bench.workload import Epochs, bytes_per_epoch, expected_epochs, reference_figures
from sagpool.fleet import Training
from sagpool.fleet.memory import trial_step

ONE = Training("sagpool-h", patience=50)
SMALL = {"hidden": (4,), "max_epochs": (3,)}


def planned(store, search=Search.NONE, seeds=2, **settings):
    overrides = Overrides(("MUTAG",), ("gpool-h",), (), seeds, 2, SMALL | settings)
    return plan_experiment("quick", overrides, search=search, store=store)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs.sqlite"


def test_epochs_of_a_published_cell_are_those_that_were_measured():
    epochs = Epochs.of("NCI1", "sagpool-h")
    lr, hidden, weight_decay, best = reference_figures()["best_epochs"]["NCI1"]["sagpool-h"]
    same = replace(ONE, lr=lr, hidden=hidden, weight_decay=weight_decay)
    assert epochs(same) == pytest.approx(50 + best)
    assert epochs(replace(same, weight_decay=0.01)) < 50 + best
    assert epochs(replace(ONE, lr=lr, hidden=hidden, max_epochs=60)) == 60
    assert epochs(replace(ONE, lr=lr / 5, hidden=hidden)) > 1.2 * (50 + best)
    assert epochs(replace(ONE, lr=lr, hidden=hidden // 4)) > 50 + best


@pytest.mark.parametrize(("dataset", "method"), [("NCI1", "new-h"), ("new", "sagpool-h")])
def test_epochs_of_other_cells_are_means(dataset, method):
    assert 100 < Epochs.of(dataset, method)(replace(ONE, lr=5e-4, hidden=128)) < 250


def test_bytes_between_two_hidden_sizes_are_close_to_those_of_a_trial():
    graphs = load("MUTAG")
    sizes = [replace(ONE, hidden=hidden) for hidden in (16, 32, 64, 128)]
    found = bytes_per_epoch(graphs, sizes, torch.float32)
    steps = math.ceil(round(188 * 0.9 * 0.9) / 128)
    for training in sizes:
        tried = sum(trial_step(graphs, training, torch.float32))
        assert found[training] == pytest.approx(steps * tried, rel=0.1)


def test_a_race_is_expected_to_train_a_fraction_of_the_grid():
    candidates = [replace(ONE, lr=1e-3, dropout=i / 192) for i in range(192)]
    epochs = Epochs.of("PROTEINS", "sagpool-h")
    grid, race = (
        expected_epochs(choose(search, candidates), epochs) for search in (Search.GRID, Search.RACE)
    )
    assert sum(grid.values()) == pytest.approx(1920 * epochs(candidates[0]))
    assert 0.05 < sum(race.values()) / sum(grid.values()) < 0.2


def test_larger_networks_are_expected_to_win_more_often():
    """In proportion to their hidden size: 8 of 9 times against one with an eighth of it."""
    candidates = [
        Training("sagpool-h", hidden=hidden, lr=lr)
        for hidden in (16, 128)
        for lr in np.geomspace(1e-4, 1e-2, 96).tolist()
    ]
    epochs = Epochs.of("PROTEINS", "sagpool-h")
    trained = expected_epochs(choose(Search.RACE, candidates), epochs)
    finalists = {replace(one, fold=0) for one, count in trained.items() if count == epochs(one)}
    assert np.mean([one.hidden == 128 for one in finalists]) > 0.7


def test_an_estimate_by_packaged_figures(store, monkeypatch):
    monkeypatch.setitem(reference_figures(), "seconds_per_step", 0.0)
    plan = planned(store)
    estimate = estimate_time(plan, "a toaster")
    figures = reference_figures()
    assert (estimate.device, estimate.measured) == (figures["device"], False)
    default = plan.cells[0].default
    work = bytes_per_epoch(load("MUTAG"), [default], torch.float32)[default] * 3 * 2 * 2
    assert estimate.seconds == pytest.approx(work / figures["bytes_per_second"])
    assert estimate.cells[0].search == 0
    more = estimate_time(planned(store, Search.GRID, lr=(0.1, 0.01), ratio=(0.5,)), "a toaster")
    assert more.cells[0].search == pytest.approx(estimate.seconds)  # 2 candidates, 1 seed
    assert more.cells[0].training == pytest.approx(estimate.seconds / 2)


@pytest.mark.parametrize("search", [Search.NONE, Search.GRID])
def test_steps_that_follow_each_other_take_their_time(search, store):
    """A fleet with few models and many small steps is limited by their number, not their bytes."""
    few = planned(store, search, seeds=2, batch_size=(4,), lr=(0.1,), ratio=(0.5,))
    many = planned(store, search, seeds=3, batch_size=(4,), lr=(0.1,), ratio=(0.5,))
    steps = math.ceil(round(94 * 0.9) / 4) * 3
    one = steps * reference_figures()["seconds_per_step"]
    for plan in (few, many):
        cell = estimate_time(plan, "a toaster").cells[0]
        assert cell.training == pytest.approx(one, rel=0.05)
        assert cell.search == pytest.approx(one * (search is Search.GRID), rel=0.05)


def test_a_store_tells_how_fast_its_device_is(store):
    settings = {name: value[0] for name, value in SMALL.items()}
    options = {"seeds": 1, "folds": 2, "settings": settings, "store": store, "device": "cpu"}
    run_experiment("quick", datasets="MUTAG", methods="gpool-h", **options)
    with sqlite3.connect(store) as file:
        ((device, last),) = file.execute(
            "SELECT device, max(finished) FROM invocations, runs"
        ).fetchall()
        file.execute("UPDATE invocations SET started = datetime(?, '-100 seconds')", (last,))
        file.execute("UPDATE invocations SET started = replace(started, ' ', 'T') || '+00:00'")
    file.close()
    plan = planned(store, seeds=3)
    estimate = estimate_time(plan, device)
    assert (estimate.device, estimate.measured) == (device, True)
    assert estimate.seconds == pytest.approx(200), "one seed is stored and took 100 s"
    assert not estimate_time(plan, "a toaster").measured


def test_trainings_with_fewer_epochs_tell_nothing_about_longer_ones(store):
    settings = {"hidden": 4, "max_epochs": 1}
    options = {"seeds": 1, "folds": 2, "settings": settings, "store": store, "device": "cpu"}
    before = estimate_time(planned(store, max_epochs=(500,)), "a toaster").seconds
    run_experiment("quick", datasets="MUTAG", methods="gpool-h", **options)
    after = estimate_time(planned(store, max_epochs=(500,)), "a toaster").seconds
    assert after == pytest.approx(before)


def test_a_time_that_cannot_be_read(store):
    settings = {name: value[0] for name, value in SMALL.items()}
    options = {"seeds": 1, "folds": 2, "settings": settings, "store": store, "device": "cpu"}
    run_experiment("quick", datasets="MUTAG", methods="gpool-h", **options)
    with sqlite3.connect(store) as file:
        ((device,),) = file.execute("SELECT device FROM invocations").fetchall()
        file.execute("UPDATE invocations SET started = 'yesterday'")
    file.close()
    with pytest.raises(SagpoolError, match="has a time that cannot be read: 'yesterday'"):
        estimate_time(planned(store), device)
