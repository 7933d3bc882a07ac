"""Where the time of a device goes: spans of threads, divided among equal slices of time."""

import threading
import time

import numpy as np
import pytest
import torch

from sagpool.fleet import profile as module
from sagpool.fleet.profile import KINDS, WAITING, Profile, Span, divide
from sagpool.fleet.scheduler import Scheduler
from sagpool.fleet.work import Work
from sagpool.ops.compilation import Compilation

CPU = torch.device("cpu")


def test_overlapping_spans_count_once_and_the_most_useful_kind_first():
    spans = [
        Span("recording", 0, 4),
        Span("compiling", 1, 3),
        Span("steps", 2, 6),
        Span("steps", 5, 7),
        Span("evaluation", 6, 9),
    ]
    seconds = divide(spans, np.array([0.0, 5, 10]))
    assert {kind: values.tolist() for kind, values in seconds.items()} == {
        "steps": [3, 2],
        "evaluation": [0, 2],
        "compiling": [1, 0],
        "recording": [1, 0],
    }
    assert all(values.tolist() == [0, 0] for values in divide([], np.arange(3.0)).values())


def test_spans_of_one_kind_count_once_where_they_overlap():
    spans = [Span("steps", 1, 4), Span("steps", 3, 5), Span("steps", 3.5, 4), Span("steps", 7, 8)]
    assert divide(spans, np.array([0.0, 10]))["steps"] == pytest.approx(5)


def test_spans_are_clipped():
    spans = [Span("steps", -5, 1), Span("evaluation", 9, 99), Span("recording", 20, 30)]
    found = divide(spans, np.array([0.0, 10]))
    assert {kind: float(values[0]) for kind, values in found.items()} == pytest.approx(
        {"steps": 1, "evaluation": 1, "recording": 0, "compiling": 0}
    )


@pytest.fixture
def on_two_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    return Profile(CPU, on=True)


def in_another_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def test_the_threads_of_a_cpu_share_its_time(on_two_threads, monkeypatch):
    profile = on_two_threads
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    profile.add("steps", 0, 4)
    profile.spans[-1] = [Span("steps", 1, 2), Span("evaluation", 2, 3)]
    fractions = profile.fractions(np.array([0.0, 2, 4]))
    assert fractions["steps"] == pytest.approx([0.75, 0.5])
    assert fractions["evaluation"] == pytest.approx([0, 0.25])
    assert fractions[WAITING] == pytest.approx([0.25, 0.25])


def test_a_fleet_alone_has_all_threads_and_crowded_ones_take_turns(on_two_threads):
    profile = on_two_threads
    profile.add("steps", 0, 2)  # with both threads
    profile.spans[-1] = [Span("evaluation", 1, 2, threads=2)]
    fractions = profile.fractions(np.arange(4.0))
    assert fractions["steps"] == pytest.approx([1, 0.5, 0])
    assert fractions["evaluation"] == pytest.approx([0, 0.5, 0])
    assert fractions[WAITING] == pytest.approx([0, 0, 1])


def test_a_gpu_has_one_timeline_with_the_kernels_that_were_compiled(monkeypatch):
    profile = Profile(CPU, on=True)
    profile.device, profile.threads = torch.device("cuda"), 1
    monkeypatch.setattr(module, "compilations", lambda: [Compilation("kernel", 1, 3)])
    profile.add("recording", 0, 4)
    in_another_thread(profile.add, "steps", 2, 4)
    fractions = profile.fractions(np.array([0.0, 4]))
    found = {kind: float(values[0]) for kind, values in fractions.items()}
    assert found == {
        "steps": 0.5, "evaluation": 0, "compiling": 0.25, "recording": 0.25, WAITING: 0,
    }  # fmt: skip


def test_epochs_are_counted_where_they_end(on_two_threads):
    profile = on_two_threads
    profile.epochs = [(0.5, 10), (1.5, 3), (1.7, 4), (9.0, 1)]
    assert profile.models_trained(np.arange(4.0)).tolist() == [10, 7, 0]


def test_one_that_is_off_notes_nothing():
    profile = Profile(CPU)
    with profile.spent("steps"):
        pass
    profile.collect(5)
    assert (profile.spans, profile.events, profile.epochs) == ({}, {}, [])
    assert set(profile.fractions(np.arange(2.0))) == {*KINDS, WAITING}


def test_each_thread_of_a_cpu_has_a_timeline():
    profile = Profile(CPU, on=True)
    together = threading.Barrier(2)

    def work() -> None:
        together.wait()  # threads one after the other may have the same number
        with profile.spent("steps"), profile.spent("evaluation"):
            pass
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = profile.timelines()
    assert [[span.kind for span in line] for line in lines] == [["evaluation", "steps"]] * 2
    for inner, outer in lines:
        assert profile.start <= outer.start <= inner.start <= inner.end <= outer.end


def test_a_profiled_run_has_steps_and_evaluations_in_each_thread(mutag, kit):
    torch.set_num_threads(2)
    profile = Profile(CPU, on=True)
    try:
        Scheduler(CPU, profile=profile).run([Work(mutag, kit.trainings(4))])
    finally:
        torch.set_num_threads(1)
    edges = np.array([profile.start, time.perf_counter()])
    lines = profile.timelines()
    assert len(lines) == 2
    for line in lines:
        assert {span.kind for span in line} == {"steps", "evaluation"}
        found = divide(line, edges)
        assert found["steps"] > 0
        assert found["evaluation"] > 0
    fractions = profile.fractions(edges)
    assert sum(fractions.values()) == pytest.approx(1)
    assert 0 < fractions["steps"] < 1
