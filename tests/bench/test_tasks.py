"""Several tasks, and regressions, in experiments."""

import csv
import json

import numpy as np
import pytest

from sagpool.bench import curves, rows, run_experiment
from sagpool.bench.experiment_file import load_experiment
from sagpool.errors import SagpoolError
from sagpool.report import write_report

TEXT = """
datasets:
  toxic: {source: rings.jsonl, task: multitask, targets: [odd, large]}
  sizes: {source: rings.jsonl, task: regression, targets: nodes}
tables: {all: {methods: [gpool-h]}}
protocol: {seeds: 1, folds: 3, max_epochs: 3}
grid: [{set: {lr: [1.0e-2, 1.0e-3]}}]
settings: [{set: {lr: 1.0e-2, hidden: 4}}]
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    with (folder / "rings.jsonl").open("w") as file:
        for number in range(60):
            nodes = 3 + number % 9
            edges = [[i, (i + 1) % nodes] for i in range(nodes)]
            labels = {"odd": nodes % 2, "large": int(nodes > 6), "nodes": nodes}
            file.write(
                json.dumps({"nodes": [{"label": "c"}] * nodes, "edges": edges, "labels": labels})
                + "\n"
            )
    (folder / "tasks.yaml").write_text(TEXT)
    return load_experiment(folder / "tasks.yaml")


def test_they_are_trained_and_scored(experiment, tmp_path):
    path = tmp_path / "runs.sqlite"
    result = run_experiment(experiment, store=path, device="cpu")
    tasks, sizes = result.summaries
    assert result.failure == ""
    assert 0 < tasks.spread.mean <= 100
    assert not sizes.learnt
    assert sizes.to_json()["loss"] == pytest.approx(sizes.loss)
    assert f"loss {sizes.loss:.4g}" in repr(result)
    found = rows(path, metrics=True, frame=False)
    assert len({row["key"] for row in found}) == 6, "other targets are other data"
    areas = [row["test_roc_auc"] for row in found if "test_roc_auc" in row]
    assert len(areas) == 3
    assert all(0 <= area <= 1 for area in areas)
    errors = [row["test_rmse"] for row in found if "test_rmse" in row]
    assert len(errors) == 3
    assert np.isfinite(errors).all()
    page = write_report(path, tmp_path / "report").read_text()
    assert "their errors are among the other scores: sizes." in page
    with (tmp_path / "report" / "tables" / "scores-sizes.csv").open(newline="") as file:
        (rmse,) = [row for row in csv.DictReader(file) if row["score"] == "rmse"]
    assert float(rmse["mean"]) == pytest.approx(np.mean(errors))
    assert rmse["runs"] == "3"
    table = (tmp_path / "report" / "tables" / "scores-toxic.md").read_text()
    assert f"| {np.mean(areas):.3f} |" in table


def test_a_file_needs_no_experiment_of_its_own(experiment, tmp_path):
    (cell,) = run_experiment(
        "quick",
        datasets=str(experiment.datasets["sizes"].source),
        methods="gpool-h",
        task="regression",
        targets="nodes",
        seeds=1,
        folds=3,
        settings={"max_epochs": 2, "hidden": 4},
        store=tmp_path / "runs.sqlite",
        device="cpu",
    ).summaries
    assert cell.cell.dataset == "rings (nodes)"
    assert cell.loss > 0
    with pytest.raises(SagpoolError, match="task must be one of classification, multitask"):
        run_experiment("quick", task="clustering")


def test_metrics_of_tasks_with_gaps_add_columns_and_change_none(small, tmp_path):
    """The mean over tasks differs from the fraction of all targets that are right."""
    with (tmp_path / "gaps.jsonl").open("w") as file:
        for number in range(40):
            labels = {"never": 0, "odd": number % 2 if number % 4 < 3 else None}
            file.write(json.dumps({"nodes": [0, 1], "edges": [[0, 1]], "labels": labels}) + "\n")
    path = tmp_path / "runs.sqlite"
    run_experiment(
        small, datasets=str(tmp_path / "gaps.jsonl"), methods="gpool-h", task="multitask",
        seeds=1, store=path, device="cpu",
    )  # fmt: skip
    plain, scored = (rows(path, metrics=metrics, frame=False) for metrics in (False, True))
    for row, more in zip(plain, scored, strict=True):
        assert repr({name: more[name] for name in row}) == repr(row)
        assert more.keys() - row.keys() >= {"test_roc_auc", "validation_f1"}


def test_the_search_table_has_no_accuracy_of_a_regression(experiment, tmp_path):
    path = tmp_path / "runs.sqlite"
    run_experiment(experiment, search="grid", store=path, device="cpu")
    write_report(path, tmp_path / "report")
    table = tmp_path / "report" / "tables" / "search.csv"
    assert "by the mean validation accuracy or loss" in table.with_suffix(".md").read_text()
    with table.open(newline="") as file:
        found = {row["dataset"]: row["chosen_accuracy"] for row in csv.DictReader(file)}
    assert found["toxic"]
    assert not found["sizes"]


def test_errors_of_searched_and_of_fixed_settings_have_captions_of_their_own(experiment, tmp_path):
    options = {"datasets": "sizes", "store": tmp_path / "runs.sqlite", "device": "cpu"}
    for search in ("grid", "none"):
        run_experiment(experiment, search=search, **options)
    page = write_report(options["store"], tmp_path / "report").read_text()
    for chosen in ("searched", "fixed"):
        assert f"sizes; {chosen} settings: scores of the test graphs" in page


def test_a_regression_is_selected_by_its_errors(experiment, tmp_path):
    path = tmp_path / "runs.sqlite"
    options = {"datasets": "sizes", "search": "grid", "store": path, "device": "cpu"}
    (chosen,) = run_experiment(experiment, select_by="mae", **options).summaries
    found = rows(path, metrics=True, frame=False)
    means = {
        lr: np.mean([r["validation_mae"] for r in found if r["lr"] == lr]) for lr in (1e-2, 1e-3)
    }
    assert chosen.cell.settings["lr"] == min(means, key=means.get)
    page = write_report(path, tmp_path / "report").read_text()
    assert "has the lowest RMSE on sizes" in page
    with pytest.raises(SagpoolError, match=r"is a regression, which cannot stop by f1"):
        run_experiment(experiment, settings={"stopping": "f1"}, **options)


@pytest.mark.parametrize("search", ["halving", "race"])
def test_a_search_of_a_regression_by_the_error_that_its_trainings_stop_by(
    search, experiment, tmp_path
):
    options = {
        "datasets": "sizes", "search": search, "store": tmp_path / "runs.sqlite", "device": "cpu",
        "settings": {"stopping": "mae", "lr": (0.01, 1e-6), "max_epochs": 9, "patience": 3},
    }  # fmt: skip
    (chosen,) = run_experiment(experiment, select_by="mae", **options).summaries
    assert chosen.cell.settings["lr"] == 0.01
    assert chosen.cell.search == f"{search} by mae"
    seen = curves(options["store"], frame=False)
    for row in rows(options["store"], metrics=True, frame=False):
        errors = [one["validation_mae"] for one in seen if one["key"] == row["key"]]
        assert min(errors) == pytest.approx(row["validation_mae"], rel=1e-4)
    run_experiment(experiment, datasets="sizes", store=options["store"], device="cpu")
    page = write_report(options["store"], tmp_path / "report").read_text()
    assert "early stopping looks at the validation mae" in page
    with pytest.raises(SagpoolError, match=r"not the loss here; use .* or --select-by mae, or se"):
        run_experiment(experiment, **options)


@pytest.mark.parametrize("dataset", ["toxic", "sizes"])
def test_without_classes_there_are_no_weights_of_classes(dataset, experiment, tmp_path):
    with pytest.raises(SagpoolError, match="which has no classes to weight"):
        run_experiment(
            experiment, datasets=dataset, settings={"class_weight": "balanced"},
            store=tmp_path / "runs.sqlite", device="cpu",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("dataset", "metric", "sentence"),
    [
        ("sizes", "roc_auc", r"is a regression, .* by roc_auc; choose from loss, rms"),
        ("toxic", "rmse", r"is a multitask, .* by rmse; choose from loss, acc"),
    ],
)
def test_a_search_does_not_select_by_a_metric_of_another_task(
    dataset, metric, sentence, experiment, tmp_path
):
    with pytest.raises(SagpoolError, match=sentence):
        run_experiment(
            experiment, datasets=dataset, search="grid", select_by=metric,
            store=tmp_path / "runs.sqlite",
        )  # fmt: skip
