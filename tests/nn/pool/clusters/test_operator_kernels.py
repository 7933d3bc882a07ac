"""The kernels of DiffPool's operators, in Triton's interpreter if there is no GPU."""

import os
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from sagpool.nn.pool.clusters import segments
from sagpool.nn.pool.clusters.assignment import graph_means, soft_assignment
from sagpool.nn.pool.clusters.coarsen import coarsen
from sagpool.nn.pool.clusters.congruence import congruence
from sagpool.nn.pool.clusters.segment_matmul import segment_apply, segment_matmul
from sagpool.nn.pool.clusters.segments import PaddedSegments, SegmentPtr
from sagpool.ops import HostLayout
from sagpool.ops.alignment import aligned
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)
gram = import_module("sagpool.nn.pool.clusters.kernels.gram")

# Graphs of one row, of about one tile, and of several tiles; the last of each member is a filler.
SIZES = np.array([[1, 33, 70, 5, 9], [40, 2, 31, 32, 13]])
# Every width of a tile; what a filler changes does not depend on the width.
WIDTHS = pytest.mark.parametrize(
    ("m", "n", "filler"),
    [
        *((1, 1, True), (10, 3, False), (39, 70, True), (39, 70, False)),
        *((70, 16, True), (130, 20, True)),
    ],
)
FILLERS = pytest.mark.parametrize("filler", [True, False])


@pytest.fixture(autouse=True)
def by_kernels(use_kernels):
    use_kernels(True)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def graph_size(request, monkeypatch):
    """All graphs count as small, or as large; P of 70 rows then has several parts and tiles."""
    monkeypatch.setattr(segments, "MIN_LARGE", 1 if request.param else 1e9)
    monkeypatch.setattr(gram, "NORM_PARTS", 2)
    monkeypatch.setattr(gram, "MAX_PARTS", 1)


def randn(*shape):
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=random).to(DEVICE)


def ptr_and_padded(filler):
    """The same segments for the kernels, and for torch in double precision."""
    taken = SIZES.copy()
    if filler:
        taken[:, -1] = 1
    starts = np.cumsum(SIZES) - SIZES.ravel()
    ptr = SegmentPtr.of(HostLayout(SIZES.copy(), filler=filler, device=DEVICE))
    rows = torch.empty(SIZES.sum(), 1, device=DEVICE)
    return ptr, PaddedSegments.of(rows, starts, taken.ravel())


def aligned_columns(s):
    """Padded with columns of zeros, as in the layer."""
    return pad(s, (0, aligned(s.shape[1]) - s.shape[1]))


def symmetric_matrix(size):
    """A symmetric matrix without edges between graphs."""
    graph = np.repeat(np.arange(SIZES.size), SIZES.ravel())
    matrix = torch.from_numpy(graph[:, None] == graph).to(DEVICE) * randn(size, size)
    return matrix + matrix.T


@WIDTHS
def test_products(m, n, filler, against_double):
    ptr, padded = ptr_and_padded(filler)
    a, b, x = randn(ptr.rows, m), randn(ptr.rows, n), randn(ptr.graphs, m, n)
    against_double(
        lambda a, b: segment_matmul(a, b, ptr),
        lambda a, b: segment_matmul(a, b, padded),
        [a, b],
    )
    against_double(
        lambda a, x: segment_apply(a, x, ptr),
        lambda a, x: segment_apply(a, x, padded),
        [a, x],
    )


@WIDTHS
def test_readout_without_storing_the_pooled_features(m, n, filler, graph_size, against_double):
    ptr, padded = ptr_and_padded(filler)
    logits, x, product = randn(ptr.rows, m), randn(ptr.rows, n), randn(ptr.rows, n + 2)

    def by_kernels(logits, x, product):
        made = coarsen(aligned_columns(logits.softmax(1)), m, x, ptr, product)
        return made.readout, made.x, made.gram_norm

    def by_torch(logits, x, product):
        s = logits.softmax(1)
        pooled = segment_matmul(s, x, padded)
        readout = torch.cat([pooled.mean(1), pooled.amax(1)], 1)
        gram_norm = congruence(s, padded).squared_norm
        return readout, segment_matmul(s, product, padded), gram_norm

    against_double(by_kernels, by_torch, [logits, x, product])


@pytest.mark.parametrize("columns", [1, 10, 39, 70, 130])
@pytest.mark.parametrize("identity", [True, False])
@FILLERS
def test_trace_and_norm(columns, identity, filler, graph_size, against_double):
    """With more rows than columns, and with fewer."""
    ptr, padded = ptr_and_padded(filler)
    t, A = randn(ptr.rows, columns), symmetric_matrix(ptr.rows)
    if filler:  # no edges between filler rows and others
        filler_rows = torch.zeros_like(A[0], dtype=torch.bool)
        for end in SIZES.sum(1).cumsum():
            filler_rows[end - SIZES[0, -1] : end] = True
        A[filler_rows] = 0
        A[:, filler_rows] = 0
    multiply = None if identity else (lambda x: A.to(x) @ x)
    against_double(
        lambda t: tuple(congruence(t, ptr, multiply)),
        lambda t: tuple(congruence(t, padded, multiply)),
        [t],
    )


def test_graphs_of_dd_are_large_and_those_of_proteins_are_not():
    def large(mean):
        sizes = np.full((2, 129), mean)
        return SegmentPtr.of(HostLayout(sizes, filler=True, device=DEVICE)).large

    assert large(284)
    assert not large(39)


@pytest.mark.parametrize("columns", [1, 5, 70, 130])
@pytest.mark.parametrize("biased", [True, False])
def test_assignment(columns, biased, against_double):
    def found(logits, bias):
        s, entropy = soft_assignment(logits, bias if biased else None)
        return s, entropy + 0 * bias.sum()

    def found_with_more_columns(logits, bias):
        s, entropy = soft_assignment(pad(logits, (0, 3), value=7.0), bias)
        assert (s[:, columns:] == 0).all()
        return s[:, :columns], entropy

    def expected(logits, bias):
        s = (logits.view(3, -1, columns) + (bias if biased else 0)).softmax(2).flatten(0, 1)
        return s, -(s * s.log()).sum(1) + 0 * bias.sum()

    inputs = [randn(3 * 37, columns), randn(3, 1, columns)]
    against_double(found, expected, inputs)
    if biased:
        against_double(found_with_more_columns, expected, inputs)


@FILLERS
def test_means(filler, against_double):
    ptr, _ = ptr_and_padded(filler)

    def expected(x):
        parts = list(x.split(SIZES.ravel().tolist()))
        if filler:
            parts[4], parts[9] = parts[4][:1], parts[9][:1]
        return torch.stack([part.mean() for part in parts])

    against_double(lambda x: graph_means(x, ptr), expected, [randn(ptr.rows)])


def test_a_one_hot_row_has_zero_entropy_and_a_finite_gradient():
    z = torch.tensor([[1e4, 0, -1e4]], device=DEVICE, requires_grad=True)
    s, entropy = soft_assignment(z)
    assert s.tolist() == [[1, 0, 0]]
    assert entropy.item() == 0
    assert torch.autograd.grad(entropy.sum() + s[0, 0], z)[0].tolist() == [[0, 0, 0]]


def test_a_nan_stays_in_its_graph():
    ptr, _ = ptr_and_padded(filler=True)
    ends = np.cumsum(SIZES)
    broken = slice(int(ends[1]), int(ends[2]))
    others = torch.ones(ptr.rows, dtype=torch.bool, device=DEVICE)
    others[broken] = False
    a, b = randn(ptr.rows, 20).requires_grad_(), randn(ptr.rows, 17).requires_grad_()
    with torch.no_grad():
        a[broken], b[broken] = torch.nan, torch.nan
    products = segment_matmul(a, b, ptr)
    norms = congruence(a, ptr).squared_norm
    for results in (products.flatten(1), norms[:, None], segment_apply(a, products, ptr)):
        if len(results) == ptr.graphs:
            assert results.isnan().any(1).tolist() == [graph == 2 for graph in range(10)]
        else:
            assert not results[others].isnan().any()
            assert results[~others].isnan().all()
    total = products.square().sum() + norms.sum()
    for grad in torch.autograd.grad(total, [a, b]):
        assert not grad[others].isnan().any()
