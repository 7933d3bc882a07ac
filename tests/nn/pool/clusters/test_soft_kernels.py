"""Steps of the soft methods by kernels, in Triton's interpreter if there is no GPU."""

import os

import pytest
import torch

from sagpool.graphs import load, pack
from sagpool.graphs.batch import pack_on_device
from sagpool.models import Shape, build
from sagpool.nn import Streams
from sagpool.ops import DeviceLayout
from sagpool.ops.device import triton_kernels

DEVICE = torch.device(os.environ["SAGPOOL_TEST_DEVICE"])
if triton_kernels() is None:
    pytest.skip("there is no Triton here", allow_module_level=True)
IDS = [[5, 4], [8, 2]]


@pytest.mark.parametrize(
    "method", ["mincut-h", "dmon-h", "justbalance-h", "hosc-h", "gmt-g", "gmt-g over=nodes"]
)
def test_a_step_whose_graph_sizes_the_host_does_not_know(method, use_kernels, monkeypatch):
    """Otherwise the step could not be recorded as a CUDA graph."""
    mutag = load("MUTAG").to(DEVICE)
    torch.manual_seed(0)
    method, *options = method.split()
    sizes = {"hidden": 8, "members": 2, "max_nodes": 28, "mean_nodes": 17.9}
    own = dict(option.split("=") for option in options)
    shape = Shape(mutag.num_features, 2, **sizes, settings=own)
    model = build(method, shape).to(DEVICE).eval()
    expected = model.double()(pack(mutag, IDS))
    use_kernels(True)
    ids = torch.tensor(IDS, dtype=torch.int32, device=DEVICE)
    monkeypatch.setattr(DeviceLayout, "sizes", property(lambda layout: pytest.fail("asked for")))
    batch = pack_on_device(mutag.batch_source, ids, rows=70, entries=250)
    found = model.float()(batch, Streams(torch.tensor([1, 2], device=DEVICE)))
    found.loss_sums(batch).sum().backward()
    parts = ("logits",) if expected.auxiliary is None else ("logits", "auxiliary")
    for part in parts:
        one, other = getattr(found, part)[:, :2], getattr(expected, part)[:, :2]
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
