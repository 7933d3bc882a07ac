"""What every method of the registry promises."""

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sagpool import testing
from sagpool.errors import SagpoolError
from sagpool.graphs import pack
from sagpool.nn.conv import CONVS
from sagpool.nn.pool import READOUTS

few = settings(max_examples=3, derandomize=True, phases=[Phase.generate, Phase.shrink])
some_graphs = given(
    seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 13), min_size=2, max_size=5)
)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
# test_members.py checks members more thoroughly.
# The clusters of ASAPool overlap so much that neighbours in a coarsened graph look almost the same,
# so there is hardly ever a kink between them.
ONLY_AT_A_KINK = {
    "asap-h": {f"pools.{block}.{name}" for block in (1, 2) for name in ("query.weight", "key.bias")}
}
OTHER_CHECKS = [check for check in testing.CHECKS if check is not testing.check_members]


@few
@some_graphs
@pytest.mark.parametrize("check", OTHER_CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_every_method(method, check, seed, sizes):
    check(method, seed, sizes, {})


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("kind", ["sagpool-h", "diffpool-h", "set2set-g"])
def test_every_convolution(conv, kind):
    if kind == "diffpool-h" and conv in ("gat", "triangle"):
        with pytest.raises(SagpoolError, match="needs single edges, such as that of conv=gat"):
            testing.check_method(kind, {"conv": conv}, seeds=[0])
    else:
        testing.check_method(kind, {"conv": conv}, seeds=[0])


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("kind", ["gpool-h", "diffpool-h", "nopool-g"])
def test_every_readout(readout, kind):
    testing.check_method(kind, {"readout": readout}, seeds=[0])


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("sortpool-g", {"channels": "sorted"}),
        ("diffpool-h", {"losses": "link"}),
        ("diffpool-h", {"losses": "none"}),
        ("gmt-g", {"over": "nodes"}),
        ("sagpool-h-augmentation", {"augmentation": "two-hop"}),
        ("sagpool-g-augmentation", {"augmentation": "two-hop"}),
        ("kmis-h", {"hops": 2, "reduce": "sum", "conv": "sage"}),
    ],
)
def test_every_setting_of_a_method(name, own):
    testing.check_method(name, own, seeds=[0])


@few
@some_graphs
def test_the_order_of_nodes_decides_only_between_equal_ones(settled_method, kit, seed, sizes):
    dense = kit.dense(seed, sizes)
    orders = [np.random.default_rng(seed).permutation(nodes) for nodes in sizes]
    reordered = [graph.reordered(order) for graph, order in zip(dense, orders, strict=True)]
    model, ids = kit.model(settled_method, seed), [range(len(sizes))]
    before, after = pack(kit.graphs(dense), ids), pack(kit.graphs(reordered), ids)
    first, second = model(before), model(after)
    torch.testing.assert_close(second.logits, first.logits, **CLOSE)
    torch.testing.assert_close(second.auxiliary, first.auxiliary, **CLOSE)
    calls = kit.poolings(model, before)
    kept, kept_after = kit.kept_nodes(first, before), kit.kept_nodes(second, after)
    for graph, order in enumerate(orders):
        for (_, (x, structure, *_), _), nodes, nodes_after in zip(
            calls, kept[graph], kept_after[graph], strict=True
        ):
            if look_the_same(x[structure.layout.graph % structure.layout.graphs == graph]):
                break
            assert sorted(order[nodes_after]) == sorted(nodes)


def look_the_same(x: torch.Tensor) -> bool:
    """Whether two rows are equal, such as those of neighbours with the same other neighbours.

    Which of two such nodes is kept makes no difference, and follows their order.
    """
    return len(x) > 1 and bool(torch.pdist(x).min() < 1e-9)


@few
@some_graphs
def test_a_batch_of_nodes_that_look_the_same_is_its_graphs_one_at_a_time(
    settled_method, kit, seed, sizes
):
    graphs = kit.graphs(kit.dense(seed, sizes, plain=True))
    model = kit.model(settled_method, seed)
    together = model(pack(graphs, [range(len(sizes))]))
    for graph in range(len(sizes)):
        alone = model(pack(graphs, [[graph]]))
        torch.testing.assert_close(together.logits[0, graph], alone.logits[0, 0], **CLOSE)


def test_every_parameter_has_a_gradient(method, kit):
    """By the logits alone: an auxiliary loss is no excuse.

    A ReLU may be off for all nodes, and attention sees its target only where a kink lies between
    two neighbours; but that is chance, and does not happen for all weights.
    """
    largest: dict[str, torch.Tensor] = {}
    for seed in (1, 3, 5):
        graphs = kit.graphs(kit.dense(seed, [16] * 8))
        model = kit.model(method, seed, members=2, hidden=32, ratio=0.8)
        logits = model(pack(graphs, [range(8), range(8)])).logits[:, :8]
        (logits * torch.linspace(-1, 2, logits.numel()).view_as(logits)).sum().backward()
        for name, parameter in model.named_parameters():
            found = parameter.grad.abs().flatten(1).amax(1)  # [members]
            largest[name] = torch.maximum(found, largest.get(name, found))
    without = {name for name, found in largest.items() if found.min() < 1e-6}
    assert without <= ONLY_AT_A_KINK.get(method, set())


def test_weights_are_saved_and_loaded(method, kit):
    batch = pack(kit.graphs(kit.dense(0, [1, 9, 12])), [[0, 1, 2]])
    model, other = kit.model(method, 1), kit.model(method, 2)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert not torch.equal(kit.keyed(model, batch, 5).logits, kit.keyed(other, batch, 5).logits)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(kit.keyed(model, batch, 5).logits, kit.keyed(other, batch, 5).logits)


def test_a_deep_copy_is_a_model_of_its_own(method, kit):
    batch = pack(kit.graphs(kit.dense(0, [1, 9, 12])), [[0, 1, 2]])
    model = kit.model(method)
    before = kit.keyed(model, batch, 5).logits
    copied = copy.deepcopy(model)
    assert torch.equal(kit.keyed(copied, batch, 5).logits, before)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.fill_(0.1)
    assert torch.equal(kit.keyed(model, batch, 5).logits, before)
    assert not torch.equal(kit.keyed(copied, batch, 5).logits, before)


def test_either_precision(method, kit):
    batch = pack(kit.graphs(kit.dense(0, [1, 9, 12])), [[0, 1, 2]])
    precise = kit.keyed(kit.model(method), batch, 5)
    output = kit.keyed(kit.model(method).float(), batch, 5)
    assert output.logits.dtype == torch.float32
    assert precise.logits.dtype == torch.float64
    assert all(level.x.dtype == torch.float32 for level in output.levels)
    torch.testing.assert_close(output.logits.double(), precise.logits, rtol=1e-4, atol=1e-4)


def test_each_layer_can_draw_its_weights_anew(method, kit):
    """A fleet gives a member its first weights by ``reset_parameters``, from the member's seed."""

    def drawn() -> dict[str, torch.Tensor]:
        model = kit.model(method)
        torch.manual_seed(7)
        for layer in model.modules():
            if any(True for _ in layer.parameters(recurse=False)):
                layer.reset_parameters()
        return model.state_dict()

    with torch.random.fork_rng(devices=[]):
        before, first, second = kit.model(method).state_dict(), drawn(), drawn()
    for name, weights in first.items():
        assert torch.equal(weights, second[name])
        assert not torch.equal(weights, before[name]), name
