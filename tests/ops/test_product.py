import pytest
import torch
from torch.autograd import gradcheck

from sagpool.ops import gather_gated, keep_rows
from sagpool.ops.linear import matmul_with_passthrough

pytestmark = pytest.mark.usefixtures("path")


def inputs(out_channels):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(8, 3, generator=random, dtype=torch.float64).requires_grad_()
    weight = torch.randn(2, 3, out_channels, generator=random, dtype=torch.float64)
    return x, weight.requires_grad_()


@pytest.mark.parametrize("out_channels", [1, 2])
def test_each_member_has_its_product(agree, out_channels):
    x, weight = inputs(out_channels)
    y, same = matmul_with_passthrough(x, weight)
    assert torch.equal(same, x)
    agree(y, torch.cat([x[:4] @ weight[0], x[4:] @ weight[1]]), [x, weight])


def test_the_gradients_of_the_product_and_of_the_features_add_up(agree):
    """As for two scores and the rows that they keep."""
    x, weight = inputs(1)
    kept = keep_rows(torch.tensor([True, False] * 4), 4)

    def pooled(x, weight):
        first, x = matmul_with_passthrough(x, weight)
        second, x = matmul_with_passthrough(x, 2 * weight)
        return gather_gated(x, kept, (first * second).view(-1)[kept.perm])

    def expected(x, weight):
        y = torch.cat([x[:4] @ weight[0], x[4:] @ weight[1]])
        return (x * 2 * y.square())[::2]

    agree(pooled(x, weight), expected(x, weight), [x, weight])
    assert gradcheck(pooled, (x, weight))


@pytest.mark.parametrize("wanted", [0, 1])
def test_either_may_need_no_gradient(wanted):
    x, weight = (t.requires_grad_(i == wanted) for i, t in enumerate(inputs(1)))
    y, same = matmul_with_passthrough(x, weight)
    (
        y.sum() + gather_gated(same, keep_rows(torch.ones(8, dtype=torch.bool), 8), None).sum()
    ).backward()
    assert [t.grad is not None for t in (x, weight)] == [wanted == 0, wanted == 1]


def test_gradient_from_the_features_only():
    x, weight = inputs(1)
    _, same = matmul_with_passthrough(x, weight)
    (same * 3).sum().backward()
    assert (x.grad == 3).all()
    assert weight.grad is None
