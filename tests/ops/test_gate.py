"""Rows that are there in part: times their gates, with the readout."""

import os

import pytest
import torch

from sagpool.graphs import pack
from sagpool.nn import readout
from sagpool.ops import gate_rows
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
IDS = [[0, 5, -1], [3, 7, 11]]  # -1: no graph
TYPES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


def numbers(*shape, dtype):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random, dtype=dtype).to(DEVICE)


@pytest.fixture(scope="module")
def layout(mutag):
    return pack(mutag, IDS).structure.layout


def gated(layout):
    """Results of real graphs, with the readout that is computed along, or after."""
    filler = torch.arange(layout.members * layout.graphs, device=DEVICE) % layout.graphs
    real = filler < layout.graphs - 1

    def compute(x, gate, presence):
        kept, present, mean_max = gate_rows(x, gate, presence, layout)
        if mean_max is None:
            mean_max = readout(kept, layout, presence=presence)
        of_real = real.index_select(0, layout.graph)
        return kept[of_real], present[real], mean_max[real]

    return compute


@pytest.mark.parametrize("channels", [1, 3, 16, 100, 128, 200])
@pytest.mark.parametrize(("dtype", "rtol"), TYPES)
def test_kernels_and_torch_agree(layout, same_by_kernels, channels, dtype, rtol):
    rows = layout.total_rows
    x, gate = numbers(rows, channels, dtype=dtype), numbers(rows, dtype=dtype).sigmoid()
    same_by_kernels(gated(layout), [x, gate, gate**2], rtol, rtol)


def test_of_a_graph_of_which_little_is_there_the_sum(layout, same_by_kernels):
    """And of one of which nothing is there, zeros."""
    rows = layout.total_rows
    x, presence = numbers(rows, 16, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
    start = int(layout.node_ptr[1])
    presence[start] = 0.3
    presence = presence.to(DEVICE)
    of_rows = gated(layout)

    def without_ties(x, gate, presence):
        """Without the maximum: which of the rows of zeros has its gradient depends on the way."""
        kept, present, mean_max = of_rows(x, gate, presence)
        return kept, present, mean_max[:, :16]

    same_by_kernels(without_ties, [x, presence, presence], 1e-12, 1e-12)
    kept, present, mean_max = gate_rows(x, presence, presence, layout)
    assert not mean_max[0].any()
    torch.testing.assert_close(mean_max[1, :16], 0.3 * x[start])
    torch.testing.assert_close(present[:2].tolist(), [0.0, 0.3])
    assert kept.count_nonzero() == 16


def test_a_nan_stays_in_its_member(layout, by_kernels):
    by_kernels()
    inputs = [numbers(layout.total_rows, *more, dtype=torch.float32) for more in ([3], [], [])]
    for one in inputs:
        one[layout.rows :] = torch.nan
        one.requires_grad_()
    results = gate_rows(*inputs, layout)
    for out in results:
        assert out[: len(out) // 2].isfinite().all()
    for grad in torch.autograd.grad(sum(out.sum() for out in results), inputs):
        assert grad[: layout.rows].isfinite().all()
