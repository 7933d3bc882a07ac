"""Cells that are not better than always predicting the most frequent class."""

from dataclasses import replace

import numpy as np
import pytest

from sagpool.bench import run_experiment
from sagpool.bench.majority import majority_note, no_better
from sagpool.cli.results import print_results

FIRST, SECOND = [[7, 0], [5, 0]], [[0, 7], [0, 5]]  # predict one class
MIXED = [[6, 1], [4, 1]]  # right as often as the most frequent class
BETTER = [[6, 1], [3, 2]]
NO_CHOICE = [[12, 0], [0, 0]]  # all test graphs are of one class
NOTE = "Not better than always predicting the most frequent class, in at least 95 % of the runs: "


@pytest.mark.parametrize(
    ("confusions", "expected"),
    [
        ([FIRST] * 10, True),
        ([FIRST, SECOND] * 5, True),
        ([MIXED, SECOND] * 5, True),
        ([FIRST] * 19 + [BETTER], True),
        ([FIRST] * 18 + [BETTER] * 2, False),
        ([[[30, 0, 0], [20, 0, 0], [10, 0, 0]]], True),
        ([FIRST] * 4, False),  # fewer than 50 graphs
        ([NO_CHOICE] * 10, False),
        ([FIRST] * 9 + [NO_CHOICE], False),
        ([], False),
        ([np.zeros((0, 0), int)] * 10, False),  # several tasks, or a regression
    ],
)
def test_almost_all_runs_are_no_better(confusions, expected):
    assert no_better([np.array(one) for one in confusions]) is expected


@pytest.fixture
def bench(small, pretend, tmp_path, monkeypatch):
    """In which these methods predict one class; all methods have 4 runs."""

    def run(*methods):
        train = pretend._train

        def one_class(training, until, begun):
            confusion = FIRST if training.method in methods else BETTER
            return replace(train(training, until, begun), confusion=2 * np.array(confusion))

        monkeypatch.setattr(pretend, "_train", one_class)
        return run_experiment(small, store=tmp_path / "runs.sqlite", engine=pretend)

    return run


@pytest.mark.parametrize(
    ("methods", "named"),
    [
        (("gpool-h",), "gpool-h on MUTAG."),
        (("gpool-h", "sagpool-h"), "all 2 methods on MUTAG."),
        ((), None),
    ],
)
def test_the_results_name_them(bench, methods, named, capsys):
    result = bench(*methods)
    found = {s.method: s.to_json()["no_better_than_majority"] for s in result.summaries}
    assert found == {name: name in methods for name in ("sagpool-h", "gpool-h")}
    print_results(result.summaries)
    for shown in (capsys.readouterr().out, repr(result), majority_note(result.summaries)):
        assert shown.count(NOTE) == (named is not None)
        assert named is None or f"{NOTE}{named}" in shown
