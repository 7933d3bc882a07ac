import dataclasses

import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.graphs.join import join


@pytest.mark.parametrize("name", ["MUTAG", "motifs"])  # labels and classes; degrees and truth
def test_single_graphs_are_joined_to_what_they_were_taken_from(name):
    graphs = load(name)[:20]
    joined = join(list(graphs))
    assert joined.fingerprint() == graphs.fingerprint()
    assert torch.equal(joined.edge_index, graphs.edge_index)
    if graphs.ground_truth is not None:
        assert torch.equal(joined.ground_truth, graphs.ground_truth)


def test_slices_are_joined_in_the_order_given():
    graphs = load("MUTAG")
    assert join([graphs[10:15], graphs[:3]]).fingerprint() == (
        graphs[[10, 11, 12, 13, 14, 0, 1, 2]].fingerprint()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"node_label_names": tuple("abcdefg")},
        {"class_names": ("no", "yes")},
        {"y": None},
        {"feature_kind": "degree"},
    ],
    ids=str,
)
def test_graphs_of_other_features_or_classes_are_not_joined(change):
    graphs = load("MUTAG")[:5]
    with pytest.raises(SagpoolError, match=r"^Graphs can be joined if they have the same .*\.$"):
        join([graphs, dataclasses.replace(graphs, **change)])


def test_nothing_cannot_be_joined():
    with pytest.raises(SagpoolError, match="no graph"):
        join([])
