"""Stores that are small, unusual, unfinished or damaged."""

import csv
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sagpool import Graphs, SagpoolError
from sagpool.bench.store import Store
from sagpool.fleet import NUMERICS
from sagpool.report import write_report
from sagpool.report.table import file_name


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_single_run(make, made, tmp_path):
    page = write_report(make(made(seeds=1, runs=1, accuracy=(62.5,))), tmp_path / "report")
    (row,) = rows(tmp_path / "report/tables/results.csv")
    assert (row["mean"], row["runs"], row["std_seeds"], row["ci95_low"]) == ("62.5", "1", "", "")
    assert (row["best"], row["significant"]) == ("False", "")  # there is no other method
    assert "reaches 62.5 % on MADE, over 1 training." in page.read_text()


def test_a_single_seed(make, made, tmp_path):
    store = make(made(seeds=1), made(method="gpool-h", seeds=1))
    page = write_report(store, tmp_path / "report")
    assert {row["std_seeds"] for row in rows(tmp_path / "report/tables/results.csv")} == {""}
    assert "No ±: the mean is of one seed alone." in page.read_text()


def test_diverged_runs_are_counted_and_left_out_of_the_mean(make, made, tmp_path):
    store = make(made(diverged=3, accuracy=tuple(range(60, 70))))
    write_report(store, tmp_path / "report")
    (row,) = rows(tmp_path / "report/tables/results.csv")
    assert (row["diverged"], row["runs"]) == ("3", "10")
    assert float(row["mean"]) == pytest.approx(66)  # the mean of 63 to 69
    assert "7 of 10 runs; 3 diverged" in (tmp_path / "report/tables/results.md").read_text()


def test_a_cell_with_runs_left_out_is_not_the_best(make, made, tmp_path):
    """Its mean is that of the runs that did not diverge."""
    high = made(method="gpool-h", diverged=3, accuracy=(90.0,) * 10)
    store = make(made(), made(method="random-h", mean=60), high)
    page = write_report(store, tmp_path / "report").read_text()
    best = [
        row["method"]
        for row in rows(tmp_path / "report/tables/results.csv")
        if row["best"] == "True"
    ]
    assert best == ["sagpool-h"]
    assert "<strong>SAGPool<sub>h</sub></strong> has the highest mean on MADE" in page
    assert "of cells without runs that are left out" in page


def test_no_method_leads_if_runs_of_every_cell_are_left_out(make, made, tmp_path):
    cells = [made(method=method, diverged=1) for method in ("sagpool-h", "gpool-h")]
    page = write_report(make(*cells), tmp_path / "report").read_text()
    assert "In every cell, some trainings diverged at once, so no method is said to lead." in page
    assert "has the highest mean" not in page


def test_a_cell_with_runs_left_out_leads_in_no_other_table(make, made, tmp_path):
    settings = {"patience": 7}  # another protocol
    high = made(method="gpool-h", diverged=3, accuracy=(90.0,) * 10, settings=settings)
    usual = [made(method=method) for method in ("sagpool-h", "random-h", "nopool-h")]
    page = write_report(make(high, *usual), tmp_path / "report").read_text()
    assert "is in another table" not in page


def test_data_sets_of_one_name_from_two_folders(make, made, tmp_path):
    cells = [made(f"{folder}/x.jsonl", runs=4) for folder in ("/a", "../b", "a-b")]
    write_report(make(*cells), tmp_path / "report")
    with (tmp_path / "report/tables/data.md").open() as file:
        text = file.read()
    assert all(f"{folder}/x.jsonl" in text for folder in ("/a", "../b", "a-b"))


def test_file_names_of_tables():
    named = ["scores-d1/x", "scores-d1-x", "scores-/d1/x", "scores-MUTAG (split a)"]
    made = [file_name(name) for name in named]
    assert (made[1], made[3]) == (named[1], named[3])
    assert len({*made}) == 4
    assert not any("/" in name for name in made)


def test_a_cell_in_which_all_runs_diverged_is_mentioned(make, made, tmp_path):
    def make_alone(cell):
        (tmp_path / "runs.sqlite").unlink()
        return make(cell)

    lost = made(method="gpool-h", diverged=10)
    page = write_report(make(made(), lost), tmp_path / "report")
    first, second = rows(tmp_path / "report/tables/cells.csv")
    assert (first["method"], second["method"], second["mean"]) == ("sagpool-h", "gpool-h", "")
    assert [row["method"] for row in rows(tmp_path / "report/tables/results.csv")] == ["sagpool-h"]
    assert "since all of its trainings diverged at once: gpool-h on MADE." in page.read_text()
    (tmp_path / "runs.sqlite").unlink()
    searched = replace(lost, settings={"lr": 0.1}, candidates=({"lr": 0.1},))
    page = write_report(make(made(), made(method="gpool-h"), searched), tmp_path / "other")
    assert "at once: gpool-h on MADE with searched settings." in page.read_text()
    with pytest.raises(SagpoolError, match=r"^Every training in .* diverged at once; run"):
        write_report(make_alone(lost), tmp_path / "report")


def test_several_settings_of_one_method(make, made, tmp_path):
    store = make(*(made(settings={"lr": lr}) for lr in (0.01, 0.001, 0.005)))
    page = write_report(store, tmp_path / "report")
    assert len(rows(tmp_path / "report/tables/cells.csv")) == 3
    assert len(rows(tmp_path / "report/tables/results.csv")) == 1
    assert "2 of these 3 cells were requested again later" in page.read_text()
    for lr in ("0.01", "1e-3"):
        assert f"sagpool-h with lr {lr} (shown: lr 5e-3) on MADE" in page.read_text()
    assert (tmp_path / "report/figures/sensitivity-MADE-lr.png").is_file()


def test_cells_that_differ_in_the_search_alone(make, made, tmp_path):
    cell = made(settings={"lr": 0.01}, candidates=({"lr": 0.01}, {"lr": 0.1}))
    store = make(cell)
    with Store.writing(store) as opened:
        (found,) = opened.cells()
        opened.add_cell(replace(found, search="halving"))
    page = write_report(store, tmp_path / "report").read_text()
    assert "Of cells that differ in the search or in settings such as the learning rate, " in page
    assert "Left out here: sagpool-h with search grid (shown: search halving) on MADE." in page


def test_of_many_earlier_settings_some_are_named(make, made, tmp_path):
    cells = [made(dataset=d, settings={"hidden": n}, seeds=1) for d in "AB" for n in range(2, 16)]
    page = write_report(make(*cells), tmp_path / "report").read_text()
    assert "Left out here: sagpool-h with hidden 2 (shown: hidden 15) on A, B; " in page
    assert "hidden 11 (shown: hidden 15) on A, B; and 3 more. “All cells” has them." in page


def test_cells_of_earlier_data_are_counted_and_told_apart(make, made, tmp_path, monkeypatch):
    make(made(), made(method="gpool-h"))
    monkeypatch.setattr(Graphs, "fingerprint", lambda graphs: "other graphs")
    store = make(made())
    page = write_report(store, tmp_path / "report").read_text()
    assert (
        "2 of these 3 cells were trained on an earlier version of the data, or on other data of "
        "the same name (MADE);"
    ) in page
    assert (
        "Other results are on an earlier version of the data, or on other data of the same name: "
        "MADE. They are left out here;"
    ) in page
    assert "were requested again later" not in page
    first, second, last = rows(tmp_path / "report/tables/cells.csv")
    assert first["fingerprint"] == second["fingerprint"] != last["fingerprint"] == "other graphs"
    assert "<code>other gr</code>" in page


@pytest.mark.parametrize(
    ("name", "usual", "other"), [("precision", "float32", "float64"), ("numerics", NUMERICS, 0)]
)
def test_cells_that_were_computed_differently_are_told_apart(
    make, made, tmp_path, name, usual, other
):
    with Store.writing(make(made())) as opened:
        opened.connection.execute(f"UPDATE cells SET {name} = ?", [other])
        opened.connection.execute(
            f"UPDATE runs SET {name} = ?, key = 'other' || key, checksum = NULL", [other]
        )
    write_report(make(made()), tmp_path / "report")
    found = rows(tmp_path / "report/tables/cells.csv")
    assert [row[name] for row in found] == [str(other), str(usual)]
    head, _, first, second = (tmp_path / "report/tables/cells.md").read_text().splitlines()[2:6]
    assert f"| {name} |" in head
    assert f"| {other} |" in first
    assert f"| {usual} |" in second


def test_versions_of_a_method_are_not_mixed(make, made, tmp_path):
    cells = [made(dataset=d, method=m) for d in ("A", "B") for m in ("hub-h", "gpool-h")]
    store = make(*cells)
    with Store.writing(store) as opened:
        for table in ("cells", "runs"):  # JSON with sorted keys
            opened.connection.execute(
                f"UPDATE {table} SET settings = replace(settings, '\"patience\"', "
                '\'"method_version": "old", "patience"\') '
                "WHERE method = 'hub-h' AND name = 'A'"
            )
        opened.connection.execute("UPDATE runs SET checksum = NULL")
    page = write_report(store, tmp_path / "report").read_text()
    found = rows(tmp_path / "report/tables/results.csv")
    assert [(row["dataset"], row["method"]) for row in found] == [
        *(("A", "gpool-h"), ("B", "gpool-h"), ("B", "hub-h"))
    ]
    assert "Other results are of another version of the method: hub-h on A. They" in page
    assert "1 of these 4 cells were made by another version of their method (hub-h on A);" in page
    assert "requested again later" not in page


def test_methods_with_other_splits_are_not_compared(make, made, tmp_path):
    store = make(made(), made(method="gpool-h", settings={"folds": 4}))
    page = write_report(store, tmp_path / "report")
    assert "Which differences are real?" not in page.read_text()
    assert not (tmp_path / "report/tables/pairs.csv").exists()
    tables = tmp_path / "report/tables"
    assert [row["method"] for row in rows(tables / "results.csv")] == ["gpool-h"]
    assert [row["method"] for row in rows(tables / "results-fixed-protocol2.csv")] == ["sagpool-h"]
    assert "is not the usual one: 5 folds." in (tables / "results-fixed-protocol2.md").read_text()


WRITER = """
import sys, time
from pathlib import Path
from sagpool.bench.store import Store
with Store.writing(Path(sys.argv[1])) as store:
    store.connection.execute("BEGIN IMMEDIATE")
    store.begin("sagpool bench", "made", "CPU", {})
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_report_while_another_process_writes(make, made, tmp_path):
    store = make(made())
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        page = write_report(store, tmp_path / "report")
        writer.communicate()
    assert page.is_file()


def missing(path: Path) -> str:
    return f"There is no run store at {path}."


def empty(path: Path) -> str:
    with Store.writing(path):
        pass
    return f"{path} has no finished trainings yet; run `sagpool bench` first."


def nothing(path: Path) -> str:
    path.touch()
    return f"{path} is not a sagpool run store."


def text(path: Path) -> str:
    path.write_text("not a database, but long enough to be taken for one" * 20)
    return f"{path} is not a sagpool run store."


def foreign(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (a)")
    connection.close()
    return f"{path} is not a sagpool run store."


def folder(path: Path) -> str:
    path.mkdir()
    return f"There is no run store at {path}."


@pytest.mark.parametrize("spoil", [missing, empty, nothing, text, foreign, folder])
def test_bad_stores(spoil, tmp_path):
    path = tmp_path / "bad.sqlite"
    sentence = spoil(path)
    with pytest.raises(SagpoolError) as error:
        write_report(path, tmp_path / "report")
    assert str(error.value) == sentence
    assert not (tmp_path / "report").exists()


def test_a_damaged_store(rich_store, tmp_path):
    path = tmp_path / "runs.sqlite"
    shutil.copy(rich_store, path)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(SagpoolError) as error:
        write_report(path, tmp_path / "report")
    assert str(error.value) == f"{path} is damaged; restore a copy, or name another store."


def test_a_folder_that_is_a_file(rich_store, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SagpoolError) as error:
        write_report(rich_store, tmp_path / "file")
    assert str(error.value) == f"{tmp_path / 'file'} is a file, not a folder."


def test_a_folder_below_a_file(rich_store, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SagpoolError, match="cannot be written: Not a directory"):
        write_report(rich_store, tmp_path / "file" / "report")
