"""Weights as one matrix, and their initial values."""

import math

import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots, shape_of
from sagpool.fleet.stack import Stack
from sagpool.models import Shape, build, methods

SHAPE = Shape(7, 2, hidden=32, k=12, max_nodes=20, members=3)


def first_weights(mutag, training) -> dict[str, torch.Tensor]:
    """The initial weights of a training in a fleet."""
    fleet = Fleet(mutag, [training], Slots.fill([0], 1))
    return {name: p.detach()[0] for name, p in fleet.lockstep.stack.model.named_parameters()}


@pytest.mark.parametrize("method", methods())
def test_each_row_is_a_member(method):
    model = build(method, SHAPE)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    stack = Stack(model)
    assert stack.members == 3
    assert stack.weights.shape == (3, stack.numbers)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]), name
        assert parameter.storage_offset() % 16 == parameter.stride(0) % 16 == 0, name
    stack.weights[1] = 0
    for name, parameter in model.named_parameters():
        assert not parameter[1].any(), name
        assert torch.equal(parameter[[0, 2]], before[name][[0, 2]]), name
    one, two, three = stack.state_dicts([True, False, True])
    assert two is None
    assert all(torch.equal(one[name], values[:1]) for name, values in before.items())
    assert all(torch.equal(three[name], values[2:]) for name, values in before.items())


def test_gradients_have_the_layout_of_the_weights():
    stack = Stack(build("sagpool-h", SHAPE))
    loss = sum(
        ((position + 1) * parameter).flatten(1).sum(1)
        for position, parameter in enumerate(stack.model.parameters())
    )
    expected = Stack(build("sagpool-h", SHAPE))
    for position, parameter in enumerate(expected.model.parameters()):
        parameter.data.fill_(position + 1)
    assert torch.equal(stack.gradients(loss), expected.weights)


def test_a_model_without_members_is_refused():
    with pytest.raises(SagpoolError, match=r"^The parameter bias has shape \(5,\); its first dim"):
        Stack(torch.nn.Linear(3, 5).requires_grad_(False).apply(lambda m: setattr(
            m, "weight", torch.nn.Parameter(torch.zeros(2, 3))
        )))  # fmt: skip


def test_initial_weights_depend_on_the_trainings_key_alone(mutag, kit):
    one, two = kit.trainings(2, seed=1, fold=0, weight_decay=0.0, max_epochs=3)
    first, again, other = (first_weights(mutag, training) for training in (one, one, two))
    for name, weights in first.items():
        assert torch.equal(weights, again[name])
        if weights.any():
            assert not torch.equal(weights, other[name])
    stack = Fleet(mutag, [two, one], Slots.fill(range(2), 2)).lockstep.stack
    together = stack.state_dicts([True] * stack.members)[-1]
    assert all(torch.equal(together[name][0], weights) for name, weights in first.items())


def test_initial_weights_are_the_usual_ones_of_each_layer(mutag, kit):
    """PyG's for convolutions (glorot, zero bias), torch's for the MLP."""
    (training,) = kit.trainings(1, hidden=128)
    weights = first_weights(mutag, training)
    assert shape_of(mutag, training).in_channels == 7
    glorot = {
        "convs.0.linear": math.sqrt(6 / (7 + 128)),
        "convs.1.linear": math.sqrt(6 / (128 + 128)),
        "pools.0.attention.gnns.0.0.linear": math.sqrt(6 / (128 + 1)),
    }
    for name, bound in glorot.items():
        assert_uniform(weights.pop(f"{name}.weight"), bound)
        assert not weights.pop(f"{name}.bias").any()
    for name, fan_in in (("first", 256), ("second", 128), ("last", 64)):
        assert_uniform(weights.pop(f"classifier.{name}.weight"), 1 / math.sqrt(fan_in))
        bias = weights.pop(f"classifier.{name}.bias")
        assert bias.abs().max() <= 1 / math.sqrt(fan_in)
        assert bias.any()


def assert_uniform(weights: torch.Tensor, bound: float) -> None:
    assert weights.abs().max() <= bound
    assert weights.abs().max() > 0.95 * bound
    assert abs(float(weights.mean())) < 0.2 * bound
    assert float(weights.std()) == pytest.approx(bound / math.sqrt(3), rel=0.15)
