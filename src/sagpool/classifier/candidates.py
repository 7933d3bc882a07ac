"""The candidates for a model: graph nets with their settings, and simple models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sagpool.classifier.simple import simple_names
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.graphs import Graphs
from sagpool.models.sagnet import CANDIDATES, lengths_for

Only = Literal["graph-nets", "simple"]

GIN: Mapping[str, Any] = {"method": "gin-g", "hidden": 64, "lr": 2e-3}

# In the paper the global architecture is better on data sets of small graphs (NCI1, NCI109,
# FRANKENSTEIN: up to 30 nodes on average), and the hierarchical one on data sets of larger graphs.
SMALL_GRAPHS = 35
PAPER: dict[str, Any] = {
    "lr": 1e-3, "hidden": 64, "max_epochs": 1000, "patience": 50, "schedule": "constant",
}  # fmt: skip
# With more nodes the paper's nets are tried only on request (``method``): they train for hundreds
# of epochs, and took more than a third of the time for 900 molecules.
FEW_NODES = 8_000
# With more nodes, molecules skip candidates that are not worth their time: gin-g, sagnet with
# pooling, and these two, whose columns morgan-linear and morgan-forest also have. On the training
# parts of eight splits of BBBP, ESOL and Tox21, sagnet had a weight once, 0.17, the others never.
NOT_FOR_MOLECULES = ("counts-linear", "counts-forest")
METHODS = ("sagnet", "gin-g", "sagpool-h", "sagpool-g")
GRID = {"lr": (5e-3, 1e-3), "hidden": (32, 128)}  # searched if a method is given
MAX_EPOCHS = 1000


@dataclass(frozen=True)
class SimpleCandidate:
    """A simple model, by its name."""

    name: str


@dataclass(frozen=True)
class NetCandidate:
    """A training, repeated in each fold."""

    name: str
    training: Training


Candidate = SimpleCandidate | NetCandidate


def candidates_for(
    graphs: Graphs,
    *,
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    search: bool = True,
    only: Only | None = None,
    seed: int = 0,
    folds: int = 10,
) -> list[Candidate]:
    """The candidates for these graphs, in the order in which they are tried.

    Simple models come first: they take seconds. A given method is the only candidate.

    Args:
        graphs: graphs with classes or targets
        method: a registered name; None for all methods worth trying
        settings: settings of the nets that are not searched
        search: whether the nets have a grid of settings, or one setting
        only: only nets, or only simple models
        seed: seed of the trainings
        folds: number of folds of the trainings
    """
    if method is not None and only == "simple":
        raise SagpoolError(f"{method} is a graph net, and only simple models are asked for.")
    simple: list[Candidate] = []
    if method is None and only != "graph-nets":
        spared = NOT_FOR_MOLECULES if _many_molecules(graphs) else ()
        names = [name for name in simple_names(graphs) if name not in spared]
        simple = [SimpleCandidate(name) for name in names]
    nets: list[Candidate] = []
    if only != "simple":
        fixed = {"seed": seed, "folds": folds, **lengths_for(len(graphs))}
        trainings = [
            Training.from_dict({**fixed, **one, **(settings or {})})
            for one in _nets(graphs, method, search, spare=only is None)
        ]
        trainings = list(dict.fromkeys(trainings))
        nets = [NetCandidate(_name(one, trainings), one) for one in trainings]
    return simple + nets


def _nets(
    graphs: Graphs, method: str | None, search: bool, *, spare: bool
) -> Sequence[Mapping[str, Any]]:
    """Settings of the nets to try, the most promising first.

    With ``spare``, nets that are not worth their time if there are simple models are left out.
    """
    small = graphs.node_counts.mean() < SMALL_GRAPHS
    every = [*CANDIDATES, GIN, {"method": "sagpool-g" if small else "sagpool-h", **PAPER}]
    if method is None:
        tried = every if graphs.num_nodes <= FEW_NODES else every[:-1]
        if spare and _many_molecules(graphs):
            tried = [one for one in CANDIDATES if not one.get("pooling", True)]
        return tried if search else tried[:1]
    known = next((one for one in every if one["method"] == method), {"method": method, **PAPER})
    if not search:
        return [known]
    return [{**known, "lr": lr, "hidden": size} for lr in GRID["lr"] for size in GRID["hidden"]]


def _many_molecules(graphs: Graphs) -> bool:
    return graphs.fragments is not None and graphs.num_nodes > FEW_NODES


def _name(training: Training, all_: list[Training]) -> str:
    """The method, with the settings in which it differs from other trainings of the method."""
    same = [one.to_dict() for one in all_ if one.method == training.method]
    own = training.to_dict()
    differing = [name for name in own if len({str(one.get(name)) for one in same}) > 1]
    return " ".join([training.method, *(f"{name}={own[name]}" for name in differing)])
