"""Matchings and merged rows, on the host and as on a device, against loops."""

import os

import numpy as np
import pytest
import torch

from sagpool.graphs import Adjacency, pack
from sagpool.ops import HostLayout, edge_rows, matching
from sagpool.ops.device import kernels_forced, triton_kernels
from sagpool.ops.matching import greedy_matching, merged_csr
from sagpool.testing import random_graphs

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
KERNELS = [] if triton_kernels() is None else ["kernels"]


@pytest.fixture(params=["host", "device", *KERNELS])
def where(request, monkeypatch, use_kernels):
    """Where the tensors are."""
    if request.param == "device":
        monkeypatch.setattr(matching, "on_cpu", lambda tensor: False)
    use_kernels(request.param == "kernels")
    return DEVICE if request.param == "kernels" else torch.device("cpu")


@pytest.fixture
def graphs(where):
    ids = [[0, 1, 2, 3, 4], [4, 2, -1, -1, -1]]
    return pack(random_graphs(2, [9, 1, 13, 8, 12]).to(where), ids).structure


def one_member(sizes, device):
    return HostLayout(np.array([sizes]), filler=False, device=device)


@pytest.mark.parametrize("distinct", [True, False])
def test_the_matching_is_the_greedy_one(where, graphs, distinct):
    layout, row, col = graphs.layout, graphs.entry_row.cpu(), graphs.col.long().cpu()
    rows = layout.total_rows
    random = np.random.default_rng(0)
    table = random.random((rows, rows)) if distinct else random.integers(0, 3, (rows, rows)) / 4.0
    table = np.maximum(table, table.T).astype(np.float32)
    weight = torch.from_numpy(table)[row, col].to(where)
    found = greedy_matching(weight, graphs.row_ptr, graphs.col, layout)
    local = torch.arange(rows) - layout.node_ptr[layout.graph].cpu()
    expected = np.arange(rows)
    pairs = [(i, j) for i, j in zip(row.tolist(), col.tolist(), strict=True) if i < j]

    def order(pair):
        return -table[pair], matching._order_of_ties(*local[list(pair)])

    for i, j in sorted(pairs, key=order):
        if expected[i] == i and expected[j] == j:
            expected[i], expected[j] = j, i
    np.testing.assert_array_equal(found.cpu().numpy(), expected)


def test_a_path_of_rising_weights_needs_a_round_for_each_pair(where):
    nodes = 2 * matching.ROUNDS + 4
    row_ptr = torch.tensor([0, *np.cumsum([1, *[2] * (nodes - 2), 1])], dtype=torch.int32)
    col = [n for i in range(nodes) for n in (i - 1, i + 1) if 0 <= n < nodes]
    row = [i for i in range(nodes) for n in (i - 1, i + 1) if 0 <= n < nodes]
    weight = torch.tensor(row).maximum(torch.tensor(col)).float()
    entries = torch.tensor(col, dtype=torch.int32)
    found = greedy_matching(
        weight.to(where), row_ptr.to(where), entries.to(where), one_member([nodes], where)
    )
    expected = torch.arange(nodes)
    expected[4:] = torch.arange(4, nodes) ^ 1  # the last four rows stay free
    assert torch.equal(found.cpu(), expected)


def cycles(nodes, number, device):
    """Some cycles, without entries of rows for themselves."""
    local = torch.arange(nodes, device=device).repeat(number)
    first = torch.arange(nodes * number, device=device) - local
    col = torch.stack([first + (local + step) % nodes for step in (-1, 1)], 1).view(-1)
    row_ptr = 2 * torch.arange(nodes * number + 1, device=device)
    return Adjacency(one_member([nodes] * number, device), row_ptr.int(), col.int())


def test_equal_weights_leave_no_edge_between_free_rows(where):
    """The same rows of each graph, whatever else is in the batch."""
    nodes, number = 1000, 3
    found, alone = (
        greedy_matching(
            torch.ones(len(some.col), device=where), some.row_ptr, some.col, some.layout
        ).cpu()
        for some in (cycles(nodes, number, where), cycles(nodes, 1, where))
    )
    free = (found == torch.arange(nodes * number)).view(number, nodes)
    assert not (free & free.roll(1, dims=1)).any()
    assert torch.equal(found.view(number, -1), alone + nodes * torch.arange(number)[:, None])


STAR, PATH, DENSE, ISOLATED, PAIR = 600, 400, 25, 70, 2


def unusual_graphs(pairs, spare):
    """A star, a path, a dense graph, rows without neighbours, pairs, one row, and no row at all.

    Only the rows of the dense graph have entries for themselves.
    """
    sizes = [0, STAR, PATH, 1, DENSE, ISOLATED, 0, *[PAIR] * pairs, 1, 0]
    starts = np.cumsum([0, *sizes])
    linked = np.random.default_rng(1).random((DENSE, DENSE)) < 0.4
    edges = [(starts[1], starts[1] + leaf) for leaf in range(1, STAR)]
    edges += [(starts[2] + node, starts[2] + node + 1) for node in range(PATH - 1)]
    edges += [(starts[4] + i, starts[4] + j) for i, j in zip(*np.nonzero(linked), strict=True)]
    edges += [(starts[7 + pair], starts[7 + pair] + 1) for pair in range(pairs)]
    dense = np.zeros((starts[-1], starts[-1]), dtype=bool)
    dense[tuple(np.array(edges).T)] = True
    row, col = np.nonzero(dense | dense.T)
    row_ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=starts[-1]))])
    col = np.concatenate([col, np.full(spare, starts[-1] - 1)])
    return sizes, torch.from_numpy(row_ptr).int(), torch.from_numpy(col).int()


@pytest.mark.skipif(not KERNELS, reason="there is no Triton here")
@pytest.mark.parametrize("levels", [1, 3, 10**6])
@pytest.mark.parametrize(("pairs", "dtype"), [(1, torch.float32), (20, torch.float64)])
def test_the_kernel_finds_the_same_pairs(pairs, dtype, levels):
    """With small blocks and large ones, and few or many different weights of both signs."""
    sizes, row_ptr, col = unusual_graphs(pairs, spare=9)
    row, rows = edge_rows(row_ptr, col), sum(sizes)
    random = torch.Generator().manual_seed(levels)
    table = torch.randint(0, levels, (rows, rows), generator=random, dtype=dtype) / 3 - 0.5
    weight = table[torch.minimum(row, col), torch.maximum(row, col)]
    weight[row_ptr[-1] :] = 1e6
    with kernels_forced(False):
        expected = greedy_matching(weight, row_ptr, col, one_member(sizes, torch.device("cpu")))
    with kernels_forced(True):
        arrays = (array.to(DEVICE) for array in (weight, row_ptr, col))
        found = greedy_matching(*arrays, one_member(sizes, DEVICE))
    assert torch.equal(found.cpu(), expected)


def test_merged_rows_have_the_edges_of_all(where, graphs):
    rows = graphs.layout.total_rows
    name = torch.arange(rows)
    row, col = graphs.entry_row.cpu(), graphs.col.long().cpu()
    for i, j in zip(row.tolist()[::5], col.tolist()[::5], strict=True):
        name[max(i, j)] = name[min(i, j)]
    merged = merged_csr(graphs.row_ptr, graphs.col, graphs.entry_row, name.to(where))
    row_ptr, new = (array.cpu() for array in merged)
    found = torch.zeros(rows, rows)
    for i in range(rows):
        entries = new[row_ptr[i] : row_ptr[i + 1]].long()
        assert len(entries) == len(entries.unique())
        found[i, entries] = 1
    expected = torch.zeros(rows, rows)
    expected[name[row], name[col]] = 1
    assert torch.equal(found, expected)
    assert (new[row_ptr[-1] :] == rows - 1).all()
