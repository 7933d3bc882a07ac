"""Several stores as one."""

import json
import sqlite3

import numpy as np
import pytest

from sagpool.bench import Store, merge_stores, rows, run_experiment
from sagpool.bench.plan import METHOD_VERSION
from sagpool.bench.summary import summarise
from sagpool.bench.variants import of_latest_versions
from sagpool.errors import SagpoolError


@pytest.fixture
def stores(small, pretend, tmp_path):
    """One method each, on two machines, and one seed of the first in both."""
    paths = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    run_experiment(small, methods="sagpool-h", store=paths[0], engine=pretend, command="one")
    run_experiment(small, methods="gpool-h", store=paths[1], engine=pretend, command="two")
    run_experiment(small, methods="sagpool-h", seeds=1, store=paths[1], engine=pretend)
    return paths


def change(path, sql):
    with sqlite3.connect(path) as connection:
        connection.execute(sql)


def test_rows_keep_what_made_them(stores, tmp_path, small, pretend):
    output = tmp_path / "c.sqlite"
    merged = merge_stores(stores, output)
    assert merged[:5] == (2, 8, 2, 2, 0)
    assert not list(tmp_path.glob("*.part*"))
    found = rows(output, frame=False)
    with Store.reading(output) as store:
        commands = {one.id: one.command for one in store.invocations()}
        assert len(store.runs()) == 8, "the checksums are right"
        assert {cell.method: cell.paper_mean for cell in store.cells()} == {
            "sagpool-h": 76.5,
            "gpool-h": None,
        }
    made_by = {(row["method"], commands[row["invocation"]]) for row in found}
    assert made_by == {("sagpool-h", "one"), ("gpool-h", "two")}
    before = len(pretend.asked)
    run_experiment(small, store=output, engine=pretend)
    assert len(pretend.asked) == before, "nothing is trained again"


def test_a_copy_adds_nothing(stores, tmp_path):
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(stores[0].read_bytes())
    assert merge_stores([stores[0], copy], tmp_path / "c.sqlite")[:5] == (2, 4, 1, 4, 0)
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert len(store.invocations()) == 1


@pytest.fixture
def at_once(small, pretend, tmp_path):
    """Stores of equal commands that began in the same second, with a profile each."""
    paths = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    for path, method in zip(paths, ("sagpool-h", "gpool-h"), strict=True):
        run_experiment(small, methods=method, store=path, engine=pretend)
        change(path, "UPDATE invocations SET started = '2030-01-01T00:00:00+00:00'")
        change(path, f"INSERT INTO profiles SELECT id, '{json.dumps(method)}' FROM invocations")
    return paths


def profiles_of_methods(path):
    with sqlite3.connect(path) as connection:
        return connection.execute(
            "SELECT DISTINCT method, time FROM runs JOIN profiles USING (invocation) ORDER BY time"
        ).fetchall()


def test_equal_commands_of_the_same_second_stay_apart(at_once, tmp_path):
    merge_stores(at_once, tmp_path / "c.sqlite")
    apart = [("gpool-h", '"gpool-h"'), ("sagpool-h", '"sagpool-h"')]
    assert profiles_of_methods(tmp_path / "c.sqlite") == apart
    merge_stores([tmp_path / "c.sqlite", *at_once], tmp_path / "d.sqlite")
    assert profiles_of_methods(tmp_path / "d.sqlite") == apart
    with Store.reading(tmp_path / "d.sqlite") as store:
        assert len(store.invocations()) == 2, "copies are the same"


def test_equal_commands_without_trainings_stay_apart_by_their_profiles(at_once, tmp_path):
    for path in at_once:
        change(path, "DELETE FROM runs")
    merge_stores(at_once, tmp_path / "c.sqlite")
    with sqlite3.connect(tmp_path / "c.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM profiles").fetchone() == (2,)


def test_the_same_trainings_of_equal_commands_are_told_apart_by_their_duration(at_once, tmp_path):
    twin = tmp_path / "twin.sqlite"
    twin.write_bytes(at_once[0].read_bytes())
    change(twin, "UPDATE runs SET seconds = 2.5, checksum = NULL")
    assert merge_stores([at_once[0], twin], tmp_path / "c.sqlite").twice == 4
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert len(store.invocations()) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_a_copy_of_a_store_that_was_being_written(at_once, tmp_path, order):
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(at_once[0].read_bytes())
    change(copy, "DELETE FROM runs WHERE seed = 1")
    change(copy, "DELETE FROM profiles")
    merge_stores([copy, at_once[0]][::order], tmp_path / "c.sqlite")
    assert profiles_of_methods(tmp_path / "c.sqlite") == [("sagpool-h", '"sagpool-h"')]
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert len(store.invocations()) == 1


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (
            "UPDATE runs SET test_accuracy = 0.5, checksum = NULL WHERE seed = 0 AND fold = 1",
            r"different results of the same training \(sagpool-h on MUTAG, seed 0, fold 1\): "
            r"test accuracy 0.7 and 0.5\. Leave .*, or keep .* --prefer-first\.",
        ),
        (
            "UPDATE runs SET validation_loss = 0.5000001, checksum = NULL WHERE seed = 0",
            r"fold 0\): validation loss 0.5 and 0.5000001\.",
        ),
        (
            "UPDATE runs SET curve = x'000000000000000000000000', checksum = NULL WHERE seed = 0",
            r"fold 0\): curve\.",
        ),
        (
            "UPDATE runs SET parameters = 101, checksum = NULL WHERE seed = 0",
            r"fold 0\): parameters 100 and 101\. Leave one of the stores out\.",
        ),
        (
            "UPDATE cells SET paper_mean = 99, paper_std = 1 WHERE method = 'sagpool-h'",
            r"different published results of sagpool-h on MUTAG: 76.5 ± 1.5 and 99 ± 1\.",
        ),
        ("UPDATE runs SET epochs = 99 WHERE fold = 1", "was changed after it was written"),
        ("ALTER TABLE runs ADD COLUMN later TEXT", "runs.later, which .* lacks; name the newer"),
    ],
)
def test_contradictions_are_refused(stores, tmp_path, sql, sentence):
    change(stores[1], sql)
    with pytest.raises(SagpoolError, match=sentence):
        merge_stores(stores, tmp_path / "c.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite", "b.sqlite"]


@pytest.mark.parametrize(
    ("theirs", "sentence"),
    [
        ({"test": (99.9, 1.0)}, r"of tests of sagpool-h on MUTAG: test 61.5 ± 1 and test 99.9 ± 1"),
        ({"test": (61.5, 2.0)}, r"test 61.5 ± 1 and test 61.5 ± 2\."),
        ({"test": (61.5, 1.0), "later": (50.0, 1.0)}, r"61.5 ± 1 and later 50 ± 1, test 61.5 ± 1"),
    ],
)
def test_different_published_results_of_tests_are_refused(stores, tmp_path, theirs, sentence):
    for path, tests in zip(stores, ({"test": (61.5, 1.0)}, theirs), strict=True):
        change(
            path,
            f"UPDATE cells SET paper_tests = '{json.dumps(tests)}' WHERE method = 'sagpool-h'",
        )
    with pytest.raises(SagpoolError, match=sentence):
        merge_stores(stores, tmp_path / "c.sqlite")
    assert not (tmp_path / "c.sqlite").exists()


@pytest.mark.parametrize("names", ["abc", "cab"])
def test_the_sentence_names_the_stores_that_differ(names, small, pretend, tmp_path):
    one = {"seeds": 1, "engine": pretend}
    for name, method in zip("abc", ("gpool-h", "sagpool-h", "sagpool-h"), strict=True):
        run_experiment(small, methods=method, store=tmp_path / f"{name}.sqlite", **one)
    change(tmp_path / "c.sqlite", "UPDATE runs SET test_loss = 0.25, checksum = NULL")
    first, second = (name for name in names if name != "a")
    sentence = rf"{first}\.sqlite and .*{second}\.sqlite have .* test loss 0\.\d+ and 0\.\d+\."
    with pytest.raises(SagpoolError, match=sentence):
        merge_stores([tmp_path / f"{name}.sqlite" for name in names], tmp_path / "d.sqlite")


@pytest.fixture
def rounded(small, pretend, tmp_path):
    """Stores with one, two and one seeds of a cell, whose losses differ by rounding."""
    paths = [tmp_path / f"{name}.sqlite" for name in "abc"]
    for number, (path, seeds) in enumerate(zip(paths, (1, 2, 1), strict=True)):
        run_experiment(small, methods="sagpool-h", seeds=seeds, store=path, engine=pretend)
        change(path, f"UPDATE runs SET test_loss = {0.5 + number / 1024}, checksum = NULL")
    return paths


def test_of_different_results_the_first_are_kept(rounded, tmp_path):
    output = tmp_path / "d.sqlite"
    merged = merge_stores([rounded[0], rounded[2]], output, prefer_first=True)
    assert merged == (2, 2, 1, 2, 2, 0.0, 2 / 1024)
    assert {row["test_loss"] for row in rows(output, frame=False)} == {0.5}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_cell_is_taken_from_a_store_that_has_it_whole(rounded, tmp_path, order):
    output = tmp_path / "d.sqlite"
    change(rounded[1], "INSERT INTO tests SELECT key, 'later', 0.5, 0.75 FROM runs")
    change(rounded[0], "INSERT INTO tests SELECT key, 'earlier', 0.5, 0.25 FROM runs")
    merged = merge_stores([rounded[number] for number in order], output, prefer_first=True)
    assert (merged.runs, merged.twice, merged.left_out) == (4, 4, 4)
    assert merged.loss_difference <= 2 / 1024
    found = rows(output, frame=False)
    assert {row["test_loss"] for row in found} == {0.5 + 1 / 1024}
    assert all(row["later accuracy"] == 0.75 for row in found)
    assert "earlier accuracy" not in found[0], "rows that belong to a run go with it"
    with Store.reading(output) as store:
        made_by = {run.invocation for run in store.runs()}
        assert len(made_by) == 1


def test_a_cell_that_no_store_has_whole_comes_from_the_first(rounded, tmp_path):
    change(rounded[1], "DELETE FROM runs WHERE seed = 0 AND fold = 1")
    merge_stores(rounded[:2], tmp_path / "d.sqlite", prefer_first=True)
    found = {
        (r["seed"], r["fold"]): r["test_loss"] for r in rows(tmp_path / "d.sqlite", frame=False)
    }
    later = 0.5 + 1 / 1024
    assert found == {(0, 0): 0.5, (0, 1): 0.5, (1, 0): later, (1, 1): later}


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("UPDATE runs SET settings = '{}', checksum = NULL", "settings .* Leave one of the stores"),
        ("UPDATE runs SET test_loss = NULL, checksum = NULL", "test loss 0.5 and undefined"),
        ("UPDATE cells SET paper_mean = 99", "different published results"),
    ],
)
def test_the_first_are_not_preferred_to_what_cannot_be_compared(rounded, tmp_path, sql, sentence):
    change(rounded[2], sql)
    with pytest.raises(SagpoolError, match=sentence) as refused:
        merge_stores([rounded[0], rounded[2]], tmp_path / "d.sqlite", prefer_first=True)
    assert "--prefer-first" not in str(refused.value)
    assert not (tmp_path / "d.sqlite").exists()


def test_curves_of_paused_trainings(small, pretend, tmp_path):
    pretend.epochs, paths = 40, [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    for path in paths:
        run_experiment(
            small, methods="gpool-h", settings={"max_epochs": 50}, search="halving", store=path,
            engine=pretend,
        )  # fmt: skip
    with Store.reading(paths[0]) as store:
        ((key,), *_) = store.connection.execute("SELECT key FROM paused").fetchall()
        curve = store._paused(key).copy()
    curve[2] = np.nan  # as of a regression
    for path, loss in zip(paths, (1.0, 1.25), strict=True):
        curve[1] = loss
        change(path, f"UPDATE paused SET curve = x'{curve.tobytes().hex()}' WHERE key = '{key}'")
    assert merge_stores([paths[0], paths[0]], tmp_path / "equal.sqlite").left_out == 0
    with pytest.raises(SagpoolError, match=r"different curves of the same .* --prefer-first"):
        merge_stores(paths, tmp_path / "c.sqlite")
    merged = merge_stores(paths, tmp_path / "c.sqlite", prefer_first=True)
    assert (merged.left_out, merged.accuracy_difference, merged.loss_difference) == (1, 0, 0.25)
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert store._paused(key)[1, 0] == 1


def test_states_of_searches(stores, tmp_path, small, pretend):
    pretend.epochs = 40
    run_experiment(
        small, methods="gpool-h", settings={"max_epochs": 50}, search="halving", store=stores[1],
        engine=pretend,
    )  # fmt: skip
    merge_stores(stores, tmp_path / "c.sqlite")
    with Store.reading(stores[1]) as source, Store.reading(tmp_path / "c.sqlite") as store:
        known = source.reached()
        assert known.items() <= store.reached().items()
        assert set(known.values()) > {float("inf")}, "some are paused"


def test_what_cannot_be_merged(stores, tmp_path):
    with pytest.raises(SagpoolError, match="at least two"):
        merge_stores(stores[:1], tmp_path / "c.sqlite")
    with pytest.raises(SagpoolError, match="exists already"):
        merge_stores(stores, stores[0])
    with pytest.raises(SagpoolError, match="no run store at"):
        merge_stores([stores[0], tmp_path / "none"], tmp_path / "c.sqlite")


def run_command(monkeypatch, *arguments):
    from sagpool.cli.main import main

    monkeypatch.setattr("sys.argv", ["sagpool", "merge", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_on_the_command_line(stores, tmp_path, monkeypatch, capsys):
    run_command(monkeypatch, *stores, "-o", tmp_path / "c.sqlite", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["left_out"]) == (8, 0)


def test_the_command_line_says_what_was_left_out(rounded, tmp_path, monkeypatch, capsys):
    run_command(monkeypatch, *rounded, "-o", tmp_path / "d.sqlite", "--prefer-first")
    assert (
        "4 results (or choices of settings per fold) that differ from those of another store were "
        "left out; accuracies differ by at most 0, losses by" in capsys.readouterr().out
    )


@pytest.mark.parametrize("first", [0, 1])
def test_the_same_settings_searched_and_given_stay_two_cells(first, small, pretend, tmp_path):
    """In whatever order the stores are merged."""
    paths = [tmp_path / "searched.sqlite", tmp_path / "both.sqlite"]
    one = {"methods": "gpool-h", "engine": pretend}
    for path in paths:
        run_experiment(small, store=path, search="grid", **one)
    with Store.reading(paths[1]) as store:
        (chosen,) = (cell.settings for cell in store.cells())
    names = ("lr", "hidden", "weight_decay", "ratio")
    run_experiment(small, store=paths[1], settings={n: (chosen[n],) for n in names}, **one)
    output = tmp_path / "c.sqlite"
    merge_stores([paths[first], paths[1 - first]], output)
    with Store.reading(output) as store:
        assert {cell.search for cell in store.cells()} == {"grid", "none"}


def begun(path, *times):
    """Set when the commands of a store began, as minutes."""
    for number, minute in enumerate(times, 1):
        started = f"2030-01-01T00:{minute:02}:00+00:00"
        change(path, f"UPDATE invocations SET started = '{started}' WHERE id = {number}")


@pytest.fixture
def versions(small, pretend, tmp_path, monkeypatch):
    """A store, and a later one with a new version of the method."""
    paths = [tmp_path / "old.sqlite", tmp_path / "new.sqlite"]
    for number, path in enumerate(paths):
        monkeypatch.setattr("sagpool.bench.plan.method_version", lambda name, n=number: f"v{n}")
        run_experiment(small, methods="gpool-h", store=path, engine=pretend, command=path.stem)
        begun(path, number)
    return paths


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_request_is_the_one_that_began_last(versions, tmp_path, order):
    merge_stores(versions[::order], tmp_path / "c.sqlite")
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert [one.command for one in store.invocations()] == ["old", "new"]
        found = summarise(store.cells(), store.runs())
    (shown,) = of_latest_versions(found)
    assert shown.cell.settings[METHOD_VERSION] == "v1"


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_request_of_a_cell_is_kept(small, pretend, tmp_path, order):
    paths = [tmp_path / "old.sqlite", tmp_path / "new.sqlite"]
    for number, path in enumerate(paths):
        run_experiment(small, store=path, engine=pretend, seeds=1 + number)
        begun(path, 5 - 5 * number)
    run_experiment(small, methods="gpool-h", store=paths[1], engine=pretend, seeds=1)
    begun(paths[1], 0, 9)
    merge_stores(paths[::order], tmp_path / "c.sqlite")
    with Store.reading(tmp_path / "c.sqlite") as store:
        started = {one.id: one.started[14:16] for one in store.invocations()}
        found = [(cell.method, started[cell.invocation], cell.seeds) for cell in store.cells()]
    assert found == [("sagpool-h", "05", 1), ("gpool-h", "09", 1)]
