import math

import pytest
import torch

from sagpool.nn import Linear


@pytest.mark.parametrize("bias", [True, False])
def test_each_member_has_weights_of_its_own(agree, bias):
    linear = Linear(3, 4, bias=bias, members=2).double()
    x = torch.randn(10, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.cat([part @ w for part, w in zip(x.split(5), linear.weight, strict=True)])
    if bias:
        expected = expected + linear.bias.expand(2, 5, 4).reshape(10, 4)
    agree(linear(x), expected, [x, *linear.parameters()])
    agree(linear.add_bias(linear.product(x)), expected, [x, *linear.parameters()])


def test_weights_are_drawn_as_by_torch():
    bound = 1 / math.sqrt(64)
    linear = Linear(64, 100, members=2)
    for parameter in linear.parameters():
        assert bound * 0.9 < parameter.abs().max() <= bound
    assert not torch.equal(linear.weight[0], linear.weight[1])


def test_weights_are_drawn_as_by_glorot():
    bound = math.sqrt(6 / 164)
    linear = Linear(64, 100, init="glorot")
    assert bound * 0.9 < linear.weight.abs().max() <= bound
    assert not linear.bias.any()


def test_repr():
    assert repr(Linear(3, 4, bias=False, members=2)) == "Linear(3, 4, bias=False, members=2)"
