"""Matchings and merged rows, on the host and by the operations of a device, against loops."""

import numpy as np
import pytest
import torch

from sagpool.graphs import pack
from sagpool.ops import matching
from sagpool.ops.matching import greedy_matching, merged_csr
from sagpool.testing import random_graphs


@pytest.fixture(params=["host", "device"])
def where(request, monkeypatch):
    if request.param == "device":
        monkeypatch.setattr(matching, "on_cpu", lambda tensor: False)


@pytest.fixture
def graphs():
    return pack(
        random_graphs(2, [9, 1, 13, 8, 12]), [[0, 1, 2, 3, 4], [4, 2, -1, -1, -1]]
    ).structure


@pytest.mark.parametrize("distinct", [True, False])
def test_the_matching_is_the_greedy_one(where, graphs, distinct):
    layout, row, col = graphs.layout, graphs.entry_row, graphs.col.long()
    rows = layout.total_rows
    random = np.random.default_rng(0)
    table = random.random((rows, rows)) if distinct else random.integers(0, 3, (rows, rows)) / 4.0
    table = np.maximum(table, table.T).astype(np.float32)
    weight = torch.from_numpy(table)[row, col]
    local = torch.arange(rows) - layout.node_ptr[layout.graph]
    found = greedy_matching(weight, graphs.row_ptr, graphs.col, local)
    expected = np.arange(rows)
    pairs = [(i, j) for i, j in zip(row.tolist(), col.tolist(), strict=True) if i < j]

    def order(pair):
        return -table[pair], matching._order_of_ties(*local[list(pair)])

    for i, j in sorted(pairs, key=order):
        if expected[i] == i and expected[j] == j:
            expected[i], expected[j] = j, i
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_path_of_rising_weights_needs_a_round_for_each_pair(where):
    nodes = 2 * matching.ROUNDS + 4
    row_ptr = torch.tensor([0, *np.cumsum([1, *[2] * (nodes - 2), 1])], dtype=torch.int32)
    col = [n for i in range(nodes) for n in (i - 1, i + 1) if 0 <= n < nodes]
    row = [i for i in range(nodes) for n in (i - 1, i + 1) if 0 <= n < nodes]
    weight = torch.tensor(row).maximum(torch.tensor(col)).float()
    found = greedy_matching(
        weight, row_ptr, torch.tensor(col, dtype=torch.int32), torch.arange(nodes)
    )
    expected = torch.arange(nodes)
    expected[4:] = torch.arange(4, nodes) ^ 1  # the last four rows stay free
    assert torch.equal(found, expected)


def cycles(nodes, number):
    """``row_ptr`` and ``col`` of some cycles, and the number of each row in its cycle."""
    local = torch.arange(nodes).repeat(number)
    first = torch.arange(nodes * number) - local
    col = torch.stack([first + (local + step) % nodes for step in (-1, 1)], 1).view(-1)
    return 2 * torch.arange(nodes * number + 1).int(), col.int(), local


def test_equal_weights_leave_no_edge_between_free_rows(where):
    """The same rows of each graph, whatever else is in the batch."""
    nodes, number = 1000, 3
    row_ptr, col, local = cycles(nodes, number)
    found = greedy_matching(torch.ones(len(col)), row_ptr, col, local)
    free = found == torch.arange(len(local))
    assert not (free & free[col[::2].long()]).any()
    row_ptr, col, local = cycles(nodes, 1)
    alone = greedy_matching(torch.ones(len(col)), row_ptr, col, local)
    assert torch.equal(found.view(number, -1), alone + nodes * torch.arange(number)[:, None])


def test_merged_rows_have_the_edges_of_all(where, graphs):
    rows = graphs.layout.total_rows
    name = torch.arange(rows)
    row, col = graphs.entry_row, graphs.col.long()
    for i, j in zip(row.tolist()[::5], col.tolist()[::5], strict=True):
        name[max(i, j)] = name[min(i, j)]
    row_ptr, new = merged_csr(graphs.row_ptr, graphs.col, name)
    found = torch.zeros(rows, rows)
    for i in range(rows):
        entries = new[row_ptr[i] : row_ptr[i + 1]].long()
        assert len(entries) == len(entries.unique())
        found[i, entries] = 1
    expected = torch.zeros(rows, rows)
    expected[name[row], name[col]] = 1
    assert torch.equal(found, expected)
    assert (new[row_ptr[-1] :] == rows - 1).all()
