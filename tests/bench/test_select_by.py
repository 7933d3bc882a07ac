"""Searches that rank candidates by another validation result than the accuracy."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sagpool.bench import run_experiment
from sagpool.bench.predictions import Part, Predicted
from sagpool.bench.racing import _survivors
from sagpool.bench.ranked_by import ranked_by
from sagpool.bench.records import Validation
from sagpool.bench.rounds import rank
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.schedule import split_of
from sagpool.report import write_report
from sagpool.report.content import read_content


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def predicting(pretend, mutag, monkeypatch):
    """Results whose predictions are right to an extent that grows with the learning rate."""
    train = pretend._train

    def trained(training, until, begun):
        made = train(training, until, begun)
        split = split_of(mutag, training)
        outputs = []
        for ids in (split.test, split.validation):
            y = mutag.y[ids].numpy()
            logit = np.where(np.arange(len(y)) % 3, y - 0.5, 0.5 - y)  # two of three are right
            logit = logit * 100 * training.lr
            outputs.append(-np.log1p(np.exp(np.stack([logit, -logit], 1))))
        return replace(made, predictions=outputs[0], validation_predictions=outputs[1])

    monkeypatch.setattr(pretend, "_train", trained)
    return pretend


def test_the_value_decides_and_the_accuracy_is_kept():
    one = Training("gpool-h")
    candidates = [one, replace(one, lr=0.1)]
    seen = [Validation(a, 0.5, 9, True, np.zeros((2, 9))) for a in (0.9, 0.8)]
    assert [c for c, _ in rank(candidates, seen)] == candidates
    by_value = [s._replace(value=v) for s, v in zip(seen, (-2.0, -1.0), strict=True)]
    (first, ranked), _ = rank(candidates, by_value)
    assert (first.lr, ranked.accuracy) == (0.1, 0.8)
    failed = [by_value[0], by_value[1]._replace(value=-float("inf"))]
    assert rank(candidates, failed)[0][0] == one


def by_fold(*values):
    """Results of candidates, each with one value per fold; the first has the lowest loss."""
    return [
        Validation(0.5, 0.1 * number, 9, True, np.zeros((2, 9)), value)
        for number, of_folds in enumerate(values)
        for value in of_folds
    ]


def test_folds_without_a_value_are_left_out():
    candidates = [Training("gpool-h", lr=lr) for lr in (0.1, 0.2, 0.3)]
    nan, worst = float("nan"), -float("inf")
    better = by_fold((nan, 0.5, 0.6), (nan, 0.8, 0.6), (nan, 0.7, 0.6))
    assert [one.lr for one, _ in rank(candidates, better)] == [0.2, 0.3, 0.1]
    failed = by_fold((nan, 0.5, 0.6), (worst, 0.8, 0.6), (nan, worst, 0.6))
    assert [one.lr for one, _ in rank(candidates, failed)] == [0.1, 0.2, 0.3]


def test_an_undefined_metric_is_not_a_failed_training():
    one, nan, worst = Validation(0.5, 0.1, 9, True, np.zeros((2, 9))), float("nan"), -float("inf")
    outputs = np.array([[0.2], [0.1]], np.float32)
    parts = {"a": Part(outputs, np.array([0, 0])), "b": Part(outputs, np.array([1, 0]))}
    found = [(key, Predicted("classification", part, part)) for key, part in parts.items()]
    store = SimpleNamespace(predictions=lambda keys: found)
    values = ranked_by("roc_auc", store, ["a", "b", "lost"], [one] * 3, early=False)
    assert np.array([one.value for one in values]) == pytest.approx([nan, 1, worst], nan_ok=True)
    diverged = one._replace(loss=nan)
    values = ranked_by("loss", store, ["a", "b"], [one, diverged], early=True)
    assert [one.value for one in values] == [-0.1, worst]


def test_a_race_drops_what_failed_and_leaves_out_folds_without_a_value():
    candidates = [Training("gpool-h", lr=lr, folds=5) for lr in (0.1, 0.2, 0.3)]
    nan, worst = float("nan"), -float("inf")
    good, bad = (nan, 0.8, 0.7, 0.8, 0.9), (nan, 0.2, 0.1, 0.1, 0.3)
    seen = by_fold(good, bad, (nan, 0.8, 0.7, worst, 0.9))
    # By loss, the last candidate is the last as well; it must not stay as one of a few.
    assert _survivors(candidates, seen, 1) == {candidates[0]}


def test_a_metric_that_is_undefined_in_a_fold(small, path, rare, caplog):
    options = {
        "datasets": str(rare), "methods": "gpool-h", "seeds": 1, "search": "grid",
        "settings": {"split": "contiguous"}, "store": path,
    }  # fmt: skip
    result = run_experiment(small, select_by="roc_auc", **options)
    assert len(result.summaries[0].cell.ranking) == 4
    assert caplog.messages == [
        "Settings for rare are selected by the roc_auc of 1 of 2 folds: it needs graphs of two "
        "classes, which the validation part of fold 0 (seed 0) lacks."
    ]
    with pytest.raises(SagpoolError, match=r"rare cannot be selected per fold by f1: .* fold 0"):
        run_experiment(small, select_by="f1", select="per-fold", **options)


def test_a_metric_that_is_undefined_in_all_folds(small, path, pretend, rare, tmp_path):
    parts = ["validation"] + ["train", "test"] * 19 + ["train"]
    file = tmp_path / "official.csv"
    file.write_text("graph,part\n" + "".join(f"{i},{part}\n" for i, part in enumerate(parts)))
    with pytest.raises(SagpoolError, match="Settings for rare cannot be selected by mcc: it needs"):
        run_experiment(
            small, datasets=str(rare), methods="gpool-h", split=file, search="grid",
            select_by="mcc", store=path, engine=pretend,
        )  # fmt: skip
    assert not pretend.asked


def test_a_grid_selects_by_a_metric(small, path, predicting):
    predicting.accuracy = {0.001: 0.9, 0.01: 0.6}
    options = {"methods": "gpool-h", "search": "grid", "engine": predicting, "store": path}
    (by_accuracy,) = run_experiment(small, **options).summaries
    (by_loss,) = run_experiment(small, select_by="log_loss", **options).summaries
    assert by_accuracy.cell.settings["lr"] == 0.001
    assert by_loss.cell.search == "grid by log loss"
    assert by_loss.cell.settings["lr"] == 0.01, "its wrong graphs cost less than the right gain"


def test_searches_that_find_the_same_settings_are_complete(small, path, predicting):
    """One method has other settings in each search; the other has the same in both."""
    predicting.accuracy = {0.001: 0.9, 0.01: 0.6}
    options = {"search": "grid", "engine": predicting, "store": path}
    rates = {"sagpool-h": (0.001, 0.01), "gpool-h": 0.01}
    for select_by in ("accuracy", "log_loss", "log_loss"):
        for method, lr in rates.items():
            run_experiment(
                small, methods=method, settings={"lr": lr}, select_by=select_by, **options
            )
    content = read_content(path, small)
    assert [(group.differences, [s.method for s in group.main]) for group in content.groups] == [
        ((), ["gpool-h", "sagpool-h"]),
        (("settings chosen by the validation log loss",), ["gpool-h", "sagpool-h"]),
    ]
    assert len(content.summaries) == 4, "the last command is a repetition"
    (fixed,) = run_experiment(
        small, methods="gpool-h", settings={"hidden": 4}, engine=predicting, store=path
    ).summaries
    assert fixed.cell.settings == content.groups[0].cells[0].cell.settings
    assert fixed.cell.cost is None, "this command did not search"
    found = [(group.chosen.name, len(group.cells)) for group in read_content(path, small).groups]
    assert found == [("SEARCHED", 2), ("FIXED", 1), ("SEARCHED", 2)]


@pytest.mark.parametrize(
    ("select_by", "caption"),
    [
        ("accuracy", "by the mean validation accuracy (in percent) over the folds"),
        ("log_loss", "by the mean validation log loss over the folds"),
    ],
)
def test_the_report_names_the_metric(small, path, predicting, tmp_path, select_by, caption):
    options = {"methods": "gpool-h", "search": "grid", "engine": predicting, "store": path}
    run_experiment(small, select_by=select_by, **options)
    write_report(path, tmp_path / "report")
    assert caption in (tmp_path / "report/tables/search.md").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"select_by": "auc"}, "select-by must be one of accuracy, loss, balanced_accuracy"),
        ({"select_by": "f1", "search": "none"}, "only be selected by f1 in a search"),
        (
            {"select_by": "f1", "search": "race"},
            "race compares unfinished trainings, .* stopping=f1",
        ),
        (
            {"select_by": "loss", "search": "halving", "settings": {"stopping": "roc_auc"}},
            "halving compares unfinished trainings, .* not the loss here; use --set stopping=loss",
        ),
        (
            {"select_by": "f1", "search": "halving", "settings": {"stopping": "roc_auc"}},
            "not the f1 here; use --set stopping=f1 or --select-by roc_auc, or search by grid",
        ),
        (
            {"select_by": "log_loss", "search": "halving"},
            "not the log_loss here; use --select-by loss, or search by grid",
        ),
        (
            {"select_by": "log_loss", "search": "race", "settings": {"stopping": "loss+norm"}},
            "not the log_loss here; search by grid",
        ),
    ],
)
def test_what_cannot_be_selected_by(small, path, pretend, options, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        run_experiment(small, **{"search": "grid", **options}, store=path, engine=pretend)


@pytest.mark.parametrize("value", ["loss", "f1"])
def test_halving_selects_by_what_trainings_stop_by(small, path, predicting, value):
    result = run_experiment(
        small, methods="gpool-h", settings={"stopping": value}, select_by=value, search="halving",
        store=path, engine=predicting,
    )  # fmt: skip
    assert result.summaries[0].cell.search == f"halving by {value}"


def test_a_grid_selects_by_the_loss_of_trainings_that_stop_by_a_metric(small, path, predicting):
    result = run_experiment(
        small, methods="gpool-h", settings={"stopping": "f1"}, select_by="loss", search="grid",
        store=path, engine=predicting,
    )  # fmt: skip
    assert result.summaries[0].cell.search == "grid by loss"


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_a_metric_of_another_task(metric, path):
    with pytest.raises(SagpoolError, match=f"MUTAG is a classification, .* by {metric}; choose"):
        run_experiment(
            "quick", datasets="MUTAG", methods="gpool-h", search="grid", select_by=metric,
            store=path,
        )  # fmt: skip
    assert not path.exists(), "nothing was trained"


@pytest.mark.parametrize("select", ["over-folds", "per-fold"])
def test_searches_by_different_criteria_share_no_table(small, path, predicting, tmp_path, select):
    predicting.accuracy = {0.001: 0.9, 0.01: 0.6}
    options = {"search": "grid", "select": select, "engine": predicting, "store": path}
    run_experiment(small, methods=("gpool-h", "sagpool-h"), **options)
    run_experiment(small, methods="gpool-h", select_by="log_loss", **options)
    content = read_content(path)
    assert [([s.method for s in g.cells], g.differences) for g in content.groups] == [
        (["gpool-h", "sagpool-h"], ()),
        (["gpool-h"], ("settings chosen by the validation log loss",)),
    ]
    write_report(path, tmp_path / "report")
    assert len([*(tmp_path / "report/tables").glob("search*.csv")]) == 2


def test_searches_by_one_criterion_need_no_mention(small, path, predicting):
    options = {"search": "grid", "select_by": "log_loss", "engine": predicting, "store": path}
    run_experiment(small, methods=("gpool-h", "sagpool-h"), **options)
    for experiment in (None, small):
        (group,) = read_content(path, experiment).groups
        assert group.differences == ()


def test_the_accuracy_is_the_usual_criterion_of_an_experiment(small, path, predicting):
    predicting.accuracy = {0.001: 0.9, 0.01: 0.6}
    options = {"search": "grid", "engine": predicting, "store": path}
    run_experiment(small, methods="gpool-h", **options)
    run_experiment(small, methods=("gpool-h", "sagpool-h"), select_by="log_loss", **options)
    assert [g.differences for g in read_content(path, small).groups] == [
        *((), ("settings chosen by the validation log loss",))
    ]
    assert [g.differences for g in read_content(path).groups] == [
        *((), ("settings chosen by the validation accuracy",))
    ]
