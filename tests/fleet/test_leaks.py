"""Memory does not grow over time."""

import gc
from pathlib import Path

import pytest
import torch

from sagpool.fleet import train
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots


def live_tensors() -> tuple[int, int]:
    """Number and bytes of all live tensors."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    strided = [tensor for tensor in tensors if tensor.layout == torch.strided]
    return len(tensors), sum(tensor.untyped_storage().nbytes() for tensor in strided)


def resident_pages() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) if statm.exists() else 0


@pytest.mark.parametrize("method", ["sagpool-h", "diffpool-h"])
def test_memory_stays_flat(method, mutag, kit):
    trainings = kit.trainings(3, method, patience=10**6, max_epochs=10**6, batch_size=152)
    fleet = Fleet(mutag[::2], trainings, Slots.fill(range(3), 3))

    def pages_of(epochs: int) -> list[int]:
        pages = []
        for _ in range(epochs):
            fleet.advance()
            pages.append(resident_pages())
        return pages

    pages_of(10)
    live_tensors()  # its list of all objects takes memory that stays with the process
    warm = pages_of(30)
    count, size = live_tensors()
    later = pages_of(110)[-30:]
    assert live_tensors() == (count, pytest.approx(size, rel=0.02))
    # The allocator takes memory and gives it back again and again.
    assert min(later) <= 1.02 * max(warm)


def test_finished_trainings_leave_no_tensors_behind(mutag, kit):
    seen = {}

    def count(progress) -> None:
        if progress.done in (4, 20):
            seen[progress.done] = live_tensors()

    trainings = kit.trainings(24, max_epochs=2, patience=9, batch_size=152, fold=1)
    train(mutag, trainings, members=4, on_progress=count)
    assert seen[20] == (seen[4][0], pytest.approx(seen[4][1], rel=0.02))
