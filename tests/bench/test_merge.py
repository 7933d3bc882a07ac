"""Several stores as one."""

import json
import sqlite3

import pytest

from sagpool.bench import Store, merge_stores, rows, run_experiment
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
    assert merged == (2, 8, 2, 2)
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
    assert merge_stores([stores[0], copy], tmp_path / "c.sqlite") == (2, 4, 1, 4)
    with Store.reading(tmp_path / "c.sqlite") as store:
        assert len(store.invocations()) == 1


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (
            "UPDATE runs SET test_accuracy = 0.5, checksum = NULL WHERE seed = 0 AND fold = 1",
            r"different results of the same training \(sagpool-h on MUTAG, seed 0, fold 1\): "
            r"0.7 and 0.5\.",
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


def test_on_the_command_line(stores, tmp_path, monkeypatch, capsys):
    from sagpool.cli.main import main

    output = tmp_path / "c.sqlite"
    names = list(map(str, stores))
    monkeypatch.setattr("sys.argv", ["sagpool", "merge", *names, "-o", str(output), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["runs"] == 8


@pytest.mark.parametrize("first", [0, 1])
def test_settings_that_were_also_given_without_a_search_stay_so(first, small, pretend, tmp_path):
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
        (cell,) = store.cells()
    assert (cell.search, bool(cell.fixed)) == ("grid", True)
