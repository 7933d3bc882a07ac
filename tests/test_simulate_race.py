"""The script that judges a search on a finished grid."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sagpool.bench import run_experiment


@pytest.fixture
def simulate(run_script):
    def run(*options: object) -> list[dict]:
        done = run_script("simulate_race.py", "--json", *options)
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


@pytest.fixture
def curves(tmp_path) -> Path:
    """A grid in which a learning rate is better the higher it is, on every fold."""
    meta, losses, accuracies = [], [], []
    rates, decays = np.arange(1, 17) * 1e-3, (1e-3, 1e-4)
    for lr, decay, fold in product(rates, decays, range(10)):
        accuracy = 0.6 + 10 * lr * (1 - np.exp(-np.arange(100) / 10))
        meta.append([16, 0.5, lr, decay, fold, 0, 0, 100])
        losses.append(1 - accuracy)
        accuracies.append(accuracy)
    path = tmp_path / "GRID.npz"
    lengths = np.full(len(meta), 100)
    flat = {"loss": np.concatenate(losses), "acc": np.concatenate(accuracies)}
    np.savez(path, meta=np.array(meta), lens=lengths, **flat)
    return path


def test_a_race_is_compared_with_the_grid(simulate, curves):
    (row,) = simulate(curves, "--resamples", 3)
    assert (row["cell"], row["candidates"], row["resamples"]) == ("GRID: GRID", 32, 3)
    assert row["regret"] == pytest.approx(0)
    assert row["mean_regret"] == pytest.approx([0, 0])
    assert row["within_half_a_point"] == [1, 1]
    assert 0 < row["cost"] < 0.5


def test_a_grid_search_may_be_misled_by_the_folds_that_it_gets(simulate, curves):
    """The best candidate is the best because of a single fold, which a resample may not have."""
    file = dict(np.load(curves))
    lucky = (file["meta"][:, 2] == 1e-3) & (file["meta"][:, 4] == 0)
    file["acc"][np.repeat(lucky, file["lens"])] += 3
    np.savez(curves, **file)
    (row,) = simulate(curves, "--resamples", 8, "--candidates", 0.9, "--search", "grid")
    assert (row["regret"], row["cost"]) == (0, 1)
    regret, of_the_grid = row["mean_regret"]
    assert regret == of_the_grid > 1


def test_the_grid_comes_from_a_run_store(simulate, tmp_path):
    store = tmp_path / "runs.sqlite"
    settings = {"max_epochs": 3, "hidden": 4, "lr": (0.01, 0.001), "weight_decay": 0.0}
    run_experiment(
        "quick",
        datasets="MUTAG",
        methods="gpool-h",
        seeds=1,
        folds=2,
        settings=settings,
        search="grid",
        store=store,
        device="cpu",
    )
    (row,) = simulate(store, "--resamples", 1)
    assert (row["cell"], row["candidates"]) == ("runs: MUTAG gpool-h", 2)
    assert 0 < row["cost"] <= 1
