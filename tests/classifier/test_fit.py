"""`fit`: candidates predict graphs that they did not see, and the best of them are mixed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sagpool import SagpoolError, TrainedModel, load
from sagpool.classifier import candidates, fit
from sagpool.classifier.candidates import (
    NetCandidate,
    SimpleCandidate,
    candidates_for,
)
from sagpool.classifier.parts import NetPart, SimplePart
from sagpool.fleet import Training, train

SHORT = {"hidden": 8, "lr": 0.01, "max_epochs": 4, "batch_size": 128}
LINEAR = SimpleCandidate("counts-linear")
FOLDS = 3


@pytest.fixture(scope="module")
def mutag():
    return load("MUTAG")


@pytest.fixture(scope="module")
def quick(mutag):
    return fit(mutag, search=False, method="sagpool-g", settings=SHORT, folds=FOLDS)


@pytest.fixture(scope="module")
def both(mutag):
    net = NetCandidate("mine", Training("sagpool-h", folds=FOLDS, **SHORT))
    return fit(mutag, candidates=[net, LINEAR], folds=FOLDS)


def in_folds(mutag, method) -> list:
    trainings = [
        Training(method, fold=fold, folds=FOLDS, split="given", **SHORT) for fold in range(FOLDS)
    ]
    return trainings


def test_the_estimate_is_that_of_a_plain_cross_validation(mutag, quick):
    fold = torch.from_numpy(quick.fold)
    results = train(replace(mutag, fold=fold), in_folds(mutag, "sagpool-g"), keep_weights=True)
    counts = np.bincount(quick.fold)
    right = sum(result.test.accuracy * counts[n] for n, result in enumerate(results))
    assert quick.estimate.accuracy == pytest.approx(right / 188)
    assert quick.estimate.majority == pytest.approx(125 / 188)
    assert quick.estimate.folds == FOLDS
    low, high = quick.estimate.ci95
    assert low < quick.estimate.accuracy < high
    assert high - low < 0.2, "the interval is that of 188 graphs, not of three folds"


def test_the_model_is_the_ensemble_of_the_folds(mutag, quick):
    fold = torch.from_numpy(quick.fold)
    results = train(replace(mutag, fold=fold), in_folds(mutag, "sagpool-g"), keep_weights=True)
    best_first = sorted(results, key=lambda result: result.validation.loss)
    (part,) = quick.model.parts
    assert part.members == FOLDS
    for member, result in enumerate(best_first):
        for name, weights in result.weights.items():
            assert torch.equal(part.weights[name][member], weights[0])
    assert torch.equal(
        quick.model.weights["classifier.last.bias"], best_first[0].weights["classifier.last.bias"]
    )


def test_members_are_averaged(mutag, quick):
    (part,) = quick.model.parts
    ks = np.broadcast_to(np.atleast_1d(part.shape.k).reshape(-1), FOLDS)
    alone = [
        NetPart(
            part.method,
            replace(part.shape, k=int(ks[member])),
            {name: tensor[member : member + 1] for name, tensor in part.weights.items()},
        ).outputs()(mutag)
        for member in range(FOLDS)
    ]
    np.testing.assert_allclose(part.outputs()(mutag), np.mean(alone, 0), atol=1e-6)
    np.testing.assert_allclose(part.outputs(batch_size=7)(mutag), np.mean(alone, 0), atol=1e-6)


def test_nets_and_simple_models_are_mixed_and_saved(mutag, both, tmp_path):
    assert [row.kind for row in both.leaderboard] == ["simple", "net"]
    assert both.leaderboard[0].weight > 0.5
    assert sum(row.weight for row in both.leaderboard) == pytest.approx(1)
    assert {row.name for row in both.leaderboard} == {"mine", "counts-linear"}
    simple = next(part for part in both.model.parts if isinstance(part, SimplePart))
    net = next(iter(part for part in in_net(mutag)))
    model = replace(both.model, parts=(simple, net), mixture=(0.75, 0.25))
    again = TrainedModel.from_pretrained(model.save_pretrained(tmp_path / "model"))
    found, expected = again.predict_proba(mutag), model.predict_proba(mutag)
    for name in ("probabilities", "predicted", "sets", "unlike"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert again.method == "sagpool-g"
    assert again.name == "counts-linear + sagpool-g"


def in_net(mutag) -> list[NetPart]:
    (result,) = train(mutag, [Training("sagpool-g", **SHORT)], keep_weights=True)
    from sagpool.classifier.model import net_part

    return [net_part(mutag, result)]


def test_a_model_without_a_net_says_so(both):
    simple = next(part for part in both.model.parts if isinstance(part, SimplePart))
    model = replace(both.model, parts=(simple,), mixture=(1.0,))
    assert model.net is None
    with pytest.raises(SagpoolError, match=r"has no graph net: it is counts-linear\. `sagpool tra"):
        model.module()


def test_an_interrupt_after_the_first_result_keeps_it(mutag):
    net = NetCandidate("mine", Training("sagpool-h", folds=FOLDS, **SHORT))

    def stop(progress):
        if "sagpool-h" in progress.stage:
            raise KeyboardInterrupt

    options = {"candidates": [LINEAR, net], "folds": FOLDS, "on_progress": stop}
    found = fit(mutag[:60], keep_on_interrupt=True, **options)
    assert found.interrupted
    assert found.model.name == "counts-linear"
    with pytest.raises(KeyboardInterrupt):
        fit(mutag[:60], **options)
    options["candidates"] = [net]
    with pytest.raises(KeyboardInterrupt):
        fit(mutag[:60], keep_on_interrupt=True, **options)


def test_nets_that_an_earlier_fit_had_finished_count(mutag, quick, tmp_path):
    """It was stopped between its last training and its end, as by a full disk."""

    def stop(progress):
        if progress.stage == "final model":
            raise OSError("full")

    options = {
        "search": False,
        "method": "sagpool-g",
        "settings": SHORT,
        "folds": FOLDS,
        "checkpoint": lambda name: tmp_path / f"{name}.npz",
    }
    with pytest.raises(OSError, match="full"):
        fit(mutag, on_progress=stop, **options)
    assert (tmp_path / "sagpool-g.npz").exists()
    again = fit(mutag, **options)
    np.testing.assert_array_equal(again.out_of_fold.outputs, quick.out_of_fold.outputs)
    assert not again.interrupted


def test_no_candidate_is_begun_after_the_time(mutag):
    net = NetCandidate("mine", Training("sagpool-h", folds=2, **SHORT))
    found = fit(mutag[:60], candidates=[LINEAR, net], folds=2, minutes=0)
    assert [row.name for row in found.leaderboard] == ["counts-linear"]
    assert found.interrupted


def test_candidates(mutag):
    every = [one.name for one in candidates_for(mutag)]
    assert {"counts-linear", "counts-forest", "wl-linear"} < set(every)
    assert any(name.startswith("sagnet") for name in every)
    assert not [c for c in candidates_for(mutag, only="graph-nets") if c in [LINEAR]]
    assert LINEAR in candidates_for(mutag, only="simple")
    with pytest.raises(SagpoolError, match="sagpool-h is a graph net, and only simple models"):
        candidates_for(mutag, only="simple", method="sagpool-h")
    (one,) = candidates_for(mutag, method="gpool-h", settings={"hidden": 16}, search=False)
    assert (one.training.method, one.training.hidden) == ("gpool-h", 16)


def test_many_molecules_skip_what_is_not_worth_its_time(mutag, monkeypatch):
    fragments = csr_array((len(mutag), 5))
    molecules = replace(mutag, fragments=fragments)
    few = {one.name for one in candidates_for(molecules)}
    assert {"counts-forest", "morgan-forest", "gin-g"} < few
    monkeypatch.setattr(candidates, "FEW_NODES", mutag.num_nodes - 1)
    names = {one.name for one in candidates_for(molecules)}
    assert names == {"counts-boosted", "wl-linear", "morgan-linear", "morgan-forest", "sagnet"}
    (net,) = [one for one in candidates_for(molecules) if one.name == "sagnet"]
    assert not dict(net.training.method_settings)["pooling"]
    nets = {one.training.method for one in candidates_for(molecules, only="graph-nets")}
    assert nets == {"sagnet", "gin-g"}
    pooled = [
        one
        for one in candidates_for(molecules, only="graph-nets")
        if one.training.method == "sagnet"
        and dict(one.training.method_settings).get("pooling", True)
    ]
    assert pooled, "explanations need kept nodes"
    assert {"counts-forest", "gin-g"} < {one.name for one in candidates_for(mutag)}
    asked = candidates_for(molecules, method="sagnet", search=False)
    assert asked[0].training.ratio == 0.8


def test_three_classes_and_few_graphs():
    graphs = load("MUTAG")[:30]
    y = torch.arange(30) % 3
    graphs = replace(graphs, y=y, class_names=("a", "b", "c"))
    found = fit(graphs, candidates=[LINEAR], folds=4, class_weight="balanced")
    assert found.estimate.majority == pytest.approx(1 / 3)
    assert 0 <= found.estimate.auroc <= 1
    predictions = found.model.predict_proba(graphs)
    assert predictions.probabilities.shape == predictions.sets.shape == (30, 3)
    assert np.sum(found.estimate.confusion) == 30


def test_diverged_trainings(mutag):
    net = NetCandidate("mine", Training("sagpool-h", folds=2, lr=1e30, hidden=8, max_epochs=3))
    with pytest.raises(SagpoolError, match="diverged; try a lower learning rate"):
        fit(mutag[:40], candidates=[net], folds=2)
    assert fit(mutag[:40], candidates=[net, LINEAR], folds=2).model.name == "counts-linear"


def test_a_regression(mutag, tmp_path):
    targets = torch.from_numpy(mutag.edge_counts.copy()).float()[:, None]
    targets[::7] = torch.nan
    graphs = replace(
        mutag, y=None, class_names=(), task="regression", targets=targets, target_names=("edges",)
    )[:60]
    found = fit(graphs, candidates=[LINEAR], folds=2)
    assert found.estimate.scores["r2"].value > 0.9
    model = TrainedModel.from_pretrained(found.model.save_pretrained(tmp_path / "model"))
    predictions = model.predict_proba(graphs)
    assert predictions.interval.shape == (60, 1, 2)
    assert predictions.sets is None
    assert "# Graph regression: edges" in (tmp_path / "model" / "README.md").read_text()
