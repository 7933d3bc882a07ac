"""The kernels of DiffPool, in Triton's interpreter where there is no GPU."""

import os

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from sagpool.nn.pool.diffpool.assignment import mean_of_graphs, soft_assignment
from sagpool.nn.pool.diffpool.coarsen import coarsen
from sagpool.nn.pool.diffpool.congruence import congruence
from sagpool.nn.pool.diffpool.matmul import segment_apply, segment_matmul
from sagpool.nn.pool.diffpool.segments import Blocks, Spans
from sagpool.ops import Layout
from sagpool.ops.aligned import aligned
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)

# Graphs of one row, of about a tile, and of several; the last of each member is a filler.
SIZES = np.array([[1, 33, 70, 5, 9], [40, 2, 31, 32, 13]])
WIDTHS = pytest.mark.parametrize(("m", "n"), [(1, 1), (10, 3), (39, 70), (70, 16), (130, 20)])
FILLERS = pytest.mark.parametrize("filler", [True, False])


@pytest.fixture(autouse=True)
def by_kernels(use_kernels):
    use_kernels(True)


def randn(*shape):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random).to(DEVICE)


def spans_and_blocks(filler):
    """The same graphs for the kernels, and for torch in double precision."""
    taken = SIZES.copy()
    if filler:
        taken[:, -1] = 1
    starts = np.cumsum(SIZES) - SIZES.ravel()
    spans = Spans.of(Layout(SIZES.copy(), filler=filler, place=DEVICE))
    rows = torch.empty(SIZES.sum(), 1, device=DEVICE)
    return spans, Blocks.of(rows, starts, taken.ravel())


def widened(share):
    """With columns of zeros, as the kernels like it."""
    return pad(share, (0, aligned(share.shape[1]) - share.shape[1]))


def joined(size):
    """A symmetric matrix for the rows of all graphs, which joins nobody to another graph."""
    graph = np.repeat(np.arange(SIZES.size), SIZES.ravel())
    matrix = torch.from_numpy(graph[:, None] == graph).to(DEVICE) * randn(size, size)
    return matrix + matrix.T


@WIDTHS
@FILLERS
def test_products(m, n, filler, against_double):
    spans, blocks = spans_and_blocks(filler)
    a, b, x = randn(spans.rows, m), randn(spans.rows, n), randn(spans.graphs, m, n)
    against_double(
        lambda a, b: segment_matmul(a, b, spans),
        lambda a, b: segment_matmul(a, b, blocks),
        [a, b],
    )
    against_double(
        lambda a, x: segment_apply(a, x, spans),
        lambda a, x: segment_apply(a, x, blocks),
        [a, x],
    )


@WIDTHS
@FILLERS
def test_readout_of_what_is_not_in_memory(m, n, filler, against_double):
    spans, blocks = spans_and_blocks(filler)
    logits, x, product = randn(spans.rows, m), randn(spans.rows, n), randn(spans.rows, n + 2)

    def by_kernels(logits, x, product):
        made = coarsen(widened(logits.softmax(1)), m, x, spans, product)
        return made.readout, made.x, made.gram_norm

    def by_torch(logits, x, product):
        share = logits.softmax(1)
        pooled = segment_matmul(share, x, blocks)
        readout = torch.cat([pooled.mean(1), pooled.amax(1)], 1)
        gram_norm = congruence(share, blocks).squared_norm
        return readout, segment_matmul(share, product, blocks), gram_norm

    against_double(by_kernels, by_torch, [logits, x, product])


@pytest.mark.parametrize("columns", [1, 10, 39, 70])
@pytest.mark.parametrize("identity", [True, False])
@FILLERS
def test_trace_and_norm(columns, identity, filler, against_double):
    """Of graphs that have more, and fewer, rows than there are columns."""
    spans, blocks = spans_and_blocks(filler)
    t, A = randn(spans.rows, columns), joined(spans.rows)
    if filler:  # a row that does not count must not be reached by one that does
        alone = torch.zeros_like(A[0], dtype=torch.bool)
        for end in SIZES.sum(1).cumsum():
            alone[end - SIZES[0, -1] : end] = True
        A[alone] = 0
        A[:, alone] = 0
    multiply = None if identity else (lambda x: A.to(x) @ x)
    against_double(
        lambda t: tuple(congruence(t, spans, multiply)),
        lambda t: tuple(congruence(t, blocks, multiply)),
        [t],
    )


@pytest.mark.parametrize("columns", [1, 5, 70, 130])
@pytest.mark.parametrize("biased", [True, False])
def test_assignment(columns, biased, against_double):
    def found(logits, bias):
        share, entropy = soft_assignment(logits, bias if biased else None)
        return share, entropy + 0 * bias.sum()

    def found_in_more_columns(logits, bias):
        share, entropy = soft_assignment(pad(logits, (0, 3), value=7.0), bias)
        assert (share[:, columns:] == 0).all()
        return share[:, :columns], entropy

    def expected(logits, bias):
        share = (logits.view(3, -1, columns) + (bias if biased else 0)).softmax(2).flatten(0, 1)
        return share, -(share * share.log()).sum(1) + 0 * bias.sum()

    inputs = [randn(3 * 37, columns), randn(3, 1, columns)]
    against_double(found, expected, inputs)
    if biased:
        against_double(found_in_more_columns, expected, inputs)


@FILLERS
def test_means(filler, against_double):
    spans, _ = spans_and_blocks(filler)

    def expected(x):
        parts = list(x.split(SIZES.ravel().tolist()))
        if filler:
            parts[4], parts[9] = parts[4][:1], parts[9][:1]
        return torch.stack([part.mean() for part in parts])

    against_double(lambda x: mean_of_graphs(x, spans), expected, [randn(spans.rows)])


def test_a_row_that_is_certain_has_no_entropy_and_a_finite_gradient():
    z = torch.tensor([[1e4, 0, -1e4]], device=DEVICE, requires_grad=True)
    share, entropy = soft_assignment(z)
    assert share.tolist() == [[1, 0, 0]]
    assert entropy.item() == 0
    assert torch.autograd.grad(entropy.sum() + share[0, 0], z)[0].tolist() == [[0, 0, 0]]


def test_a_nan_stays_in_its_graph():
    spans, _ = spans_and_blocks(filler=True)
    ends = np.cumsum(SIZES)
    broken = slice(int(ends[1]), int(ends[2]))
    others = torch.ones(spans.rows, dtype=torch.bool, device=DEVICE)
    others[broken] = False
    a, b = randn(spans.rows, 20).requires_grad_(), randn(spans.rows, 17).requires_grad_()
    with torch.no_grad():
        a[broken], b[broken] = torch.nan, torch.nan
    products = segment_matmul(a, b, spans)
    norms = congruence(a, spans).squared_norm
    for results in (products.flatten(1), norms[:, None], segment_apply(a, products, spans)):
        if len(results) == spans.graphs:
            assert results.isnan().any(1).tolist() == [graph == 2 for graph in range(10)]
        else:
            assert not results[others].isnan().any()
            assert results[~others].isnan().all()
    total = products.square().sum() + norms.sum()
    for grad in torch.autograd.grad(total, [a, b]):
        assert not grad[others].isnan().any()
