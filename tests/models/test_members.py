"""A member of a fleet is alone in the world."""

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sagpool.graphs import pack

few = settings(max_examples=3, derandomize=True, phases=[Phase.generate, Phase.shrink])
seeds = st.integers(0, 2**32 - 1)
# Members differ in their number of graphs; some places are empty.
IDS = [[0, 1, 2], [-1, 3], [4, -1, 5, 6]]
KEYS = (11, 2**61, 5)
some_graphs = given(seed=seeds, sizes=st.lists(st.integers(1, 13), min_size=7, max_size=7))
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def assert_equal_to_three_models(singles, fleet, graphs, kit) -> None:
    """In logits, losses and gradients, with the same random streams."""
    members = [single.state_dict() for single in singles]
    fleet.load_state_dict({name: torch.cat([m[name] for m in members]) for name in members[0]})
    batch = pack(graphs, IDS, rows=100)
    together = kit.keyed(fleet, batch, *KEYS)
    weighted_loss(together, batch.real).backward()
    for member, (single, ids, key) in enumerate(zip(singles, IDS, KEYS, strict=True)):
        own = pack(graphs, [ids])
        alone = kit.keyed(single, own, key)
        weighted_loss(alone, own.real).backward()
        of_member, real = batch.real[member], own.real[0]
        torch.testing.assert_close(
            together.logits[member, of_member], alone.logits[0, real], **CLOSE
        )
        if alone.auxiliary is not None:
            losses = together.auxiliary[member, of_member], alone.auxiliary[0, real]
            torch.testing.assert_close(*losses, **CLOSE)
        of_fleet = dict(fleet.named_parameters())
        for name, parameter in single.named_parameters():
            assert of_fleet[name].shape == (len(IDS), *parameter.shape[1:]), name
            torch.testing.assert_close(of_fleet[name].grad[member], parameter.grad[0], **CLOSE)


def weighted_loss(output, real):
    weights = torch.linspace(-1, 2, output.logits.shape[-1], dtype=output.logits.dtype)
    loss = (output.logits[real].square() * weights).sum()
    return loss if output.auxiliary is None else loss + output.auxiliary[real].sum()


@few
@some_graphs
@pytest.mark.parametrize("training", [False, True])
def test_a_fleet_of_three_is_three_models(method, training, kit, seed, sizes):
    singles = [kit.model(method, seed + member).train(training) for member in range(3)]
    fleet = kit.model(method, members=3).train(training)
    assert_equal_to_three_models(singles, fleet, kit.graphs(kit.dense(seed, sizes)), kit)


@few
@some_graphs
def test_each_member_may_have_a_k_of_its_own(k_method, kit, seed, sizes):
    ks = np.array([[2], [7], [4]])
    singles = [kit.model(k_method, seed + m, k=int(k)) for m, k in enumerate(ks[:, 0])]
    fleet = kit.model(k_method, members=3, k=ks)
    assert_equal_to_three_models(singles, fleet, kit.graphs(kit.dense(seed, sizes)), kit)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_a_member_that_diverges_touches_nobody(method, wrong, kit):
    graphs = kit.graphs(kit.dense(0, [9, 1, 12, 5, 13, 8, 2]))
    batch = pack(graphs, IDS)

    def step(member_1: float | None) -> dict[str, torch.Tensor]:
        model = kit.model(method, members=3).train()
        if member_1 is not None:
            for parameter in model.parameters():
                parameter.data[1] = member_1
        output = kit.keyed(model, batch, *KEYS)
        weighted_loss(output, batch.real).backward()
        results = {name: parameter.grad for name, parameter in model.named_parameters()}
        return {"logits": output.logits, **results}

    healthy, beside_it = step(None), step(wrong)
    assert not beside_it["logits"][1].isfinite().all()
    for name, values in healthy.items():
        assert torch.equal(values[[0, 2]], beside_it[name][[0, 2]]), name
        assert values[[0, 2]].isfinite().all()


@few
@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 13), min_size=2, max_size=4),
    empty=st.integers(0, 3),
    spare=st.integers(1, 30),
)
def test_what_fills_up_does_not_matter(method, kit, seed, sizes, empty, spare):
    """Not even to what is dropped or kept at random."""
    graphs, count = kit.graphs(kit.dense(seed, sizes)), len(sizes)
    model = kit.model(method, seed).train()
    tight = pack(graphs, [range(count)])
    loose = pack(graphs, [[*range(count), *[-1] * empty]], rows=sum(sizes) + empty + spare)
    first, second = kit.keyed(model, tight, 5), kit.keyed(model, loose, 5)
    torch.testing.assert_close(second.logits[:, :count], first.logits[:, :count], **CLOSE)
    for one, other in zip(kit.kept_nodes(first, tight), kit.kept_nodes(second, loose), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
