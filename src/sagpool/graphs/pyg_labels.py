"""Labels from columns of PyG's ``x`` and ``edge_attr``; PyG itself has no labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs.columns import Encoding, Role
from sagpool.graphs.raw_graphs import EDGE_LABEL
from sagpool.graphs.records import Record
from sagpool.graphs.roles import find_roles, split_by_role

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Roles(NamedTuple):
    """Roles of columns, as in `Encoding`."""

    x_roles: tuple[Role, ...]
    edge_roles: tuple[Role, ...]


def with_labels(
    records: list[Record], data: Sequence[Data], features: Encoding | Any
) -> tuple[list[Record], Roles]:
    """The records with labels in place of categories, and the roles of the columns.

    Args:
        records: the graphs, with all columns as features
        data: the same graphs, for the types of their columns
        features: an `Encoding`, whose roles are used; otherwise roles are inferred from the data
    """
    xs = _matrices([graph.x for graph in data], [record.nodes for record in records])
    edges = _matrices([graph.edge_attr for graph in data], [record.num_edges for record in records])
    if isinstance(features, Encoding):
        roles = Roles(features.x_roles, features.edge_roles)
    else:
        roles = Roles(_roles(xs), _roles(edges))
    return [
        _with_edge_labels(_with_node_labels(record, x, roles.x_roles), edge, roles.edge_roles)
        for record, x, edge in zip(records, xs, edges, strict=True)
    ], roles


def _matrices(values: Sequence[Any], rows: Sequence[int]) -> list[np.ndarray | None]:
    """``[rows, columns]`` of each graph; the records have checked that they are numbers."""
    arrays = (v.detach().cpu().numpy() if isinstance(v, Tensor) else v for v in values)
    return [
        None if array is None or not count else np.asarray(array).reshape(count, -1)
        for array, count in zip(arrays, rows, strict=True)
    ]


def _roles(matrices: Sequence[np.ndarray | None]) -> tuple[Role, ...]:
    known = [matrix for matrix in matrices if matrix is not None]
    widths = {matrix.shape[1] for matrix in known}
    # Graphs of different widths are refused when they are packed.
    return find_roles(known) if len(widths) == 1 else ()


def _with_node_labels(record: Record, x: np.ndarray | None, roles: tuple[Role, ...]) -> Record:
    if x is None or not roles:
        return record
    _check_width(record.place, "attributes per node", x, roles)
    numbers, labels, categories = split_by_role(x, roles)
    titled = {f"x {column}": values for column, values in categories.items()}
    if labels is None and titled:
        labels = titled.pop(next(iter(titled)))
    return replace(
        record,
        features=None if numbers is None else numbers.ravel(),
        labels=labels,
        more_labels=titled,
    )


def _with_edge_labels(record: Record, edge: np.ndarray | None, roles: tuple[Role, ...]) -> Record:
    if edge is None or not roles:
        return record
    _check_width(record.place, "features per edge", edge, roles)
    numbers, labels, categories = split_by_role(edge, roles)
    titled = {} if labels is None else {EDGE_LABEL: labels}
    titled |= {f"{EDGE_LABEL} {column}": values for column, values in categories.items()}
    return replace(
        record,
        edge_features=None if numbers is None else numbers.ravel(),
        edge_labels=titled,
    )


def _check_width(place: str, what: str, matrix: np.ndarray, roles: tuple[Role, ...]) -> None:
    if matrix.shape[1] != len(roles):
        raise SagpoolError(
            f"{place} has {matrix.shape[1]} {what}; the model was trained with {len(roles)}."
        )
