"""Settings chosen by test accuracy, on made-up races."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sagpool.bench.claims import CellRows
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.variants import Chosen

FOLDS, SEEDS = 3, 20
COLUMNS = ("name", "data", "method", "settings", "cells", "seed", "fold", "precision", "numerics")
CELL = {"dataset": "DD", "chosen": "searched settings", "protocol": [], "note": ""}
# The candidates of sagpool-h, with their test accuracies in the folds of the first seed.
CANDIDATES = {"0": [0.70, 0.70, 0.70], "1": [0.80, 0.70, 0.75], "2": [0.60, 0.80, 0.70]}
SETTINGS = {
    **{number: {"lr": 10.0 ** -int(number), "folds": FOLDS, "patience": 50} for number in "012"},
    "3": {"lr": 0.1, "folds": FOLDS, "patience": 9},  # not a candidate: patience is not searched
}


def rows_of(method: str, settings: str, accuracies: list[float], seed: int = 0, cell: str = ""):
    for fold, accuracy in enumerate(accuracies):
        row = ["DD", "abc", method, settings, cell, seed, fold, "float32", 2]
        yield [*row, accuracy]


@pytest.fixture
def sections(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    import choice_section
    from published_rows import PublishedGroup

    def make(*rows):
        with (tmp_path / "rows.csv").open("w", newline="") as out:
            csv.writer(out).writerows([[*COLUMNS, "test_accuracy"], *rows])
        (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
        (tmp_path / "cells.json").write_text(json.dumps({"0": {**CELL, "method": "sagpool-h"}}))
        lower = CellRows(
            {(s, f): 70 + s / 100 for s in range(SEEDS) for f in range(FOLDS)}, ("splits",), FOLDS
        )
        cells = {("DD", "sagpool-h"): lower}
        group = PublishedGroup(
            Chosen.SEARCHED, (), dict.fromkeys(cells), cells, load_experiment("lee2019")
        )
        published = SimpleNamespace(groups=[group])
        return choice_section.choice_section(published, [tmp_path, tmp_path / "no such folder"])

    return make


def race():
    """A race that chose the first candidate, and a training of another method."""
    chosen = [
        row
        for seed in range(SEEDS)
        for row in rows_of("sagpool-h", "0", CANDIDATES["0"], seed, "0")
    ]
    others = [row for number in "12" for row in rows_of("sagpool-h", number, CANDIDATES[number])]
    return [*chosen, *others, *rows_of("gpool-h", "1", [1.0, 1.0, 1.0])]


def test_the_choice_in_the_folds_that_choose_and_in_another(sections):
    lines = sections(*race()).splitlines()
    cells = lines[2].strip("| ").split(" | ")
    assert cells[:2] == ["DD", "SAGPool_h"]
    assert cells[3:] == ["70.09 ± 0.06", "70.00", "75.00"]  # the mean of the second candidate
    without = [
        np.delete(np.array([*CANDIDATES.values()]), fold, 1).mean(1) for fold in range(FOLDS)
    ]
    held_out = [[*CANDIDATES.values()][w.argmax()][fold] for fold, w in enumerate(without)]
    gain = 100 * (np.mean(held_out) - 0.7)
    assert gain < 5
    assert f"the difference in that one is {gain:+.2f} points".replace("-", "−") in lines[-1]
    assert "look +5.00 points better" in lines[-1]
    assert "have two seeds" not in lines[-1]


def test_over_two_seeds_only_candidates_that_have_both_choose(sections):
    """The second candidate is best in the first seed; over two seeds the third one is."""
    second = [*rows_of("sagpool-h", "2", [0.8, 0.8, 0.8], seed=1)]
    sentence = sections(*race(), *second).splitlines()[-1]
    assert "look +5.00 points better" in sentence
    assert "(1 cells), the gain among these is +0.00 points if the first" in sentence
    assert "first seed chooses, and +5.00 if both do" in sentence


def test_how_lucky_the_first_seed_is(sections):
    better = [row for row in race() if (row[3], row[5]) != ("0", 0)]
    better += rows_of("sagpool-h", "0", [0.9, 0.9, 0.9], 0, "0")
    sentence = sections(*better).splitlines()[-1]
    assert "by +19.00 points, and by +19.00 in the cells of the table" in sentence


def test_candidates_with_other_settings_or_missing_folds_are_left_out(sections):
    plain = sections(*race())
    other = rows_of("sagpool-h", "3", [1.0, 1.0, 1.0])
    assert sections(*race(), *other) == plain
    assert sections(*race(), *rows_of("sagpool-h", "1", [1.0, 1.0], seed=1)) == plain


def test_nothing_without_a_race(sections):
    assert sections(*(row for row in race() if row[3] == "0")) == ""
