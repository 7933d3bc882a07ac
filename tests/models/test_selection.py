"""Which nodes are kept: how many, which, and how to find them in the input."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sagpool.graphs import pack
from sagpool.models import HierarchicalPooling
from sagpool.models.sagnet import SAGNet
from sagpool.nn import ScorePool

few = settings(max_examples=8, derandomize=True, phases=[Phase.generate, Phase.shrink])
seeds = st.integers(0, 2**32 - 1)
# What a ratio is, and what it stands for.
RATIOS = [
    (0.6, Fraction(3, 5)),
    (0.07, Fraction(7, 100)),
    (0.55, Fraction(11, 20)),
    (1 / 3, Fraction(1, 3)),
    (1.0, Fraction(1)),
    (Fraction(2, 3), Fraction(2, 3)),
]


@few
@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    ratio=st.sampled_from(RATIOS),
    k=st.integers(1, 30),
)
def test_how_many_are_kept(selecting_method, kit, seed, sizes, ratio, k):
    sizes = [25, *sizes]
    batch = pack(kit.graphs(kit.dense(seed, sizes)), [range(len(sizes))])
    model = kit.model(selecting_method, seed, ratio=ratio[0], k=k, hidden=2)

    output = model(batch)

    left = sizes
    for level in output.levels:
        if isinstance(model, HierarchicalPooling | SAGNet):
            left = [math.ceil(ratio[1] * nodes) for nodes in left]
        else:
            left = [min(k, nodes) for nodes in left]
        assert level.structure.layout.sizes[0, :-1].tolist() == left
        assert torch.bincount(level.structure.layout.graph)[:-1].tolist() == left


def test_six_tenths_of_25_nodes_are_15(selecting_method, kit):
    batch = pack(kit.graphs(kit.dense(0, [25])), [[0]])
    model = kit.model(selecting_method, ratio=0.6, k=15)
    kept = [len(nodes) for nodes in kit.kept_nodes(model(batch), batch)[0]]
    assert kept == ([15, 9, 6] if isinstance(model, HierarchicalPooling | SAGNet) else [15])


@few
@given(seed=seeds, sizes=st.lists(st.integers(1, 13), min_size=2, max_size=5), plain=st.booleans())
def test_the_top_are_kept_and_ties_go_to_the_lower_node(ranking_method, kit, seed, sizes, plain):
    batch = pack(kit.graphs(kit.dense(seed, sizes, plain=plain)), [range(len(sizes))])
    for layer, arguments, pooled in kit.poolings(kit.model(ranking_method, seed), batch):
        x, adjacency, context = arguments
        if isinstance(layer, ScorePool):
            weight = layer.score_weight()
            projected = None if weight is None else x @ weight[0]
            rank = layer.scores(x, adjacency, replace(context, projected=projected)).rank
        else:
            rank = context.rank()
        for graph in range(len(sizes)):
            rows = (adjacency.layout.graph == graph).nonzero().view(-1).tolist()
            best_first = sorted(rows, key=lambda row: (-rank[row].float(), row))
            kept = pooled.perm[pooled.structure.layout.graph == graph].tolist()
            assert kept == sorted(best_first[: len(kept)])


def test_of_equal_nodes_the_first_are_kept(ranking_method, kit):
    ring = np.roll(np.eye(9, dtype=bool), 1, axis=1)
    graph = kit.dense(0, [9], plain=True)[0]
    for A in (ring | ring.T, ~np.eye(9, dtype=bool), np.zeros((9, 9), bool)):
        alike = replace(graph, A=A, label=np.zeros_like(graph.label))
        batch = pack(kit.graphs([alike]), [[0]])
        kept = kit.kept_nodes(kit.model(ranking_method)(batch), batch)[0][0]
        assert kept.tolist() == list(range(len(kept)))


@few
@given(seed=seeds, sizes=st.lists(st.integers(1, 13), min_size=2, max_size=5))
def test_kept_nodes_are_found_in_the_input(selecting_method, kit, seed, sizes):
    """Through all levels: their graph, their edges, and at each level their gated features."""
    dense = kit.dense(seed, sizes)
    batch = pack(kit.graphs(dense), [range(len(sizes))])
    calls = kit.poolings(kit.model(selecting_method, seed, ratio=0.7), batch)

    rows = torch.arange(batch.structure.layout.rows)
    for _, (x, *_), pooled in calls:
        gate = 1 if pooled.score is None else pooled.score[:, None]
        torch.testing.assert_close(pooled.x, x[pooled.perm] * gate, rtol=1e-12, atol=1e-12)
        rows = rows[pooled.perm]
        smaller = pooled.structure.csr()
        real = smaller.layout.graph < len(sizes)
        assert torch.equal(batch.structure.layout.graph[rows], smaller.layout.graph)
        assert rows[real].unique().numel() == int(real.sum())
        starts = batch.structure.layout.node_ptr
        joined = torch.zeros(len(rows), len(rows), dtype=torch.bool)
        joined[smaller.entry_row, smaller.col.long()] = True
        for graph in range(len(sizes)):
            mine = smaller.layout.graph == graph
            nodes = (rows[mine] - starts[graph]).numpy()
            loops = dense[graph].A | np.eye(sizes[graph], dtype=bool)
            assert np.array_equal(joined[mine][:, mine].numpy(), loops[nodes][:, nodes])
            assert not joined[mine][:, ~mine].any()
