"""The example of CONTRIBUTING.md works as it stands there."""

import re
from pathlib import Path

import pytest
import torch

import sagpool
from sagpool.graphs import pack
from sagpool.models import Shape, build, methods, registry

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture
def example(monkeypatch, capsys) -> dict[str, object]:
    """All names after the page's Python blocks have run; the registry is restored afterwards."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    names: dict[str, object] = {"__name__": "example"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        exec(compile(block, str(PAGE), "exec"), names)
    names["printed"] = capsys.readouterr().out
    return names


def test_the_example_runs(example):
    assert "hubpool-h" in methods()
    # Three GCNs (7 → 32 → 32 → 32), three scores and the MLP (64 → 32 → 16 → 2).
    count = (7 * 32 + 32) + 2 * (32 * 32 + 32) + 3 * (32 + 1)
    count += (64 * 32 + 32) + (32 * 16 + 16) + (16 * 2 + 2)
    assert example["printed"] == f"{count} torch.Size([1, 11, 2])\n"


def test_the_example_is_a_method_like_any_other(example):
    """A step of training on MUTAG with two members, which keep half of the nodes three times."""
    graphs = sagpool.load("MUTAG")
    batch = pack(graphs, [range(20), range(20, 40)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build("hubpool-h", Shape(graphs.num_features, 2, hidden=32, members=2)).train()

    output = model(batch)

    loss = torch.nn.functional.cross_entropy(output.logits[batch.real], batch.y[batch.real])
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(pool.linear.weight.grad.abs().amax((1, 2)).min() > 0 for pool in model.pools)
    sizes = batch.structure.layout.sizes[:, :-1]
    for level in output.levels:
        sizes = -(-sizes // 2)
        assert (level.structure.layout.sizes[:, :-1] == sizes).all()


def test_the_example_leaves_no_trace():
    assert "hubpool-h" not in methods()
