"""The weights of all members as one matrix, which the model's parameters look into."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError


class Stack:
    """A model whose parameters are views of one ``[members, numbers]`` tensor.

    So copying, resetting or saving a member is one row, and the optimiser a handful of operations
    whatever the number of layers.

    Args:
        model: its parameters have the members as their first dimension
        weights: where to keep them, if not in a tensor of its own
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
        widths = [parameter[0].numel() for _, parameter in named]
        self.numbers = sum(widths)
        if weights is None:
            weights = first.new_empty(self.members, self.numbers)
        self.weights = weights.detach()
        start = 0
        for (_, parameter), width in zip(named, widths, strict=True):
            columns = slice(start, start + width)
            view = self.weights[:, columns].view(parameter.shape)
            view.copy_(parameter.data)
            parameter.data = view
            start += width

    def load(self, weights: Tensor) -> None:
        """Set the weights of all members, ``[members, numbers]``."""
        self.weights.copy_(weights)

    def gradients(self, loss: Tensor) -> Tensor:
        """The gradients of a loss, ``[members, numbers]``."""
        parameters = list(self.model.parameters())
        grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return torch.cat([grad.flatten(1) for grad in grads], dim=1)

    def state_dicts(self, wanted: Sequence[bool]) -> list[dict[str, Tensor] | None]:
        """A state dict for each member that is wanted, as a fleet of one would have it."""
        values = self.model.state_dict() if any(wanted) else {}
        return [
            {name: v[member : member + 1].detach().cpu().clone() for name, v in values.items()}
            if wanted[member]
            else None
            for member in range(self.members)
        ]


def initial_weights(build: Callable[[], nn.Module], seed: int) -> Tensor:
    """The weights that a new model of one member starts with, ``[numbers]`` on the CPU.

    Drawn by the layers themselves, from torch's generator set to a seed that nobody else uses.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return torch.cat([parameter.detach().flatten() for parameter in build().parameters()])
