"""What is drawn at random: the nodes of the control, and dropout."""

import math

import numpy as np
import pytest
import torch

from sagpool.graphs import pack
from sagpool.nn import Dropout


def kept(kit, model, batch, key) -> list[list[int]]:
    """The nodes of each graph that the first pooling keeps."""
    output = kit.keyed(model, batch, key)
    return [levels[0].tolist() for levels in kit.kept_nodes(output, batch)]


def test_the_control_draws_from_the_keys_alone(kit):
    batch = pack(kit.graphs(kit.dense(0, [20, 30])), [[0, 1]])
    model = kit.model("random-h")
    assert kept(kit, model, batch, 1) == kept(kit, model, batch, 1)
    assert kept(kit, model, batch, 1) == kept(kit, kit.model("random-h", seed=9), batch, 1)
    assert kept(kit, model, batch, 1) != kept(kit, model, batch, 2)


def test_the_control_draws_anew_at_each_call_and_level(kit):
    batch = pack(kit.graphs(kit.dense(0, [64])), [[0]])
    model = kit.model("random-h", ratio=0.5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = model(batch), model(batch)
    assert not torch.equal(first.levels[0].perm, second.levels[0].perm)
    assert [len(nodes) for nodes in kit.kept_nodes(first, batch)[0]] == [32, 16, 8]
    # With the same numbers at both levels, one of these would be a part of the other.
    at_first = {place for place in first.levels[0].perm.tolist() if place < 32}
    at_second = {place for place in first.levels[1].perm.tolist() if place < 32}
    assert at_first - at_second
    assert at_second - at_first


def test_the_control_does_not_gate(kit):
    batch = pack(kit.graphs(kit.dense(0, [12])), [[0]])
    assert all(level.score is None for level in kit.model("random-h")(batch).levels)


def test_the_control_keeps_any_set_of_nodes_as_often(kit):
    copies = 1200
    graph = kit.dense(0, [4])[0]
    batch = pack(kit.graphs([graph] * copies), [range(copies)])
    sets, counts = np.unique(
        kept(kit, kit.model("random-h", hidden=2), batch, 3), axis=0, return_counts=True
    )
    assert len(sets) == math.comb(4, 2)
    assert abs(counts - copies / 6).max() < 4 * math.sqrt(copies / 6)


def test_the_control_prefers_no_place(kit):
    """Ties would go to the lower node; there are hardly any."""
    copies = 500
    batch = pack(kit.graphs(kit.dense(0, [64]) * copies), [range(copies)])
    nodes = np.array(kept(kit, kit.model("random-h", hidden=2), batch, 3))  # [copies, 32]
    # In each copy a hypergeometric number: 16 on average, with a variance of 8 · 32 / 63.
    in_front = (nodes < 32).sum()
    assert abs(in_front - 16 * copies) < 4 * math.sqrt(copies * 8 * 32 / 63)


def test_dropout_is_for_training_and_drawn_from_the_keys(method, kit):
    batch = pack(kit.graphs(kit.dense(0, [9, 12, 13])), [[0, 1, 2]])
    model = kit.model(method, hidden=16)
    asleep = kit.keyed(model, batch, 1).logits
    model.train()
    first, again, other = (kit.keyed(model, batch, key).logits for key in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, asleep)
    model.eval()
    assert torch.equal(kit.keyed(model, batch, 1).logits, asleep)


def test_half_of_the_first_hidden_layer_is_dropped(kit):
    """The authors drop 0.5 behind the first linear layer and its ReLU, and nowhere else."""
    batch = pack(kit.graphs(kit.dense(0, [9] * 40)), [range(40), range(40)])
    model = kit.model("sagpool-h", hidden=64, members=2).train()
    layers = [layer for layer in model.modules() if isinstance(layer, (Dropout, torch.nn.Dropout))]
    assert layers == [model.classifier.dropout]
    seen = {}
    layers[0].register_forward_hook(lambda _, given, result: seen.update(x=given[0], y=result))
    model.classifier.first.register_forward_hook(lambda _, __, result: seen.update(first=result))

    kit.keyed(model, batch, 1, 2)

    assert torch.equal(seen["x"], seen["first"].relu())
    active = seen["x"] > 0
    dropped = (seen["y"] == 0) & active
    survivors = active & ~dropped
    torch.testing.assert_close(seen["y"][survivors], 2 * seen["x"][survivors])
    assert dropped.sum().item() / active.sum().item() == pytest.approx(0.5, abs=0.05)
    both = active.view(2, -1).all(0)
    of_members = dropped.view(2, -1)[:, both]
    assert not torch.equal(*of_members)


def test_the_rate_can_be_chosen(kit):
    batch = pack(kit.graphs(kit.dense(0, [9, 12])), [[0, 1]])
    model = kit.model("sagpool-h", dropout=0.0)
    asleep = kit.keyed(model, batch, 1).logits
    assert torch.equal(kit.keyed(model.train(), batch, 1).logits, asleep)
