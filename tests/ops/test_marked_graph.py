"""The kernels of the layers that PyG's users call, in Triton's interpreter if there is no GPU."""

import os
from fractions import Fraction

import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import EdgeList
from sagpool.nn import SAGPool
from sagpool.ops import top_rows
from sagpool.ops.device import triton_kernels
from sagpool.ops.marked_graph import keep_marked

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)

ROWS, EDGES = 700, 3000  # more than one block of each


@pytest.fixture(scope="module")
def edge_index():
    """With self-loops, and edges that occur twice."""
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(0, ROWS, (2, EDGES), generator=random)
    ends[1, ::50] = ends[0, ::50]
    ends[:, 1::50] = ends[:, ::50]
    return ends.to(DEVICE)


def numbers(*shape, dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=random, dtype=dtype).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("by_columns", [False, True])
def test_the_score_of_edges(dtype, by_columns, edge_index, same_by_kernels):
    edges = edge_index.t().contiguous().t() if by_columns else edge_index
    same_by_kernels(
        lambda x, bias: EdgeList(edges, ROWS).gcn_score(x, bias),
        [numbers(ROWS, 1, dtype=dtype), numbers(1, dtype=dtype)],
    )


def test_a_sum_that_must_be_reproducible_is_left_to_torch(edge_index, by_kernels):
    by_kernels()
    x, bias = numbers(ROWS, 1, dtype=torch.float32), torch.zeros(1, device=DEVICE)
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (EdgeList(edge_index, ROWS).gcn_score(x, bias) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first, second)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("k", [None, 3, "each"], ids=["ratio", "k", "a k for each"])
def test_top_rows(k, ordered, by_kernels):
    random = torch.Generator().manual_seed(2)
    score = torch.randint(-5, 5, (ROWS,), generator=random).double().to(DEVICE)  # with ties
    batch = torch.randint(0, 9, (ROWS,), generator=random)
    batch[batch == 4] = 5  # a graph without nodes
    batch = (batch.sort().values if ordered else batch).to(DEVICE)
    k = torch.arange(1, 10, device=DEVICE) * 20 if k == "each" else k
    expected = top_rows(score, batch, Fraction(3, 7), k)
    by_kernels()
    assert torch.equal(top_rows(score, batch, Fraction(3, 7), k), expected)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("k", [None, 3], ids=["ratio", "k"])
def test_top_rows_without_sorting(k, batched, by_kernels):
    random = torch.Generator().manual_seed(2)
    score = torch.randint(-5, 5, (ROWS,), generator=random).float().to(DEVICE)  # with ties
    batch = (torch.arange(ROWS) ** 2 // 20_000).to(DEVICE) if batched else None
    expected = top_rows(score, batch, Fraction(3, 7), k)
    kernels, totals = triton_kernels(), torch.zeros(4, dtype=torch.int32, device=DEVICE)
    raw = kernels.RawScore(score, None, None, None)
    marks, _ = kernels.top_by_counting(raw, batch, k, 3, 7, totals)
    assert torch.equal(marks.mask, expected)
    assert int(marks.counts.sum()) == int(expected.sum())
    assert not totals.any()


@pytest.mark.parametrize("width", [1, 3, 130])
@pytest.mark.parametrize("batched", [True, False])
def test_the_marked_rows(width, batched, edge_index, same_by_kernels):
    mask = numbers(ROWS) > 0.3
    batch = torch.arange(ROWS, device=DEVICE) // 90 if batched else None
    names = []

    def compute(x, gate):
        left = keep_marked(x, gate, mask, edge_index, batch)
        names.append((left.edge_index, left.edges, left.perm))
        return left.x, left.gate

    same_by_kernels(compute, [numbers(ROWS, width), numbers(ROWS)])
    for found, expected in zip(names[1], names[0], strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("marks", ["none", "one", "all"])
def test_few_rows_and_no_edges(marks, by_kernels):
    by_kernels()
    mask = torch.tensor([marks == "all", marks != "none", marks == "all"], device=DEVICE)
    none = torch.zeros(2, 0, dtype=torch.int64, device=DEVICE)
    left = keep_marked(numbers(3, 2), numbers(3), mask, none, None)
    assert left.perm.tolist() == {"none": [], "one": [1], "all": [0, 1, 2]}[marks]
    assert left.edge_index.shape == (2, 0)


def test_second_derivatives(edge_index, by_kernels):
    by_kernels()
    torch.manual_seed(0)
    pool = SAGPool(2, ratio=0.4).double().to(DEVICE)
    few, batch = edge_index[:, :12] % 6, torch.arange(6, device=DEVICE) // 4
    names = list(dict(pool.named_parameters()))

    def pooled(x, *weights):
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(pool, named, (x, few), {"batch": batch})[0]

    inputs = (numbers(6, 2).requires_grad_(), *pool.parameters())
    assert torch.autograd.gradgradcheck(pooled, inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("edges", "batch", "sentence"),
    [
        ([[0, 7], [1, 2]], [0, 0, 0], "edge_index names node 7, but there are 3 nodes"),
        ([[0, -1], [1, 2]], None, "edge_index names node -1"),
        ([[0, 1], [1, 2]], [0, 0, -2], "batch names graph -2"),
    ],
)
def test_wrong_indices_are_refused(edges, batch, sentence, by_kernels):
    by_kernels()
    edges = torch.tensor(edges, device=DEVICE)
    EdgeList(edges, 3).gcn_score(numbers(3, 1), torch.zeros(1, device=DEVICE))  # writes nowhere
    batch = None if batch is None else torch.tensor(batch, device=DEVICE)
    mask = torch.ones(3, dtype=torch.bool, device=DEVICE)
    with pytest.raises(SagpoolError, match=sentence):
        keep_marked(numbers(3, 2), numbers(3), mask, edges, batch)


@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize("edges", [EDGES, 0])
def test_attention_over_edges(heads, edges, edge_index, same_by_kernels):
    graph = EdgeList(edge_index[:, :edges], ROWS)
    same_by_kernels(graph.attention, list(4 * numbers(3, ROWS, heads)))
