"""Pooling as one operator against its equation, in Triton's interpreter if there is no GPU."""

import os
from fractions import Fraction

import pytest
import torch
from torch.testing import assert_close

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, SAGPool
from sagpool.ops.device import triton_kernels
from sagpool.ops.pool_by_product import Keep, ProductScore, pool_by_product

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)

ROWS, EDGES, CHANNELS = 150, 600, 3
KEEP = {
    "ratio": Keep(Fraction(3, 7), None, None),
    "k": Keep(Fraction(1), 4, None),
    "min_score": Keep(Fraction(1), None, 0.05),
}
# Graphs of one node, without edges and without nodes, and one that begins in the middle of a tile.
SIZES = [1, 40, 0, 1, 1, 75, 2, 30]
BATCHES = {
    "sorted": torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES)),
    "unsorted": torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)) % 9,
    "many graphs": torch.arange(ROWS) * 2 // 3,
    "one graph": None,
}


@pytest.fixture(autouse=True)
def kernels_first(by_kernels):
    by_kernels()


def numbers(*shape, seed=1):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random)


def edges_among(batch):
    """With self-loops, edges that occur twice, and nodes without edges."""
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(0, ROWS, (2, EDGES), generator=random)
    ends[1, ::50] = ends[0, ::50]
    ends[:, 1::50] = ends[:, ::50]
    ends[ends % 13 == 5] = 0
    graph = torch.zeros(ROWS, dtype=torch.int64) if batch is None else batch
    return ends[:, graph[ends[0]] == graph[ends[1]]]


def dense(x, weight, bias, edge_index, batch, keep, neighbours):
    """The layer from its equation, in float64."""
    raw = x @ weight
    if neighbours:
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        ones = torch.ones(len(source), dtype=x.dtype)
        matrix = torch.eye(ROWS, dtype=x.dtype).index_put((target, source), ones, accumulate=True)
        scale = matrix.sum(1).rsqrt()
        raw = scale * (matrix @ (scale * raw))
    raw = raw if bias is None else raw + bias
    graph = torch.zeros(ROWS, dtype=torch.int64) if batch is None else batch
    gate, kept = raw.tanh(), []
    for number in graph.unique():
        rows = (graph == number).nonzero().view(-1)
        if keep.min_score is None:
            size = len(rows) * keep.ratio
            count = min(len(rows), keep.k) if keep.k else -(-size.numerator // size.denominator)
            # As float32, as on every device.
            kept += rows[raw[rows].float().sort(descending=True, stable=True).indices[:count]]
        else:
            gate = gate.index_put((rows,), raw[rows].softmax(0))
            limit = min(gate[rows].max().item() - 1e-7, keep.min_score)
            kept += rows[gate[rows] > limit]
    perm = torch.stack(kept).sort().values
    marked = torch.zeros(ROWS, dtype=torch.bool).index_fill(0, perm, True)
    edges = (marked[edge_index[0]] & marked[edge_index[1]]).nonzero().view(-1)
    new_row = torch.cumsum(marked, 0) - 1
    return (
        x[perm] * gate[perm][:, None],
        gate[perm],
        new_row[edge_index[:, edges]],
        edges,
        graph[perm],
        perm,
    )


def compare(found, expected, inputs, exact_inputs):
    for one, other in zip(found[2:], expected[2:], strict=True):
        assert torch.equal(one.cpu(), other)
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert_close(one.cpu().double(), other, rtol=1e-5, atol=1e-5)
    grads = []
    for results, leaves in ((found, inputs), (expected, exact_inputs)):
        total = 0.0
        for out in results[:2]:
            total = total + (out * torch.linspace(-1, 1, out.numel()).view_as(out).to(out)).sum()
        grads.append(torch.autograd.grad(total, leaves))
    for one, other in zip(*grads, strict=True):
        assert_close(
            one.cpu().double(), other, rtol=1e-4, atol=1e-6 + 1e-6 * float(other.abs().max())
        )


def pool_both(columns, neighbours, biased, keep, batch, dtype=torch.float32):
    edge_index = edges_among(batch)
    exact = [numbers(ROWS, columns), numbers(columns, seed=2) / columns**0.5, numbers(1, seed=3)]
    exact = [one.double().requires_grad_() for one in exact[: 3 if biased else 2]]
    ours = [one.detach().to(DEVICE, dtype).requires_grad_() for one in exact]
    score = ProductScore(ours[1].view(1, -1, 1), ours[2] if biased else None, neighbours)
    found = pool_by_product(
        ours[0],
        score,
        edge_index.to(DEVICE),
        None if batch is None else batch.to(DEVICE),
        keep,
        positions=True,
    )
    bias = exact[2] if biased else None
    return found, dense(exact[0], exact[1], bias, edge_index, batch, keep, neighbours), ours, exact


@pytest.mark.parametrize("columns", [1, 3, 100, 128, 200])
@pytest.mark.parametrize("neighbours", [True, False], ids=["gcn", "product"])
def test_the_equation(columns, neighbours):
    compare(*pool_both(columns, neighbours, neighbours, KEEP["ratio"], BATCHES["sorted"]))


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", ["sorted", "many graphs", "one graph", "unsorted"])
@pytest.mark.parametrize("keep", KEEP)
def test_batches(keep, name, biased):
    both = pool_both(CHANNELS, True, biased, KEEP[keep], BATCHES[name])
    if keep == "min_score" and name in ("one graph", "unsorted"):
        assert both[0] is None  # left to torch
    else:
        compare(*both)


@pytest.mark.parametrize("name", ["sorted", "one graph", "unsorted"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_rows_than_can_be_counted(name, dtype, monkeypatch):
    monkeypatch.setattr("sagpool.ops.kernels.top_of_batch.MOST_COUNTED", 1)
    monkeypatch.setattr("sagpool.ops.kernels.top_of_batch.MOST_COUNTED_OF_ONE", 1)
    compare(*pool_both(CHANNELS, True, True, KEEP["ratio"], BATCHES[name], dtype))


@pytest.mark.parametrize("keep", ["ratio", "min_score"])
def test_more_blocks_than_each_program_adds_up(keep, monkeypatch):
    monkeypatch.setattr("sagpool.ops.kernels.marked_graph._MOST_ADDED", 0)
    monkeypatch.setattr("sagpool.ops.kernels.marked_graph._EDGES", 64)
    compare(*pool_both(CHANNELS, True, True, KEEP[keep], BATCHES["sorted"]))


LAYERS = {
    "gcn": lambda: SAGPool(CHANNELS),
    "topk": lambda: GPool(CHANNELS, k=3),
    "min_score": lambda: SAGPool(CHANNELS, min_score=0.05),
    "gat": lambda: SAGPool(CHANNELS, conv="gat"),
}


@pytest.fixture(params=LAYERS)
def pool(request):
    torch.manual_seed(0)
    return LAYERS[request.param]().to(DEVICE)


@pytest.fixture(params=["sorted", "unsorted", "one graph"])
def graphs(request):
    batch = BATCHES[request.param]
    moved = None if batch is None else batch.to(DEVICE)
    return {"edge_index": edges_among(batch).to(DEVICE), "batch": moved}


def both_paths(use_kernels, compute):
    use_kernels(False)
    expected = compute()
    use_kernels(True)
    return compute(), expected


@pytest.mark.parametrize("special", ["ties", "nan", "by columns"])
def test_the_same_rows_as_by_torch(special, pool, graphs, use_kernels):
    x = numbers(ROWS, CHANNELS).to(DEVICE)
    if special == "ties":
        x = x.round()[torch.arange(ROWS) // 10 * 10]
        graphs["edge_index"] = graphs["edge_index"][:, :0]
    elif special == "nan":
        x[60:70] = torch.nan
        graphs["edge_index"] = graphs["edge_index"][:, :0]
    else:
        x = x.t().contiguous().t()
        graphs["edge_index"] = graphs["edge_index"].t().contiguous().t()
    found, expected = both_paths(use_kernels, lambda: pool(x, **graphs))
    assert torch.equal(found.perm, expected.perm)
    assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("frozen", ["x", "weights", "nothing"])
@pytest.mark.parametrize("use", ["rows", "scores", "both"])
def test_the_gradients_that_are_wanted(frozen, use, pool, graphs, use_kernels):
    x = numbers(ROWS, CHANNELS).to(DEVICE).requires_grad_(frozen != "x")
    wanted = [] if frozen == "weights" else list(pool.parameters())
    pool.requires_grad_(frozen != "weights")
    wanted += [] if frozen == "x" else [x]

    def compute():
        out = pool(x, **graphs)
        rows = (out.x * torch.linspace(-1, 1, out.x.numel(), device=DEVICE).view_as(out.x)).sum()
        scores = out.score.square().sum()
        total = {"rows": rows, "scores": scores, "both": rows + scores}[use]
        return torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)

    found, expected = both_paths(use_kernels, compute)
    assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_no_gradients(pool, graphs):
    with torch.no_grad():
        assert not pool(numbers(ROWS, CHANNELS).to(DEVICE), **graphs).x.requires_grad


def test_backward_twice(pool, graphs):
    x = numbers(ROWS, CHANNELS).to(DEVICE).requires_grad_()
    out = pool(x, **graphs)
    total = (out.x * 2).sum() + out.score.sum()
    leaves = [x, *pool.parameters()]
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    kept = [grad.clone() for grad in first]
    assert_close(torch.autograd.grad(total, leaves), tuple(kept))
    assert_close(first, tuple(kept), rtol=0, atol=0)
    addresses = {grad.untyped_storage().data_ptr() for grad in first}
    assert len(addresses) == len(first)


def test_gradients_of_gradients(pool, graphs, use_kernels):
    x = numbers(ROWS, CHANNELS).to(DEVICE).requires_grad_()

    def compute():
        out = pool(x, **graphs)
        total = (out.x * torch.linspace(-1, 1, CHANNELS, device=DEVICE)).sum() + out.score.sum()
        (first,) = torch.autograd.grad(total, x, create_graph=True)
        leaves = [x, *pool.parameters()]
        return torch.autograd.grad(first.square().sum(), leaves, allow_unused=True)

    found, expected = both_paths(use_kernels, compute)
    assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_what_must_be_reproducible_is_left_to_torch(graphs):
    score = ProductScore(numbers(CHANNELS).to(DEVICE), None, neighbours=True)
    rest = graphs["edge_index"], graphs["batch"], KEEP["ratio"], False
    torch.use_deterministic_algorithms(True)
    try:
        assert pool_by_product(numbers(ROWS, CHANNELS).to(DEVICE), score, *rest) is None
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("edges", "batch", "sentence"),
    [
        ([[0, 7], [1, 2]], [0, 0, 0], "edge_index names node 7, but there are 3 nodes"),
        ([[0, -1], [1, 2]], None, "edge_index names node -1"),
        ([[0, 1], [1, 2]], [-2, 0, 0], "batch names graph -2"),
        ([[0, 1], [1, 2]], [0, 0, -2], "batch names graph -2"),
    ],
)
def test_wrong_indices_are_refused(edges, batch, sentence, pool):
    batch = None if batch is None else torch.tensor(batch, device=DEVICE)
    with pytest.raises(SagpoolError, match=sentence):
        pool(numbers(3, CHANNELS).to(DEVICE), torch.tensor(edges, device=DEVICE), batch=batch)


def test_a_hook_on_the_score_is_called(graphs):
    pool, calls = SAGPool(CHANNELS).to(DEVICE), []
    pool.attention.register_forward_hook(lambda *call: calls.append(call))
    pool(numbers(ROWS, CHANNELS).to(DEVICE), **graphs)
    assert len(calls) == 1
