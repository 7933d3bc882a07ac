"""The memory that torch keeps for streams and recordings, with a GPU that is only pretended."""

from types import SimpleNamespace

import pytest
import torch

from sagpool.fleet import MemoryShortageError, Training, lane, memory
from sagpool.fleet.lane import Crew, GpuMemory, Lane
from sagpool.fleet.memory import StepBytes, trial_step
from sagpool.fleet.profile import Profile

GPU = torch.device("cuda")
TRAINING = Training("sagpool-h", seed=0, fold=0)
OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory.")


@pytest.fixture
def crew() -> Crew:
    return Crew(GPU, 1, GpuMemory(1.0), Profile(torch.device("cpu")))


@pytest.fixture
def freed(monkeypatch) -> list[str]:
    """What happened before each time that memory was freed."""
    events: list[str] = []
    for module in (lane, memory):
        monkeypatch.setattr(module, "free_cached_memory", lambda: events.append("freed"))
    return events


class Scarce:
    """An action that runs out of memory the first few times."""

    def __init__(self, failures: int, result: object = None) -> None:
        self.failures, self.result = failures, result

    def __call__(self, *_: object) -> object:
        self.failures -= 1
        if self.failures >= 0:
            raise OUT_OF_MEMORY
        return self.result


@pytest.mark.parametrize(("failures", "expected"), [(0, []), (1, ["freed"])])
def test_a_trial_step_is_tried_again_after_memory_was_freed(failures, expected, freed, monkeypatch):
    """Else a fleet that would fit trains one graph at a time."""
    size = StepBytes(1, 2)
    monkeypatch.setattr(memory, "_trial_step", Scarce(failures, size))
    assert trial_step(SimpleNamespace(device=GPU), TRAINING, torch.float32) == size
    assert freed == expected


def test_a_trial_step_that_does_not_fit_then_either_is_a_shortage(freed, monkeypatch):
    monkeypatch.setattr(memory, "_trial_step", Scarce(2))
    with pytest.raises(MemoryShortageError):
        trial_step(SimpleNamespace(device=GPU), TRAINING, torch.float32)


@pytest.mark.parametrize(
    ("failures", "events"), [(0, []), (1, ["freed"]), (2, ["freed", "freed", "shrunk"])]
)
def test_a_fleet_shrinks_only_if_freeing_memory_is_not_enough(failures, events, freed, crew):
    fleet = SimpleNamespace(shrink=lambda: freed.append("shrunk"))
    result = Lane(None, crew)._run_or_shrink(fleet, Scarce(failures, "done"))
    assert result == ("done" if failures < 2 else None)
    assert freed == events


def test_memory_is_freed_when_little_is_left(freed, crew, monkeypatch):
    for free in (20, 10):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 100))
        crew.free_memory_if_scarce()
        assert freed == ([] if free == 20 else ["freed"])


def test_a_later_lane_gets_a_stream_that_is_free_again(crew, monkeypatch):
    class Stream:
        def __init__(self, device, priority) -> None:
            self.priority = priority

    waited = []
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(lane, "wait_for_stream", waited.append)
    with crew.stream(-1) as first, crew.stream(-1) as second, crew.stream(0) as other:
        assert first is not second
        assert (second.priority, other.priority) == (-1, 0)
    assert waited == [other, second, first]
    with pytest.raises(ZeroDivisionError), crew.stream(-1):
        1 / 0  # noqa: B018
    with crew.stream(-1) as one, crew.stream(-1) as two:
        assert {one, two} == {first, second}
