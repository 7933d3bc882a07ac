"""`run_experiment` and `rows`: experiments from Python, with the settings of methods."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sagpool.bench import Overrides, Store, curves, plan_experiment, rows, run_experiment
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.plan import METHOD_VERSION
from sagpool.bench.summary import summarise
from sagpool.bench.variants import group_cells
from sagpool.errors import SagpoolError
from sagpool.models import build, registry


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def register(monkeypatch):
    """Registers methods for one test: the model of gpool-h, with settings of their own."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))

    def add(version, name="tempered-h", **settings):
        def make(shape):
            assert all(shape.settings[key] for key in ("conv", *settings))
            return build("gpool-h", replace(shape, settings={}))

        registry._methods.pop(name, None)
        registry.register(name, settings=settings, version=version)(make)

    add("1", temperature=0.5, kind="soft")
    add("1", "plain-h")
    return add


def test_numbers_of_numpy(path):
    """A whole number of any type; SQLite would store this one as bytes, which are no number."""
    options = {"datasets": "MUTAG", "methods": "mlp-g", "folds": 2, "store": path, "device": "cpu"}
    settings = {"max_epochs": np.int64(1), "hidden": np.int64(4)}
    for _ in range(2):
        result = run_experiment("quick", seeds=np.int64(2), settings=settings, **options)
        assert [summary.cell.seeds for summary in result.summaries] == [2]
    assert len(rows(path, frame=False)) == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": "1"}, r"^seeds must be a whole number, not '1'\.$"),
        ({"seeds": 1.0}, r"^seeds must be a whole number, not 1\.0\.$"),
        ({"seeds": 0}, r"^seeds must be at least 1, not 0\.$"),
        ({"settings": {"lr": []}}, r"^settings: lr has no values\.$"),
        ({"methods": [None]}, r"^methods must be names or paths, not None\.$"),
        ({"members": "2"}, r"^The number of members must be a whole number, not '2'\.$"),
    ],
)
def test_wrong_arguments(path, options, sentence):
    usual = {"datasets": "MUTAG", "methods": "mlp-g", "seeds": 1, "folds": 2, "device": "cpu"}
    with pytest.raises(SagpoolError, match=sentence):
        run_experiment("quick", store=path, **usual | options)


def test_names_and_paths_of_any_kind(small, tmp_path):
    graphs = [{"nodes": ["a", "b"], "edges": [[0, 1]], "label": i % 2} for i in range(40)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, graphs)))
    given = Overrides(datasets=(str(tmp_path / "own.jsonl"),), methods=("mlp-g",), folds=2)
    expected = plan_experiment(small, given).cells
    result = run_experiment(
        small, datasets=tmp_path / "own.jsonl", methods={"mlp-g"}, folds=2, seeds=1,
        settings={"max_epochs": 1, "hidden": 4}, store=tmp_path / "runs.sqlite", device="cpu",
    )  # fmt: skip
    assert [one.cell.dataset for one in result.summaries] == [one.dataset.name for one in expected]


def test_by_the_name_of_an_experiment_and_trained_for_real(path):
    states = []
    result = run_experiment(
        "quick",
        datasets="MUTAG",
        methods=["sagpool-h", "gpool-h"],
        seeds=1,
        folds=2,
        settings={"max_epochs": 1, "hidden": 4},
        store=path,
        device="cpu",
        watch=states.append,
    )
    assert (result.store, result.failure) == (path, "")
    assert [summary.cell.method for summary in result.summaries] == ["sagpool-h", "gpool-h"]
    assert [len(summary.runs) for summary in result.summaries] == [2, 2]
    assert [state.stage for state in result.cells] == ["done", "done"]
    assert states[:2] == list(result.cells), "all cells are announced first"
    with Store.reading(path) as store:
        (invocation,) = store.invocations()
    assert invocation.command == "run_experiment('quick')"


def test_other_node_features_do_not_mix_with_the_usual_ones(small, path, pretend):
    for features in (None, "degree", None):
        run_experiment(small, features=features, store=path, engine=pretend)
    assert len(pretend.asked) == 2 * 8
    found = [(row["name"], row["method"], row["feature_kind"]) for row in rows(path, frame=False)]
    assert {one: found.count(one) for one in found} == {
        ("MUTAG", method, kind): 4
        for method in ("sagpool-h", "gpool-h")
        for kind in ("labels", "degree")
    }
    assert len({row["key"] for row in rows(path, frame=False)}) == 16
    with Store.reading(path) as store:
        (group,) = group_cells(summarise(store.cells(), store.runs()))
    assert {(s.cell.dataset, s.method, len(s.runs)) for s in group.cells} == {
        (name, method, 4)
        for name in ("MUTAG", "MUTAG (degree)")
        for method in ("sagpool-h", "gpool-h")
    }
    with pytest.raises(SagpoolError, match=r"^features must be one of auto, labels, .*'label'"):
        run_experiment(small, features="label", store=path, engine=pretend)
    with pytest.raises(SagpoolError, match=r"^MUTAG has no node attributes"):
        run_experiment(small, features="both", store=path, engine=pretend)


def test_a_file_may_have_one_data_set_with_several_kinds_of_features(small_text, path, pretend):
    text = small_text.replace("{MUTAG: }", "{MUTAG: , degrees: {source: MUTAG, features: degree}}")
    both = read_experiment(text.replace("[MUTAG]", "[MUTAG, degrees]"), "both")
    result = run_experiment(both, methods="gpool-h", store=path, engine=pretend)
    assert [summary.cell.dataset for summary in result.summaries] == ["MUTAG", "degrees"]
    kinds = [row["feature_kind"] for row in rows(path, frame=False)]
    assert (kinds.count("labels"), kinds.count("degree")) == (4, 4)


def test_rows_have_a_column_for_every_setting(small, path, pretend, register, monkeypatch):
    for settings in ({}, {"conv": "gin"}):
        run_experiment(small, methods="plain-h", settings=settings, store=path, engine=pretend)
    found = rows(path, frame=False)
    assert len(found) == 8
    assert {(row["conv"], row["readout"]) for row in found} == {
        ("gcn", "mean-max"),
        ("gin", "mean-max"),
    }
    assert {(row["schedule"], row["class_weight"]) for row in found} == {("constant", "none")}
    first = found[0]
    assert (first["name"], first["method"], first["seed"], first["fold"]) == (
        *("MUTAG", "plain-h", 0, 0),
    )
    assert (first["lr"], first["hidden"], first["folds"]) == (0.01, 4, 2)
    assert first["test_accuracy"] == 0.7
    assert not {"settings", "curve", "confusion"} & first.keys()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=tuple))
    assert rows(str(path)) == tuple(found)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SagpoolError, match=r"^A data frame needs pandas; .* pip install pandas$"):
        rows(path)


def test_settings_of_methods_in_a_call_and_in_a_file(small, small_text, path, pretend, register):
    """A setting applies to the methods that have it."""
    methods = ["plain-h", "tempered-h"]
    settings = {"temperature": 0.1, "conv": "gin", "kind": "hard"}
    run_experiment(small, methods=methods, settings=settings, store=path, engine=pretend)
    trained = {training.method: dict(training.method_settings) for training in pretend.asked}
    assert trained == {"plain-h": {"conv": "gin"}, "tempered-h": settings}

    text = small_text.replace("hidden: [4, 6]}", "hidden: [4, 6], conv: [gcn, gin]}")
    text = text.replace("max_epochs: 2}", "max_epochs: 2, temperature: 1/4}")
    text = text.replace("hidden: 4}", "hidden: 4}\n  - {methods: '*-h', set: {kind: hard}}")
    experiment = read_experiment(text, "small")
    plan = plan_experiment(experiment, Overrides(methods=tuple(methods)), search="grid")
    plain, tempered = plan.cells
    assert plain.default.method_settings == ()
    assert dict(tempered.default.method_settings) == {"temperature": 0.25, "kind": "hard"}
    assert [c.to_dict().get("conv", "gcn") for c in tempered.candidates] == ["gcn", "gin"] * 4


def test_a_search_over_the_settings_of_a_method(small, path, pretend, register):
    settings = {"temperature": (0.1, 0.5, 2), "lr": (0.01,), "hidden": (4,)}
    for search in ("grid", "halving", "race"):
        result = run_experiment(
            small,
            methods="tempered-h",
            settings=settings,
            search=search,
            store=path,
            engine=pretend,
        )
        (summary,) = result.summaries
        tried = {entry.settings.get("temperature", 0.5) for entry in summary.cell.ranking}
        assert tried == {0.1, 0.5, 2}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"settings": {"temperatur": 1}},
            "'temperatur' is not a setting; did you mean 'temperature'",
        ),
        (
            {"settings": {"temperature": 1}, "methods": "gpool-h"},
            "'temperature' is not a setting; ",
        ),
        ({"settings": {"temperature": "hot"}}, "temperature must be of type float, not 'hot'."),
        ({"settings": {"lr": "fast"}}, "lr must be a number, not 'fast'."),
        ({"settings": {"lr": (0.1, 0.2)}}, "lr has 2 values; give one, or use a search."),
        ({"search": "random"}, "search must be one of none, grid, halving, race, not 'random'."),
        ({"select": "best"}, "select must be one of over-folds, per-fold, test, not 'best'."),
        (
            {"select": "per-fold"},
            "Settings can only be selected per fold by a search: grid or halving.",
        ),
        (
            {"select": "per-fold", "search": "race"},
            "A race compares candidates over the folds, so it cannot select per fold; search by "
            "grid or halving.",
        ),
        ({"engine": "slurm"}, "engine must be one of local, ray, not 'slurm'."),
        ({"seeds": 0}, "seeds must be at least 1, not 0."),
        (
            {"precision": "int8"},
            "precision must be one of float32, float64, tf32, bf16, not 'int8'",
        ),
    ],
)
def test_wrong_arguments_are_one_sentence(small, path, pretend, register, options, sentence):
    with pytest.raises(SagpoolError) as raised:
        run_experiment(
            small, **{"methods": "tempered-h", "store": path, "engine": pretend} | options
        )
    assert sentence in str(raised.value)
    assert pretend.asked == []
    assert not path.exists()


def test_a_new_version_of_a_method_is_trained_anew_and_kept_apart(
    small, path, pretend, register, caplog
):
    def run():
        pretend.asked.clear()
        options = {"methods": ["tempered-h", "gpool-h"], "search": "grid"}
        return run_experiment(small, store=path, engine=pretend, **options)

    pretend.test_accuracy = {0.01: 0.5, 0.001: 0.5}
    run()
    register("2", temperature=0.5)
    pretend.test_accuracy = {0.01: 0.9, 0.001: 0.9}
    result = run()
    assert {training.method for training in pretend.asked} == {"tempered-h"}
    assert result.summaries[0].spread.mean == pytest.approx(90)
    run()
    assert pretend.asked == []
    found = [row for row in rows(path, frame=False) if row["method"] == "tempered-h"]
    versions = [row[METHOD_VERSION] for row in found]
    assert versions.count("1") == versions.count("2") == 4 * 2 + 2
    assert {row["test_accuracy"] for row in found if row[METHOD_VERSION] == "2"} == {0.9}
    # Defaults of the old version are not known any more.
    assert all(("temperature" in row) == (row[METHOD_VERSION] == "2") for row in found)
    assert [one.split(",")[0] for one in caplog.messages] == ["Of version 1 of tempered-h"]
    with Store.reading(path) as store:
        summaries = summarise(store.cells(), store.runs(), store.failures())
        recorded = [invocation.versions for invocation in store.invocations()]
    tempered = [summary for summary in summaries if summary.cell.method == "tempered-h"]
    assert [summary.spread.mean for summary in tempered] == pytest.approx([50, 90])
    (group,) = group_cells(tempered)
    assert [s.spread.mean for s in group.cells] == pytest.approx([90])
    assert [versions["method tempered-h"] for versions in recorded] == ["1", "2", "2"]
    assert "method gpool-h" not in recorded[0]


def test_without_file_locks_only_writing_a_store_fails(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(SagpoolError, match=r"^Run stores need file locks"), Store.writing(path):
        pass


def test_curves_have_a_row_for_each_epoch(small, path, pretend):
    run_experiment(small, methods="gpool-h", store=path, engine=pretend)
    found = curves(path, frame=False)
    assert len(found) == 4 * pretend.epochs
    assert found[1] | {"key": ""} == {
        **{"key": "", "name": "MUTAG", "method": "gpool-h", "seed": 0, "fold": 0, "epoch": 2},
        **{"train_loss": 0.5, "validation_loss": 0.5},
        "validation_accuracy": pytest.approx(0.6),
    }
    assert {row["key"] for row in found} == {row["key"] for row in rows(path, frame=False)}


def test_curves_have_the_metric_by_which_trainings_stop(small, path, pretend):
    """The store has it as a loss, here 1 and 1/2."""
    for stopping in ("roc_auc", "loss"):
        settings = {"stopping": stopping}
        run_experiment(small, methods="gpool-h", settings=settings, store=path, engine=pretend)
    kinds = {row["key"]: row["stopping"] for row in rows(path, frame=False)}
    for row in curves(path, frame=False):
        found = row["validation_loss"], row.get("validation_roc_auc")
        if kinds[row["key"]] == "loss":
            assert found == (pytest.approx(1 / row["epoch"]), None)
        else:
            nothing = pytest.approx(float("nan"), nan_ok=True)
            assert found == (nothing, pytest.approx(-1 / row["epoch"]))
