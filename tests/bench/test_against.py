"""Comparisons with one reference."""

import json

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


def test_in_a_report(path, tmp_path, monkeypatch, capsys):
    from sagpool.cli.main import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["sagpool", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    folder = tmp_path / "report"
    run("report", str(path), "-o", str(folder), "--against", "sagpool-h")
    assert "correction over all 2 comparisons" in (folder / "report.html").read_text()
    assert "| MUTAG | gPool_h | +8.33 |" in (folder / "tables/against.md").read_text()
    rows = json.loads(run("report", str(path), "--json", "--against", "sagpool-h"))
    assert [row["against"] and round(row["against"]["difference"], 2) for row in rows] == [
        *(None, 8.33, 16.67)
    ]
