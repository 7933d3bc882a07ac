"""Index arithmetic for many runs of different lengths that lie end to end."""

import numpy as np
import torch
from torch import Tensor


def repeat_each(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """Repeat ``values[i]`` ``counts[i]`` times.

    Naming the total keeps the device from being asked for it.

    Args:
        values: ``[runs]``
        counts: ``[runs]``
        total: the sum of the counts

    Returns:
        ``[total]``
    """
    if values.device.type == "cpu":
        # Five times as fast as torch's on the CPU, where most runs are short.
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts, output_size=total)


def ragged_arange(starts: Tensor, counts: Tensor, total: int) -> Tensor:
    """The numbers ``starts[i], ..., starts[i] + counts[i] - 1`` of every run, end to end.

    Taking these positions from an array is the ragged gather: it copies whole runs
    (the nodes or edges of chosen graphs) to new places in one indexing call.

    Args:
        starts: ``[runs]`` int32 or int64
        counts: ``[runs]`` int64
        total: the sum of the counts

    Returns:
        ``[total]`` of the type of ``starts``
    """
    placed = torch.cumsum(counts, 0) - counts
    shift = repeat_each((starts - placed).to(starts.dtype), counts, total)
    return shift.add_(torch.arange(total, dtype=starts.dtype, device=starts.device))
