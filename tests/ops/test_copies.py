"""Pooling of copies of members, which need not be in memory."""

import os

import pytest
import torch

from sagpool.graphs import pack
from sagpool.ops import HostLayout, choose_rows, pool_rows, repeated_layout, segment_mean_max
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
IDS = [[0, 5, -1], [3, 7, 11]]  # -1: no graph
TYPES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("channels", [1, 3, 16, 100, 128, 200])
@pytest.mark.parametrize(("dtype", "rtol"), TYPES)
def test_kernels_and_torch_agree(copies, channels, dtype, rtol, same_by_kernels, mutag):
    structure = pack(mutag, IDS).structure
    layout = repeated_layout(structure.layout, copies)
    random = torch.Generator().manual_seed(channels)
    x = torch.randn(structure.layout.total_rows, channels, generator=random, dtype=dtype)
    rank = torch.randn(layout.total_rows, generator=random, dtype=dtype).to(DEVICE)
    # With the rows of fillers, which kernels clear, both ways would do something else.
    rank = torch.where(layout.graph % layout.graphs == layout.graphs - 1, 0, rank)
    filler = structure.layout.graph % layout.graphs == layout.graphs - 1
    x = torch.where(filler[:, None], 0, x.to(DEVICE))
    counts = -(-layout.sizes // 2)
    counts[:, -1] = counts[:, :-1].sum(1).max() + 2 - counts[:, :-1].sum(1)
    new = HostLayout(counts, filler=True, device=DEVICE)
    matrix, seen = (structure.row_ptr, structure.col), []

    def pooled(x, gate):
        left = pool_rows(x, gate, choose_rows(rank, layout, new), layout, new)
        row_ptr, col = left.induce(*matrix)
        seen.append((row_ptr, col[: int(row_ptr[-1])], left.perm.long()))
        readout = left.readout
        if readout is None:
            readout = segment_mean_max(left.x, new.node_ptr, new.graph)
        number = torch.arange(len(readout), device=DEVICE) % new.graphs
        return left.x, readout[number < new.graphs - 1]

    same_by_kernels(pooled, [x, rank.sigmoid()], rtol, rtol)
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)
