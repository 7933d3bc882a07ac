"""Whole training steps by kernels, in Triton's interpreter if there is no GPU."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet import Training
from sagpool.fleet.memory import step_bytes
from sagpool.fleet.stack import AdamState, adam_step
from sagpool.graphs import load, pack
from sagpool.models import Shape, build, methods
from sagpool.nn import Streams
from sagpool.ops import LabelSums, dense_relu
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
IDS = np.array([[0, 5, 9, -1], [3, 7, 11, 20]])  # -1: no graph
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to(DEVICE)


def test_nan_stays_in_its_member(by_kernels, mutag):
    by_kernels()
    batch = pack(mutag, IDS)
    model = build("sagpool-h", Shape(mutag.num_features, 2, hidden=8, members=2)).to(DEVICE)
    streams = Streams(torch.tensor([1, 2], device=DEVICE))
    with torch.no_grad():
        model.convs[0].linear.weight[1] = torch.nan
    loss = model(batch, streams).loss_sums(batch)
    assert loss[0].isfinite()
    assert loss[1].isnan()
    loss.sum().backward()
    for parameter in model.parameters():
        assert parameter.grad[0].isfinite().all()


def test_random_numbers(by_kernels):
    def draw():
        streams = Streams(torch.tensor([5, -7, 2**62], device=DEVICE))
        return streams.uniform(1500), streams.uniform(3, start=2**33)

    expected = draw()
    by_kernels()
    assert all(torch.equal(one, other) for one, other in zip(draw(), expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam(dtype, by_kernels):
    def step():
        state = AdamState(
            randn(3, 40, dtype=dtype),
            randn(3, 40, dtype=dtype) / 9,
            randn(3, 40, dtype=dtype).square(),
            torch.tensor([0, 7, 5], device=DEVICE),
        )
        rates = torch.tensor([0.1, 0.01, 0.1], dtype=torch.float64, device=DEVICE)
        active = torch.tensor([True, True, False], device=DEVICE)
        for _ in range(3):
            adam_step(state, randn(3, 40, dtype=dtype), rates, rates / 5, active)
        return state

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def labelled():
    """Many labels, different for all atoms of a molecule; some have none."""
    graphs = load("MUTAG")
    label = torch.arange(graphs.num_nodes, dtype=torch.int32) % 40
    label[:: 7 * 40] = -1
    names = tuple(map(str, range(40)))
    return replace(graphs, node_label=label, node_label_names=names).to(DEVICE)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("columns", [3, 16, 130])
def test_the_forward_pass_does_not_form_one_hot_rows(columns, scored, same_by_kernels, labelled):
    shapes = [(2, 40, columns), (2, 1, columns), *([(2, columns, 1)] if scored else [])]
    kinds = []

    def layer(*weights):
        propagated = pack(labelled, IDS).propagated(torch.float32)
        kinds.append(type(propagated))
        h, y = dense_relu(propagated, *weights)
        return (h, y) if scored else h

    inputs = [randn(*shape) for shape in shapes]
    same_by_kernels(layer, inputs, rtol=1e-4, atol=2e-4)
    assert kinds == [torch.Tensor, LabelSums]


def test_memory_estimate_includes_one_hot_rows_of_the_backward_pass(by_kernels, labelled):
    training = Training("nopool-g", hidden=4, batch_size=64)
    expected = step_bytes(labelled, training, torch.float32)
    by_kernels()
    assert step_bytes(labelled, training, torch.float32) > 0.7 * expected


@pytest.mark.parametrize("method", ["sagpool-h", "sortpool-g", "diffpool-h"])
def test_a_training_step_with_many_labels(method, by_kernels, labelled):
    test_a_training_step(method, by_kernels, labelled)


@pytest.mark.parametrize("method", methods())
def test_a_training_step(method, by_kernels, mutag):
    """Loss and gradients of two members."""
    batch = pack(mutag, IDS)
    shape = Shape(mutag.num_features, 2, hidden=16, members=2, k=10, max_nodes=28)
    torch.manual_seed(0)
    model = build(method, shape).to(DEVICE).train()

    def step():
        streams = Streams(torch.tensor([1, 2], device=DEVICE))
        loss = model(pack(mutag, IDS), streams).loss_sums(batch)
        return loss, *torch.autograd.grad(loss.sum(), list(model.parameters()))

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=1e-3, atol=1e-4)
