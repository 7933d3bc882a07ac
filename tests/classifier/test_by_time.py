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
    assert by_time.leaderboard[0].score == whole.leaderboard[0].score
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


def fit_until(dated, stage):
    """Ctrl-C at this stage."""

    def interrupt(progress):
        if progress.stage == stage:
            raise KeyboardInterrupt

    return fit(
        dated, candidates=[LINEAR, SimpleCandidate("wl-linear")], folds=FOLDS,
        on_progress=interrupt, keep_on_interrupt=True,
    )  # fmt: skip


def test_ctrl_c_keeps_what_there_is_of_the_model_of_all_graphs(dated):
    found = fit_until(dated, "wl-linear (all graphs)")
    assert found.interrupted
    assert [row.name for row in found.leaderboard] == ["counts-linear"]
    assert found.estimate.graphs == 38


def test_ctrl_c_before_there_is_such_a_model_ends_the_fit(dated):
    with pytest.raises(KeyboardInterrupt):
        fit_until(dated, "wl-linear (earlier graphs)")


def test_the_most_frequent_class_is_that_of_the_earlier_graphs(mutag):
    """Among the latest it may be another, which nobody could have known."""
    by_class = torch.argsort(mutag.y, descending=True, stable=True)  # the rare class comes last
    time = torch.empty(188, dtype=torch.int64)
    time[by_class] = torch.arange(188)
    found = fit(replace(mutag, time=time), candidates=[LINEAR], folds=FOLDS)
    latest = mutag.y[found.held_out]
    assert (latest == 0).all()
    assert found.estimate.majority == 0


def test_balanced_decisions_are_those_of_the_earlier_model(mutag, dated):
    later = np.flatnonzero(dated.time.numpy() >= 188 - 38)
    options = {"candidates": [LINEAR], "folds": FOLDS, "class_weight": "balanced"}
    found = fit(dated, **options)
    earlier = fit(mutag[np.setdiff1d(np.arange(188), later)], **options)
    expected = earlier.model.predict_proba(mutag[later]).predicted
    assert found.out_of_fold.predicted.tolist() == expected.tolist()


def dated_by(graphs, time) -> object:
    return replace(graphs, time=torch.as_tensor(time))


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        ([0] * 188, r"MUTAG cannot be split by time: All graphs have the same time\.$"),
        (
            [0] * 6 + [1] * 182,
            r"MUTAG cannot be split by time: 182 of its 188 graphs have the latest time\.$",
        ),
    ],
)
def test_times_that_tell_nothing_are_refused(mutag, time, problem):
    with pytest.raises(SagpoolError, match=problem):
        fit(dated_by(mutag, time), candidates=[LINEAR])


def test_an_error_about_the_earlier_graphs_says_so(mutag):
    frequent, rare = (torch.nonzero(mutag.y == y).view(-1) for y in (1, 0))
    graphs = dated_by(mutag[torch.cat([frequent, rare[:20]])], range(len(frequent) + 20))
    with pytest.raises(SagpoolError, match=r"^All graphs of MUTAG \(earlier graphs\) have the cl"):
        fit(graphs, candidates=[LINEAR], folds=FOLDS)


def test_groups_and_times_are_not_mixed(dated):
    grouped = replace(dated, group=torch.arange(188))
    with pytest.raises(SagpoolError, match=r"^MUTAG has both groups and times; a fit can use one"):
        fit(grouped, candidates=[LINEAR])


def test_something_has_to_be_measured_late(mutag):
    targets = torch.arange(188.0)[:, None]
    targets[150:] = torch.nan
    graphs = replace(mutag, y=None, class_names=(), targets=targets, target_names=("a",),
                     task="regression")  # fmt: skip
    with pytest.raises(SagpoolError, match=r"^Nothing was measured for the latest graphs of MUTAG"):
        fit(dated_by(graphs, range(188)), candidates=[LINEAR])
