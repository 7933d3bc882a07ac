"""`Encoding`: the columns of ``features="all"``, so that other graphs get the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ATTRIBUTE, EDGE_ATTRIBUTE = "attribute", "edge attribute"
DEGREE, NEIGHBOUR = "degree", "neighbour"
NUMBERS = (ATTRIBUTE, EDGE_ATTRIBUTE)  # groups of measurements; other groups count something
UNKNOWN = "unknown "  # prefix of a group's name: nodes with a value that has no column

# The kind of a column of a matrix: a measurement, a category, or part of a one-hot block.
Role = Literal["number", "category", "one-hot"]


@dataclass(frozen=True)
class Column:
    """One column of ``Graphs.node_attr``."""

    group: str  # the measured or counted property: attribute, degree, neighbour, charge, bond, ...
    name: str  # the number of the attribute, or the value that is counted
    edge: str = ""  # label of the edge that leads to a neighbour

    def __str__(self) -> str:
        if self.group == NEIGHBOUR:
            return f"{self.group} {self.name} ({self.edge})"
        return f"{self.group} {self.name}".rstrip()


@dataclass(frozen=True)
class Encoding:
    """How everything that is known about a node is stored in columns.

    If passed to `load` instead of ``all``, other graphs get the same columns. A value
    without a column is counted in the last column of its group, ``unknown charge``.
    """

    labels: bool  # whether ``node_label`` is the label of a node; otherwise it is the degree
    groups: tuple[str, ...]  # groups that have columns, or would have, if a node had a value
    columns: tuple[Column, ...]  # columns of ``node_attr``: numbers first, then counts
    x_roles: tuple[Role, ...] = ()  # roles of the columns of PyG's ``x``
    edge_roles: tuple[Role, ...] = ()  # roles of the columns of PyG's ``edge_attr``
    # Groups that are labels of edges; the first one is also used for neighbours.
    edge_groups: tuple[str, ...] = ()

    @property
    def continuous(self) -> int:
        """The number of leading columns that are measurements on any scale."""
        return sum(column.group in NUMBERS for column in self.columns)

    def of_group(self, group: str) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.group == group)
