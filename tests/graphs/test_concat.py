import dataclasses

import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.graphs.concat import concat


@pytest.mark.parametrize("name", ["MUTAG", "motifs"])  # labels and classes; degrees and truth
def test_concatenated_single_graphs_give_the_collection_back(name):
    graphs = load(name)[:20]
    result = concat(list(graphs))
    assert result.fingerprint() == graphs.fingerprint()
    assert torch.equal(result.edge_index, graphs.edge_index)
    if graphs.ground_truth is not None:
        assert torch.equal(result.ground_truth, graphs.ground_truth)


def test_slices_are_concatenated_in_order():
    graphs = load("MUTAG")
    assert concat([graphs[10:15], graphs[:3]]).fingerprint() == (
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
def test_different_features_or_classes_are_refused(change):
    graphs = load("MUTAG")[:5]
    with pytest.raises(SagpoolError, match=r"MUTAG cannot be concatenated: .*\.$"):
        concat([graphs, dataclasses.replace(graphs, **change)])


def test_an_empty_list_is_refused():
    with pytest.raises(SagpoolError, match="no graphs"):
        concat([])
