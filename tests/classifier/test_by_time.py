"""Estimates for graphs to come."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.classifier import fit
from sagpool.classifier.candidates import NetCandidate, SimpleCandidate
from sagpool.fleet import Training

LINEAR = SimpleCandidate("counts-linear")
FOLDS = 3


@pytest.fixture(scope="module")
def mutag():
    return load("MUTAG", "all")


@pytest.fixture(scope="module")
def dated(mutag):
    order = np.random.default_rng(0).permutation(len(mutag))
    return replace(mutag, time=torch.from_numpy(order))


@pytest.fixture(scope="module")
def by_time(dated):
    return fit(dated, candidates=[LINEAR], folds=FOLDS)


def test_the_latest_graphs_are_predicted_by_a_model_of_the_earlier_ones(mutag, dated, by_time):
    later = np.flatnonzero(dated.time.numpy() >= 188 - 38)
    assert by_time.held_out.tolist() == later.tolist()
    earlier = fit(mutag[np.setdiff1d(np.arange(188), later)], candidates=[LINEAR], folds=FOLDS)
    found = earlier.model.predict_proba(mutag[later])
    np.testing.assert_allclose(by_time.out_of_fold.outputs, found.probabilities)
    right = (found.predicted == mutag.y[later].numpy()).mean()
    assert by_time.estimate.accuracy == pytest.approx(right)
    assert (by_time.estimate.graphs, by_time.estimate.trained_on) == (38, 150)
    inside = found.sets[np.arange(38), mutag.y[later]].mean()
    assert by_time.estimate.coverage.measured == pytest.approx(inside)


def test_the_model_is_that_of_all_graphs(mutag, by_time):
    whole = fit(mutag, candidates=[LINEAR], folds=FOLDS)
    for fitted in (whole, by_time):
        assert fitted.leaderboard[0].score == whole.leaderboard[0].score
    np.testing.assert_allclose(
        by_time.model.predict_proba(mutag).probabilities,
        whole.model.predict_proba(mutag).probabilities,
    )
    assert whole.estimate.trained_on is None
    assert by_time.model.about["estimate"] == by_time.estimate.to_json()
    assert by_time.model.about["estimate"]["trained_on"] == 150


def test_nets_by_time_and_what_is_told_meanwhile(dated, tmp_path):
    told, files = [], []

    def checkpoint(name):
        files.append(name)
        return tmp_path / f"{name}.npz"

    net = NetCandidate("mine", Training("nopool-g", hidden=4, max_epochs=2, folds=FOLDS))
    found = fit(dated, candidates=[net, LINEAR], folds=FOLDS, on_progress=told.append,
                checkpoint=checkpoint)  # fmt: skip
    assert files == ["earlier-nopool-g", "all-nopool-g"]
    fractions = [one.fraction for one in told]
    assert fractions == sorted(fractions)
    assert (min(fractions) < 0.1, max(fractions)) == (True, 1.0)
    assert {one.stage.split(" (")[1] for one in told} == {"earlier graphs)", "all graphs)"}
    assert found.estimate.graphs == 38


@pytest.mark.parametrize("part", ["earlier", "all"])
def test_ctrl_c_keeps_what_there_is_of_the_model_of_all_graphs(dated, part):
    def interrupt(progress):
        if progress.stage == f"wl-linear ({part} graphs)":
            raise KeyboardInterrupt

    def run():
        return fit(
            dated, candidates=[LINEAR, SimpleCandidate("wl-linear")], folds=FOLDS,
            on_progress=interrupt, keep_on_interrupt=True,
        )  # fmt: skip

    if part == "earlier":
        with pytest.raises(KeyboardInterrupt):
            run()
        return
    found = run()
    assert found.interrupted
    assert [row.name for row in found.leaderboard] == ["counts-linear"]
    assert found.estimate.graphs == 38


def test_a_single_time_is_refused(mutag):
    with pytest.raises(SagpoolError, match=r"^All graphs of MUTAG have the same time; 2 are nee"):
        fit(replace(mutag, time=torch.zeros(188, dtype=torch.int64)), candidates=[LINEAR])
