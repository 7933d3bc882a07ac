"""Comparisons with one reference."""

import csv
import json
import shlex

import numpy as np
import pytest

from sagpool.bench import Store, run_experiment
from sagpool.bench.against import compare_with
from sagpool.bench.summary import summarise
from sagpool.errors import SagpoolError
from sagpool.statistics import holm, paired_difference

METHODS = ["sagpool-h", "gpool-h", "random-h"]


@pytest.fixture
def path(tmp_path, small, pretend):
    """Three methods, the accuracies of which follow from made-up numbers."""
    path = tmp_path / "runs.sqlite"
    run_experiment(small, methods=METHODS, store=path, engine=pretend)
    with Store.writing(path) as store:
        for number, method in enumerate(METHODS):
            for seed in range(2):
                for fold in range(2):
                    store.connection.execute(
                        "UPDATE runs SET test_accuracy = ?, checksum = NULL "
                        "WHERE method = ? AND seed = ? AND fold = ?",
                        (0.6 + 0.05 * number * (1 + seed + fold / 3), method, seed, fold),
                    )
    return path


def test_differences_have_corrected_intervals_and_holms_correction(path):
    with Store.reading(path) as store:
        summaries = summarise(store.cells(), store.runs())
    found = compare_with(summaries, "sagpool-h")
    assert [one.summary.method for one in found] == ["gpool-h", "random-h"]
    gains = 5 * np.array([1, 4 / 3, 2, 7 / 3])
    expected = [paired_difference(60 + f * gains, np.full(4, 60.0), 2) for f in (1, 2)]
    for one, difference in zip(found, expected, strict=True):
        assert one.difference.mean == pytest.approx(difference.mean)
        assert one.to_json()["ci95"] == pytest.approx(difference.interval())
    assert [one.holm for one in found] == pytest.approx(holm([d.p for d in expected]))
    with pytest.raises(SagpoolError, match="no result of 'gpool' to compare with, only of sagpool"):
        compare_with(summaries, "gpool")


@pytest.fixture
def sizes(tmp_path):
    """Rings, each with its number of nodes as the target."""
    path = tmp_path / "sizes.jsonl"
    lines = []
    for nodes in [3, 4, 5, 6, 7, 8] * 4:
        edges = [[i, (i + 1) % nodes] for i in range(nodes)]
        lines.append(json.dumps({"nodes": nodes, "edges": edges, "label": nodes}))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command; returns its exit status and what it printed."""
    from sagpool.cli.main import main

    def run(command):
        monkeypatch.setattr("sys.argv", ["sagpool", *shlex.split(command)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr()

    return run


def test_regressions_cannot_be_compared(run, sizes, tmp_path):
    store = tmp_path / "sizes.sqlite"
    status, printed = run(
        f"bench quick --dataset {sizes} --task regression --method gpool-h,random-h --seeds 1 "
        f"--folds 2 --set max_epochs=1 --device cpu --store {store} --against gpool-h"
    )
    assert status == 0
    assert "random-h" in printed.out
    assert "Nothing can be compared with gpool-h" in printed.err
    status, printed = run(f"report {store} -o {tmp_path / 'report'} --against gpool-h")
    assert status == 2
    assert "Regressions have no accuracies." in " ".join(printed.err.split())


def test_in_a_report(run, path, tmp_path):
    folder = tmp_path / "report"
    assert run(f"report {path} -o {folder} --against sagpool-h")[0] == 0
    assert "correction over all 2 comparisons" in (folder / "report.html").read_text()
    assert "| MUTAG | gPool_h | +8.33 |" in (folder / "tables/against.md").read_text()
    rows = json.loads(run(f"report {path} --json --against sagpool-h")[1].out)
    assert [row["against"] and round(row["against"]["difference"], 2) for row in rows] == [
        *(None, 8.33, 16.67)
    ]


def test_a_difference_without_error_has_no_interval(run, small, pretend, tmp_path):
    path, folder = tmp_path / "equal.sqlite", tmp_path / "report"
    run_experiment(small, methods=METHODS[:2], store=path, engine=pretend)
    assert run(f"report {path} -o {folder} --against sagpool-h")[0] == 0
    assert "| MUTAG | gPool_h | +0.00 | – | 1.00 |" in (folder / "tables/against.md").read_text()
    assert "70.0 to 70.0" not in (folder / "tables/results.md").read_text()
    for table, count in (("against", 1), ("cells", 2)):
        with (folder / f"tables/{table}.csv").open(newline="") as file:
            ends = [(row["ci95_low"], row["ci95_high"]) for row in csv.DictReader(file)]
        assert ends == [("", "")] * count
    _, row = json.loads(run(f"report {path} --json --against sagpool-h")[1].out)
    assert (row["ci95"], row["against"]["ci95"]) == (None, None)


def test_json_has_each_difference_at_its_cell(run, path, small, pretend, tmp_path):
    for settings in ({"conv": "gin"}, {"lr": 0.1}):
        run_experiment(small, methods="gpool-h", settings=settings, store=path, engine=pretend)
    rows = json.loads(run(f"report {path} --json --against sagpool-h")[1].out)
    found = {
        (row["method"], row["settings"].get("conv"), row["settings"]["lr"]): row["against"]
        for row in rows
    }
    assert found["sagpool-h", None, 0.01] is None
    assert found["gpool-h", None, 0.01] is None, "it was requested again"
    assert found["gpool-h", None, 0.1]["method"] == "gpool-h"
    assert found["gpool-h", "gin", 0.01]["method"] == "gpool-h, conv gin"


def test_every_table_that_has_the_method_is_compared(run, path, small, pretend, tmp_path):
    other = {"settings": {"patience": 7}, "store": path, "engine": pretend}
    run_experiment(small, methods=["diffpool-h", "gpool-h"], **other)
    folder = tmp_path / "report"
    assert run(f"report {path} -o {folder} --against diffpool-h")[0] == 0
    assert [one.name for one in (folder / "tables").glob("against*.md")] == [
        "against-fixed-protocol2.md"
    ]
    text = (folder / "tables/against-fixed-protocol2.md").read_text()
    assert "The protocol is not the usual one: a patience of 7 epochs." in text
    rows = json.loads(run(f"report {path} --json --against gpool-h")[1].out)
    assert [bool(row["against"]) for row in rows] == [True, False, True, True, False]
    assert run(f"report {path} -o {folder} --against gpool-h")[0] == 0
    assert len([*(folder / "tables").glob("against*.md")]) == 2
    assert run(f"report {path} --json --against set2set-g")[0] == 2
