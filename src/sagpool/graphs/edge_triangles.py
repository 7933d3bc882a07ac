"""In how many triangles each edge is."""

import numpy as np
import torch
from torch import Tensor

BLOCK_ROWS = 2**14  # rows whose product is in memory at a time


def triangles_of_entries(row_ptr: Tensor, col: Tensor) -> Tensor:
    """The common neighbours of the two ends of each entry, 0 for a row's entry for itself.

    Computed on the host, so it waits for the device.

    Args:
        row_ptr: ``[rows + 1]`` int32, of A + I
        col: ``[entries]`` int32; entries past ``row_ptr[-1]`` belong to no row

    Returns:
        ``[entries]`` float32
    """
    from scipy.sparse import csr_array  # slow to import

    ptr, neighbour = row_ptr.cpu().numpy(), col.cpu().numpy()
    rows = len(ptr) - 1
    found = np.zeros(len(neighbour), np.float32)
    used = slice(0, ptr[-1])
    looped = csr_array((np.ones(ptr[-1]), neighbour[used], ptr), shape=(rows, rows))
    row = np.repeat(np.arange(rows), np.diff(ptr))
    for first in range(0, rows, BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, rows)
        walks = looped[first:last] @ looped  # walks of two steps, including steps that stay
        walks.sort_indices()
        part = slice(ptr[first], ptr[last])
        if ptr[first] < ptr[last]:
            found[part] = walks[row[part] - first, neighbour[part]]
    # Two of the walks along an edge stay at one of its ends for one step.
    found[used] = np.where(row == neighbour[used], 0, found[used] - 2)
    return torch.from_numpy(found).to(col.device)
