"""How the time of the device was spent, beside the rows of a run store."""

import sqlite3

import pytest

from sagpool.bench import run_experiment
from sagpool.bench.records import SLICES, DeviceTime
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError

SMALL = {
    "datasets": "MUTAG",
    "methods": "sagpool-h",
    "seeds": 1,
    "folds": 2,
    "settings": {"max_epochs": 2, "hidden": 4},
    "device": "cpu",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


def test_the_kinds_add_up_to_the_time_of_the_run(path):
    result = run_experiment("quick", **SMALL, store=path, profile=True)
    spent = result.profile
    assert spent.wall_seconds > 0
    assert sum(spent.seconds.values()) == pytest.approx(
        spent.wall_seconds * spent.threads, rel=1e-3
    )
    assert spent.seconds["steps"] > 0
    assert spent.seconds["evaluation"] > 0
    assert all(len(values) == SLICES for values in spent.fractions.values())
    for parts in zip(*spent.fractions.values(), strict=True):
        assert sum(parts) == pytest.approx(1, abs=1e-3)
    assert sum(spent.models) == 4  # two trainings, two epochs
    with Store.reading(path) as store:
        assert store.profiles() == {1: spent}


def test_without_the_option_nothing_is_stored(path):
    assert run_experiment("quick", **SMALL, store=path).profile is None
    with Store.reading(path) as store:
        assert store.profiles() == {}


def test_a_stopped_run_has_its_profile_too(path):
    def stop(state):
        if state.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment("quick", **SMALL, store=path, profile=True, watch=stop)
    with Store.reading(path) as store:
        assert store.profiles()[1].seconds["steps"] > 0


def test_an_older_store_without_a_table_of_profiles(path):
    spent = DeviceTime(2.0, 1, {"steps": [0.5, 1.0], "waiting": [0.5, 0.0]}, [3, 4])
    with Store.writing(path) as store:
        store.begin("sagpool bench", "small", "a CPU", {})
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE migrations")
        connection.execute("DROP TABLE profiles")
    connection.close()
    with Store.reading(path) as store:
        assert store.profiles() == {}
    with Store.writing(path) as store:
        store.add_profile(1, spent)
        assert store.profiles() == {1: spent}


def test_it_is_refused_with_ray(path):
    with pytest.raises(SagpoolError, match="it needs the engine 'local'"):
        run_experiment("quick", **SMALL, store=path, profile=True, engine="ray")
    assert not path.exists()


def test_one_sentence():
    fractions = {"steps": [0.7, 0.5], "compiling": [0.0, 0.0], "waiting": [0.3, 0.5]}
    spent = DeviceTime(62.13, 1, fractions, [1, 1])
    assert str(spent) == "Of 62.1 s, the device spent 60 % on steps, 40 % waiting."
    assert str(DeviceTime(62.13, 2, fractions, [1, 1])).startswith("Of 62.1 s on 2 threads, the ")
