import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, Statistics, load

TENSORS = ("degree", "col", "y", "node_label", "node_attr", "edge_attr", "ground_truth")


def assert_same(first: Graphs, second: Graphs) -> None:
    assert first.node_counts.tolist() == second.node_counts.tolist()
    assert first.edge_counts.tolist() == second.edge_counts.tolist()
    for field in TENSORS:
        one, other = getattr(first, field), getattr(second, field)
        assert one.dtype == other.dtype
        assert torch.equal(one, other), field


bounds = st.one_of(st.none(), st.integers(-40, 40))


@given(start=bounds, stop=bounds, step=st.sampled_from([None, 1, 2, 7, -1, -3]))
def test_slice_list_and_mask_select_the_same(varied, start, stop, step):
    wanted = list(range(len(varied)))[start:stop:step]
    chosen = varied[start:stop:step]
    assert len(chosen) == len(wanted)
    assert_same(chosen, varied[wanted])
    assert_same(chosen, varied[np.array(wanted, int)])
    assert_same(chosen, varied[torch.tensor(wanted, dtype=torch.long)])
    assert_same(chosen, varied[[i - len(varied) for i in wanted]])
    if step in (None, 1, 2, 7):
        mask = np.isin(np.arange(len(varied)), wanted)
        assert_same(chosen, varied[mask])
        assert_same(chosen, varied[mask.tolist()])
        assert_same(chosen, varied[torch.from_numpy(mask)])


@given(st.lists(st.integers(0, 29), max_size=12))
def test_a_list_may_repeat_and_reorder(varied, wanted):
    chosen = varied[wanted]
    assert len(chosen) == len(wanted)
    for graph, i in zip(chosen, wanted, strict=True):
        assert_same(graph, varied[i])
        assert torch.equal(graph.edge_index, varied[i].edge_index)


def test_a_slice_is_a_view(varied):
    part = varied[4:28][1:20]
    for field in TENSORS:
        whole, view = getattr(varied, field), getattr(part, field)
        assert view.numel() > 0
        inside = view.data_ptr() - whole.untyped_storage().data_ptr()
        assert 0 < inside < whole.untyped_storage().nbytes()
    assert np.shares_memory(part.node_counts, varied.node_counts)


def test_one_graph_is_a_collection_of_one(varied):
    number = int(varied.edge_counts[1:].argmax()) + 1
    start, stop = varied.node_ptr[number : number + 2]
    graph = varied[number]
    assert len(graph) == 1
    assert graph.num_nodes == stop - start
    assert torch.equal(graph.x, varied.x[start:stop])
    inside = (varied.edge_index[0] >= start) & (varied.edge_index[0] < stop)
    assert graph.num_edges == int(inside.sum()) > 0
    assert torch.equal(graph.edge_index, varied.edge_index[:, inside] - start)
    assert_same(varied[number - 30], graph)
    assert_same(varied[torch.tensor(number)], graph)


def test_edges_batch_and_rows_agree(varied):
    source, target = varied.edge_index
    assert torch.equal(varied.batch[source], varied.batch[target])
    assert torch.equal(torch.bincount(target, minlength=varied.num_nodes), varied.degree.long())
    assert torch.equal(varied.row_ptr.diff(), varied.degree.long())
    assert torch.bincount(varied.batch).tolist() == varied.node_counts.tolist()
    order = target * varied.num_nodes + source
    assert (order.diff() > 0).all()


def test_features_are_attributes_then_one_hot_labels(varied):
    assert varied.x.shape == (varied.num_nodes, varied.num_features)
    assert torch.equal(varied.x[:, :2], varied.node_attr)
    assert torch.equal(varied.x[:, 2:].argmax(1), varied.node_label.long())
    assert (varied.x[:, 2:].sum(1) == 1).all()


def test_iteration_gives_every_graph_once(varied):
    graphs = list(varied)
    assert len(graphs) == 30
    assert torch.equal(torch.cat([graph.x for graph in graphs]), varied.x)


def test_graphs_are_immutable(varied):
    with pytest.raises(dataclasses.FrozenInstanceError):
        varied.name = "other"
    with pytest.raises(ValueError, match="read-only"):
        varied.node_counts[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        varied[2:5].edge_counts[0] = 3


def test_to_moves_every_tensor_but_not_the_counts(varied):
    there = varied.to("meta")
    assert there.device.type == "meta"
    assert {getattr(there, field).device.type for field in TENSORS} == {"meta"}
    assert there.num_edges == varied.num_edges
    assert_same(varied.to("cpu"), varied)


def test_statistics_and_repr():
    mutag = load("MUTAG")
    assert mutag.statistics() == Statistics(
        name="MUTAG",
        graphs=188,
        classes=2,
        avg_nodes=3371 / 188,
        avg_edges=3721 / 188,
        features=7,
        feature_kind="labels",
        majority=125 / 188,
    )
    assert repr(mutag) == (
        "Graphs(MUTAG: 188 graphs, 2 classes, on average 17.93 nodes and 19.79 edges, "
        "7 features from labels)"
    )


def test_an_empty_collection(varied):
    nothing = varied[[]]
    assert len(nothing) == 0
    assert list(nothing) == []
    assert nothing.x.shape == (0, 6)
    assert nothing.edge_index.shape == (2, 0)
    assert nothing.statistics().majority is None


@pytest.mark.parametrize("index", [30, -31, [0, 30], [-31]])
def test_an_index_out_of_range(varied, index):
    with pytest.raises(IndexError, match="of a collection of 30"):
        varied[index]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("three", "not by 'three'"),
        (2.0, "not by 2.0"),
        ([0.5], "must be integers, not float64"),
        ([True, False], "A mask of 2 values cannot select from 30 graphs"),
        ([[1, 2]], r"not by \[\[1, 2\]\]"),
    ],
)
def test_an_index_of_the_wrong_type(varied, index, message):
    with pytest.raises(SagpoolError, match=message):
        varied[index]
