import numpy as np
import pytest
import torch

from sagpool.ops import to_device


def test_a_recorded_step_cannot_copy_from_the_host(monkeypatch):
    """CUDA would record where the numbers lay, and read there again at each replay."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="cannot copy"):
        to_device(np.arange(3), torch.device("cuda"))
    assert to_device(np.arange(3), torch.device("cpu")).tolist() == [0, 1, 2]
