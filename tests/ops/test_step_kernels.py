"""Whole training steps by kernels, in Triton's interpreter if there is no GPU."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench.experiment import parse_value
from sagpool.fleet import Training
from sagpool.fleet.evaluate import Losses, validate
from sagpool.fleet.memory import step_bytes
from sagpool.fleet.stack import AdamState, adam_step
from sagpool.fleet.stopping import RULES, DeviceStopping
from sagpool.graphs import load, pack
from sagpool.graphs.batch import pack_on_device
from sagpool.models import Shape, build, methods
from sagpool.nn import Dropout, Streams
from sagpool.nn.random import bits_of_each, step_keys
from sagpool.ops import DeviceLayout, LabelSums, cross_entropy_sums, dense_relu
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
IDS = np.array([[0, 5, -1], [3, 7, 11]])  # -1: no graph
# Methods with settings of their own.
SETTINGS = (
    *(
        f"sagpool-{one} readout={kind}"
        for one in ("h", "h-ratio")
        for kind in ("sum", "mean", "max")
    ),
    *(f"sagpool-h-ratio conv={conv} score={conv} readout=sum" for conv in ("sage", "gin", "cheb")),
    *("sortpool-g channels=sorted", "diffpool-h losses=link", "diffpool-h losses=none"),
    *(f"sagpool-{architecture}-augmentation augmentation=two-hop" for architecture in "hg"),
)
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to(DEVICE)


@pytest.mark.parametrize("method", ["sagpool-h", "sagpool-h-ratio", "sagpool-h-masks2"])
def test_nan_stays_in_its_member(method, by_kernels, mutag):
    by_kernels()
    batch = pack(mutag, IDS)
    model = build(method, Shape(mutag.num_features, 2, hidden=8, members=2)).to(DEVICE)
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
    keys = torch.tensor([[5, 1], [-7, 2], [2**62, 3]], device=DEVICE)
    steps = torch.tensor([0, 1, 10**6], device=DEVICE)

    def draw():
        of_step = step_keys(keys[:, 0], steps)
        streams = Streams(of_step), Streams(keys[:, 1])
        counters = torch.stack([steps, steps + 2**40])
        shuffled = bits_of_each(of_step, counters, 5), bits_of_each(keys[:, 0], counters, 1500)
        return of_step, *shuffled, *(s.uniform(*r) for s in streams for r in [(1500,), (3, 2**33)])

    expected = draw()
    by_kernels()
    assert all(torch.equal(one, other) for one, other in zip(draw(), expected, strict=True))


@pytest.mark.parametrize("p", [0.5, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout(dtype, p, by_kernels):
    x = randn(3 * 50, 30, dtype=dtype)

    def drop():
        streams = Streams(torch.tensor([5, -7, 2**62], device=DEVICE), first_graph=4)
        leaf = x.clone().requires_grad_()
        y = Dropout(p)(Dropout(p)(leaf, streams), streams)
        return y.detach(), *torch.autograd.grad((y * x).sum(), [leaf])

    expected = drop()
    by_kernels()
    assert all(torch.equal(one, other) for one, other in zip(drop(), expected, strict=True))


@pytest.mark.parametrize("classes", [2, 21])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses(dtype, classes, same_by_kernels):
    y = torch.arange(3 * 150, device=DEVICE).view(3, 150) % classes
    real = torch.arange(150, device=DEVICE) < torch.tensor([[150], [149], [0]], device=DEVICE)
    logits = 30 * randn(3, 150, classes, dtype=dtype)

    def losses(logits, auxiliary):
        only = cross_entropy_sums(logits, y, real)
        return only, cross_entropy_sums(logits, y, real, auxiliary)

    rtol = 1e-5 if dtype == torch.float32 else 1e-12
    same_by_kernels(losses, [logits, randn(3, 150, dtype=dtype)], rtol=rtol, atol=rtol)


def test_padding_has_no_loss_and_no_gradient(by_kernels):
    by_kernels()
    logits = torch.tensor([[[1.0, 2.0], [torch.nan, 0.0]]], device=DEVICE, requires_grad=True)
    y = torch.tensor([[0, 0]], device=DEVICE)
    loss = cross_entropy_sums(logits, y, torch.tensor([[True, False]], device=DEVICE))
    assert loss.isfinite().all()
    (grad,) = torch.autograd.grad(loss.sum(), [logits])
    assert (grad[0, 0] != 0).all()
    assert (grad[0, 1] == 0).all()


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_adam(dtype, rtol, by_kernels):
    def step():
        state = AdamState(
            randn(3, 1100, dtype=dtype),
            randn(3, 1100, dtype=dtype) / 9,
            randn(3, 1100, dtype=dtype).square(),
            torch.tensor([0, 7, 5], device=DEVICE),
        )
        rates = torch.tensor([0.1, 0.01, 0.1], dtype=torch.float64, device=DEVICE)
        active = torch.tensor([True, True, False], device=DEVICE)
        for _ in range(3):
            adam_step(state, randn(3, 1100, dtype=dtype), rates, rates / 5, active)
        return state

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=rtol, atol=rtol / 10)


def test_adding_losses_to_the_sums(by_kernels):
    by_kernels()
    sums = torch.tensor([[1.5, 2.0, 0.0], [3.0, 4.0, 0.0]], dtype=torch.float64, device=DEVICE)
    loss, count = torch.tensor([0.1, 0.2, 0.0]).to(DEVICE), torch.tensor([3, 7, 0]).to(DEVICE)
    expected = sums + torch.stack([loss * count, count])
    triton_kernels().add_losses(sums, loss, count)
    assert torch.equal(sums, expected)


@pytest.fixture(scope="module")
def labelled():
    """Many labels, different for all atoms of a molecule; some have none."""
    graphs = load("MUTAG")
    label = torch.arange(graphs.num_nodes, dtype=torch.int32) % 40
    label[:: 7 * 40] = -1
    names = tuple(map(str, range(40)))
    return replace(graphs, node_label=label, node_label_names=names).to(DEVICE)


@pytest.mark.parametrize("scores", [0, 1, 3])
@pytest.mark.parametrize("columns", [3, 16, 130])
def test_the_forward_pass_does_not_form_one_hot_rows(columns, scores, same_by_kernels, labelled):
    shapes = [(2, 40, columns), (2, 1, columns), *([(2, columns, scores)] if scores else [])]
    kinds = []

    def layer(*weights):
        propagated = pack(labelled, IDS).propagated(torch.float32)
        kinds.append(type(propagated))
        h, y = dense_relu(propagated, *weights)
        return (h, y) if scores else h

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


# The variants with four scores are those with two, with more of the same.
@pytest.mark.parametrize(
    "method", [*(one for one in methods() if not one.endswith("4")), *SETTINGS]
)
def test_a_training_step(method, by_kernels, mutag):
    """Loss and gradients of two members."""
    method, *options = method.split()
    pairs = (option.split("=") for option in options)
    own = {name: parse_value(value) for name, value in pairs}
    batch = pack(mutag, IDS)
    shape = Shape(mutag.num_features, 2, hidden=16, members=2, k=10, max_nodes=28, settings=own)
    torch.manual_seed(0)
    model = build(method, shape).to(DEVICE).train()

    def step():
        streams = Streams(torch.tensor([1, 2], device=DEVICE))
        loss = model(pack(mutag, IDS), streams).loss_sums(batch)
        return loss, *torch.autograd.grad(loss.sum(), list(model.parameters()))

    expected = step()
    by_kernels()
    torch.testing.assert_close(step(), expected, rtol=1e-3, atol=1e-4)


def test_a_training_step_with_supervised_scores(by_kernels, mutag):
    known = replace(mutag, ground_truth=mutag.node_label == 1)
    test_a_training_step("sagpool-g-ratio supervision=10", by_kernels, known)


def test_two_hop_graphs_of_a_step_whose_graph_sizes_the_host_does_not_know(
    by_kernels, mutag, monkeypatch
):
    """Otherwise the step could not be recorded as a CUDA graph."""
    expected = pack(mutag, IDS).structure.two_hop
    by_kernels()
    ids = torch.tensor(IDS, dtype=torch.int32, device=DEVICE)
    rows = expected.layout.rows + 7
    entries = len(pack(mutag, IDS).structure.col) + 50
    monkeypatch.setattr(DeviceLayout, "sizes", property(lambda layout: pytest.fail("asked for")))
    batch = pack_on_device(mutag.batch_source, ids, rows, entries)
    own = {"augmentation": "two-hop"}
    shape = Shape(mutag.num_features, 2, hidden=4, members=2, settings=own)
    model = build("sagpool-h-augmentation", shape).to(DEVICE)
    output = model(batch, Streams(torch.tensor([1, 2], device=DEVICE)))
    assert output.logits.isfinite().all()
    found = batch.structure.two_hop
    for member in range(2):
        start, stop = member * expected.layout.rows, (member + 1) * expected.layout.rows
        lengths = found.row_ptr.diff()[member * rows :][: expected.layout.rows]
        assert torch.equal(lengths, expected.row_ptr.diff()[start:stop])


@pytest.mark.parametrize("rule", ["loss", "loss+norm"])
def test_the_end_of_epochs(rule, by_kernels):
    """Members that improve, tie, wait, run out of epochs, diverge and have stopped before."""
    members, numbers = 6, 1500  # more than a block
    random = torch.Generator().manual_seed(0)
    losses = torch.randint(1, 4, (8, 3, members), generator=random).double()
    losses[3, 1, 2], losses[4, 0, 3] = torch.nan, torch.inf
    weights = torch.randn(8, members, numbers, generator=random)

    def run():
        stopping = DeviceStopping.start(members, DEVICE)
        stopping.patience.fill_(2)
        stopping.left.copy_(torch.tensor([3, 9, 9, 9, 9, 9]))
        best = torch.zeros(members, numbers, device=DEVICE)
        seen = []
        for curves, new in zip(losses.to(DEVICE), weights.to(DEVICE), strict=True):
            stopping.update(curves, new, best, RULES[rule])
            seen += [best.clone(), *(tensor.clone() for tensor in stopping)]
        return seen

    expected = run()
    by_kernels()
    for one, other in zip(run(), expected, strict=True):
        assert torch.equal(one, other)


def test_the_losses_and_hits_of_a_validation(by_kernels, mutag):
    """Added to those of an earlier batch, with a graph that is missing."""
    model = build("sagpool-h", Shape(mutag.num_features, 2, hidden=8, members=2)).to(DEVICE).eval()
    keys = torch.tensor([1, 2], device=DEVICE)
    batch = pack(mutag, IDS)

    def run():
        losses = Losses.zeros(keys, torch.float32)
        logits = [validate(model, batch, Streams(keys), losses) for _ in range(2)]
        return *losses, *logits

    expected = run()
    by_kernels()
    torch.testing.assert_close(run(), expected)
    assert expected[2].tolist() == [4, 6]
