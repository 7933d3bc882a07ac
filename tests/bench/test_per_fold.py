"""Selection per fold, against computations by hand."""

import csv
import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from sagpool.bench import Search, Select, Store, merge_stores, rows, run_experiment
from sagpool.bench.engines import Local
from sagpool.bench.engines.engine import FailedTraining
from sagpool.bench.per_fold import SELECTED, choose_per_fold, settings_of_all
from sagpool.bench.summary import summarise
from sagpool.bench.variants import group_cells
from sagpool.cli.results import print_results
from sagpool.errors import SagpoolError
from sagpool.fleet import Paused, Score, Training
from sagpool.report import write_report

# Validation and test accuracy by learning rate, seed and fold.
VALIDATION = {
    0.001: {(0, 0): 0.9, (0, 1): 0.5, (1, 0): 0.7, (1, 1): 0.60},
    0.010: {(0, 0): 0.8, (0, 1): 0.6, (1, 0): 0.6, (1, 1): 0.55},
}
TEST = {
    0.001: {(0, 0): 0.5, (0, 1): 0.9, (1, 0): 0.6, (1, 1): 0.70},
    0.010: {(0, 0): 0.7, (0, 1): 0.4, (1, 0): 0.8, (1, 1): 0.90},
}
# By hand: 0.001 in all folds but (0, 1), where it is 0.01.
NESTED = 100 * np.mean([0.5, 0.4, 0.6, 0.7])
# Means of the validation accuracies are 0.675 and 0.6375, so 0.001 everywhere.
OVER_FOLDS = 100 * np.mean([0.5, 0.9, 0.6, 0.7])


@dataclass
class Planted:
    """Reports the results above."""

    result: object
    validation: dict = field(default_factory=lambda: VALIDATION)
    test: dict = field(default_factory=lambda: TEST)
    fails: object = lambda training: False
    asked: list[Training] = field(default_factory=list)
    device = "nowhere"

    def run(self, jobs, watcher):
        waiting = list(jobs)
        while waiting:
            job = waiting.pop(0)
            for training in job.trainings:
                if training not in job.done:
                    self.asked.append(training)
                    watcher.outcome(job, self._outcome(training, job.until))
            waiting += watcher.ended(job, "")

    def _outcome(self, training, until):
        if self.fails(training):
            return FailedTraining(training, "planted")
        split = training.seed, training.fold
        # Hidden sizes of 6 are a little worse.
        seen = self.validation[training.lr][split] - 0.01 * (training.hidden == 6)
        made = self.result(training, accuracy=self.test[training.lr][split], validation=seen)
        if until is not None and until < 30:
            loss = np.full(until, 1 - seen)
            curve = replace(made.curve, train_loss=loss, validation_loss=loss)
            return Paused(training, replace(curve, validation_accuracy=1 - loss), None)
        return replace(made, validation=Score(1 - seen, seen))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def engine(result):
    return Planted(result)


@pytest.fixture
def bench(small, path, engine):
    def run(engine=engine, **options):
        usual = {"search": Search.GRID, "select": Select.PER_FOLD, "store": path}
        return run_experiment(small, methods="gpool-h", engine=engine, **usual | options)

    return run


def test_every_fold_has_its_own_choice(bench, engine):
    result = bench()
    (summary,), (state,) = result.summaries, result.cells
    chosen = {(run.seed, run.fold): run.settings["lr"] for run in summary.runs}
    assert chosen == {(0, 0): 0.001, (0, 1): 0.01, (1, 0): 0.001, (1, 1): 0.001}
    assert {run.settings["hidden"] for run in summary.runs} == {4}
    assert summary.spread.mean == pytest.approx(NESTED)
    assert len(engine.asked) == len(set(engine.asked)) == 4 * 4, "no further trainings"
    assert (state.stage, state.done, state.total) == ("done", 16, 16)
    assert 100 * np.mean(state.accuracies) == pytest.approx(NESTED)


def test_how_much_better_the_usual_way_looks(bench, capsys):
    (summary,) = bench().summaries
    assert summary.over_folds == pytest.approx(OVER_FOLDS)
    assert summary.optimism == pytest.approx(OVER_FOLDS - NESTED)
    found = summary.to_json()
    assert found["select"] == "per-fold"
    assert found["over_folds_mean"] == pytest.approx(OVER_FOLDS)
    assert found["over_folds_difference"] == pytest.approx(12.5)
    assert found["settings"]["lr"] == [0.001, 0.01]
    assert (found["search_epochs"], found["grid_epochs"], found["grid_epochs_exact"]) == (
        *(16 * 3, 16 * 3, True),
    )
    json.dumps(found, allow_nan=False)
    print_results([summary])
    out = capsys.readouterr().out
    assert "gpool-h: search (grid, per fold): 48 models·epochs, 100 % of the full grid" in out
    assert "chosen over all folds, the mean would be 67.50 % (+12.50 points)" in out


def test_the_report_tells_both(bench, path):
    bench(settings={"lr": (0.001,), "hidden": (4, 6)}, select=Select.OVER_FOLDS)
    bench()
    page = write_report(path, path.parent / "report").read_text()
    assert "Chosen per fold: the settings of every fold were chosen by its own validation" in page
    tables = path.parent / "report" / "tables"
    with (tables / "search-per-fold.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["mean"]) == pytest.approx(NESTED)
    assert float(row["over_folds_mean"]) == pytest.approx(OVER_FOLDS)
    assert float(row["over_folds_difference"]) == pytest.approx(12.5)
    assert row["over_folds_settings"] == "lr 1e-3, hidden 4"
    assert row["chosen_most_often"] == "hidden 4, lr 1e-3"
    assert (row["times"], row["different_choices"], row["grid_epochs"]) == ("3", "2", "48")
    text = (tables / "search-per-fold.md").read_text()
    assert "| 67.50 | +12.50 | hidden 4, lr 1e-3 (3) | 2 | grid | 48 models·epochs, 100 %" in text
    assert f"{NESTED:.2f}" in (tables / "results-per-fold.md").read_text()
    assert f"{NESTED:.2f}" not in (tables / "results.md").read_text()
    assert "; chosen per fold" in (tables / "results-per-fold.md").read_text()
    text = (tables / "cells.md").read_text()
    assert "hidden 4 or 6, lr 1e-3 or 0.01, selected per fold, by grid" in text
    with (tables / "search.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["chosen_settings"], row["search_epochs"]) == ("hidden 4", "12")


def test_test_results_have_no_part_in_it(bench, path, engine):
    (first,) = bench().summaries
    engine.test = {lr: {split: 1 - x for split, x in by.items()} for lr, by in TEST.items()}
    (second,) = bench(store=path.with_name("other.sqlite")).summaries
    assert [run.key for run in first.runs] == [run.key for run in second.runs]
    assert second.spread.mean == pytest.approx(100 - NESTED)


def test_the_two_selections_are_two_cells(bench, path):
    bench()
    (usual,) = bench(select=Select.OVER_FOLDS).summaries
    assert (usual.cell.per_fold, usual.over_folds, usual.optimism) == (False, None, None)
    with Store.reading(path) as store:
        found = summarise(store.cells(), store.runs())
    assert [s.cell.per_fold for s in found] == [True, False]
    assert [s.to_json()["select"] for s in found] == ["per-fold", "over-folds"]
    assert found[0].spread.mean == pytest.approx(NESTED)
    groups = [(group.chosen.name, len(group.cells)) for group in group_cells(found)]
    assert groups == [("SEARCHED", 1), ("PER_FOLD", 1)], "both are shown, in two tables"
    bench()
    with Store.reading(path) as store:
        found = summarise(store.cells(), store.runs())
    assert [s.cell.per_fold for s in found] == [False, True]


def test_one_candidate_is_still_another_cell(bench, path):
    one = {"lr": (0.001,), "hidden": (4,)}
    bench(settings=one)
    bench(settings=one, search=Search.NONE, select=Select.OVER_FOLDS)
    with Store.reading(path) as store:
        assert [cell.per_fold for cell in store.cells()] == [True, False]


def test_nothing_is_trained_again(bench, engine):
    first = bench()
    engine.asked.clear()
    second = bench()
    assert engine.asked == []
    assert second.summaries[0].cell.chosen == first.summaries[0].cell.chosen
    (fewer,) = bench(seeds=1).summaries
    assert [(run.seed, run.fold) for run in fewer.runs] == [(0, 0), (0, 1)]


def test_halving_in_every_fold(bench, path, engine):
    options = {"search": Search.HALVING, "settings": {"max_epochs": (50,)}}
    (summary,) = bench(**options).summaries
    assert summary.spread.mean == pytest.approx(NESTED)
    assert (summary.over_folds, summary.cell.ranking) == (None, ())
    assert summary.cell.cost is not None
    assert not summary.cell.cost.exact
    assert len(rows(path, frame=False)) == 2 * 4, "two of the four candidates of each fold"
    engine.asked.clear()
    bench(**options)
    assert engine.asked == []
    (grid,) = bench(settings={"max_epochs": (50,)}).summaries
    assert grid.cell.settings[SELECTED] == "per fold, by grid"
    with Store.reading(path) as store:
        assert len(store.cells()) == 2


def test_a_failed_training_is_not_chosen(bench, path, engine):
    engine.fails = lambda one: (one.seed, one.fold, one.lr) == (0, 0, 0.001)
    (summary,) = bench().summaries
    assert [run.settings["lr"] for run in summary.runs] == [0.01, 0.01, 0.001, 0.001]
    assert summary.failures == ()
    engine.fails = lambda one: (one.seed, one.fold) == (0, 0)
    (summary,) = bench(store=path.with_name("other.sqlite")).summaries
    assert len(summary.runs) == 3
    assert [(one.seed, one.fold) for one in summary.failures] == [(0, 0)]


def test_the_rounds_of_halving():
    candidates = [Training("gpool-h", lr=lr, folds=2, max_epochs=1000) for lr in range(1, 9)]
    program = choose_per_fold(Search.HALVING, candidates, seeds=1)
    asked = next(program)
    assert (asked.until, len(asked.trainings)) == (16, 8 * 2)


def test_settings_that_differ_are_lists():
    one = Training("gpool-h", hidden=8)
    other = replace(one, method_settings=(("conv", "gin"),))
    merged = settings_of_all(Search.GRID, [one, other])
    assert (merged["hidden"], merged["conv"]) == (8, ["gcn", "gin"])
    assert settings_of_all(Search.GRID, [other, one]) == merged


def test_real_trainings(small, path, tmp_path):
    """The chosen runs are those with the best validation accuracy of their fold."""
    result = run_experiment(
        small,
        methods="gpool-h",
        seeds=2,
        search="grid",
        select="per-fold",
        store=path,
        engine=Local(tmp_path / "checkpoints"),
    )
    (summary,) = result.summaries
    table = rows(path, frame=False)
    for run in summary.runs:
        rivals = [row for row in table if (row["seed"], row["fold"]) == (run.seed, run.fold)]
        best = max(rivals, key=lambda row: (row["validation_accuracy"], -row["validation_loss"]))
        assert run.key == best["key"]
    with Store.reading(path) as store:
        assert len(store.traces(summary.runs[0].key)) == 3


@pytest.fixture
def both(bench, path):
    """Stores with the choices of one and of two seeds."""
    paths = [path.with_name(f"{seeds}.sqlite") for seeds in (1, 2)]
    for seeds, one in enumerate(paths, 1):
        bench(store=one, seeds=seeds)
    return paths


@pytest.mark.parametrize("order", [1, -1])
def test_the_choices_of_merged_stores_are_united(both, path, order):
    merge_stores(both[::order], path, prefer_first=True)
    with Store.reading(path) as store:
        (summary,) = summarise(store.cells(), store.runs())
    assert (len(summary.runs), summary.cell.ranking[0].runs) == (4, 4)
    assert summary.spread.mean == pytest.approx(NESTED)
    assert summary.over_folds == pytest.approx(OVER_FOLDS)


def test_different_choices_are_not_merged(both, bench, path, engine):
    engine.fails = lambda one: (one.seed, one.fold, one.lr) == (0, 0, 0.001)
    other = path.with_name("other.sqlite")
    bench(store=other)
    sentence = r"1\.sqlite and .*other\.sqlite chose different settings of gpool-h on MUTAG for "
    with pytest.raises(
        SagpoolError, match=sentence + r"seed 0, fold 0\. Leave one .* with --prefer-first\."
    ):
        merge_stores([both[0], other], path)
    assert not path.exists()


def choices(path):
    with Store.reading(path) as store:
        (summary,) = summarise(store.cells(), store.runs())
    return {(run.seed, run.fold): run.settings["lr"] for run in summary.runs}


@pytest.fixture
def rounded(bench, path, engine):
    """A store with two seeds in which rounding has changed a validation result and a choice."""
    first = VALIDATION[0.01] | {(0, 0): 0.9 + 1e-9}
    engine.validation = {**VALIDATION, 0.01: first}
    bench(store=path.with_name("rounded.sqlite"))
    return path.with_name("rounded.sqlite")


@pytest.mark.parametrize("order", [1, -1])
def test_of_different_choices_the_first_is_kept(both, rounded, path, order):
    merged = merge_stores([both[1], rounded][::order], path, prefer_first=True)
    assert choices(path) == choices([both[1], rounded][::order][0])
    assert choices(both[1])[0, 0] != choices(rounded)[0, 0]
    assert merged.left_out == 3, "the result of both hidden sizes, and the choice"


@pytest.mark.parametrize("order", [1, -1])
def test_a_choice_is_that_of_the_store_whose_results_are_kept(both, rounded, path, order):
    """The store with one seed lacks trainings of the cell; the other has it whole."""
    merge_stores([both[0], rounded][::order], path, prefer_first=True)
    assert choices(path) == choices(rounded)
    chosen = [(r["lr"], r["validation_accuracy"]) for r in rows(path, frame=False)]
    assert (0.01, pytest.approx(0.9 + 1e-9, abs=1e-12)) in chosen


def test_of_three_stores_the_first_with_the_whole_cell_decides(both, rounded, path):
    merge_stores([both[0], rounded, both[1]], path, prefer_first=True)
    assert choices(path) == choices(rounded)


def test_a_command_with_fewer_seeds_keeps_the_choices_of_the_others(bench, path):
    bench()
    (fewer,) = bench(seeds=1).summaries
    assert (len(fewer.runs), fewer.cell.ranking[0].runs, fewer.cell.cost.epochs) == (2, 2, 24)
    with Store.reading(path) as store:
        (summary,) = summarise(store.cells(), store.runs())
    assert (len(summary.runs), summary.cell.ranking[0].runs) == (4, 4)


def test_a_choice_that_has_changed_replaces_the_one_of_the_same_fold(bench, path, engine):
    engine.fails = lambda one: (one.seed, one.fold, one.lr) == (0, 0, 0.001)
    bench()
    engine.fails = lambda one: False
    bench(seeds=1)
    with Store.reading(path) as store:
        (summary,) = summarise(store.cells(), store.runs())
    assert [run.settings["lr"] for run in summary.runs] == [0.001, 0.01, 0.001, 0.001]
