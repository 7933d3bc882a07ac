"""Rows tell which code made them, and a report tells if a mean is over several versions of it."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

import sagpool
from sagpool.bench import Store, rows, run_experiment
from sagpool.bench.provenance import UNKNOWN, commit, kernel_hash
from sagpool.report import write_report


@pytest.fixture
def package(tmp_path) -> Path:
    folder = tmp_path / "checkout" / "sagpool"
    (folder / "ops" / "kernels").mkdir(parents=True)
    for name in ("__init__.py", "ops/linear.py", "ops/kernels/adam.py"):
        (folder / name).write_text(f"# {name}\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_of_a_checkout(package, monkeypatch):
    monkeypatch.delenv("SAGPOOL_COMMIT", raising=False)
    version = f"version {sagpool.__version__}"
    assert commit(package) == version, "there is no history"
    git(package.parent, "init")
    assert commit(package) == version, "the checkout is that of something else"
    git(package, "add", ".")
    git(package, "commit", "-m", "first")
    head = git(package, "rev-parse", "HEAD")
    assert commit(package) == head[:12]
    (package.parent / "notes.txt").write_text("not part of the package")
    assert commit(package) == head[:12]
    (package / "ops" / "linear.py").write_text("changed")
    assert commit(package) == f"{head[:12]}+changes"
    monkeypatch.setenv("SAGPOOL_COMMIT", "0123abc")
    assert commit(package) == "0123abc"


def test_the_hash_is_that_of_operators_and_kernels(package):
    before = kernel_hash(package)
    assert kernel_hash(package) == before
    (package / "__init__.py").write_text("other")
    assert kernel_hash(package) == before
    for name in ("ops/kernels/adam.py", "nn/pool/clusters/kernels/gram.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("other")
        assert kernel_hash(package) != before
        before = kernel_hash(package)
    (package / "ops" / "linear.py").rename(package / "ops" / "lines.py")
    assert kernel_hash(package) != before


@pytest.fixture
def store(small, pretend, tmp_path):
    """The first seed of a cell, and its second seed by another command."""
    path = tmp_path / "runs.sqlite"
    for seeds in (1, 2):
        run_experiment(small, methods="gpool-h", seeds=seeds, engine=pretend, store=path)
    return path


def change_versions(path: Path, number: int, **changes: str | None) -> None:
    """Of an invocation; None removes a version, as in older stores."""
    with sqlite3.connect(path) as connection:
        (text,) = connection.execute(
            "SELECT versions FROM invocations WHERE id = ?", (number,)
        ).fetchone()
        versions = {k: v for k, v in (json.loads(text) | changes).items() if v is not None}
        connection.execute(
            "UPDATE invocations SET versions = ? WHERE id = ?", (json.dumps(versions), number)
        )
    connection.close()


def test_rows_carry_the_commit_and_the_kernels(store):
    table = rows(store, frame=False)
    assert {(row["commit"], row["kernels"]) for row in table} == {(commit(), kernel_hash())}
    change_versions(store, 1, commit=None, kernels=None)
    by_seed = {row["seed"]: (row["commit"], row["kernels"]) for row in rows(store, frame=False)}
    assert by_seed == {0: (UNKNOWN, UNKNOWN), 1: (commit(), kernel_hash())}


def test_the_columns_of_invocations_are_those_of_older_stores(store):
    """So that older versions of the package can read and continue a newer store."""
    with Store.reading(store) as opened:
        columns = [row[1] for row in opened.connection.execute("PRAGMA table_info(invocations)")]
    assert columns == ["id", "started", "command", "experiment", "device", "versions"]


MIXED = "Means over runs that different kernels have made: gpool-h on MUTAG "


def test_a_mean_over_different_kernels_is_never_silent(store, tmp_path):
    ours = kernel_hash()
    page = write_report(store, tmp_path / "report").read_text()
    assert MIXED not in page
    assert f"All rows were made with the same kernels ({ours})." in page
    assert page.count(f"<code>{commit()}</code>") == 2

    change_versions(store, 1, kernels="feedfeedfeed")
    page = write_report(store, tmp_path / "report").read_text()
    assert f"{MIXED}(feedfeedfeed, {ours})." in page
    assert "2 versions of the kernels" in page
    assert "Cells with rows of more than one version: 1." in page
    assert MIXED in (tmp_path / "report/tables/results.md").read_text()

    change_versions(store, 1, kernels=None)
    page = write_report(store, tmp_path / "report").read_text()
    assert f"{MIXED}(unknown, {ours})." in page
    assert "Some rows were made with unknown kernels" in page

    change_versions(store, 2, kernels=None, commit=None)
    page = write_report(store, tmp_path / "report").read_text()
    assert MIXED not in page
    assert "the store is older" in page
