"""The parts of a model that an explanation comes from: a net that pools, a simple model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Scale = Literal["probability", "log-odds", "value"]


@dataclass(frozen=True, eq=False)
class ShownNet:
    """The net whose levels are shown, as a part of a model that averages several."""

    name: str
    weight: float  # in the average, of all of its members together
    members: int  # nets of this kind, of which one is shown
    outputs: np.ndarray  # float64, of this net alone: [classes] probabilities, or [targets] numbers

    @property
    def sentence(self) -> str | None:
        """For readers of the pictures; None if the net is the whole model."""
        if self.members == 1 and self.weight >= 1:
            return None
        which = f"{self.name}, which has"
        if self.members > 1:
            which = f"one of {self.members} nets of {self.name}, which together have"
        return (
            f"The pooling shown is that of {which} a weight of {self.weight:.2g} in the model; "
            "predictions given only the kept or only the dropped nodes are by this net."
        )


@dataclass(frozen=True)
class Reason:
    """What a simple model counted in a graph."""

    name: str  # what is counted, in words
    value: float  # of the count, sum or mean for this graph
    amount: float  # that it added to the predicted class or number
    nodes: tuple[int, ...] = ()  # that it counts, ascending; empty if they are not known


@dataclass(frozen=True)
class ReasonSource:
    """The simple model whose reasons are shown."""

    name: str
    weight: float  # in the average of the model
    scale: Scale  # what amounts add up to
    target: str | None = None  # that is explained; None for classes

    @property
    def sentence(self) -> str:
        share = (
            "" if self.weight >= 1 else f", which has a weight of {self.weight:.2g} in the model"
        )
        of_task = "" if self.target is None else f" of {self.target}"
        whole = f"the {self.scale} of the predicted class{of_task}"
        if self.scale == "value":
            whole = f"{self.target}, compared with the training graphs on average"
        return (
            f"The reasons are those of {self.name}{share}; an amount is what it added to {whole}."
        )


class Reasons(NamedTuple):
    """The reasons of one simple model for some graphs."""

    source: ReasonSource
    of_graphs: tuple[tuple[Reason, ...], ...]  # the largest amounts first, of either sign


def strongest(reasons: tuple[Reason, ...]) -> Reason | None:
    """The first reason whose nodes are known."""
    return next((reason for reason in reasons if reason.nodes), None)


def signed(amount: float) -> str:
    """Two significant digits with a true minus sign."""
    return f"{amount:+.2g}".replace("-", "−")
