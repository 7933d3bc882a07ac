"""The table of SAGPool and the controls, on made-up rows."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from sagpool.bench.claims import CellRows
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.variants import Chosen

SEEDS, FOLDS = 6, 10


@pytest.fixture
def section(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    from controls_section import controls_section
    from published_rows import PublishedGroup

    (tmp_path / "tables").mkdir()
    with (tmp_path / "tables/data.csv").open("w", newline="") as out:
        csv.writer(out).writerows([["name", "majority"], ["DD", 0.5866], ["OTHER", 0.7]])

    def make(cells) -> list[str]:
        experiment = load_experiment("lee2019")
        groups = [
            PublishedGroup(chosen, (), {}, some, experiment) for chosen, some in cells.items()
        ]
        published = SimpleNamespace(experiment=experiment, groups=groups)
        return controls_section(published, [tmp_path]).splitlines()

    return make


def rows(values: np.ndarray) -> CellRows:
    accuracy = {(s, f): float(values[s, f]) for s in range(SEEDS) for f in range(FOLDS)}
    return CellRows(accuracy, ("splits",), FOLDS)


def test_three_tests_of_a_difference(section):
    rng = np.random.default_rng(0)
    # The folds differ a lot, but the means of the seeds hardly.
    folds = rng.normal(0, 4, (1, FOLDS))
    first, second = (
        70 + gain + rng.normal(0, 0.3, (SEEDS, FOLDS)) + sign * folds
        for gain, sign in ((1, 1), (0, -1))
    )
    cells = {("DD", "sagpool-h"): rows(first), ("DD", "random-h"): rows(second)}
    _, _, line, _, majority = section({Chosen.FIXED: cells})
    pair, settings, dataset, points, usual, equivalent, here = line.strip("| ").split(" | ")
    assert (pair, settings, dataset) == ("SAGPool_h − Random_h", "fixed", "DD")
    mean = (first - second).mean()
    assert points.startswith(f"+{mean:.2f} (−")
    expected = stats.ttest_rel(first.mean(1), second.mean(1)).pvalue
    assert expected < 0.001
    assert here == "&lt; 0.001 *"
    assert float(usual) > 0.3
    assert float(equivalent) > 0.3
    assert majority == ("Always predicting the most frequent class has an accuracy of: DD 58.66.")


def test_the_mean_over_data_sets_comes_last(section):
    rng = np.random.default_rng(1)
    cells = {
        (dataset, method): rows(70 + gain + rng.normal(0, 1, (SEEDS, FOLDS)))
        for dataset, gains in {"DD": (3, 0), "NCI1": (-1, 0)}.items()
        for method, gain in zip(("sagpool-h", "random-h"), gains, strict=True)
    }
    found = section({Chosen.SEARCHED: cells})
    datasets = [line.split(" | ")[2] for line in found[2:5]]
    assert datasets == ["DD", "NCI1", "mean of 2"]
    points = [float(line.split(" | ")[3].split()[0].replace("−", "-")) for line in found[2:5]]
    assert points[2] == pytest.approx((points[0] + points[1]) / 2, abs=0.011)
