import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from sagpool.ops import segment_matmul

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def factors(rows):
    random = torch.Generator().manual_seed(rows)
    a = torch.randn(rows, 2, generator=random, dtype=torch.float64).requires_grad_()
    b = torch.randn(rows, 3, generator=random, dtype=torch.float64).requires_grad_()
    return a, b


def product(a, b, sizes, taken=None):
    starts = np.cumsum(sizes) - sizes
    return segment_matmul(a, b, starts, np.array(taken or sizes))


@given(sizes=sizes)
def test_products_are_those_of_each_graph(agree, sizes):
    a, b = factors(sum(sizes))
    parts = zip(a.split(sizes), b.split(sizes), strict=True)
    agree(product(a, b, sizes), torch.stack([p.T @ q for p, q in parts]), [a, b])


def test_gradients():
    assert gradcheck(lambda a, b: product(a, b, [3, 1, 5, 4]), factors(13))


def test_only_the_rows_that_are_asked_for_count(agree):
    a, b = factors(9)
    expected = torch.stack([a[:3].T @ b[:3], a[3:4].T @ b[3:4]])
    agree(product(a, b, [3, 6], taken=[3, 1]), expected, [a, b])


@given(sizes=sizes, broken=st.integers(0, 7), in_a=st.booleans())
def test_a_nan_stays_in_its_graph(sizes, broken, in_a):
    """Graphs of different sizes share one padded product."""
    broken %= len(sizes)
    graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    a, b = factors(sum(sizes))
    (a if in_a else b).data[graph == broken] = torch.nan
    products = product(a, b, sizes)
    others = torch.arange(len(sizes)) != broken
    assert products[broken].isnan().all()
    assert not products[others].isnan().any()
    for grad in torch.autograd.grad(products.square().sum(), [a, b]):
        assert not grad[graph != broken].isnan().any()
