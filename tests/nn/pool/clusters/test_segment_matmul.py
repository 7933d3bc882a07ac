import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from sagpool.nn.pool.clusters import segments
from sagpool.nn.pool.clusters.segment_matmul import segment_apply, segment_matmul
from sagpool.nn.pool.clusters.segments import PaddedSegments

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@pytest.fixture(params=["padded", "one product per graph"], autouse=True, scope="module")
def padding(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "one product per graph":
            patch.setattr(segments, "MIN_UNPADDED_NUMEL", 0)
        yield


def numbers(*shape):
    random = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_()


def factors(rows):
    return numbers(rows, 2), numbers(rows, 3)


def segments_of(a, sizes, taken=None):
    return PaddedSegments.of(a, np.cumsum(sizes) - sizes, np.array(taken or sizes))


def product(a, b, sizes, taken=None):
    return segment_matmul(a, b, segments_of(a, sizes, taken))


def applied(a, x, sizes, taken=None):
    return segment_apply(a, x, segments_of(a, sizes, taken))


@given(sizes=sizes)
def test_products_are_those_of_each_graph(agree, sizes):
    a, b = factors(sum(sizes))
    parts = zip(a.split(sizes), b.split(sizes), strict=True)
    agree(product(a, b, sizes), torch.stack([p.T @ q for p, q in parts]), [a, b])


@given(sizes=sizes)
def test_each_graph_is_multiplied_by_its_own_matrix(agree, sizes):
    a, x = numbers(sum(sizes), 2), numbers(len(sizes), 2, 3)
    parts = zip(a.split(sizes), x, strict=True)
    agree(applied(a, x, sizes), torch.cat([p @ q for p, q in parts]), [a, x])


@given(graphs=st.integers(1, 5), width=st.integers(1, 5))
def test_graphs_of_one_size(agree, graphs, width):
    a, b = factors(graphs * width)
    equal, sizes = PaddedSegments.equal(graphs, width), [width] * graphs
    agree(segment_matmul(a, b, equal), product(a, b, sizes), [a, b])
    x = numbers(graphs, 2, 3)
    agree(segment_apply(a, x, equal), applied(a, x, sizes), [a, x])


def test_gradients():
    sizes = [3, 1, 5, 4]
    assert gradcheck(lambda a, b: product(a, b, sizes), factors(13))
    assert gradcheck(lambda a, x: applied(a, x, sizes), (numbers(13, 2), numbers(4, 2, 3)))


def test_rows_outside_all_segments_are_ignored(agree):
    a, b = factors(9)
    expected = torch.stack([a[:3].T @ b[:3], a[3:4].T @ b[3:4]])
    agree(product(a, b, [3, 6], taken=[3, 1]), expected, [a, b])
    x = numbers(2, 2, 3)
    expected = torch.cat([a[:3] @ x[0], a[3:4] @ x[1], torch.zeros(5, 3)])
    agree(applied(a, x, [3, 6], taken=[3, 1]), expected, [a, x])


@given(sizes=sizes, broken=st.integers(0, 7), in_first=st.booleans())
def test_a_nan_stays_in_its_graph(sizes, broken, in_first):
    """Although graphs of different sizes are in one padded product."""
    broken %= len(sizes)
    graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    others = torch.arange(len(sizes)) != broken
    a, b = factors(sum(sizes))
    (a if in_first else b).data[graph == broken] = torch.nan
    products = product(a, b, sizes)
    assert products[broken].isnan().all()
    assert not products[others].isnan().any()
    for grad in torch.autograd.grad(products.square().sum(), [a, b]):
        assert not grad[graph != broken].isnan().any()

    a, x = numbers(sum(sizes), 2), numbers(len(sizes), 2, 3)
    if in_first:
        a.data[graph == broken] = torch.nan
    else:
        x.data[broken] = torch.nan
    rows = applied(a, x, sizes)
    assert rows[graph == broken].isnan().all()
    assert not rows[graph != broken].isnan().any()
    grad_a, grad_x = torch.autograd.grad(rows.square().sum(), [a, x])
    assert not grad_a[graph != broken].isnan().any()
    assert not grad_x[others].isnan().any()
