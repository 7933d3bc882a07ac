"""All cells of an experiment are at work at once."""

import pytest
import torch

from sagpool.bench import Search, Store, run_experiment
from sagpool.bench.run import ExperimentRunner
from sagpool.fleet import MemoryShortageError


@pytest.fixture
def bench(small, tmp_path, pretend):
    def run(engine=pretend, **options):
        return run_experiment(small, store=tmp_path / "runs.sqlite", engine=engine, **options)

    return run


def test_cells_do_not_wait_for_each_other(bench):
    """Both of them search before one of them is done, and train before the other is."""
    events = []
    bench(
        search=Search.GRID,
        watch=lambda state: events.append((state.cell.method, state.stage)),
    )
    for stage in ("searching", "training"):
        first = [events.index((method, stage)) for method in ("sagpool-h", "gpool-h")]
        done = [events.index((method, "done")) for method in ("sagpool-h", "gpool-h")]
        assert max(first) < min(done)
    assert [method for method, stage in events[:2]] == ["sagpool-h", "gpool-h"]
    assert {stage for _, stage in events[:4]} == {"waiting"}


def test_the_next_cell_begins_when_the_engine_takes_it_and_ended_ones_are_forgotten(
    bench, pretend, monkeypatch
):
    """So an engine that takes few at a time does not have a large experiment in memory."""
    runners, known = [], []
    prepare = ExperimentRunner.__post_init__

    def note(runner):
        runners.append(runner)
        prepare(runner)

    class OneByOne(type(pretend)):
        def run(self, jobs, watcher):
            for job in jobs:
                known.append(len(runners[0].reached))
                super().run([job], watcher)

    monkeypatch.setattr(ExperimentRunner, "__post_init__", note)
    bench(OneByOne(), search=Search.GRID)
    assert known == [0, 0]
    assert not runners[0].reached
    assert not runners[0].running


def test_a_cell_that_fails_does_not_stop_the_others(bench, pretend):
    class Short(type(pretend)):
        def _train(self, training, *options):
            if training.method == "sagpool-h" and training.seed == 1:
                raise MemoryShortageError(torch.device("cpu"))
            return super()._train(training, *options)

    first, second = bench(Short()).cells
    assert (first.stage, first.done, second.stage, second.done) == ("failed", 2, "done", 4)
    assert "memory" in first.reason


def test_cells_are_in_the_order_of_the_plan_whichever_ends_first(bench):
    bench(methods=("gpool-h",))  # the second one has nothing left to train
    ended = []
    result = bench(
        watch=lambda state: ended.append(state.cell.method) if state.stage == "done" else None,
    )
    assert ended == ["gpool-h", "sagpool-h"]
    assert [s.cell.method for s in result.summaries] == ["sagpool-h", "gpool-h"]
    with Store.reading(result.store) as store:
        assert [cell.method for cell in store.cells()] == ["sagpool-h", "gpool-h"]
