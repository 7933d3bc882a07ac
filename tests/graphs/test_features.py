"""Node features of norm 1, and dense ones, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sagpool
from sagpool.graphs.features import unit_rows
from sagpool.graphs.raw_graphs import Codes, dense_matrix


@pytest.fixture(scope="module")
def mutag():
    return sagpool.load("MUTAG")


@pytest.mark.parametrize("with_labels", [True, False])
def test_each_node_has_features_of_norm_1(with_labels, mutag):
    attributes = torch.randn(mutag.num_nodes, 3, generator=torch.Generator().manual_seed(1))
    attributes[:2] = 0
    label = mutag.node_label.clone()
    label[0] = -1  # unknown, so the first node has no features at all
    graphs = replace(mutag, node_attr=attributes, node_label=label, feature_kind="both")
    if not with_labels:
        graphs = replace(graphs, node_label=None, node_label_names=())
    x = graphs.x.numpy()
    norms = np.sqrt((x.astype(float) ** 2).sum(1, keepdims=True))
    expected = np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)
    found = unit_rows(graphs)
    np.testing.assert_allclose(found.x.numpy(), expected, rtol=1e-6)
    assert not found.x[0].any()
    assert found.fingerprint() != graphs.fingerprint()
    assert found.feature_kind == "both, L2-normalised"


def test_one_hot_features_have_norm_1_already(mutag):
    assert unit_rows(mutag) is mutag


def test_a_dense_matrix_has_attributes_then_labels():
    attributes = np.array([[0.5], [1.5], [2.5]], np.float32)
    labels = [Codes(np.array([0, 1, 0]), ("a", "b")), Codes(np.array([2, 0, 1]), ("x", "y", "z"))]
    matrix = dense_matrix(attributes, labels)
    expected = np.hstack([attributes, np.eye(2)[[0, 1, 0]], np.eye(3)[[2, 0, 1]]])
    np.testing.assert_array_equal(matrix, expected)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(dense_matrix(None, labels), expected[:, 1:])
    assert dense_matrix(attributes, []) is attributes
    assert dense_matrix(None, []) is None
