"""Scores of the test graphs of a cell, from the predictions in the store."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sagpool.bench.store import Store
from sagpool.bench.summary import Summary
from sagpool.statistics import Spread, evenly_spaced, spread

MOST_RUNS = 500  # most runs of a cell; each takes about a millisecond


class CellScores(NamedTuple):
    """Test scores over runs of a cell; scores that are defined for no run are left out."""

    runs: int  # number of runs whose predictions are used
    scores: dict[str, Spread]  # by name


def scores_of(store: Store, summary: Summary) -> CellScores:
    """Scores of the runs of a cell that have predictions, or of some if there are many."""
    used = [summary.runs[i] for i in evenly_spaced(len(summary.runs), MOST_RUNS)]
    seeds = {run.key: run.seed for run in used}
    found = [(seeds[key], one.scores()) for key, one in store.predictions(seeds)]
    scores = {}
    for name in found[0][1] if found else ():
        seed, value = np.array([(seed, one[name]) for seed, one in found]).T
        known = ~np.isnan(value)
        if known.any():
            scores[name] = spread(value[known], seed[known], summary.cell.settings["folds"])
    return CellScores(len(found), scores)
