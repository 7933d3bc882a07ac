"""The weights of all members as one matrix, and the optimiser that changes them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.nn.from_graphs import layers_from_graphs
from sagpool.ops.alignment import aligned
from sagpool.ops.device import kernels_for, to_host


class Stack:
    """A model whose parameters are views of one ``[members, numbers]`` tensor.

    So a member is copied, reset or saved as one row, and the optimiser takes a handful of
    operations for any number of layers. Each parameter begins at an aligned address; the numbers
    in between are zero.

    Args:
        model: its parameters have the members as their first dimension
        weights: ``[members, numbers]`` to hold them; a new tensor by default
    """

    def __init__(self, model: nn.Module, weights: Tensor | None = None) -> None:
        self.model = model
        named = list(model.named_parameters())
        first = named[0][1]
        self.members = len(first)
        for name, parameter in named:
            if parameter.shape[:1] != (self.members,):
                raise SagpoolError(
                    f"The parameter {name} has shape {tuple(parameter.shape)}; its first dimension "
                    f"must be the {self.members} members."
                )
        self.numbers = row_length(model)
        if weights is None:
            weights = first.new_zeros(self.members, self.numbers)
        self.weights = weights.detach()
        self.ones = self.weights.new_ones(self.members)
        self.gaps, start = [], 0
        self.fixed = [*columns_from_graphs(model).values()]
        for _, parameter in named:
            end = start + parameter[0].numel()
            view = self.weights[:, start:end].view(parameter.shape)
            view.copy_(parameter.data)
            parameter.data = view
            start = aligned(end)
            self.gaps.append(self.weights.new_zeros(self.members, start - end))

    def load(self, weights: Tensor) -> None:
        """Set the weights of all members, ``[members, numbers]``."""
        self.weights.copy_(weights)

    def gradients(self, loss: Tensor) -> Tensor:
        """The gradients of each member's loss, ``[members]``, as ``[members, numbers]``."""
        parameters = list(self.model.parameters())
        grads = torch.autograd.grad(loss, parameters, self.ones, materialize_grads=True)
        pairs = zip((grad.reshape(self.members, -1) for grad in grads), self.gaps, strict=True)
        return torch.cat([part for pair in pairs for part in pair], dim=1)

    @contextmanager
    def keeping_fixed(self) -> Iterator[None]:
        """Restore the values that layers took from the training graphs at the end of the block."""
        before = [self.weights[:, columns].clone() for columns in self.fixed]
        yield
        for columns, values in zip(self.fixed, before, strict=True):
            self.weights[:, columns] = values

    def norms(self) -> Tensor:
        """√Σθ² over all parameters of each member, ``[members]`` float64."""
        return torch.linalg.vector_norm(self.weights, dim=1, dtype=torch.float64)

    def state_dicts(self, wanted: Sequence[bool]) -> list[dict[str, Tensor] | None]:
        """State dicts of single-member models; None for members that are not wanted."""
        values = self.model.state_dict() if any(wanted) else {}
        return [
            {name: to_host(v[member : member + 1].detach()).clone() for name, v in values.items()}
            if wanted[member]
            else None
            for member in range(self.members)
        ]


def row_length(model: nn.Module) -> int:
    """Length of the row of `Stack.weights` that holds one member."""
    return sum(aligned(parameter[0].numel()) for parameter in model.parameters())


def columns_from_graphs(model: nn.Module) -> dict[tuple[str, str], slice]:
    """The columns of `Stack.weights` with parameters that start from the training graphs.

    The keys are the names of the layer (`sagpool.nn.FromGraphs`) and of the parameter.
    """
    layers, places, start = layers_from_graphs(model), {}, 0
    for name, parameter in model.named_parameters():
        layer, _, own = name.rpartition(".")
        if layer in layers and own in layers[layer].from_graphs:
            places[layer, own] = slice(start, start + parameter[0].numel())
        start += aligned(parameter[0].numel())
    return places


FIRST, SECOND, EPS = 0.9, 0.999, 1e-8


class AdamState(NamedTuple):
    """Weights and averages of all members, changed in place by `adam_step`."""

    weights: Tensor  # [members, numbers]
    mean: Tensor  # [members, numbers] average of the gradients
    square: Tensor  # [members, numbers] average of the squared gradients
    steps: Tensor  # [members] int64


@torch.no_grad()
def adam_step(
    state: AdamState, grad: Tensor, lr: Tensor, weight_decay: Tensor, active: Tensor
) -> None:
    """One step of ``torch.optim.Adam``, each member with its own settings and step count.

    Args:
        state: weights and averages of all members
        grad: ``[members, numbers]``, overwritten
        lr: ``[members]`` float64 learning rates
        weight_decay: ``[members]`` float64 L2 penalties, added to the gradient
        active: ``[members]`` bool; inactive members do not change
    """
    if (kernels := kernels_for(grad)) is not None:
        kernels.adam_step(
            state.weights, state.mean, state.square, grad, state.steps, lr, weight_decay, active,
            (FIRST, SECOND), EPS,
        )  # fmt: skip
        state.steps.add_(active)
        return

    state.steps.add_(active)
    count = state.steps.clamp(min=1).double()
    on = active.double()
    # Rates of 0 leave inactive members unchanged.
    to_mean, to_square = on * (1 - FIRST), on * (1 - SECOND)
    rate = on * lr / (1 - FIRST**count)
    root = (1 - SECOND**count).sqrt()
    settings = torch.stack([weight_decay, to_mean, to_square, rate, root]).to(grad.dtype)
    decay, to_mean, to_square, rate, root = settings[..., None]
    grad.addcmul_(state.weights, decay)
    state.mean.lerp_(grad, to_mean)
    state.square.lerp_(grad.square_(), to_square)
    denominator = torch.sqrt(state.square, out=grad).div_(root).add_(EPS)
    state.weights.sub_(torch.div(state.mean, denominator, out=grad).mul_(rate))
