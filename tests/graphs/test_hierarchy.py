"""Coarsened collections, by the three coarsenings that there are, against loops over nodes."""

import numpy as np
import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import Coarsening, HostGraphs, coarser, pack
from sagpool.graphs.host_graphs import canonical_order
from sagpool.nn import KMIS, NDP, Graclus
from sagpool.ops.device import kernels_forced
from sagpool.testing import random_graphs

COARSENINGS: list[Coarsening] = [Graclus(), KMIS(1), KMIS(2), NDP()]
SIZES = [9, 1, 12, 5, 2, 7]


def host(a: np.ndarray, first_node: list[int] | None = None) -> HostGraphs:
    row, col = np.nonzero(a)
    return HostGraphs.of_pairs(np.array(first_node or [0, len(a)]), row, col, a[row, col])


def dense(graphs: HostGraphs) -> np.ndarray:
    a = np.zeros((graphs.nodes, graphs.nodes))
    a[graphs.row, graphs.col] = graphs.weight
    return a


def a_matrix(seed: int, nodes: int = 14) -> np.ndarray:
    """Weights between nodes in three graphs, some of them isolated."""
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((nodes, nodes)) < 0.4, 1) * random.uniform(0.5, 2, (nodes, nodes))
    graph = np.repeat([0, 1, 2], [1, 5, nodes - 6])
    upper = upper * (graph[:, None] == graph)
    return upper + upper.T


def hops(a: np.ndarray) -> np.ndarray:
    """Shortest paths in edges, by Floyd and Warshall."""
    found = np.where(a > 0, 1.0, np.inf)
    np.fill_diagonal(found, 0)
    for middle in range(len(a)):
        found = np.minimum(found, found[:, middle, None] + found[None, middle])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_graclus_merges_a_node_with_its_heaviest_neighbour(seed):
    a = a_matrix(seed)
    coarse = Graclus().coarsen(host(a, [0, 1, 6, 14]))
    degree, free, label = a.sum(1), set(range(len(a))), np.arange(len(a))
    for i in range(len(a)):
        if i not in free:
            continue
        free.remove(i)
        gains = {j: a[i, j] * (1 / degree[i] + 1 / degree[j]) for j in free if a[i, j] > 0}
        if gains:
            partner = max(gains, key=lambda j: gains[j])
            free.remove(partner)
            label[partner] = i
    clusters = np.unique(label)
    s = (label[:, None] == clusters).astype(float)
    expected = s.T @ a @ s
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(coarse.parent, s.argmax(1))
    np.testing.assert_allclose(dense(coarse.graphs), expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 2])
def test_k_mis_is_the_greedy_set_and_nodes_go_to_the_nearest(seed, k):
    a = a_matrix(seed)
    coarse, far = KMIS(k).coarsen(host(a, [0, 1, 6, 14])), hops(a)
    walks = np.linalg.matrix_power((a > 0) + np.eye(len(a)), k).sum(1)
    order = np.argsort(walks, kind="stable")
    rank = np.argsort(order)
    chosen: list[int] = []
    for node in order:
        if all(far[node, other] > k for other in chosen):
            chosen.append(node)
    owner = [min(chosen, key=lambda c: (far[node, c], rank[c])) for node in range(len(a))]
    s = (np.array(owner)[:, None] == np.unique(owner)).astype(float)
    expected = s.T @ a @ s
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(coarse.parent, s.argmax(1))
    np.testing.assert_allclose(dense(coarse.graphs), expected)


def test_ndp_keeps_a_side_of_the_largest_cut_and_all_resistances():
    """Effective resistances between the nodes that stay do not change (Dörfler, Bullo 2013)."""
    a = a_matrix(3)[6:, 6:]
    assert np.isfinite(hops(a)).all()
    coarse = NDP(threshold=0).coarsen(host(a))
    degree = a.sum(1)
    normal = np.eye(len(a)) - a / np.sqrt(degree[:, None] * degree)
    u = np.linalg.eigh(normal)[1][:, -1]
    kept = coarse.parent >= 0
    assert (kept == (u >= 0)).all() or (kept == (u <= 0)).all()

    def resistance(weights: np.ndarray) -> np.ndarray:
        inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
        return inverse.diagonal()[:, None] + inverse.diagonal() - 2 * inverse

    expected = resistance(a)[kept][:, kept]
    np.testing.assert_allclose(resistance(dense(coarse.graphs)), expected)
    fewer = dense(NDP(threshold=0.2).coarsen(host(a)).graphs)
    whole = dense(coarse.graphs)
    np.testing.assert_allclose(fewer, np.where(whole < 0.2, 0, whole))


@pytest.mark.parametrize("nodes", [2, 5, 6, 7])
def test_ndp_cuts_symmetric_graphs_alike_however_a_machine_rounds(nodes, monkeypatch):
    """The cycles have entries of equal size, double eigenvalues, or entries that are 0."""
    a = np.zeros((nodes, nodes))
    for i in range(nodes):
        a[i, (i + 1) % nodes] = a[(i + 1) % nodes, i] = 1
    expected = NDP().coarsen(host(a)).parent
    eigh, random = np.linalg.eigh, np.random.default_rng(0)

    def other_eigh(matrix):
        """As right as the other: eigenvectors of an eigenvalue can be rotated, and have errors."""
        values, vectors = eigh(matrix)
        same = np.abs(values[:, None] - values) < 1e-9
        rotated = np.linalg.qr(random.standard_normal(same.shape) * same)[0]
        return values, vectors @ rotated + 1e-12 * random.standard_normal(same.shape)

    monkeypatch.setattr(np.linalg, "eigh", other_eigh)
    for _ in range(20):
        assert np.array_equal(NDP().coarsen(host(a)).parent, expected)


def test_ndp_without_a_threshold_leaves_no_edge_of_weight_0():
    a = np.eye(12, k=1) + np.eye(12, k=-1)
    left = NDP(threshold=0).coarsen(host(a)).graphs
    assert (left.weight > 0).all()
    assert len(left.weight) == 2 * (left.nodes - 1), "a path again"


def test_ndp_takes_a_random_half_where_no_cut_is_large():
    a = np.full((40, 40), 1e-3)  # two strong pairs in a crowd: their edges are most of the weight
    a[0, 1] = a[1, 0] = a[2, 3] = a[3, 2] = 100
    np.fill_diagonal(a, 0)
    big = np.full((40, 40), 1.0) - np.eye(40)
    for weights in (a, big):
        coarse = NDP().coarsen(host(weights))
        assert 1 <= (coarse.parent >= 0).sum() < 40
        again = NDP().coarsen(host(weights))
        np.testing.assert_array_equal(coarse.parent, again.parent)


@pytest.mark.parametrize("coarsening", COARSENINGS, ids=str)
@pytest.mark.parametrize("kernels", [False, True])
def test_a_packed_level_is_that_of_each_graph(coarsening, kernels):
    graphs = random_graphs(5, SIZES)
    ids = [[0, 1, 2, 3, 4, 5], [2, 4, -1, -1, -1, -1]]
    with kernels_forced(kernels):
        structure = pack(graphs, ids).structure
        for _ in range(2):
            structure = check_level(structure, coarsening, graphs, ids)


def check_level(structure, coarsening, graphs, ids):
    left, clusters = coarser(structure, coarsening)
    ptr, child, parent = clusters
    for new in range(left.layout.total_rows):
        rows = child[ptr[new] : ptr[new + 1]].long()
        assert (parent[rows] == new).all()
        assert len(rows) == (parent == new).sum()
    unit = torch.eye(left.layout.total_rows, dtype=torch.float64)
    a = left.neighbour_sum(unit)
    real = torch.isin(left.layout.graph, torch.tensor([*range(6), 7, 8]))  # the others are padding
    torch.testing.assert_close(a[real], a.T[real])
    torch.testing.assert_close(left.degree[real], a[real].sum(1))
    mean = a / torch.where(left.degree > 0, left.degree, 1)[:, None]
    torch.testing.assert_close(left.neighbour_mean(unit)[real], mean[real])
    looped = a + unit
    scale = (left.degree + 1).rsqrt()
    expected = scale[:, None] * looped * scale
    torch.testing.assert_close(left.gcn(unit)[real], expected[real])
    # The second member has graphs of the first.
    first, second = left.layout.node_ptr.view(-1)[:-1].view(2, -1)
    for place, graph in enumerate(ids[1][:2]):
        size = int(left.layout.sizes[0, graph])
        assert left.layout.sizes[1, place] == size
        one = slice(first[graph], first[graph] + size)
        other = slice(second[place], second[place] + size)
        torch.testing.assert_close(a[one, one], a[other, other])
    return left


def test_the_order_of_nodes_does_not_matter():
    a = a_matrix(0)
    graphs = host(a, [0, 1, 6, 14])
    features = np.random.default_rng(0).integers(0, 2**60, 14).astype(np.uint64)
    order = np.concatenate([[0], 1 + np.random.default_rng(1).permutation(5), np.arange(13, 5, -1)])
    one = canonical_order(graphs, features)
    other = canonical_order(graphs.reordered(order), features[order])
    np.testing.assert_array_equal(order[other], one)


def test_all_members_and_batches_share_a_level():
    graphs = random_graphs(5, SIZES)
    for ids in ([[0, 1]], [[3], [2]]):
        coarser(pack(graphs, ids).structure, Graclus())
    assert len(graphs.batch_source.coarsened) == 1


def test_edges_that_are_not_from_a_data_set_are_refused():
    from sagpool.graphs import Adjacency

    graphs = random_graphs(5, SIZES)
    structure = Adjacency.from_edge_index(graphs.edge_index, graphs.batch)
    with pytest.raises(SagpoolError, match="Graclus coarsens the graphs of a data set before"):
        coarser(structure, Graclus())
