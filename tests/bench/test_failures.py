"""Failed trainings are stored, reported and retried."""

import sqlite3

import numpy as np
import pytest

from sagpool.bench import Search, Store, run_experiment
from sagpool.bench.engines.engine import FailedTraining
from sagpool.cli.results import print_results
from sagpool.report import write_report


class FailingEngine:
    """Like `PretendEngine`, but some trainings fail."""

    device = "nowhere"

    def __init__(self, pretend, fails):
        self.pretend, self.fails = pretend, fails

    def run(self, jobs, watcher):
        self.pretend.run(jobs, FailingWatcher(watcher, self.fails))


class FailingWatcher:
    def __init__(self, watcher, fails):
        self.watcher, self.fails, self.ended = watcher, fails, watcher.ended

    def outcome(self, job, outcome):
        failed = self.fails(outcome.training)
        reported = FailedTraining(outcome.training, "planted") if failed else outcome
        self.watcher.outcome(job, reported)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def bench(small, path, pretend):
    def run(fails, search=Search.NONE):
        engine = FailingEngine(pretend, fails)
        return run_experiment(small, methods="gpool-h", search=search, store=path, engine=engine)

    return run


def test_a_failed_training_is_reported_and_retried(bench, path, pretend, capsys):
    result = bench(lambda training: training.seed == 1 and training.fold == 0)
    (state,), (summary,) = result.cells, result.summaries
    assert result.failure == (
        "1 training failed 3 times; gpool-h on MUTAG, seed 1, fold 0: planted"
    )
    assert (state.done, len(state.failures)) == (3, 1)
    assert len(summary.runs) == 3
    assert [(one.seed, one.fold, one.reason) for one in summary.failures] == [(1, 0, "planted")]
    assert summary.to_json()["failed"] == 1
    print_results([summary])
    assert "3 (1 failed)" in capsys.readouterr().out
    page = write_report(path, path.parent / "report").read_text()
    assert "1 failed" in page
    assert "seed 1, fold 0: planted" in page
    pretend.asked.clear()
    result = bench(lambda training: False)
    (state,), (summary,) = result.cells, result.summaries
    assert len(pretend.asked) == 1
    assert result.failure == ""
    assert (len(summary.runs), summary.failures, state.failures) == (4, (), [])


def test_a_search_does_not_choose_settings_that_fail(bench, pretend):
    pretend.accuracy = {1e-3: 0.9, 1e-2: 0.5}
    result = bench(lambda training: training.lr == 1e-3 and training.fold == 1, Search.GRID)
    (summary,) = result.summaries
    assert summary.cell.settings["lr"] == 1e-2
    worst = summary.cell.ranking[-1]
    assert (worst.settings["lr"], worst.accuracy, worst.loss) == (1e-3, 0.45, np.inf)


def test_an_older_store_without_a_table_of_failures(bench, path):
    bench(lambda training: False)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE failures")
    connection.close()
    with Store.reading(path) as store:
        assert store.failures() == []
        assert len(store.runs()) == 4
    with Store.writing(path) as store:
        assert store.failures() == []
