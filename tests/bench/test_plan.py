"""From overrides to cells and trainings."""

from dataclasses import fields, replace

import pytest

import sagpool.bench.plan
from sagpool.bench import experiment_plan
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.experiment_plan import plan_experiment
from sagpool.bench.plan import Overrides, plan, repeat, run_key, settings_of
from sagpool.bench.stored_cells import settings_text
from sagpool.errors import SagpoolError
from sagpool.fleet import Training


@pytest.fixture(scope="module")
def paper():
    return load_experiment("lee2019")


def names(experiment, **overrides):
    cells = plan(experiment, Overrides(**overrides), search=False)
    return [(cell.dataset.name, cell.method) for cell in cells]


def test_by_default_every_cell_of_all_tables_once(paper):
    cells = names(paper)
    assert len(cells) == len(set(cells)) == 64
    assert [name for name, _ in cells] == sorted(
        (name for name, _ in cells), key=list(paper.datasets).index
    ), "grouped by data set"


def test_a_table_alone(paper):
    assert len(names(paper, tables=("table3",))) == 30
    with pytest.raises(
        SagpoolError, match=r"^The experiment has no table 'table5'; did you mean 't"
    ):
        names(paper, tables=("table5",))


def test_data_sets_and_methods_by_name(paper):
    assert names(paper, datasets=("nci1",), methods=("gpool-h",)) == [("NCI1", "gpool-h")]
    assert names(paper, datasets=("D&D",), methods=("gpool-h",)) == [("DD", "gpool-h")]
    assert names(paper, methods=("sagpool-h-gat",)) == [
        ("DD", "sagpool-h-gat"),
        ("PROTEINS", "sagpool-h-gat"),
    ]
    # A named data set, although the paper has no number for it.
    asked = names(paper, datasets=("NCI1",), methods=("sagpool-h-gat",))
    assert asked == [("NCI1", "sagpool-h-gat")]
    assert len(names(paper, methods=("sortpool-g-conv1d",))) == 5, "of no table: on all"
    assert len(names(paper, datasets=("DD", "DD"), methods=("gpool-h", "gpool-*"))) == 1


def test_other_node_features_are_another_data_set_with_the_same_settings(paper):
    chosen = {"datasets": ("PROTEINS",), "methods": ("sagpool-g",)}
    (usual,) = plan(paper, Overrides(**chosen), search=True)
    (other,) = plan(paper, Overrides(**chosen, features="both"), search=True)
    assert other.dataset.name == "PROTEINS (attributes+labels)"
    assert (other.dataset.source, other.dataset.features) == ("PROTEINS", "both")
    assert (usual.dataset.name, usual.dataset.features) == ("PROTEINS", "auto")
    assert replace(other, dataset=usual.dataset) == usual
    assert names(paper, **chosen, features="auto") == [("PROTEINS", "sagpool-g")]


def test_patterns(paper):
    found = names(paper, datasets=("DD",), methods=("sagpool-g*",))
    assert len(found) == 9
    assert all(method.startswith("sagpool-g") for _, method in found)


def test_another_data_set_runs_the_methods_of_the_first_table(paper):
    found = names(paper, datasets=("MUTAG",))
    assert found == [("MUTAG", method) for method in paper.tables["table3"].methods]


def test_an_unknown_method_is_an_error(paper):
    with pytest.raises(
        SagpoolError, match=r"^There is no method 'sagpol-h'; did you mean 'sagpool-h'"
    ):
        names(paper, methods=("sagpol-h",))


def test_settings_override_those_of_the_experiment(small):
    overrides = Overrides(settings={"lr": (0.5,), "dropout": (0,)}, folds=3)
    cells = plan(small, overrides, search=False)
    assert all(
        (cell.default.lr, cell.default.dropout, cell.default.folds) == (0.5, 0, 3) for cell in cells
    )
    searched = plan(small, overrides, search=True)[0].candidates
    assert {candidate.lr for candidate in searched} == {0.5}
    assert {candidate.hidden for candidate in searched} == {4, 6}
    assert {candidate.folds for candidate in searched} == {3}


def test_several_values_need_a_search(small):
    overrides = Overrides(settings={"lr": (0.5, 0.1, 0.1)})
    assert {c.lr for c in plan(small, overrides, search=True)[0].candidates} == {0.5, 0.1}
    assert len(plan(small, overrides, search=True)[0].candidates) == 4
    with pytest.raises(SagpoolError, match=r"^lr has 3 values; give one, or use a search\.$"):
        plan(small, overrides, search=False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lrr": (0.5,)}, r"'lrr' is not a setting; did you mean 'lr'"),
        ({"hidden": (1,)}, r"hidden must be at least 2, not 1"),
        ({"hidden": (2.5,)}, r"hidden must be int, not 2\.5"),
        ({"dropout": (1.0,)}, r"dropout must be at least 0 and below 1"),
        ({"method": (1,)}, r"'method' is not a setting"),
    ],
)
def test_a_wrong_setting_is_an_error(small, settings, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        plan(small, Overrides(settings=settings), search=False)


@pytest.mark.parametrize("name", ["folds", "validation"])
def test_candidates_have_the_same_splits(name, tmp_path):
    values = {"folds": "[2, 4]", "validation": "[0.1, 0.2]"}[name]
    file = tmp_path / "own.yaml"
    file.write_text(
        "datasets: {MUTAG: }\nprotocol: {seeds: 1}\ntables: {all: {methods: [gpool-h]}}\n"
        f"grid: [{{set: {{{name}: {values}}}}}]\n"
    )
    with pytest.raises(SagpoolError, match="MUTAG gpool-h: the candidates of a search are comp"):
        plan(load_experiment(file), Overrides(), search=True)


def test_other_splits_and_tasks_have_no_published_results(paper, tmp_path):
    """Other features have; a note in tables says which."""

    def published(**options):
        overrides = Overrides(("PROTEINS",), ("sagpool-h",), **options)
        (cell,) = plan(paper, overrides, search=False)
        return cell.published

    assert published() == published(features="degree") is not None
    assert published(task="classification") == published(), "its own task"
    assert published(split=str(tmp_path / "official.csv")) is None
    assert published(task="multitask") is None


def test_repeat_gives_every_seed_and_fold():
    one = Training("gpool-h", folds=3)
    assert [(t.seed, t.fold) for t in repeat(one, 2)] == [(s, f) for s in (0, 1) for f in range(3)]
    assert [(t.seed, t.fold) for t in repeat(one, 1, folds=2)] == [(0, 0), (0, 1)]


OTHER = {
    **{"method": "sagpool-h", "validation": 0.2, "ratio": 0.25},
    **{"split": "contiguous", "order": "fixed", "stopping": "loss+norm"},
    "class_weight": "balanced",
    "schedule": "step",
    "method_settings": (("conv", "gin"),),
}


def test_the_key_changes_with_everything_that_decides_the_result(mutag, monkeypatch):
    one = Training("gpool-h")
    fingerprint = mutag.fingerprint()
    keys = [run_key(mutag, fingerprint, one, "float32")]
    assert run_key(mutag, fingerprint, replace(one), "float32") == keys[0]
    for item in fields(Training):
        value = OTHER.get(item.name)
        other = replace(one, **{item.name: value or getattr(one, item.name) + 1})
        keys.append(run_key(mutag, fingerprint, other, "float32"))
    keys.append(run_key(mutag, fingerprint, one, "float64"))
    keys.append(run_key(mutag[:100], mutag[:100].fingerprint(), one, "float32"))
    monkeypatch.setattr(sagpool.bench.plan, "NUMERICS", 99)
    keys.append(run_key(mutag, fingerprint, one, "float32"))
    assert len(set(keys)) == len(keys) == len(fields(Training)) + 4


@pytest.mark.parametrize(
    ("training", "precision", "key"),
    [
        (Training("sagpool-h"), "float32", "3a427d73da4711e2ca24aa2af0eeeeae"),
        (
            Training("gpool-h", seed=3, fold=2, lr=0.01, hidden=4, folds=3),
            "float64",
            "85fe543f011592888371e95556aa194e",
        ),
        (
            Training("diffpool-h", ratio=0.25, weight_decay=0, max_epochs=7, validation=0.2),
            "tf32",
            "bbee50f60fcc4879d8122bcf265f81d0",
        ),
    ],
)
def test_keys_of_older_stores_are_still_found(mutag, training, precision, key):
    assert run_key(mutag, "print", training, precision) == key


def test_settings_of_older_stores_are_still_found():
    assert settings_text(settings_of(Training("sagpool-h"))) == (
        '{"batch_size": 128, "dropout": 0.5, "folds": 10, "hidden": 128, "lr": 0.0005, '
        '"max_epochs": 100000, "patience": 50, "ratio": 0.5, "validation": 0.1, '
        '"weight_decay": 0.0001}'
    )


def test_a_metric_for_stopping_must_be_defined_in_every_fold(small, rare):
    of_rare = {"datasets": (str(rare),), "methods": ("gpool-h",)}
    settings = {"split": ("contiguous",), "stopping": ("roc_auc",)}
    with pytest.raises(SagpoolError, match=r"Trainings on rare cannot .* fold 0 \(seed 0\) lacks"):
        plan_experiment(small, Overrides(**of_rare, seeds=1, settings=settings))
    assert plan_experiment(small, Overrides(**of_rare, seeds=1)).cells


def test_a_race_may_stop_by_a_metric_that_is_defined_for_all_of_its_seeds(small, monkeypatch):
    checked = []
    monkeypatch.setattr(
        experiment_plan, "check_stopping", lambda _, trainings: checked.extend(trainings)
    )
    rates = tuple(0.001 * (i + 1) for i in range(48))
    settings = {"stopping": ("roc_auc",), "lr": rates}
    for seeds, most in ((1, 2), (20, 20)):
        checked.clear()
        overrides = Overrides(("MUTAG",), ("gpool-h",), seeds=seeds, settings=settings)
        plan = plan_experiment(small, overrides, search="race", select_by="roc_auc")
        assert len(plan.cells[0].candidates) == 96
        assert {one.seed for one in checked} == {*range(most)}
