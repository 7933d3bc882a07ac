"""The weights that trainings begin with: those of a new model."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from sagpool.fleet import Training
from sagpool.fleet.first_weights import GRAPHS, FirstWeights
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.random_guard import SeededDraws
from sagpool.fleet.schedule import Slots, split_of
from sagpool.fleet.stack import Stack
from sagpool.models import Shape, build, methods

SHAPE = Shape(7, 2, hidden=8, k=4, max_nodes=9)


def weights_of_a_new_model(build, seed: int) -> torch.Tensor:
    with SeededDraws(seed):
        model = build()
    return Stack(model).weights[0]


@pytest.mark.parametrize("method", methods())
def test_they_are_those_of_a_new_model(method):
    make = partial(build, method, SHAPE)
    first_weights = FirstWeights(make)
    for seed in (5, 6, -(2**63), 5):
        drawn = first_weights.draw(seed)
        assert torch.equal(drawn, weights_of_a_new_model(make, seed))
        drawn.fill_(9)  # changes no later ones


@pytest.mark.parametrize("method", methods())
def test_one_model_serves_for_all_trainings(method):
    built = []
    first_weights = FirstWeights(lambda: built.append(method) or build(method, SHAPE))
    for seed in range(9):
        first_weights.draw(seed)
    assert len(built) == 2


def test_layers_that_standardise_start_from_the_training_graphs_of_the_member(mutag):
    trainings = [Training("sagnet", fold=fold, hidden=4) for fold in (0, 1)]
    fleet = Fleet(mutag, trainings, Slots.fill(range(2), 2))
    model = fleet.lockstep.stack.model
    for member, training in enumerate(trainings):
        train = split_of(mutag, training).train
        share = model.readout.scale[member].item()
        assert share == pytest.approx(1 / mutag.node_counts[train].mean(), rel=1e-5)
        sums = np.stack([mutag[int(graph)].x.sum(0).numpy() for graph in train])
        near = 3 * sums.std(0) / np.sqrt(GRAPHS)  # of which a part is looked at
        assert (
            np.abs(model.of_inputs.mean[member, 0].numpy(force=True) - sums.mean(0)) <= near
        ).all()
        assert not torch.equal(model.of_levels.mean[member], model.of_levels.mean[1 - member])


def test_they_leave_torchs_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first_weights = FirstWeights(partial(build, "sagpool-h", SHAPE))
    for seed in (5, 6):
        first_weights.draw(seed)
    assert torch.equal(torch.rand(3), expected)


class Scaled(nn.Module):
    """Does more than to draw its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(2 * torch.rand(1, 3))
        self.linear = nn.Linear(2, 1)


class PartOfAWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 30))
        nn.init.uniform_(self.weight[0, 3:7])


class ThrownAway(nn.Module):
    """Draws numbers that it has no use for."""

    def __init__(self) -> None:
        super().__init__()
        nn.Linear(20, 30)
        self.linear = nn.Linear(2, 1)


@pytest.mark.parametrize("layer", [Scaled, PartOfAWeight, ThrownAway])
def test_a_model_that_draws_in_its_own_way_is_built_for_each_training(layer):
    first_weights = FirstWeights(layer)
    for seed in range(4):
        assert torch.equal(first_weights.draw(seed), weights_of_a_new_model(layer, seed))
    assert first_weights.draws is None
