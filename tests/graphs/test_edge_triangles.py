import torch

from sagpool.graphs import edge_triangles, pack
from sagpool.testing import random_graphs


def counted(adjacency):
    """The common neighbours of the two ends of each entry, from the matrix."""
    rows = len(adjacency.row_ptr) - 1
    A = torch.zeros(rows, rows)
    A[adjacency.entry_row, adjacency.col.long()] = 1
    A.fill_diagonal_(0)
    return (A @ A * A)[adjacency.entry_row, adjacency.col.long()]


def test_triangles_of_a_batch_are_looked_up(monkeypatch):
    monkeypatch.setattr(edge_triangles, "BLOCK_ROWS", 4)
    graphs = random_graphs(0, [12, 1, 9, 13])
    before = graphs.batch_source.col.clone()
    batch = pack(graphs, [[0, 3], [2, 1], [3, 3]]).structure
    assert counted(batch).max() > 3
    assert torch.equal(batch.triangles, counted(batch))
    assert torch.equal(graphs.batch_source.col, before)
    row_ptr, col = batch.row_ptr, torch.cat([batch.col, torch.zeros(5).int()])
    alone = edge_triangles.triangles_of_entries(row_ptr, col)
    assert torch.equal(alone[:-5], batch.triangles)
    assert not alone[-5:].any()
