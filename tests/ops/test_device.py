import os

import numpy as np
import pytest
import torch

from sagpool.ops import to_device
from sagpool.ops.device import _copied_in_pieces, wait_for_stream


def test_a_recorded_step_cannot_copy_from_the_host(monkeypatch):
    """CUDA would record where the numbers lay, and read there again at each replay."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="cannot copy"):
        to_device(np.arange(3), torch.device("cuda"))
    assert to_device(np.arange(3), torch.device("cpu")).tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(0,), (3, 7), (50_000,), (1, 16 * 1024), (300, 301)])
def test_large_arrays_are_copied_in_pieces(shape):
    tensor = torch.from_numpy(np.random.default_rng(0).random(shape).T)
    copy = _copied_in_pieces(tensor, torch.device(os.environ["SAGPOOL_TEST_DEVICE"]))
    assert torch.equal(copy.cpu(), tensor)
    assert copy.data_ptr() != tensor.data_ptr() or not copy.numel()


def test_a_thread_that_waits_sleeps(monkeypatch):
    done = []

    class Event:
        def __init__(self, blocking: bool) -> None:
            done.append(("event", blocking))

        def record(self, stream) -> None:
            done.append(("record", stream))

        def synchronize(self) -> None:
            done.append("waited")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    wait_for_stream("stream")
    assert done == [("event", True), ("record", "stream"), "waited"]
