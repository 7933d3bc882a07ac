"""Trainings that came to nothing: remembered, told, tried again."""

import sqlite3

import numpy as np
import pytest

from sagpool.bench.engines.engine import FailedTraining
from sagpool.bench.plan import Overrides, plan
from sagpool.bench.run import Bench, load_data, versions
from sagpool.bench.search import Search
from sagpool.bench.store import Store
from sagpool.bench.summary import summarise
from sagpool.cli.results import print_results
from sagpool.report import write_report


class Clumsy:
    """Does what the pretended engine does, but for some trainings."""

    device = "nowhere"

    def __init__(self, pretend, fails):
        self.pretend, self.fails = pretend, fails

    def run(self, job, on_result, on_progress):
        def tell(result):
            failed = self.fails(result.training)
            on_result(FailedTraining(result.training, "planted") if failed else result)

        self.pretend.run(job, tell, on_progress)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def bench(small, path, pretend):
    cells = plan(small, Overrides(methods=("gpool-h",)), search=True)
    data = load_data(cells, {})

    def run(fails, search=Search.NONE):
        with Store.writing(path) as store:
            number = store.begin("sagpool bench", small.name, "nowhere", versions())
            engine = Clumsy(pretend, fails)
            (state,) = Bench(store, engine, data, 2, search, "float32", number).run(cells)
            found = summarise(store.cells(), store.runs(), store.failures())
        return state, found

    return run


def test_they_are_told_with_the_others_and_tried_again(bench, path, pretend, capsys):
    state, (summary,) = bench(lambda training: training.seed == 1 and training.fold == 0)
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
    state, (summary,) = bench(lambda training: False)
    assert len(pretend.asked) == 1
    assert (len(summary.runs), summary.failures, state.failures) == (4, (), [])


def test_a_search_does_not_choose_settings_that_fail(bench, pretend):
    pretend.accuracy = {1e-3: 0.9, 1e-2: 0.5}
    _, (summary,) = bench(lambda training: training.lr == 1e-3 and training.fold == 1, Search.GRID)
    assert summary.cell.settings["lr"] == 1e-2
    worst = summary.cell.ranking[-1]
    assert (worst.settings["lr"], worst.accuracy, worst.loss) == (1e-3, 0.45, np.inf)


def test_a_store_from_before_there_were_failures(bench, path):
    bench(lambda training: False)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE failures")
    connection.close()
    with Store.reading(path) as store:
        assert store.failures() == []
        assert len(store.runs()) == 4
    with Store.writing(path) as store:
        assert store.failures() == []
