"""``features="all"``: everything that is known about a node, in columns with names.

The first label of a node stays a compact one-hot label. All other columns are dense: attributes,
sums of the attributes of a node's edges, further labels, the number of a node's edges of each
label, its degree and, for each pair of an edge label and a node label, the number of such
neighbours. These counts are the first messages of a relational convolution, so edge labels reach
every convolution.
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import DENSE, LABELS
from sagpool.foreign.values import shorten
from sagpool.graphs.columns import (
    ATTRIBUTE,
    DEGREE,
    EDGE_ATTRIBUTE,
    NEIGHBOUR,
    UNKNOWN,
    Column,
    Encoding,
)
from sagpool.graphs.raw_graphs import Codes, Labels, RawGraphs, encode_degrees

log = logging.getLogger("sagpool")

MOST_PAIRS = 256  # columns of neighbours; more pairs of labels are not counted


class Everything(NamedTuple):
    label: np.ndarray  # [nodes] int32
    label_names: tuple[str, ...]
    attr: np.ndarray | None  # [nodes, columns] float32
    encoding: Encoding


class _Block(NamedTuple):
    """Columns of one group, and the function that fills them."""

    group: str
    columns: tuple[Column, ...]
    fill: Callable[[np.ndarray], None]  # gets zeros of [nodes, columns]
    unknown: np.ndarray | None = None  # [nodes] values without a column, if there are any


def encode_everything(raw: RawGraphs, known: Encoding | None, degree_cap: int) -> Everything:
    """The columns of these graphs, either new ones or those of a given `Encoding`."""
    labels = raw.node_labels is not None if known is None else known.labels
    if labels and raw.node_labels is None:
        raise SagpoolError(f"{raw.name} has no node labels; the model was trained with them.")
    if labels and raw.node_labels is not None:
        main = Codes(raw.node_labels[:, 0], raw.node_label_names[0])
    else:
        main = encode_degrees(raw.degree, degree_cap)
    LABELS.check(len(main.names), raw.name)
    builder = _Builder(raw, main if labels else None, degree_cap)
    blocks = builder.fitting() if known is None else builder.known(known)
    unknown = [block for block in blocks if block.unknown is not None]
    columns = [column for block in blocks for column in block.columns]
    width = len(columns)
    columns += [Column(f"{UNKNOWN}{block.group}", "") for block in unknown]
    attr = np.zeros((len(raw.degree), len(columns)), np.float32) if columns else None
    if attr is not None:
        start = 0
        for block in blocks:
            block.fill(attr[:, start : start + len(block.columns)])
            start += len(block.columns)
        for number, block in enumerate(unknown):
            attr[:, width + number] = block.unknown
    encoding = Encoding(
        labels,
        tuple(block.group for block in blocks),
        tuple(columns),
        () if known is None else known.x_roles,
        () if known is None else known.edge_roles,
        tuple(builder.edge_labels) if known is None else known.edge_groups,
    )
    return Everything(main.code.astype(np.int32, copy=False), main.names, attr, encoding)


class _Builder:
    """Makes the blocks of one collection; ``main`` has the labels of its nodes, if any."""

    def __init__(self, raw: RawGraphs, main: Codes | None, degree_cap: int) -> None:
        self.raw, self.main, self.degree_cap = raw, main, degree_cap
        self.nodes = len(raw.degree)
        self.row = np.repeat(np.arange(self.nodes), raw.degree)  # [edges] node of each edge
        self.node_labels = {labels.title: labels for labels in self._further_labels()}
        self.edge_labels = {labels.title: labels for labels in raw.edge_labels}

    def _further_labels(self) -> Iterator[Labels]:
        if self.raw.node_labels is not None:
            columns = list(zip(self.raw.node_labels.T, self.raw.node_label_names, strict=True))
            for number, (code, names) in enumerate(columns[1:], 2):
                yield Labels(f"label {number}", code, names)
        yield from self.raw.more_labels

    def groups(self) -> list[str]:
        """All groups of this collection, numbers first."""
        raw = self.raw
        groups = [] if raw.node_attr is None else [ATTRIBUTE]
        groups += [] if raw.edge_attr is None else [EDGE_ATTRIBUTE]
        groups += [*self.node_labels, *self.edge_labels]
        groups += [] if self.main is None else [DEGREE]
        return groups + ([NEIGHBOUR] if self.main is not None and self.edge_labels else [])

    def fitting(self) -> list[_Block]:
        """The blocks of all groups that stay within the limits."""
        blocks, numbers = [], 0
        for group in self.groups():
            block = self._block(group, None)
            if group == NEIGHBOUR and len(block.columns) > MOST_PAIRS:
                log.info(
                    "%s has %d pairs of an edge label and a node label; neighbours are counted for "
                    "at most %d.", self.raw.name, len(block.columns), MOST_PAIRS,
                )  # fmt: skip
                continue
            more = 0 if group == ATTRIBUTE else self.nodes * len(block.columns)
            if numbers + more > DENSE.most:
                sentence = DENSE.sentence(numbers + more, self.raw.name)
                log.warning("%s. The columns '%s' are left out.", sentence, group)
                continue
            numbers += more
            blocks.append(block)
        return blocks

    def known(self, encoding: Encoding) -> list[_Block]:
        """The blocks with these columns."""
        own = self.groups()
        blocks = []
        for group in encoding.groups:
            columns = encoding.of_group(group)
            if group in own:
                blocks.append(self._block(group, columns))
            elif len(self.row) or group == ATTRIBUTE:
                raise SagpoolError(
                    f"{self.raw.name} has no '{group}'; the model was trained with it."
                )
            else:  # without edges there are no values
                blocks.append(_Block(group, columns, lambda out: None))
        return blocks

    def _block(self, group: str, known: tuple[Column, ...] | None) -> _Block:
        raw = self.raw
        if group == ATTRIBUTE:
            assert raw.node_attr is not None
            names = raw.attribute_names
            return self._numbers(group, raw.node_attr, known, self._copy, names)
        if group == EDGE_ATTRIBUTE:
            assert raw.edge_attr is not None
            return self._numbers(group, raw.edge_attr, known, self._sums)
        if group in self.node_labels:
            return self._one_hot(self.node_labels[group], known)
        if group in self.edge_labels:
            return self._edge_counts(self.edge_labels[group], known)
        return self._degrees(known) if group == DEGREE else self._neighbours(known)

    def _numbers(
        self,
        group: str,
        values: np.ndarray,
        known: tuple[Column, ...] | None,
        write: Callable[[np.ndarray, np.ndarray], None],
        names: tuple[str, ...] = (),
    ) -> _Block:
        titles = names or tuple(map(str, range(values.shape[1])))
        columns = tuple(Column(group, title) for title in titles)
        if known is not None and known != columns:
            raise SagpoolError(f"{self.raw.name} {_difference(group, columns, known)}.")
        return _Block(group, columns, lambda out: write(out, values))

    @staticmethod
    def _copy(out: np.ndarray, values: np.ndarray) -> None:
        out[:] = values

    def _sums(self, out: np.ndarray, values: np.ndarray) -> None:
        for number, column in enumerate(values.T):
            out[:, number] = np.bincount(self.row, column, self.nodes)

    def _one_hot(self, labels: Labels, known: tuple[Column, ...] | None) -> _Block:
        columns, code, unknown = _columns(labels, known)
        nodes = np.arange(self.nodes)
        return _Block(
            labels.title,
            columns,
            lambda out: _count(out, nodes, code),
            unknown.astype(np.float32) if unknown.any() else None,
        )

    def _edge_counts(self, labels: Labels, known: tuple[Column, ...] | None) -> _Block:
        columns, code, unknown = _columns(labels, known)
        return _Block(
            labels.title,
            columns,
            lambda out: _count(out, self.row, code),
            np.bincount(self.row, unknown, self.nodes) if unknown.any() else None,
        )

    def _degrees(self, known: tuple[Column, ...] | None) -> _Block:
        degree, cap = self.raw.degree, self.degree_cap
        if known:  # degrees above the highest known degree count as that degree
            cap = max(int(column.name) for column in known)
        return self._one_hot(Labels(DEGREE, *encode_degrees(degree, cap)), known)

    def _neighbours(self, known: tuple[Column, ...] | None) -> _Block:
        assert self.main is not None
        edges = next(iter(self.edge_labels.values()))
        first = np.cumsum(self.raw.node_counts) - self.raw.node_counts
        other = self.raw.col + np.repeat(first, self.raw.edge_counts)  # [edges] the neighbour
        label = self.main.code[other].astype(np.int64)
        pair = np.where(
            (edges.code < 0) | (label < 0), -1, edges.code * len(self.main.names) + label
        )
        pairs, code = np.unique(pair, return_inverse=True)
        columns = tuple(
            Column(NEIGHBOUR, self.main.names[one % len(self.main.names)],
                   edges.names[one // len(self.main.names)])
            for one in pairs[pairs >= 0].tolist()
        )  # fmt: skip
        code = code.reshape(-1) - int(len(pairs) - len(columns))
        if known is not None:
            columns, code = known, _renumbered(code, columns, known)
        return _Block(NEIGHBOUR, columns, lambda out: _count(out, self.row, code))


def _difference(group: str, own: tuple[Column, ...], known: tuple[Column, ...]) -> str:
    """How columns of numbers differ from those of the training."""
    if len(own) != len(known):
        return f"has {len(own)} values of '{group}'; the model was trained with {len(known)}"
    ours, theirs = next(pair for pair in zip(own, known, strict=True) if pair[0] != pair[1])
    return (
        f"has the value {shorten(ours.name)} of '{group}' where the model was trained with "
        f"{shorten(theirs.name)}"
    )


def _columns(
    labels: Labels, known: tuple[Column, ...] | None
) -> tuple[tuple[Column, ...], np.ndarray, np.ndarray]:
    """The columns, the column of each value or -1, and the values that have no column."""
    columns = tuple(Column(labels.title, name) for name in labels.names)
    if known is None:
        return columns, labels.code, np.zeros(len(labels.code), bool)
    code = _renumbered(labels.code, columns, known)
    return known, code, (code < 0) & (labels.code >= 0)


def _renumbered(
    code: np.ndarray, columns: tuple[Column, ...], known: tuple[Column, ...]
) -> np.ndarray:
    number = {column: place for place, column in enumerate(known)}
    table = np.array([*(number.get(column, -1) for column in columns), -1])
    return table[code]  # -1 is the last entry


def _count(out: np.ndarray, row: np.ndarray, code: np.ndarray) -> None:
    """``out[row, code] += 1``, without entries whose code is -1."""
    order = np.argsort(code, kind="stable")
    row = row[order]
    start, *ends = np.searchsorted(code[order], np.arange(out.shape[1] + 1)).tolist()
    for column, end in enumerate(ends):
        out[:, column] = np.bincount(row[start:end], minlength=len(out))
        start = end
