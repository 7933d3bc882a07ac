"""Running experiments: only what is missing, settings chosen by validation, every row once."""

import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import sagpool.bench.experiment_plan
import sagpool.fleet.task_splits
from sagpool.bench import Search, run_experiment
from sagpool.bench.engines import Local
from sagpool.bench.experiment import Accuracy
from sagpool.bench.store import Store
from sagpool.bench.summary import compare_methods, summarise
from sagpool.bench.variants import group_cells
from sagpool.errors import SagpoolError
from sagpool.fleet import MemoryShortageError
from sagpool.fleet.evaluate import Truth


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


def run(experiment, path, engine, **options):
    return run_experiment(experiment, store=path, engine=engine, **options).cells


def summaries(path):
    with Store.reading(path) as store:
        return summarise(store.cells(), store.runs())


def test_all_trainings_of_all_cells(small, path, pretend):
    states = run(small, path, pretend)
    assert [(s.stage, s.done, s.total) for s in states] == [("done", 4, 4)] * 2
    assert len(pretend.asked) == len(set(pretend.asked)) == 8
    first, second = summaries(path)
    assert (first.cell.method, first.cell.paper_mean, first.cell.search) == (
        "sagpool-h",
        76.5,
        "none",
    )
    assert second.cell.paper_mean is None
    assert first.spread.mean == pytest.approx(70)
    assert first.deviation == pytest.approx((70 - 76.5) / 1.5)
    assert first.cell.bytes > 0


def test_nothing_is_trained_twice(small, path, pretend):
    run(small, path, pretend)
    pretend.asked.clear()
    seen = []
    run(small, path, pretend, watch=lambda state: seen.append((state.done, list(state.accuracies))))
    assert pretend.asked == []
    assert seen[-1] == (4, [0.7] * 4)


def test_more_seeds_train_only_the_new_ones(small, path, pretend):
    run(small, path, pretend)
    pretend.asked.clear()
    run(small, path, pretend, seeds=3)
    assert {training.seed for training in pretend.asked} == {2}
    assert [len(summary.runs) for summary in summaries(path)] == [6, 6]


def test_other_settings_are_other_cells(small, path, pretend):
    run(small, path, pretend, methods=("gpool-h",))
    run(small, path, pretend, methods=("gpool-h",), settings={"lr": (0.5,)})
    run(small, path, pretend, methods=("gpool-h",), folds=3)
    run(small, path, pretend, methods=("gpool-h",), precision="float64")
    assert [len(summary.runs) for summary in summaries(path)] == [4, 4, 6, 4]


def test_the_grid_is_searched_and_the_ranking_stored(small, path, pretend):
    pretend.accuracy = {1e-3: 0.9, 1e-2: 0.5}
    run(small, path, pretend, search=Search.GRID, methods=("gpool-h",))
    (summary,) = summaries(path)
    assert summary.cell.settings["lr"] == 1e-3
    assert [entry.accuracy for entry in summary.cell.ranking] == pytest.approx([0.9, 0.9, 0.5, 0.5])
    assert len(summary.runs) == 4
    # Four candidates on the two folds of the first seed; then the other seed of the chosen one.
    assert len(pretend.asked) == len(set(pretend.asked)) == 4 * 2 + 2


def test_selection_never_sees_a_test_label(small, path, pretend, tmp_path):
    """Planted test accuracies would reveal a choice that depends on them."""
    pretend.accuracy = {1e-3: 0.6, 1e-2: 0.61}
    chosen = []
    for planted in ({}, {1e-3: 1.0, 1e-2: 0.0}, {1e-3: 0.0, 1e-2: 1.0}):
        pretend.test_accuracy = planted
        for search in (Search.GRID, Search.HALVING):
            store = tmp_path / f"{len(chosen)}.sqlite"
            run(small, store, pretend, search=search, methods=("gpool-h",))
            chosen.append([s.cell.settings["lr"] for s in summaries(store)])
    assert chosen == [[1e-2]] * 6


def test_trained_selection_does_not_change_with_the_test_scores(small, tmp_path, monkeypatch):
    """The same with real trainings: wrong test scores do not change the choice."""
    real, chosen = Truth.score, []
    for liar in (
        real,
        lambda truth, log, part, unit: replace(
            real(truth, log, part, unit), accuracy=float(part[0] % 2)
        ),
    ):
        scored = Counter()  # by thread

        def score(truth, log, part, unit, liar=liar, scored=scored):
            thread = threading.get_ident()
            scored[thread] += 1
            # The parts are scored in turn: training, validation, test.
            return (liar if scored[thread] % 3 == 0 else real)(truth, log, part, unit)

        monkeypatch.setattr(Truth, "score", score)
        store = tmp_path / f"{len(chosen)}.sqlite"
        engine = Local(tmp_path / "checkpoints", checkpoint_seconds=1000)
        run(small, store, engine, search=Search.GRID, methods=("gpool-h",), seeds=1)
        (summary,) = summaries(store)
        chosen.append((summary.cell.settings, summary.cell.ranking))
        tests = [run.test_accuracy for run in summary.runs]
    assert set(tests) <= {0.0, 1.0}, "the wrong scores were stored"
    assert chosen[0] == chosen[1]


def test_test_labels_do_not_change_the_choice(small, mutag, tmp_path, monkeypatch):
    """Some graphs are in the test part of every fold; their labels do not change the choice."""
    real = sagpool.fleet.task_splits.split
    held_out = np.arange(0, len(mutag), 4)

    def split(y, seed, fold, **options):
        parts = real(mutag.y, seed, fold, **options)  # not by the planted labels
        train, validation = (
            np.setdiff1d(part, held_out)
            for part in (np.append(parts.train, parts.test), parts.validation)
        )
        return replace(parts, train=train, validation=validation, test=held_out)

    monkeypatch.setattr(sagpool.fleet.task_splits, "split", split)
    rankings, tests = [], []
    for flip in (False, True):
        y = mutag.y.clone()
        y[held_out] = 1 - y[held_out] if flip else y[held_out]
        planted = replace(mutag, y=y)
        monkeypatch.setattr(
            sagpool.bench.experiment_plan, "load", lambda *source, p=planted, **options: p
        )
        store = tmp_path / f"{flip}.sqlite"
        engine = Local(tmp_path / "checkpoints", checkpoint_seconds=1000)
        run(small, store, engine, search=Search.HALVING, methods=("gpool-h",), seeds=1)
        (summary,) = summaries(store)
        rankings.append(summary.cell.ranking)
        tests.append([one.test_accuracy for one in summary.runs])
    assert rankings[0] == rankings[1]
    assert np.add(*tests) == pytest.approx([1, 1]), "the labels were flipped"


def test_the_same_graphs_under_two_names_are_two_data_sets(small, path, pretend):
    data = {name: replace(small.datasets["MUTAG"], name=name) for name in ("first", "second")}
    tables = {"all": replace(small.tables["main"], datasets=("first", "second"))}
    both = replace(small, datasets=data, tables=tables, statistics={}, settings=(), grid=())
    states = run(both, path, pretend, methods=("gpool-h",))
    assert [(s.stage, s.done, len(s.accuracies)) for s in states] == [("done", 4, 4)] * 2
    found = summaries(path)
    assert [(s.cell.dataset, len(s.runs)) for s in found] == [("first", 4), ("second", 4)]
    (group,) = group_cells(found)
    assert len(group.cells) == 2
    assert compare_methods(group.main) == []


def test_runs_on_a_changed_data_set_are_kept_apart(small, path, pretend, monkeypatch):
    run(small, path, pretend)
    load = sagpool.bench.experiment_plan.load
    monkeypatch.setattr(
        sagpool.bench.experiment_plan, "load", lambda *source, **options: load(*source)[:180]
    )
    run(small, path, pretend, methods=("gpool-h",))
    (group,) = group_cells(summaries(path))
    assert [(s.cell.method, len(s.runs)) for s in group.cells] == [("gpool-h", 4)]


def test_a_later_run_without_a_search_is_a_cell_of_its_own(small, path, pretend):
    run(small, path, pretend, search=Search.GRID, methods=("sagpool-h",))
    (before,) = summaries(path)
    chosen = {name: (before.cell.settings[name],) for name in ("lr", "hidden")}
    asked = len(pretend.asked)
    for _ in range(2):
        run(small, path, pretend, methods=("sagpool-h",), settings=chosen)
    searched, fixed = summaries(path)
    assert len(pretend.asked) == asked, "the trainings are the same"
    assert searched.cell == before.cell
    assert (fixed.cell.search, fixed.cell.ranking, fixed.cell.cost) == ("none", (), None)
    assert (fixed.cell.settings, fixed.cell.invocation) == (before.cell.settings, 3)
    assert fixed.cell.bytes == searched.cell.bytes


def test_a_run_of_another_experiment_keeps_the_published_numbers(small, path, pretend):
    for experiment in (small, replace(small, accuracy={})):
        run(experiment, path, pretend, methods=("sagpool-h",))
    (summary,) = summaries(path)
    assert (summary.cell.paper_mean, summary.cell.invocation) == (76.5, 2)


def test_a_search_over_epochs_stores_graphs_to_draw(small, path, tmp_path):
    engine = Local(tmp_path / "checkpoints")
    epochs = {"max_epochs": (1, 2), "lr": (0.01,), "hidden": (4,)}
    run(small, path, engine, search=Search.GRID, methods=("gpool-h",), settings=epochs, seeds=1)
    (summary,) = summaries(path)
    with Store.reading(path) as store:
        assert len(store.traces(summary.runs[0].key)) == 3
        assert sum(bool(store.traces(one.key)) for one in store.runs()) == 1


def test_a_search_that_was_interrupted_stores_graphs_to_draw(small, path, tmp_path):
    class StoppedError(Exception):
        pass

    def interrupt(state):
        if state.done == 3:
            raise StoppedError

    epochs = {"max_epochs": (1, 2), "lr": (0.01,), "hidden": (4,)}
    grid = {"search": Search.GRID, "methods": ("gpool-h",), "settings": epochs, "seeds": 1}
    with pytest.raises(StoppedError):
        run(small, path, Local(tmp_path / "checkpoints"), watch=interrupt, **grid)
    run(small, path, Local(tmp_path / "checkpoints"), **grid)
    (summary,) = summaries(path)
    with Store.reading(path) as store:
        assert len(store.traces(summary.runs[0].key)) == 3


def test_features_other_than_the_published_ones_are_noted(small, path, pretend):
    for kinds in ({}, {"MUTAG": "labels"}, {"MUTAG": "attributes"}):
        run(replace(small, feature_kinds=kinds), path, pretend, methods=("gpool-h",))
        (summary,) = summaries(path)
        assert summary.cell.note == ("labels" if "attributes" in kinds.values() else "")


def test_features_of_a_command_are_compared_with_the_published_ones(small, path, pretend):
    """Under the name that the data set has in the experiment."""
    kinds = replace(small, feature_kinds={"MUTAG": "labels"})
    run(kinds, path, pretend, methods=("gpool-h",), features="degree")
    (summary,) = summaries(path)
    assert summary.cell.dataset == "MUTAG (degree)"
    assert summary.cell.note == "structure only"


def test_a_cell_that_does_not_fit_into_memory_is_skipped(small, path, pretend):
    pretend.fail = MemoryShortageError(torch.device("cpu"))
    first, second = run(small, path, pretend)
    assert (first.stage, first.reason) == ("failed", str(pretend.fail))
    assert second.stage == "failed"
    pretend.fail = None
    assert [state.stage for state in run(small, path, pretend)] == ["done", "done"]


def test_other_errors_end_the_run(small, path, pretend):
    pretend.fail = SagpoolError("The disk is full.")
    with pytest.raises(SagpoolError, match="disk is full"):
        run(small, path, pretend)
    assert len(pretend.asked) == 1


def test_a_data_set_that_differs_from_the_papers_is_reported(
    small, path, pretend, caplog, monkeypatch
):
    cell = ("MUTAG", "gpool-h")
    small = replace(small, accuracy={cell: Accuracy(70, 1)}, tests={cell: {"far": Accuracy(60, 1)}})
    run(small, path, pretend, methods=("gpool-h",))
    assert not caplog.records
    load = sagpool.bench.experiment_plan.load
    monkeypatch.setattr(
        sagpool.bench.experiment_plan, "load", lambda *source, **options: load(*source)[:180]
    )
    run(small, path, pretend, methods=("gpool-h",))
    assert "MUTAG is not the paper's data set, so it is not compared with the paper: graphs is" in (
        caplog.text
    )
    assert "graphs is 180, not 188; avg_nodes is 18, not 17.93" in caplog.text
    usual, other = summaries(path)
    assert usual.cell.paper_mean == 70
    assert usual.cell.paper_tests
    assert not other.cell.paper_tests
    assert (other.cell.paper_mean, other.cell.paper_std) == (None, None)
    assert other.cell.note == "other graphs than the paper's"  # so no claim uses it
    # Also with other features, under which the data set has another name.
    run(small, path, pretend, methods=("gpool-h",), features="degree")
    *_, with_degrees = summaries(path)
    assert with_degrees.cell.dataset == "MUTAG (degree)"
    assert with_degrees.cell.paper_mean is None
    assert "other graphs than the paper's" in with_degrees.cell.note


def test_errors_are_raised_before_the_first_training(small, path, pretend, mutag, monkeypatch):
    with pytest.raises(SagpoolError, match=r"^Class 0 has 63 graphs, too few for 100 folds"):
        run(small, path, pretend, folds=100)
    with pytest.raises(SagpoolError, match=r"No data set 'NOWHERE'"):
        run(small, path, pretend, datasets=("NOWHERE",))
    monkeypatch.setattr(
        sagpool.bench.experiment_plan, "load", lambda *source, **options: replace(mutag, y=None)
    )
    with pytest.raises(SagpoolError, match=r"^MUTAG has fewer than two classes\.$"):
        run(small, path, pretend)
    assert pretend.asked == []
    assert not path.exists()


def test_real_trainings(small, path, tmp_path):
    engine = Local(tmp_path / "checkpoints")
    run(small, path, engine, precision="float64")
    assert {file.name for file in tmp_path.iterdir()} == {"runs.sqlite"}
    found = summaries(path)
    assert [len(summary.runs) for summary in found] == [4, 4]
    with Store.reading(path) as store:
        for summary in found:
            for one in summary.runs:
                traces = store.traces(one.key)
                first = one.seed == 0 and one.fold == 0
                assert len(traces) == (3 if first else 0)
                assert all(len(trace.levels) == 3 for trace in traces)
                assert {trace.true_class for trace in traces} <= {0, 1}
    alone = tmp_path / "alone.sqlite"
    run(small, alone, Local(tmp_path / "checkpoints", members=1), precision="float64")
    for one, other in zip(found, summaries(alone), strict=True):
        for a, b in zip(one.runs, other.runs, strict=True):
            assert a.key == b.key
            assert a.test_accuracy == b.test_accuracy
            assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-9)
