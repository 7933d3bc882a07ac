"""Predictions in the store, and the scores that follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from sagpool.bench import Store, merge_stores, rows, run_experiment
from sagpool.bench.predictions import Part, Predicted, decode_predicted
from sagpool.errors import SagpoolError
from sagpool.fleet.schedule import split_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "runs.sqlite"
    run_experiment(
        "quick",
        datasets="MUTAG",
        methods="gpool-h",
        seeds=1,
        folds=2,
        settings={"max_epochs": 2, "hidden": 4, "lr": 0.05},
        store=path,
        device="cpu",
    )
    return path


def test_scores_are_those_of_scikit_learn(trained, mutag):
    with Store.reading(trained) as store:
        run, *_ = store.runs()
        ((key, predicted),) = store.predictions([run.key])
    assert key == run.key
    y = predicted.test.truth
    odds = predicted.test.outputs[:, 0].astype(float)
    guess = odds > 0
    found = predicted.scores()
    assert found["accuracy"] == pytest.approx(run.test_accuracy)
    assert found["log_loss"] == pytest.approx(run.test_loss, rel=1e-5)
    assert found["roc_auc"] == pytest.approx(roc_auc_score(y, odds))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, guess))
    assert found["f1"] == pytest.approx(f1_score(y, guess))
    assert found["mcc"] == pytest.approx(matthews_corrcoef(y, guess))
    assert predicted.scores("validation")["accuracy"] == pytest.approx(run.validation_accuracy)
    assert predicted.scores("validation")["log_loss"] == pytest.approx(run.validation_loss)


def test_they_are_those_of_the_graphs_of_the_split(trained, mutag):
    from sagpool.bench.plan import training_of

    with Store.reading(trained) as store:
        for run in store.runs():
            training = replace(training_of(run.method, run.settings), seed=run.seed, fold=run.fold)
            split = split_of(mutag, training)
            ((_, predicted),) = store.predictions([run.key])
            assert predicted.test.truth.tolist() == mutag.y[split.test].tolist()
            assert predicted.validation.truth.tolist() == mutag.y[split.validation].tolist()


def test_rows_and_merged_stores_have_them(trained, tmp_path, small, pretend):
    with_scores = rows(trained, metrics=True, frame=False)
    assert {"test_roc_auc", "test_mcc", "validation_balanced_accuracy"} <= with_scores[0].keys()
    assert "test_roc_auc" not in rows(trained, frame=False)[0]
    run_experiment(small, methods="sagpool-h", store=tmp_path / "a.sqlite", engine=pretend)
    merge_stores([tmp_path / "a.sqlite", trained], tmp_path / "b.sqlite")
    found = rows(tmp_path / "b.sqlite", metrics=True, frame=False)
    assert sum("test_roc_auc" in row for row in found) == 2


def test_several_classes_and_tasks_survive_the_store():
    random = np.random.default_rng(0)
    odds = random.normal(size=(7, 2)).astype(np.float32)
    classes = Part(odds, random.integers(0, 3, 7))
    tasks = Part(odds, np.where(random.random((7, 2)) < 0.3, np.nan, random.integers(0, 2, (7, 2))))
    for task, part in (("classification", classes), ("multitask", tasks), ("regression", tasks)):
        one = Predicted(task, part, part)
        again = decode_predicted(one.to_row())
        np.testing.assert_array_equal(again.test.outputs, odds)
        np.testing.assert_array_equal(again.validation.truth, part.truth)
        assert again.scores() == pytest.approx(one.scores(), nan_ok=True)


def test_damaged_predictions_are_one_sentence(trained, tmp_path):
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(trained.read_bytes())
    with Store.writing(path) as store:
        store.connection.execute("UPDATE predictions SET test = x'00000000'")
    with pytest.raises(SagpoolError, match="predictions and truth differ in length"):
        rows(path, metrics=True, frame=False)
