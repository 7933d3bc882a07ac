"""Adam by rows, against `torch.optim.Adam`."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from sagpool.fleet.fleet import Fleet
from sagpool.fleet.order import Members, Orders
from sagpool.fleet.schedule import Slots, shape_of
from sagpool.fleet.stack import AdamState, adam_step
from sagpool.graphs import pack
from sagpool.models import build

LR = torch.tensor([1e-3, 0.05, 1e-4, 2.0], dtype=torch.float64)
DECAY = torch.tensor([0.0, 1e-2, 1.0, 1e-4], dtype=torch.float64)


def normal(seed: int, *shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def new_state(members: int, numbers: int, dtype=torch.float64) -> AdamState:
    zero = torch.zeros(members, numbers, dtype=dtype)
    return AdamState(
        normal(0, members, numbers, dtype=dtype), zero, zero.clone(), torch.zeros(members).long()
    )


def gradient(step: int, dtype=torch.float64) -> torch.Tensor:
    """Entries of very different sizes, some of them zero in the first steps."""
    scale = torch.logspace(-9, 3, 13, dtype=dtype)
    if step < 3:
        scale[::4] = 0
    return normal(step + 1, len(LR), 13, dtype=dtype) * scale


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)], ids=str
)
def test_each_member_steps_like_torch_with_its_own_settings_and_step_count(dtype, tolerance):
    state = new_state(len(LR), 13, dtype)
    references = []
    for member in range(len(LR)):
        parameter = torch.nn.Parameter(state.weights[member].clone())
        adam = torch.optim.Adam(
            [parameter], lr=float(LR[member]), weight_decay=float(DECAY[member])
        )
        references.append((parameter, adam))
    for step in range(60):
        # Each member is inactive in different steps.
        active = torch.tensor([(step + member) % (member + 2) > 0 for member in range(len(LR))])
        grad = gradient(step, dtype)
        for member, (parameter, adam) in enumerate(references):
            if active[member]:
                parameter.grad = grad[member].clone()
                adam.step()
        adam_step(state, grad, LR, DECAY, active)
    for member, (parameter, adam) in enumerate(references):
        expected = adam.state[parameter]
        close = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(state.weights[member], parameter.detach(), **close)
        torch.testing.assert_close(state.mean[member], expected["exp_avg"], **close)
        torch.testing.assert_close(state.square[member], expected["exp_avg_sq"], **close)
        assert state.steps[member] == expected["step"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_inactive_members_do_not_change_by_a_bit(dtype):
    state = new_state(4, 13, dtype)
    adam_step(state, gradient(0, dtype), LR, DECAY, torch.tensor([True, True, True, False]))
    before = [tensor.clone() for tensor in state]
    adam_step(state, gradient(5, dtype), LR, DECAY, torch.tensor([False, True, False, False]))
    for tensor, old in zip(state, before, strict=True):
        assert torch.equal(tensor[[0, 2, 3]], old[[0, 2, 3]])
        assert not torch.equal(tensor[1], old[1])


def test_a_member_with_nan_or_infinite_gradients_changes_no_other():
    def two_steps(wrong: float | None) -> AdamState:
        state = new_state(4, 13)
        for step in range(2):
            grad = gradient(step)
            if wrong is not None:
                grad[1] = wrong
            on = torch.ones(4, dtype=torch.bool)
            adam_step(state, grad, LR, DECAY, on)
        return state

    healthy = two_steps(None)
    for wrong in (torch.nan, torch.inf):
        for tensor, expected in zip(two_steps(wrong), healthy, strict=True):
            assert torch.equal(tensor[[0, 2, 3]], expected[[0, 2, 3]])


@pytest.fixture
def hundred_steps(mutag, kit) -> Callable[[torch.dtype], Fleet]:
    """A fleet of one that can make 100 steps in 50 epochs."""

    def start(dtype: torch.dtype) -> Fleet:
        settings = {"dropout": 0.0, "patience": 99, "max_epochs": 99, "lr": 1e-3}
        return Fleet(mutag, kit.trainings(1, **settings), Slots.fill([0], 1), dtype)

    return start


def test_after_100_steps_in_single_precision_the_weights_equal_those_of_torch(
    hundred_steps, monkeypatch
):
    fleet = hundred_steps(torch.float32)
    weights = torch.nn.Parameter(fleet.state.weights.clone())
    adam = torch.optim.Adam([weights], lr=1e-3, weight_decay=1e-4)

    def both(state, grad, *settings):
        weights.grad = grad.clone()
        adam.step()
        adam_step(state, grad, *settings)

    monkeypatch.setattr("sagpool.fleet.lockstep.adam_step", both)
    for _ in range(50):
        fleet.advance()
    assert fleet.state.steps[0] == 100
    torch.testing.assert_close(fleet.state.weights, weights.detach(), rtol=0, atol=1e-6)


def test_a_fleet_of_one_equals_a_model_trained_by_torch(mutag, hundred_steps):
    """The reference takes only the initial weights and the order of batches from the fleet.

    In double precision, because two separate runs in single precision drift apart by rounding.
    """
    fleet = hundred_steps(torch.float64)
    training, graphs = fleet.first, fleet.settings.splits[0].train
    model = build(training.method, shape_of(mutag, training)).double()
    (begun,) = fleet.lockstep.stack.state_dicts([True])
    model.load_state_dict(begun)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(50):
        members = Members([graphs], fleet.settings.order_keys, np.array([epoch]))
        for ids in Orders(mutag, 80, 1).batches(members).on_host():
            batch = pack(mutag, ids)
            loss = cross_entropy(model(batch).logits[batch.real], batch.y[batch.real])
            adam.zero_grad()
            loss.backward()
            adam.step()
        fleet.advance()
    (ended,) = fleet.lockstep.stack.state_dicts([True])
    torch.testing.assert_close(ended, dict(model.state_dict()), rtol=0, atol=1e-9)
