"""Graphs unlike the training data."""

from dataclasses import replace

import numpy as np
import torch

from sagpool import load
from sagpool.classifier.novelty import Novelty, descriptors, num_descriptors

MUTAG = load("MUTAG")


def test_few_graphs_like_the_training_graphs_are_flagged():
    novelty = Novelty.of(MUTAG[::2])
    assert novelty.unlike(MUTAG[1::2]).mean() < 0.07
    assert novelty.mean.shape == (num_descriptors(0, 7),) == descriptors(MUTAG).shape[1:]


def test_other_labels_and_other_structures_are_flagged():
    novelty = Novelty.of(MUTAG)
    unknown = replace(MUTAG, node_label=torch.full_like(MUTAG.node_label, -1))
    assert novelty.unlike(unknown).all()
    rare = replace(MUTAG, node_label=torch.full_like(MUTAG.node_label, 4))
    assert novelty.unlike(rare).mean() > 0.9
    import networkx

    from sagpool import Graphs

    dense = Graphs.from_networkx([networkx.complete_graph(15)])
    dense = replace(
        dense,
        node_attr=None,
        node_label=torch.zeros(15, dtype=torch.int32),
        node_label_names=MUTAG.node_label_names,
    )
    assert novelty.unlike(dense).all()


def test_measurements_on_any_scale():
    attr = torch.from_numpy(np.random.default_rng(0).normal(1e6, 1e3, (MUTAG.num_nodes, 2)))
    graphs = replace(MUTAG, node_attr=attr.float(), continuous=2)
    novelty = Novelty.of(graphs[::2])
    assert novelty.unlike(graphs[1::2]).mean() < 0.07
    assert novelty.unlike(replace(graphs, node_attr=2 * graphs.node_attr)).all()


def test_too_few_graphs():
    assert Novelty.of(MUTAG[:5]) is None
