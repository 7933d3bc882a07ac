"""The roles of the columns of PyG's matrices: measurements, categories, or a one-hot block."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagpool.graphs.columns import Role

MOST_CATEGORIES = 64  # most values of a category; whole numbers with more values are measurements
NUMBER: Role = "number"
NO_LABEL = "none"  # the label of a row of zeros in a one-hot block


class Parts(NamedTuple):
    """The columns of one matrix by their roles."""

    numbers: np.ndarray | None  # [rows, numbers]; None if there are no such columns
    one_hot: list[str] | None  # [rows] the number of the column that has the 1
    categories: dict[int, list[str]]  # by the number of the column


def find_roles(matrices: Sequence[np.ndarray]) -> tuple[Role, ...]:
    """The roles of the columns of all these matrices.

    Whole numbers (by their type, not their value) are categories. Columns of 0 and 1 are a one-hot
    block if every row has exactly one 1 in them. All other columns are measurements.
    """
    matrix = np.concatenate(matrices)  # [rows, columns]
    columns = matrix.shape[1] if matrix.ndim == 2 else 0
    if matrix.dtype.kind in "iu":
        few = [len(np.unique(column)) <= MOST_CATEGORIES for column in matrix.T]
        return tuple("category" if is_few else NUMBER for is_few in few)
    binary = ((matrix == 0) | (matrix == 1)).all(0)
    if len(matrix) and binary.sum() > 1 and (matrix[:, binary].sum(1) == 1).all():
        return tuple("one-hot" if is_binary else NUMBER for is_binary in binary)
    return (NUMBER,) * columns


def split_by_role(matrix: np.ndarray, roles: Sequence[Role]) -> Parts:
    """``matrix [rows, columns]``, whose number of columns is that of the roles."""
    places: dict[Role, list[int]] = {"number": [], "category": [], "one-hot": []}
    for place, role in enumerate(roles):
        places[role].append(place)
    numbers, block = places["number"], np.array(places["one-hot"])
    labels = None
    if len(block):
        has, names = matrix[:, block] != 0, [*map(str, block.tolist()), NO_LABEL]
        columns = np.where(has.any(1), has.argmax(1), len(block))
        labels = [names[column] for column in columns.tolist()]
    return Parts(
        matrix[:, numbers].astype(np.float32) if numbers else None,
        labels,
        {place: [f"{value:g}" for value in matrix[:, place]] for place in places["category"]},
    )
