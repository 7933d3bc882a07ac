"""A method that draws random numbers from torch is refused before it trains."""

import threading

import pytest
import torch
from torch.nn.functional import dropout, scaled_dot_product_attention

import sagpool.models.registry
from sagpool.errors import SagpoolError
from sagpool.fleet import train
from sagpool.fleet.memory import choose_fleet_size, step_bytes
from sagpool.fleet.random_guard import SeededDraws
from sagpool.models import hierarchical, register
from sagpool.nn import Linear, ScorePool, Scores

# In a layer, given the scores [rows]; each with the operator that the error names.
DRAWS = {
    "aten.bernoulli_": lambda raw: dropout(raw, 0.5),
    "aten.rand": lambda raw: raw + torch.rand(len(raw)),
    "aten.randn_like": lambda raw: raw + torch.randn_like(raw),
    "aten.randperm": lambda raw: raw[torch.randperm(len(raw))],
    "aten.rand.generator": lambda raw: raw + torch.rand(len(raw), generator=torch.Generator()),
}


@pytest.fixture
def toy(monkeypatch):
    """Registers a method whose scores go through a function."""
    monkeypatch.setattr(sagpool.models.registry, "_methods", {**sagpool.models.registry._methods})

    def add(change) -> None:
        class ToyPool(ScorePool):
            def __init__(self, in_channels, ratio, members):
                super().__init__(in_channels, ratio)
                self.linear = Linear(in_channels, 1, members=members)

            def scores(self, x, structure, context):
                raw = change(self.linear(x).view(-1))
                return Scores(rank=raw, gate=raw.tanh())

        @register("toy-h")
        def toy_h(shape):
            return hierarchical(
                shape, lambda block: ToyPool(shape.hidden, shape.ratio, shape.members)
            )

    return add


@pytest.mark.parametrize("members", [None, 2])
@pytest.mark.parametrize("operator", DRAWS)
def test_random_numbers_from_torch_are_refused_before_training(operator, members, toy, mutag, kit):
    toy(DRAWS[operator])
    epochs: list = []
    name = operator.removesuffix(".generator").replace(".", r"\.")
    sentence = (
        rf"^The method 'toy-h' draws random numbers from torch \({name}\): they would depend on the"
        r" models that train beside it\. Take them from context\.streams, or use sagpool\.nn\.Drop"
    )
    with pytest.raises(SagpoolError, match=sentence):
        train(mutag, kit.trainings(3, "toy-h"), members=members, on_progress=epochs.append)
    assert not epochs


def test_a_continued_run_is_checked_again(toy, mutag, kit, tmp_path):
    draws: list = []
    toy(lambda raw: torch.rand_like(raw) if draws else raw)
    options = {"members": 2, "checkpoint": tmp_path / "run.npz"}

    def stop(progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(mutag, kit.trainings(3, "toy-h"), **options, on_progress=stop)
    draws.append(True)
    with pytest.raises(SagpoolError, match=r"\(aten\.rand_like\)"):
        train(mutag, kit.trainings(3, "toy-h"), **options)


def test_attention_without_dropout_is_no_draw(toy, mutag, kit):
    """Its operators have the tag of random ones, for the dropout that they could do."""

    def attend(raw, **settings):
        rows = raw.view(1, 1, -1, 1).expand(-1, -1, -1, 8).contiguous()
        return scaled_dot_product_attention(rows, rows, rows, **settings)[0, 0, :, 0]

    toy(attend)
    assert step_bytes(mutag, kit.trainings(1, "toy-h")[0], torch.float32)
    toy_methods = sagpool.models.registry._methods
    toy_methods.pop("toy-h")
    toy(lambda raw: attend(raw, dropout_p=0.5))
    with pytest.raises(SagpoolError, match="'toy-h' draws random numbers from torch"):
        step_bytes(mutag, kit.trainings(1, "toy-h")[0], torch.float32)


@pytest.mark.parametrize("method", ["random-h", "sagpool-h", "diffpool-h"])
def test_the_members_own_streams_are_no_draw(method, mutag, kit):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    choose_fleet_size(mutag, kit.trainings(2, method, dropout=0.5), torch.float32, 2)
    assert torch.equal(torch.get_rng_state(), before), "the trial changed torch's generator"


def draws() -> list[torch.Tensor]:
    """In the ways that layers draw their first weights."""
    linear = torch.nn.Linear(5, 4)
    return [
        *(parameter.detach() for parameter in linear.parameters()),
        torch.nn.init.orthogonal_(torch.empty(4, 4)),
        torch.nn.init.trunc_normal_(torch.empty(4)),
        *(torch.randn(3), torch.rand(2, 2), torch.randperm(6), torch.randint(9, (4,))),
        *(torch.bernoulli(torch.full((5,), 0.5)), torch.multinomial(torch.ones(5), 2)),
    ]


def test_seeded_draws_are_those_of_torch_and_leave_its_generator_alone():
    torch.manual_seed(7)
    expected, state = draws(), torch.get_rng_state()
    with SeededDraws(7):
        found = draws()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_seeded_draws_do_not_depend_on_other_threads():
    with SeededDraws(3):
        expected = [draws() for _ in range(50)]
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            torch.manual_seed(1)
            torch.rand(3)

    thread = threading.Thread(target=disturb)
    thread.start()
    with SeededDraws(3):
        found = [draws() for _ in range(50)]
    stop.set()
    thread.join()
    for ours, theirs in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
