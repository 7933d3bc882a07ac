"""Reorders the dense columns of graphs to those that a model knows, matched by name."""

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs.columns import DEGREE, NEIGHBOUR, NUMBERS, UNKNOWN, Column, Encoding
from sagpool.graphs.graphs import Graphs


class FittedColumns(NamedTuple):
    attr: Tensor | None  # [nodes, columns of the model]
    unseen: Counter[str]  # values without a column, with the number of nodes that have them
    nodes: Tensor  # [nodes] bool, whether a node has such a value


def fit_columns(graphs: Graphs, known: Encoding) -> FittedColumns:
    """The columns of these graphs that the model knows.

    A pair of labels that no neighbour had in training is left out and not counted as unknown, if
    the model knows both labels.
    """
    own = graphs.encoding
    assert own is not None, "graphs with all features have an encoding"
    nodes = torch.zeros(graphs.num_nodes, dtype=torch.bool, device=graphs.device)
    if own.columns == known.columns and own.labels == known.labels:
        return FittedColumns(graphs.node_attr, Counter(), nodes)
    _check(graphs, own, known)
    place = {column: number for number, column in enumerate(known.columns)}
    highest = max((int(column.name) for column in known.of_group(DEGREE)), default=0)
    attr = torch.zeros(graphs.num_nodes, len(known.columns), device=graphs.device)
    unseen = Counter[str]()
    for number, column in enumerate(own.columns):
        assert graphs.node_attr is not None, "columns are those of node_attr"
        values = graphs.node_attr[:, number]
        if column.group == DEGREE:
            column = Column(DEGREE, str(min(int(column.name), highest)))
        if column in place:
            attr[:, place[column]] += values
        elif column.group.removeprefix(UNKNOWN) in known.groups and column.group != NEIGHBOUR:
            _count_unseen(column, values, unseen, nodes)
    return FittedColumns(attr if known.columns else None, unseen, nodes)


def _count_unseen(column: Column, values: Tensor, unseen: Counter[str], nodes: Tensor) -> None:
    has = values != 0
    count = int(has.sum())
    if count:
        unseen[str(column)] += count
        nodes |= has


def _check(graphs: Graphs, own: Encoding, known: Encoding) -> None:
    missing = [group for group in known.groups if group not in own.groups]
    same = own.labels == known.labels and _numbers(own) == _numbers(known)
    if same and not missing:
        return
    what = f"no '{missing[0]}'" if missing else "other attributes or labels"
    raise SagpoolError(
        f"{graphs.name} has {what} among its features, unlike the graphs that the model was "
        "trained with; load it with features=model.vocabulary.features."
    )


def _numbers(encoding: Encoding) -> list[Column]:
    return [column for column in encoding.columns if column.group in NUMBERS]
