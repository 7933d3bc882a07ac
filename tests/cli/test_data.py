import json
import logging
import os
import subprocess
import sys

import pytest

import sagpool as package

KEYS = [
    *("name", "graphs", "classes", "avg_nodes", "avg_edges"),
    *("features", "feature_kind", "majority"),
]


def test_the_table_of_named_data_sets(sagpool, small):
    outcome = sagpool("data", "MUTAG", small.folder)
    assert (outcome.code, outcome.err) == (0, "")
    header, _, mutag, own = outcome.out.splitlines()
    assert " ".join(header.split()) == (
        "data set graphs classes avg nodes avg edges features majority"
    )
    assert mutag.split() == ["MUTAG", "188", "2", "17.93", "19.79", "7", "labels", "66.5%"]
    assert own.split() == ["SMALL", "4", "2", "2.50", "1.50", "3", "labels", "50.0%"]


def test_json(sagpool, small):
    outcome = sagpool("data", "--json", small.folder, "MUTAG", "--features", "degree")
    first, second = json.loads(outcome.out)
    assert list(first) == KEYS
    assert first == {
        "name": "SMALL",
        "graphs": 4,
        "classes": 2,
        "avg_nodes": 2.5,
        "avg_edges": 1.5,
        "features": 3,
        "feature_kind": "degree",
        "majority": 0.5,
    }
    assert second["name"] == "MUTAG"
    assert second["avg_edges"] == pytest.approx(19.79, abs=0.005)


def test_without_names_all_local_data_sets_are_listed(sagpool, small, monkeypatch):
    folder = small.folder.parent
    monkeypatch.setenv("SAGPOOL_DATA", str(folder))
    assert [row["name"] for row in json.loads(sagpool("data", "--json").out)] == [
        *("MUTAG", "motifs", "SMALL")
    ]
    lines = sagpool("data").out.splitlines()
    assert lines[-3:] == [
        "generated on demand, with a fixed split: colors, triangles, motifs-shift",
        *("built in: MUTAG, motifs", f"in {folder}: SMALL"),
    ]


def test_without_a_folder_sagpool_data_is_mentioned(sagpool):
    assert sagpool("data").out.endswith(
        "Set SAGPOOL_DATA to a folder with NAME/ or NAME.zip to see more.\n"
    )


def test_one_bad_data_set_does_not_hide_the_others(sagpool, small, monkeypatch, caplog):
    small.change("A", 3, "2, x")
    (small.folder.parent / "BROKEN.zip").write_bytes(b"not a zip")
    monkeypatch.setenv("SAGPOOL_DATA", str(small.folder.parent))
    with caplog.at_level(logging.WARNING):
        outcome = sagpool("data", "--json")
    assert outcome.code == 0
    assert [row["name"] for row in json.loads(outcome.out)] == ["MUTAG", "motifs"]
    assert caplog.messages == [
        f"{small.folder.parent / 'BROKEN.zip'} is not a complete zip file; fetch it again.",
        f"{small.file('A')}, line 3: 'x' is not a whole number.",
    ]


def test_warnings_go_to_stderr(small):
    small.write("A", ["1, 2", "2, 3", "2, 3"])
    small.file("edge_labels").unlink()
    ended = subprocess.run(
        [sys.executable, "-m", "sagpool.cli.main", "data", str(small.folder), "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert json.loads(ended.stdout)[0]["avg_edges"] == 0.5
    assert ended.stderr == (
        "sagpool: SMALL: 2 one-way edges were made undirected, 1 duplicate edges were merged.\n"
    )


def test_an_unknown_name(sagpool, cache):
    outcome = sagpool("data", "NOPE")
    assert outcome.code == 2
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("sagpool: No data set 'NOPE': it is not built in, ")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_version_and_help(sagpool):
    assert sagpool("--version").out == f"sagpool {package.__version__}\n"
    assert "data" in sagpool("--help").out
