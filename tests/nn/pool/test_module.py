"""SAGPool and GPool as modules among others of PyTorch, in PyG's call."""

import copy
import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad
from torch.testing import assert_close

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, SAGPool
from sagpool.ops import marked_graph
from sagpool.ops.device import kernels_forced

NODES, CHANNELS = 20, 8
BATCH = torch.arange(NODES) // 7
LAYERS = {
    "gcn": lambda: SAGPool(CHANNELS),
    "gat": lambda: SAGPool(CHANNELS, conv="gat"),
    "sage": lambda: SAGPool(CHANNELS, 0.6, conv="sage"),
    "serial": lambda: SAGPool(CHANNELS, serial=2),
    "augmentation": lambda: SAGPool(CHANNELS, augmentation=True),
    "min_score": lambda: SAGPool(CHANNELS, min_score=0.1),
    "topk": lambda: GPool(CHANNELS, k=3),
}


@pytest.fixture(params=LAYERS)
def pool(request):
    torch.manual_seed(0)
    return LAYERS[request.param]()


@pytest.fixture
def x():
    return torch.randn(NODES, CHANNELS, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def edge_index():
    return torch.randint(0, NODES, (2, 60), generator=torch.Generator().manual_seed(2))


def tensors(out):
    return tuple(one for one in out if one is not None)


@pytest.mark.parametrize("kernels", [False, True], ids=["torch", "kernels"])
@pytest.mark.parametrize("batch", [BATCH, None], ids=["batch", "one graph"])
def test_fused_operators_give_the_same(
    pool, x, edge_index, batch, kernels, path, monkeypatch, agree
):
    x.requires_grad_()
    expected = pool(x, edge_index, batch=batch)
    monkeypatch.setattr(marked_graph, "_LEAST_FUSED", {"cpu": 0})
    with kernels_forced(kernels):
        actual = pool(x, edge_index, batch=batch)
        agree(actual.x, expected.x, [x, *pool.parameters()])
    assert torch.equal(actual.perm, expected.perm)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(pool, x, edge_index, dtype):
    x.requires_grad_()
    with torch.autocast("cpu", dtype):
        out = pool(x, edge_index, batch=BATCH)
    assert out.x.dtype == out.score.dtype == torch.float32  # as PyG's layers
    out.x.sum().backward()
    assert x.grad.dtype == torch.float32
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precisions(pool, x, edge_index, dtype):
    half = x.to(dtype).requires_grad_()
    out = copy.deepcopy(pool).to(dtype)(half, edge_index, batch=BATCH)
    assert out.x.dtype == out.score.dtype == dtype
    out.x.sum().backward()
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()


def test_degrees_are_counted_in_half_precision(x):
    """A sum of ones in bfloat16 stops at 256."""
    pool = SAGPool(1, 1.0).bfloat16()
    star = torch.stack([torch.arange(1, 2001), torch.zeros(2000, dtype=torch.int64)])
    ones = torch.ones(2001, 1, dtype=torch.bfloat16)
    out = pool(ones, star)
    expected = copy.deepcopy(pool).double()(ones.double(), star)
    assert_close(out.score.double(), expected.score, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_second_derivatives(pool, x, edge_index, fused, monkeypatch):
    if fused:
        monkeypatch.setattr(marked_graph, "_LEAST_FUSED", {"cpu": 0})
    pool, few = pool.double(), edge_index[:, (edge_index < 8).all(0)]
    x = x[:8].double().requires_grad_()
    assert gradcheck(lambda x: pool(x, few).x, x, fast_mode=True)
    assert gradgradcheck(lambda x: pool(x, few).x, x, fast_mode=True)


def test_func_grad(pool, x, edge_index):
    parameters = dict(pool.named_parameters())

    def loss(parameters):
        out = functional_call(pool, parameters, (x, edge_index), {"batch": BATCH})
        return out.x.square().sum()

    expected = torch.autograd.grad(loss(parameters), list(parameters.values()))
    assert_close(list(grad(loss)(parameters).values()), list(expected))


# Where torch.compile divides the layer, it looks at the gradients of what is computed in between.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("fullgraph", [False, True], ids=["", "fullgraph"])
@pytest.mark.parametrize("pool", ["gcn", "gat", "min_score", "topk"], indirect=True)
def test_compile(pool, x, edge_index, fullgraph):
    x.requires_grad_()
    compiled = torch.compile(pool, backend="eager", fullgraph=fullgraph)
    for batch in (BATCH, None):
        expected = pool(x, edge_index, batch=batch)
        actual = compiled(x, edge_index, batch=batch)
        assert_close(tensors(actual), tensors(expected))
        assert_close(
            torch.autograd.grad(actual.x.sum(), x), torch.autograd.grad(expected.x.sum(), x)
        )


class Exported(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def forward(self, x, edge_index, batch):
        return tensors(self.pool(x, edge_index, batch=batch))


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("pool", ["gcn", "gat", "min_score", "topk"], indirect=True)
def test_export(pool, x, edge_index, strict):
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    program = torch.export.export(
        Exported(pool),
        (x, edge_index, BATCH),
        dynamic_shapes=({0: nodes}, {1: edges}, {0: nodes}),
        strict=strict,
    )
    inside = (edge_index < 12).all(0)
    other = x[:12], edge_index[:, inside], BATCH[:12]  # of other sizes than the exported call
    assert_close(program.module()(*other), Exported(pool)(*other))


def test_torch_jit_is_refused_with_a_sentence(pool, x, edge_index):
    for use in (torch.jit.script, lambda pool: torch.jit.trace(pool, (x, edge_index))):
        with pytest.raises(SagpoolError, match=r"torch\.jit.*use torch\.compile or torch\.export"):
            use(pool)


DATA_PARALLEL = """
import json, sys, torch
from sagpool.nn import SAGPool

rank, file = int(sys.argv[1]), sys.argv[2]
store = torch.distributed.FileStore(file, 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
pool = torch.nn.parallel.DistributedDataParallel(SAGPool(2))
x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]]) * (rank + 1)
pool(x, torch.tensor([[0, 1], [1, 0]])).x.sum().backward()
grads = [parameter.grad.tolist() for parameter in pool.parameters()]
print(json.dumps(grads), flush=True)  # torch sometimes aborts in the next line
torch.distributed.destroy_process_group()
"""


def test_data_parallel(tmp_path):
    """Both processes get the mean of their gradients."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", DATA_PARALLEL, str(rank), tmp_path / "store"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        got = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    own = []
    for rank in range(2):
        torch.manual_seed(0)
        pool = SAGPool(2)
        x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]]) * (rank + 1)
        loss = pool(x, torch.tensor([[0, 1], [1, 0]])).x.sum()
        own.append(torch.autograd.grad(loss, list(pool.parameters())))
    for first, second, *mean in zip(got[0], got[1], *own, strict=True):
        assert first == second
        assert_close(torch.tensor(first), (mean[0] + mean[1]) / 2)
