"""Comparisons with always predicting the most frequent class."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sagpool.bench.run_table import column, read_confusions
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary
from sagpool.statistics import evenly_spaced

ALMOST_ALL = 0.95  # of the runs of a cell
FEWEST_GRAPHS = 50  # in the tests of these runs together; fewer are no evidence
MOST_RUNS = 500  # of a cell that are read


def compare_with_majority(store: Store, summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries, with what always predicting the most frequent class reaches."""
    return [
        replace(s, no_better_than_majority=_no_better(store, s), majority=_of_fixed_split(store, s))
        for s in summaries
    ]


def _no_better(store: Store, summary: Summary) -> bool:
    if not summary.learnt:
        return False
    some = [summary.runs[i] for i in evenly_spaced(len(summary.runs), MOST_RUNS)]
    return no_better(
        read_confusions(store, [run for run in some if not np.isnan(run.test_accuracy)])
    )


def _of_fixed_split(store: Store, summary: Summary) -> float | None:
    """The percentage of the main test that belongs to its most frequent class.

    A store has no classes of the training graphs. Their most frequent class reaches at most this
    percentage, so no constant prediction seems to gain anything over it.
    """
    if summary.cell.settings.get("split") != "fixed" or not summary.learnt:
        return None
    learnt = int(np.flatnonzero(~np.isnan(column(summary.runs, "test_accuracy")))[0])
    (confusion,) = read_confusions(store, summary.runs[learnt : learnt + 1])
    return 100 * float(confusion.sum(1).max() / confusion.sum()) if confusion.any() else None


def no_better(confusions: Sequence[np.ndarray]) -> bool:
    """Whether almost all runs are right no more often than the most frequent class of their tests.

    This holds for a run that predicts one class for all of its test graphs. A test part with a
    single class says nothing, and counts as one in which the run is better.

    Args:
        confusions: ``[classes, predicted classes]`` of each run
    """
    if sum(int(one.sum()) for one in confusions) < FEWEST_GRAPHS:
        return False
    of_class = [one.sum(axis=1) for one in confusions]
    found = [
        int(np.trace(one)) <= counts.max() < counts.sum()
        for one, counts in zip(confusions, of_class, strict=True)
    ]
    return float(np.mean(found)) >= ALMOST_ALL


def majority_note(summaries: Sequence[Summary]) -> str:
    """A sentence that names such cells; empty if there are none."""
    listed = []
    for dataset in dict.fromkeys(s.cell.dataset for s in summaries):
        here = [s for s in summaries if s.cell.dataset == dataset]
        found = [s.method for s in here if s.no_better_than_majority]
        every = len(found) == len(here) > 1
        if found:
            listed.append(
                f"{f'all {len(here)} methods' if every else ', '.join(found)} on {dataset}"
            )
    if not listed:
        return ""
    return (
        "Not better than always predicting the most frequent class, in at least "
        f"{100 * ALMOST_ALL:.0f} % of the runs: {'; '.join(listed)}."
    )
