"""The fraction of nodes that each pooling leaves, and comparisons at equal fractions."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from sagpool.fleet import Training
from sagpool.fleet.schedule import shape_of, trained_on
from sagpool.graphs import Graphs
from sagpool.models import Value, build, method_settings
from sagpool.nn.pool import Selection, pools_of

CLOSE = 0.15  # relative difference that counts as equal, since numbers of nodes are rounded
# Settings with which methods that make clusters leave `ratio` of the nodes of the mean graph.
MATCHED: Mapping[str, Value] = {"clusters": "mean"}


class Retention(NamedTuple):
    """The fractions of all nodes of a data set that are left after each pooling."""

    wanted: tuple[float, ...]  # left by methods that keep ``ratio`` of the nodes
    left: tuple[float, ...]  # left by this method; empty if unknown
    problem: str  # why ``left`` is unknown or cannot be compared

    @property
    def mismatch(self) -> str:
        """Why the method is not comparable with others of the same retention; empty if it is."""
        if self.problem:
            return self.problem
        pairs = zip(self.left, self.wanted, strict=True)
        if all(abs(left - wanted) <= CLOSE * wanted for left, wanted in pairs):
            return ""
        left, wanted = (
            ", ".join(f"{100 * part:.0f}" for part in parts) for parts in (self.left, self.wanted)
        )
        return f"it leaves {left} % of the nodes, not {wanted} %"


def matched_settings(method: str, ratio: float) -> dict[str, Value]:
    """The settings with which a method leaves this fraction of the nodes, if any do."""
    own = method_settings(method)
    return {"ratio": ratio} | {k: v for k, v in MATCHED.items() if isinstance(own.get(k), type(v))}


def retention(graphs: Graphs, training: Training) -> Retention:
    """The retention of a training, from the sizes of all graphs; nothing is trained.

    With a fixed split, from those for training and validation: test graphs may have other sizes.
    """
    with torch.device("meta"):
        pools = pools_of(build(training.method, shape_of(graphs, training)))
    sizes = reference = graphs.node_counts[trained_on(graphs, training)][None]
    total, wanted, left = float(sizes.sum()), list[float](), list[float]()
    for pool in pools:
        reference = Selection(training.ratio).counts(reference)
        wanted.append(float(reference.sum()) / total)
        if pool.leaves == "graphs":
            return Retention(tuple(wanted), (), "it leaves one row of each graph")
        after = pool.rows_left(np.array(sizes))
        if after is None or pool.absent_rows:
            why = "how many nodes it leaves is not known before it has run"
            return Retention(tuple(wanted), (), why)
        sizes = after
        left.append(float(sizes.sum()) / total)
    return Retention(tuple(wanted), tuple(left), "" if pools else "it does not pool")
