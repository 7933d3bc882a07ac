"""Comparisons at the same retention of nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench import Store, run_experiment
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.retention import Retention, retention
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.models import build, registry
from sagpool.report import write_report


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.mark.parametrize(
    ("method", "mismatch"),
    [
        ("sagpool-h", ""),
        ("random-h", ""),
        ("nopool-h", "it leaves 100, 100, 100 % of the nodes, not 52, 27, 15 %"),
        ("set2set-g", "it leaves one row of each graph"),
        ("edgepool-h", "how many nodes it leaves is not known before it has run"),
        ("sagpool-h-ratio", "how many nodes it leaves is not known before it has run"),
    ],
)
def test_what_is_left_is_measured(mutag, method, mismatch):
    assert retention(mutag, Training(method, hidden=4)).mismatch == mismatch


def test_test_graphs_of_a_fixed_split_do_not_count(mutag):
    """The number of clusters follows all graphs, so large test graphs make it too large here."""
    sizes = mutag.node_counts
    small = sizes <= np.median(sizes)
    part = np.where(small, np.where(np.arange(len(sizes)) % 5, 0, 1), 2)
    split = replace(mutag, part=torch.from_numpy(part), part_names=("train", "validation", "test"))
    training = Training("mincut-h", hidden=4, split="fixed")
    assert retention(split, training).mismatch.startswith("it leaves 6")
    assert retention(split, replace(training, method="sagpool-h")).mismatch == ""
    assert retention(mutag, Training("mincut-h", hidden=4)).mismatch == ""


def test_rounding_is_no_mismatch():
    assert Retention((0.5, 0.25), (0.52, 0.28), "").mismatch == ""
    assert Retention((0.5, 0.25), (0.52, 0.3), "").mismatch.startswith("it leaves 52, 30 %")


def test_all_methods_get_the_same_ratio_and_the_table_names_those_that_differ(
    small, path, pretend, monkeypatch, tmp_path
):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))

    @registry.register("clusters-h", settings={"clusters": "largest"}, version="1")
    def clusters_h(shape):
        assert shape.settings["clusters"] in ("largest", "mean")
        return build("gpool-h", replace(shape, settings={}))

    methods = ["sagpool-h", "clusters-h", "nopool-h"]
    options = {"methods": methods, "match": "retention", "store": path, "engine": pretend}
    result = run_experiment(small, settings={"ratio": 0.25}, **options)
    assert {training.ratio for training in pretend.asked} == {0.25}
    by_method = {s.cell.method: s for s in result.summaries}
    assert by_method["clusters-h"].cell.settings["clusters"] == "mean"
    assert by_method["sagpool-h"].mismatch == by_method["clusters-h"].mismatch == ""
    assert by_method["nopool-h"].to_json()["not_matched"].startswith("it leaves 100")
    with Store.reading(path) as store:
        kept = {cell.method: cell.retention for cell in store.cells()}
    assert kept["sagpool-h"] == by_method["sagpool-h"].cell.retention
    np.testing.assert_allclose(kept["sagpool-h"].left, kept["sagpool-h"].wanted)
    page = write_report(path, tmp_path / "report").read_text()
    assert "Not matched: nopool-h on MUTAG (it leaves 100, 100, 100 %" in page
    assert "Compared at the same retention of nodes, with the same search budget." in page
    assert "not part of the matched comparison" not in page


def test_the_table_names_the_cells_that_were_matched(small, path, pretend, tmp_path):
    options = {"store": path, "engine": pretend}
    run_experiment(small, methods=["sagpool-h", "random-h"], match="retention", **options)
    run_experiment(small, methods=["random-h", "gpool-h"], **options)
    page = write_report(path, tmp_path / "report").read_text()
    assert "with the same search budget: sagpool-h, random-h on MUTAG." in page
    assert "The other cells were not part of the matched comparison." in page


def test_commands_at_different_ratios_are_told_apart(small, path, pretend, tmp_path):
    options = {"store": path, "engine": pretend, "match": "retention"}
    run_experiment(small, methods=["sagpool-h", "random-h"], **options)
    for methods in (["sagpool-h", "random-h"], ["gpool-h"]):
        ratio = 0.25 if len(methods) > 1 else 0.3
        run_experiment(small, methods=methods, settings={"ratio": ratio}, **options)
    write_report(path, tmp_path / "report")
    text = (tmp_path / "report/tables/results.md").read_text()
    note = "Compared at the same retention of nodes, with the same search budget: "
    assert [line.removeprefix(note) for line in text.splitlines() if note in line] == [
        "sagpool-h, random-h on MUTAG. The poolings leave 52, 27, 15 % on MUTAG.",
        "sagpool-h, ratio 0.25, random-h, ratio 0.25 on MUTAG. "
        "The poolings leave 27, 9, 6 % on MUTAG.",
    ]
    alone = "no other cell has the same ratio and search budget: gpool-h, ratio 0.3 on MUTAG."
    assert alone in text


def test_searches_with_different_budgets_are_told_apart(small, path, pretend, tmp_path):
    options = {"store": path, "engine": pretend, "match": "retention", "search": "grid"}
    run_experiment(small, methods=["sagpool-h", "random-h"], **options)
    run_experiment(small, methods=["gpool-h"], settings={"hidden": 4}, **options)
    write_report(path, tmp_path / "report")
    text = (tmp_path / "report/tables/results.md").read_text()
    assert "with the same search budget: sagpool-h, random-h on MUTAG." in text
    assert "no other cell has the same ratio and search budget: gpool-h on MUTAG." in text


def test_a_search_has_the_same_budget_for_all(small, path, pretend):
    options = {"match": "retention", "search": "grid", "store": path, "engine": pretend}
    run_experiment(small, methods=["sagpool-h", "gpool-h"], **options)
    with pytest.raises(SagpoolError, match=r"diffpool-h has 8 candidates and gpool-h 4"):
        run_experiment(
            small,
            methods=["diffpool-h", "gpool-h"],
            settings={"losses": ("both", "none")},
            **options,
        )
    with pytest.raises(SagpoolError, match=r"one ratio, not 0.5, 0.25"):
        run_experiment(small, settings={"ratio": (0.5, 0.25)}, **options)


def test_budgets_are_compared_on_every_data_set(small_text, path, pretend):
    text = small_text.replace("datasets: {MUTAG: }", "datasets: {MUTAG: , motifs: }")
    text = text.replace("datasets: [MUTAG]", "datasets: [MUTAG, motifs]")
    more = (
        "  - {datasets: MUTAG, methods: gpool-h, set: {weight_decay: [1.0e-4, 1.0e-3]}}\nsettings:"
    )
    experiment = read_experiment(text.replace("settings:", more), "two")
    with pytest.raises(SagpoolError, match=r"on MUTAG gpool-h has 8 candidates and sagpool-h 4"):
        run_experiment(experiment, match="retention", search="grid", store=path, engine=pretend)
