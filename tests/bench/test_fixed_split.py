"""Experiments on data sets with a split of their own, or of a file."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sagpool.bench import Overrides, plan_experiment, rows, run_experiment
from sagpool.bench.claims import Evidence
from sagpool.bench.experiment import Accuracy
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.store import Store
from sagpool.cli.results import print_results
from sagpool.errors import SagpoolError
from sagpool.fleet import Score, Training
from sagpool.report import write_report
from sagpool.report.content import read_content
from sagpool.report.sections.tests import section

NAME = "MUTAG (split official)"
TEXT = """
datasets: {MUTAG: {split: official.csv}}
tables: {main: {methods: [mlp-g, nopool-g]}}
protocol: {seeds: 2, max_epochs: 2, hidden: 4}
published: {tests: {mlp-g: {MUTAG: {far: [40, 3.5]}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a split of MUTAG that has two tests."""
    folder = tmp_path_factory.mktemp("split")
    parts = ["train", "train", "validation", "near", "far"]
    parts = [parts[number % 5] for number in range(150)] + ["far"] * 38  # of other classes
    lines = [f"{number},{part}" for number, part in enumerate(parts)]
    (folder / "official.csv").write_text("\n".join(["graph,part", *lines]))
    return folder


@pytest.fixture(scope="module")
def bench(folder):
    return run_experiment(
        read_experiment(TEXT, "split", folder), store=folder / "runs.sqlite", device="cpu"
    )


def test_every_test_has_an_accuracy(bench):
    for summary in bench.summaries:
        assert [*summary.tests] == ["near", "far"]
        assert summary.tests["near"] == summary.spread
        assert summary.tests["far"] != summary.spread
    table = rows(bench.store, frame=False)
    assert all(row["near accuracy"] == row["test_accuracy"] for row in table)
    assert all(row["near loss"] == row["test_loss"] for row in table)
    far = [row["far accuracy"] for row in table if row["method"] == "mlp-g"]
    mlp = next(s for s in bench.summaries if s.cell.method == "mlp-g")
    assert mlp.tests["far"].mean == pytest.approx(100 * np.mean(far))
    shown = json.loads(json.dumps(mlp.to_json()))["tests"]["far"]
    assert (shown["mean"], shown["paper_mean"]) == (mlp.tests["far"].mean, 40)
    assert "far" in repr(bench)
    assert "(paper 40 ± 3.5)" in bench._repr_html_()


def test_a_split_that_the_experiment_names_is_its_protocol(bench, folder):
    experiment = read_experiment(TEXT, "split", folder)
    (group,) = read_content(bench.store, experiment).groups
    assert group.differences == ()
    assert Evidence.of(experiment, {}).runs == {"MUTAG": 2}  # one of each seed
    (other,) = read_content(
        bench.store, read_experiment(TEXT.replace("{split: official.csv}", ""), "x")
    ).groups
    assert other.differences == ("the split is the one that the data set has",)


def test_other_data_of_the_same_name_keep_their_own_split(folder):
    """The split file of the experiment is for its own data set alone."""
    experiment = read_experiment(TEXT, "split", folder)
    plan = plan_experiment(experiment, Overrides(datasets=("MUTAG",), features="degree"))
    assert {cell.default.split for cell in plan.cells} == {"fixed"}
    given = replace(experiment.datasets["MUTAG"], split=None)
    without = replace(experiment, datasets={"MUTAG": given})
    assert without.settings_of("MUTAG", "mlp-g") == experiment.settings_of("MUTAG", "mlp-g")


def test_the_test_behind_the_accuracies_is_named(bench, capsys):
    print_results(bench.summaries)
    sentence = "the accuracy is that of the test 'near', the first one of the split"
    for shown in (capsys.readouterr().out, repr(bench)):
        assert shown.count(f"MUTAG: {sentence}") == 1


def run_split(folder, name, **names):
    """The experiment with other names of the two tests, in a store of these experiments."""
    text = (folder / "official.csv").read_text()
    for before, after in names.items():
        text = text.replace(f",{before}", f",{after}")
    (folder / f"{name}.csv").write_text(text)
    experiment = read_experiment(TEXT.replace("official", name), name, folder)
    return run_experiment(experiment, store=folder / "several.sqlite", device="cpu")


def test_the_test_of_this_name_is_the_main_one(folder, capsys):
    found = run_split(folder, "named", far="test")
    for summary in found.summaries:
        assert [*summary.tests] == ["test", "near"]
        assert summary.tests["test"] == summary.spread
        assert summary.to_json()["main_test"] == "test"
    print_results(found.summaries)
    assert "MUTAG: the accuracy is that of the test 'test'\n" in capsys.readouterr().out


def test_splits_of_one_store_may_have_the_same_tests_in_another_order(folder):
    swapped = run_split(folder, "swapped", near="x", far="near", x="far")
    unchanged = run_split(folder, "unchanged")
    for found, main in ((swapped, "far"), (unchanged, "near")):
        for summary in found.summaries:
            assert summary.main_test == main
            assert summary.tests[main] == summary.spread


def test_the_report_has_a_table_of_the_tests(bench):
    (part,) = section(read_content(bench.store)).parts
    assert "All other tables have the accuracy of the test 'near'." in part.table.to_markdown()
    assert "paper 40 ± 3.5" in part.table.to_markdown()
    assert len(part.table.records) == 4


def test_the_most_frequent_class_is_that_of_the_main_test(bench, mutag, tmp_path):
    near = np.bincount(mutag.y[np.arange(3, 150, 5)])
    expected = 100 * near.max() / near.sum()
    assert round(expected) != round(100 * mutag.statistics().majority)
    content = read_content(bench.store)
    assert content.majority(content.shown) == pytest.approx(expected)
    write_report(bench.store, tmp_path / "report")
    table = (tmp_path / "report/tables/results.md").read_text()
    assert f"| most frequent class | {expected:.2f} |" in table
    assert "With a fixed split it is the largest class of the main test." in table


def test_without_a_fixed_split_the_most_frequent_class_is_that_of_the_data(small, tmp_path):
    result = run_experiment(small, methods="mlp-g", store=tmp_path / "runs.sqlite", device="cpu")
    content = read_content(result.store)
    assert content.majority(content.shown) == pytest.approx(100 * 125 / 188)


def test_a_second_run_trains_nothing(bench, folder, pretend):
    again = run_experiment(
        read_experiment(TEXT, "split", folder), store=bench.store, engine=pretend
    )
    assert not pretend.asked
    assert [s.tests for s in again.summaries] == [s.tests for s in bench.summaries]


def test_a_run_is_stored_with_all_its_tests_or_not_at_all(tmp_path, monkeypatch, result):
    insert = Store._insert

    def fail(self, conflict, table, values):
        if table == "tests":
            raise SagpoolError("The disk is full.")
        return insert(self, conflict, table, values)

    outcome = result(Training("mlp-g", split="fixed"))
    tests = {"near": outcome.test, "far": Score(1.0, float("nan"))}
    with Store.writing(tmp_path / "runs.sqlite") as store:
        monkeypatch.setattr(Store, "_insert", fail)
        with pytest.raises(SagpoolError, match="full"):
            store.add("new", "MUTAG", "print", outcome, "float32", 1, tests=tests)
        assert not store.keys()
        monkeypatch.undo()
        store.add("new", "MUTAG", "print", outcome, "float32", 1, tests=tests)
        assert store.keys() == {"new"}
        assert np.isnan(store.tests()["new"]["far"].accuracy)


def test_a_file_makes_another_data_set_of_another_key(small, folder):
    file = folder / "official.csv"
    one, other = (
        plan_experiment(small, Overrides(methods=("mlp-g",), split=split)) for split in (None, file)
    )
    assert [cell.dataset.name for cell in other.cells] == [NAME]
    assert other.cells[0].default.split == "fixed"
    assert other.cells[0].default.folds == 1
    keys = [plan.keys(plan.cells[0], [other.cells[0].default]) for plan in (one, other)]
    assert keys[0] != keys[1]
    stratified = one.cells[0].default
    assert one.keys(one.cells[0], [stratified]) != other.keys(other.cells[0], [stratified])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"folds": 5}, "has a fixed split, so it has no folds"),
        ({"settings": {"split": ("contiguous",)}}, "cannot have another one"),
        ({"datasets": ("MUTAG", "motifs")}, "is for one data set"),
    ],
)
def test_what_contradicts_a_split_is_refused(changes, sentence, small, folder):
    with pytest.raises(SagpoolError, match=sentence):
        plan_experiment(small, Overrides(split=folder / "official.csv", **changes))


def test_data_with_a_split_that_is_not_used_get_a_warning(small, folder, caplog):
    plan_experiment(small, Overrides(datasets=("colors",), methods=("mlp-g",)))
    assert "colors comes with a split; --set split=fixed uses it." in caplog.text


def test_published_tests_are_read_and_checked(folder):
    found = read_experiment(TEXT, "split", folder)
    assert found.tests == {("MUTAG", "mlp-g"): {"far": Accuracy(40, 3.5)}}
    with pytest.raises(SagpoolError, match=r"published.tests.mlp-g.MUTAG.far must be \[mean"):
        read_experiment(TEXT.replace("[40, 3.5]", "40"), "split", folder)


def test_node_targets_of_a_file_are_for_supervised_scores(folder):
    (folder / "nodes.csv").write_text("graph,node,target\n0,1,1\n0,2,3\n")
    text = (
        TEXT.replace("[mlp-g, nopool-g]", "[sagpool-g-ratio]")
        .replace("seeds: 2", "supervision: 10")
        .replace("published", "# ")
    )
    with pytest.raises(SagpoolError, match="has no node targets, which supervision needs"):
        plan_experiment(read_experiment(text, "no targets", folder))
    given = text.replace("official.csv", "official.csv, node_targets: nodes.csv")
    results = [
        run_experiment(read_experiment(of, "given", folder), store=folder / "nodes.sqlite", **more)
        for of, more in (
            (given, {"device": "cpu"}),
            (given.replace("supervision: 10, ", ""), {"device": "cpu"}),
        )
    ]
    with_it, without = (result.summaries[0].runs[0] for result in results)
    assert with_it.train_loss > without.train_loss
    named = plan_experiment(
        read_experiment(text, "named", folder), Overrides(node_targets=folder / "nodes.csv")
    )
    assert [*named.data] == ["MUTAG (nodes nodes)"]
    unused = Overrides(methods=("gpool-h",), node_targets=folder / "nodes.csv")
    with pytest.raises(SagpoolError, match="No method of this command learns from node targets"):
        plan_experiment(read_experiment(text, "named", folder), unused)
