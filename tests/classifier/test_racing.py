"""Nets that are of no use in their first folds are dropped, and the estimate stays nested."""

from dataclasses import replace

import numpy as np
import torch

from sagpool import load
from sagpool.classifier import fit
from sagpool.classifier.candidates import NetCandidate, SimpleCandidate
from sagpool.classifier.choice import Rules
from sagpool.classifier.estimate import cross_fit
from sagpool.classifier.racing import LOOKED_AT, hopeless, left_out
from sagpool.fleet import Training


def noisy(truth: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return truth + noise * np.random.default_rng(seed).normal(size=truth.shape)


TRUTH = np.random.default_rng(0).normal(size=(200, 1))
GOOD = noisy(TRUTH, 0.3, 1)


def test_a_net_is_hopeless_if_it_neither_wins_nor_helps():
    winner, helper, useless = (noisy(TRUTH, noise, 2) for noise in (0.1, 0.4, 5.0))
    found = hopeless("regression", [winner, helper, useless], [GOOD], TRUTH)
    assert found == [False, True, True], "beside the winner, the helper is of no use"
    assert hopeless("regression", [helper], [GOOD], TRUTH) == [False]


def test_of_nets_alone_the_best_stays():
    assert hopeless("regression", [noisy(TRUTH, 2.0, 3), GOOD, GOOD], [], TRUTH) == [
        *(True, False, True)
    ]


def test_a_fold_is_predicted_without_what_the_others_call_hopeless():
    assert left_out([True, False]) == (1,)
    assert left_out([False, False]) == left_out([]) == ()
    outputs = np.stack([GOOD, TRUTH])
    rules, fold = Rules("regression", np.array([True, False])), np.arange(200) % 4
    made = cross_fit(rules, outputs, TRUTH, fold, [(), (1,)]).outputs
    exact = np.isclose(made, TRUTH)[:, 0]
    assert exact[fold != 1].all()
    assert not exact[fold == 1].any()


def test_a_dropped_net_is_listed_with_its_scores():
    mutag = load("MUTAG")
    edges = torch.from_numpy(mutag.edge_counts.copy()).float()[:, None]
    about = {"task": "regression", "targets": edges, "target_names": ("edges",)}
    graphs = replace(mutag, y=None, class_names=(), **about)
    net = NetCandidate("useless", Training("sagpool-g", hidden=4, lr=1e-6, max_epochs=1, folds=4))
    found = fit(graphs, candidates=[net, SimpleCandidate("counts-linear")], folds=4)
    row = found.leaderboard[-1]
    assert (row.label, row.weight) == (f"useless (dropped after {LOOKED_AT} folds)", 0)
    assert found.model.name == "counts-linear"
    assert not found.interrupted
