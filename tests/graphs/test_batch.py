import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import pack

graph_ids = st.lists(st.integers(0, 29), max_size=6)
members = st.lists(graph_ids, min_size=1, max_size=4).filter(any)
holes = st.lists(st.integers(-1, 29), min_size=3, max_size=3)
matrices = st.lists(holes, min_size=1, max_size=4).map(np.array)


def entries_of(adjacency):
    """``[2, entries]``: the column and the row of each entry."""
    counts = adjacency.row_ptr.diff().long()
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return torch.stack([adjacency.col.long(), rows])


@given(ids=st.one_of(members, matrices), spare=st.integers(0, 5))
def test_a_batch_holds_the_chosen_graphs_in_their_places(varied, ids, spare):
    batch = pack(varied, ids)
    if spare:
        batch = pack(varied, ids, rows=batch.structure.layout.rows + spare)
    adjacency = batch.structure
    sizes, rows = adjacency.layout.sizes, adjacency.layout.rows

    # As many rows for every member, the last graph a filler.
    assert sizes.shape == (len(ids), max(len(member) for member in ids) + 1)
    assert (sizes >= 1).all()
    assert (sizes.sum(axis=1) == rows).all()
    assert sizes[:, -1].min() == 1 + spare
    assert not batch.real[:, -1].any()
    assert len(adjacency.row_ptr) == adjacency.layout.members * rows + 1
    assert len(batch.x) == adjacency.layout.members * rows

    # Every place holds its graph, or a filler.
    entries = entries_of(adjacency)
    seen = 0
    for m, member in enumerate(ids):
        for g in range(adjacency.layout.graphs):
            start = int(adjacency.layout.node_ptr[m * adjacency.layout.graphs + g])
            stop = start + sizes[m, g]
            assert (adjacency.layout.graph[start:stop] == m * adjacency.layout.graphs + g).all()
            mine = entries[:, (entries[1] >= start) & (entries[1] < stop)] - start
            on_itself = mine[0] == mine[1]
            number = member[g] if g < len(member) else -1
            assert batch.real[m, g] == (number != -1)
            if number == -1:
                assert on_itself.all()
                assert not batch.x[start:stop].any()
                assert batch.y[m, g] == 0
                assert g == adjacency.layout.graphs - 1 or sizes[m, g] == 1
            else:
                graph = varied[number]
                assert torch.equal(batch.x[start:stop], graph.x)
                assert torch.equal(mine[:, ~on_itself], graph.edge_index)
                assert mine[0, on_itself].tolist() == list(range(graph.num_nodes))
                assert batch.y[m, g] == graph.y
            seen += mine.shape[1]
    assert seen == len(adjacency.col)


def test_small_types_and_host_sizes(varied):
    batch = pack(varied, [[0, 1], [2, 3]])
    assert batch.structure.col.dtype == torch.int32
    assert batch.structure.row_ptr.dtype == torch.int32
    assert batch.node.dtype == torch.int32
    assert isinstance(batch.structure.layout.sizes, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        batch.structure.layout.sizes[0, 0] = 1


def test_rows_of_one_member_are_together(varied):
    batch = pack(varied, [[3, 4, 5], [6]])
    by_member = batch.x.view(batch.structure.layout.members, batch.structure.layout.rows, -1)
    size = varied.node_counts[6]
    assert torch.equal(by_member[1, :size], varied[6].x)


def test_a_member_without_graphs_is_all_filler(varied):
    batch = pack(varied, [[], [3]])
    assert not batch.real[0].any()
    assert batch.structure.layout.sizes[0].tolist() == [1, int(varied.node_counts[3])]


def test_graphs_without_classes_give_none(varied):
    plain = dataclasses.replace(
        varied, y=None, node_label=None, node_label_names=(), class_names=()
    )
    batch = pack(plain, [[0, 1]])
    assert batch.y is None
    assert torch.equal(batch.x[:-1], plain[:2].x)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([[0, 30]], "Graph 30 is not one of the graphs 0 to 29."),
        ([[0, -2]], "Graph -2 is not one of the graphs 0 to 29."),
        ([[]], "at least one member and one graph"),
        ([], "at least one member and one graph"),
        (np.arange(3), "at least one member and one graph"),
    ],
)
def test_what_cannot_be_packed(varied, ids, said):
    with pytest.raises(SagpoolError, match=said):
        pack(varied, ids)


def test_there_must_be_a_row_for_the_filler(varied):
    nodes = int(varied.node_counts[4])
    assert pack(varied, [[4]], rows=nodes + 1).structure.layout.rows == nodes + 1
    with pytest.raises(SagpoolError, match=f"^{nodes} rows .* too few: {nodes + 1} are needed"):
        pack(varied, [[4]], rows=nodes)


@given(ids=st.one_of(members, matrices))
def test_two_hop_graphs_are_packed_from_those_of_the_collection(varied, ids):
    """As they would be computed from the batch, which is what happens if they are too large."""
    adjacency = pack(varied, ids).structure
    from_batch = dataclasses.replace(adjacency, make_two_hop=lambda: None).two_hop
    assert adjacency.make_two_hop() is not None
    assert torch.equal(entries_of(adjacency.two_hop), entries_of(from_batch))
    assert torch.equal(adjacency.two_hop.row_ptr, from_batch.row_ptr)


def test_two_hop_graphs_of_a_collection_that_are_too_large(varied, monkeypatch):
    monkeypatch.setattr("sagpool.graphs.batch.MOST_WALKS", 10)
    graphs = dataclasses.replace(varied)  # nothing is computed yet
    adjacency = pack(graphs, [[3, 7, 11]]).structure
    assert adjacency.make_two_hop() is None
    expected = pack(varied, [[3, 7, 11]]).structure.two_hop
    assert torch.equal(entries_of(adjacency.two_hop), entries_of(expected))
