"""The protocol of the authors' first released code: as an experiment, and apart from all others."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sagpool
from sagpool.bench import Overrides, Store, load_experiment, plan_experiment, rows, run_experiment
from sagpool.bench.engines import Local
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.plan import plan
from sagpool.bench.selection import BY_TEST, OPTIMISTIC, SELECTED
from sagpool.bench.summary import compare_methods, summarise
from sagpool.bench.variants import group_cells
from sagpool.cli.dry_run import DryRun, print_dry_run
from sagpool.cli.results import print_results
from sagpool.errors import SagpoolError
from sagpool.report import write_report

OPTIONS = {"split": "contiguous", "order": "fixed", "stopping": "loss+norm"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def released(small_text):
    """The small experiment by the other protocol."""
    options = ", ".join(f"{name}: {value}" for name, value in OPTIONS.items())
    text = small_text.replace("max_epochs: 2}", f"max_epochs: 2, {options}, select: test}}")
    return read_experiment(text, "small-released")


@pytest.fixture
def bench(released, path, pretend):
    """By validation, 0.001 is the better learning rate; by test, 0.01."""
    pretend.accuracy = {0.001: 0.9, 0.01: 0.6}
    pretend.test_accuracy = {0.001: 0.7, 0.01: 0.8}

    def run(experiment=released, **options):
        usual = {"methods": "gpool-h", "engine": pretend, "store": path, "search": "grid"}
        return run_experiment(experiment, **usual | options)

    return run


def summaries(path):
    with Store.reading(path) as store:
        return summarise(store.cells(), store.runs())


def test_the_packaged_experiment():
    experiment = load_experiment("lee2019-released")
    paper = load_experiment("lee2019")
    cells = plan(experiment, Overrides(), search=True)
    assert [(cell.dataset.name, cell.method) for cell in cells] == [
        (dataset, method)
        for dataset in ("PROTEINS", "NCI109")
        for method in ("sagpool-g", "gpool-h", "sagpool-h")
    ]
    assert (experiment.seeds, experiment.select) == (20, "test")
    for cell in cells:
        assert cell.published == paper.accuracy[cell.dataset.name, cell.method]
        assert cell.dataset.normalise == "l2"
        candidates = {one.weight_decay for one in cell.candidates}
        assert candidates == {1e-3, 1e-4, 1e-5}, "the released code refused 1e-2"
        assert len(cell.candidates) == (144 if cell.method.endswith("-h") else 72)
        for one in (cell.default, *cell.candidates):
            assert (one.split, one.order, one.stopping) == tuple(OPTIONS.values())
            assert (one.folds, one.patience, one.validation) == (10, 50, 0.1)
    (same,) = [
        cell
        for cell in plan(paper, Overrides(), search=True)
        if (cell.dataset.name, cell.method) == ("PROTEINS", "sagpool-h")
    ]
    usual = same.default.to_dict()
    assert cells[2].default.to_dict() == usual | OPTIONS, "in all else the two are alike"


def test_only_such_an_experiment_may_choose_by_test_accuracy(bench, small, released):
    with pytest.raises(SagpoolError) as raised:
        bench(small, select="test")
    assert str(raised.value) == (
        "Choosing settings by test accuracy gives optimistic figures; only an experiment with "
        "'select: test' in its protocol may do so, and small has none."
    )
    assert plan_experiment(small, search="grid").select == "over-folds"
    assert plan_experiment(released, search="grid").select == "test"
    assert plan_experiment(released, search="grid", select="per-fold").select == "per-fold"
    assert plan_experiment(released).select == "over-folds", "there is nothing to choose"
    for options in (
        {"search": "halving"},
        {"search": "race"},
        {"search": "none", "select": "test"},
    ):
        with pytest.raises(SagpoolError, match="known at the end of a training; search by grid"):
            bench(**options)


def test_settings_are_chosen_by_test_accuracy(bench, pretend, path):
    (summary,) = bench().summaries
    assert {run.settings["lr"] for run in summary.runs} == {0.01}
    assert summary.spread.mean == pytest.approx(80)
    assert len(pretend.asked) == 4 * 2 + 2, "the grid on the first seed, then the second seed"
    found = summary.to_json()
    assert (found["select"], found["settings"][SELECTED]) == ("test", BY_TEST)
    pretend.asked.clear()
    (again,) = bench().summaries
    assert pretend.asked == []
    assert again.cell.chosen == summary.cell.chosen
    (usual,) = bench(select="over-folds").summaries
    assert {run.settings["lr"] for run in usual.runs} == {0.001}
    # Without a search, with the settings that test results had chosen: still another cell.
    bench(search="none", settings={"lr": 0.01, "hidden": 4})
    assert [(s.select, s.spread.mean) for s in summaries(path)] == [
        ("test", pytest.approx(80)),
        ("over-folds", pytest.approx(70)),
        ("over-folds", pytest.approx(80)),
    ]


def test_a_failed_training_is_not_chosen_by_its_test_result(bench, pretend):
    pretend.test_accuracy = {0.001: 0.7, 0.01: float("nan")}
    (summary,) = bench().summaries
    assert {run.settings["lr"] for run in summary.runs} == {0.001}


def test_the_figure_is_called_optimistic(bench, path, released, capsys):
    (summary,) = bench().summaries
    print_results([summary])
    out = capsys.readouterr().out
    assert "gpool-h: search (grid, by test accuracy): " in out
    assert OPTIMISTIC in out
    planned = plan_experiment(released, Overrides(methods=("gpool-h",)), search="grid")
    print_dry_run(DryRun.of(planned, "cpu"))
    assert OPTIMISTIC in capsys.readouterr().out
    (usual,) = bench(select="over-folds").summaries
    print_results([usual])
    assert OPTIMISTIC not in capsys.readouterr().out


def test_a_report_says_that_a_choice_by_test_accuracy_is_optimistic(bench, small, path):
    bench()
    page = write_report(path, path.parent / "report").read_text()
    assert "Test results had no part in it" not in page
    assert f"{SELECTED} {BY_TEST}" in page
    assert page.count(OPTIMISTIC) == 2, "above all and below the table"
    assert "chosen by test accuracy" in (path.parent / "report/tables/results.md").read_text()
    bench(small, search="grid")
    usual = write_report(path, path.parent / "usual").read_text()
    assert "Test results had no part in it" in usual
    assert usual.count(OPTIMISTIC) == 1, "below the table of the other protocol"
    tables = path.parent / "usual/tables"
    assert "chosen by test accuracy" not in (tables / "results.md").read_text()
    other = (tables / "results-by-test-protocol2.md").read_text()
    assert "The protocol is not the usual one: folds are contiguous slices of the shuffled" in other
    assert OPTIMISTIC in other


def test_two_protocols_share_no_table(bench, small, path):
    bench(small, methods=("gpool-h", "sagpool-h"), search="none")
    bench(search="none")
    found = summaries(path)
    assert [s.cell.protocol for s in found] == [{}, {}, OPTIONS]
    usual, other = group_cells(found)
    assert {s.cell.method for s in usual.cells} == {"gpool-h", "sagpool-h"}
    assert [s.cell.method for s in other.cells] == ["gpool-h"]
    assert usual.differences == ()
    assert len(other.differences) == 3
    assert [(one.first, one.second) for one in compare_methods(found)] == [("gpool-h", "sagpool-h")]
    bench()
    groups = [(len(group.differences), group.chosen.name) for group in group_cells(summaries(path))]
    assert groups == [(0, "FIXED"), (3, "FIXED"), (3, "BY_TEST")]


def test_rows_tell_their_protocol(bench, small, path):
    bench(small, search="none", seeds=1)
    bench(search="none", seeds=1)
    told = [{name: row[name] for name in OPTIONS} for row in rows(path, frame=False)]
    usual = {"split": "stratified", "order": "shuffled", "stopping": "loss"}
    assert sorted(map(json.dumps, told)) == sorted(map(json.dumps, [usual, OPTIONS] * 2))


def test_the_protocol_is_not_searched(small):
    overrides = Overrides(settings={"stopping": ("loss", "loss+norm")})
    with pytest.raises(SagpoolError, match=r"^stopping is part of the protocol, not of a s"):
        plan(small, overrides, search=True)
    one = Overrides(settings={"stopping": ("loss+norm",)})
    assert {cell.default.stopping for cell in plan(small, one, search=False)} == {"loss+norm"}


def test_a_dry_run_tells_the_protocol(released):
    first, *_ = plan_experiment(released).describe()
    assert {name: first[name] for name in OPTIONS} == OPTIONS


def test_real_trainings(released, path, tmp_path):
    """The chosen settings have the best test accuracy on the folds of the first seed."""
    result = run_experiment(
        released,
        methods="gpool-h",
        search="grid",
        store=path,
        engine=Local(tmp_path / "checkpoints"),
    )
    (summary,) = result.summaries
    assert [(run.seed, run.fold) for run in summary.runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    table = [row for row in rows(path, frame=False) if row["seed"] == 0]
    means = {}
    for row in table:
        means.setdefault((row["lr"], row["hidden"]), []).append(row["test_accuracy"])
    best = max(np.mean(values) for values in means.values())
    chosen = summary.runs[0].settings
    assert np.mean(means[chosen["lr"], chosen["hidden"]]) == best
    assert chosen["split"] == "contiguous"


@pytest.mark.parametrize("normalise", ["none", "l2"])
def test_features_are_normalised_before_anything_is_trained(normalise, tmp_path):
    file = tmp_path / "mine.jsonl"
    graphs = []
    for i in range(8):
        nodes = [{"features": row} for row in ([3, 4], [0, 0], [i, 1])]
        graphs.append({"nodes": nodes, "edges": [[0, 1], [1, 2]], "label": "ab"[i % 2]})
    file.write_text("\n".join(map(json.dumps, graphs)))
    text = f"""
    datasets: {{mine: {{source: mine.jsonl, normalise: {normalise}}}}}
    tables: {{all: {{methods: [gpool-h]}}}}
    protocol: {{folds: 2, validation: 0.3}}
    """
    planned = plan_experiment(read_experiment(text, "own", tmp_path))
    plain = sagpool.load(file)
    data = planned.data["mine"]
    assert data.fingerprint == data.graphs.fingerprint()
    assert (data.fingerprint == plain.fingerprint()) == (normalise == "none")
    expected = [[0.6, 0.8], [0, 0], [0, 1]] if normalise == "l2" else [[3, 4], [0, 0], [0, 1]]
    np.testing.assert_allclose(data.graphs[0].x, expected, rtol=1e-6)
    cell = planned.cells[0]
    unlike = replace(planned, data={"mine": replace(data, fingerprint=plain.fingerprint())})
    same = planned.keys(cell, [cell.default]) == unlike.keys(cell, [cell.default])
    assert same == (normalise == "none"), "rows with and without are never confused"


def test_a_fixed_split_needs_a_data_set_that_has_one(small_text):
    text = small_text.replace("max_epochs: 2}", "max_epochs: 2, split: fixed}")
    with pytest.raises(SagpoolError, match="MUTAG has no split of its own"):
        plan_experiment(read_experiment(text, "small-fixed"))
