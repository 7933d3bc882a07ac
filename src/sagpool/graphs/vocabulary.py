"""`Vocabulary`: the node features and targets of a model; fits other graphs to them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.foreign.values import DecodingError, decode, shorten
from sagpool.graphs.atoms import described
from sagpool.graphs.columns import ATTRIBUTE, DEGREE, EDGE_ATTRIBUTE, NEIGHBOUR, NUMBERS, Encoding
from sagpool.graphs.features import Features
from sagpool.graphs.fit_columns import fit_columns
from sagpool.graphs.graphs import Graphs, Task
from sagpool.graphs.records import Record

# Maps `Graphs.feature_kind` to the argument of `load` that gives it.
_KINDS: dict[str, Features] = {
    "labels": "labels",
    "attributes": "attributes",
    "attributes+labels": "both",
    "degree": "degree",
    "all": "all",
}


class Fitted(NamedTuple):
    graphs: Graphs
    unseen: Counter[str]  # unknown node labels, with the number of nodes that have them


@dataclass(frozen=True)
class Vocabulary:
    """The node features and the targets that a model was trained with."""

    feature_kind: str  # labels, attributes, attributes+labels, degree, all
    node_labels: tuple[str, ...]  # label of each one-hot column
    attributes: int  # number of attributes, or of dense columns if the features are ``all``
    class_names: tuple[str, ...]
    encoding: Encoding | None = None  # describes the dense columns if the features are ``all``
    task: Task = "classification"
    target_names: tuple[str, ...] = ()

    @staticmethod
    def of(graphs: Graphs) -> Vocabulary:
        """The vocabulary of training graphs."""
        names = graphs.node_label_names
        attributes = graphs.num_features - len(names)
        return Vocabulary(
            graphs.feature_kind,
            names,
            attributes,
            graphs.class_names,
            graphs.encoding,
            graphs.task,
            graphs.target_names,
        )

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Vocabulary:
        """From the result of `to_json`; a ValueError if it is anything else."""
        vocabulary = decode(Vocabulary, entry, "the vocabulary")
        kind, labels = vocabulary.feature_kind, vocabulary.node_labels
        if kind not in _KINDS or vocabulary.attributes < 0:
            raise DecodingError(
                f"{shorten(kind)} with {vocabulary.attributes} attributes are not node features"
            )
        for key in ("node_labels", "class_names", "target_names"):
            listed = getattr(vocabulary, key)
            if len(set(listed)) < len(listed):
                raise DecodingError(f"{key} has a duplicate name")
        if (vocabulary.encoding is not None) != (kind == "all"):
            raise DecodingError(f"an encoding does not fit {kind}")
        if vocabulary.encoding is not None:
            _check_encoding(vocabulary.encoding, vocabulary.attributes)
        if not vocabulary.has_labels and not all(map(_is_degree, labels)):
            raise DecodingError("a degree in node_labels is not a number")
        return vocabulary

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def num_features(self) -> int:
        return self.attributes + len(self.node_labels)

    @property
    def num_outputs(self) -> int:
        """Number of classes, or of targets."""
        return len(self.class_names if self.task == "classification" else self.target_names)

    @property
    def kind(self) -> Features:
        """The name of these features in `load`."""
        return _KINDS[self.feature_kind]

    @property
    def features(self) -> Features | Encoding:
        """The argument of `load` that gives these features."""
        return _KINDS[self.feature_kind] if self.encoding is None else self.encoding

    @property
    def has_labels(self) -> bool:
        """Whether the one-hot columns stand for labels, not for degrees."""
        return self.feature_kind != "degree" if self.encoding is None else self.encoding.labels

    def check(self, record: Record) -> Record:
        """The graph with only the parts that the model uses; an error if one is missing."""
        if self.encoding is not None:
            return _checked(record, self.encoding)
        if self.feature_kind in ("labels", "attributes+labels"):
            _need_labels(record)
        elif record.labels is not None:
            record = replace(record, labels=None)
        if self.feature_kind in ("attributes", "attributes+labels"):
            self._check_attributes(record.place, record.width)
        elif record.features is not None:
            record = replace(record, features=None)
        if record.edge_labels or record.edge_features is not None:
            record = replace(record, edge_labels={}, edge_features=None)
        return record

    def fit(self, graphs: Graphs) -> Fitted:
        """The graphs with their features in these columns, and their classes in this order.

        A node with an unknown label has zeros in all columns of that label. If any class is
        unknown, the result has no classes; missing targets become NaN.
        """
        label, attr, unseen, _ = self._fitted(graphs)
        fitted = replace(
            graphs,
            node_label=label,
            node_attr=attr,
            node_label_names=self.node_labels,
            y=self._classes(graphs),
            class_names=self.class_names,
            targets=self._targets(graphs),
            target_names=self.target_names,
            task=self.task,
            encoding=self.encoding,
            continuous=0 if self.encoding is None else self.encoding.continuous,
            feature_kind=self.feature_kind,
        )
        return Fitted(fitted, unseen)

    def unseen_nodes(self, graphs: Graphs) -> np.ndarray:
        """``[graphs]`` int64: nodes of each graph with a label that the model does not know."""
        nodes = self._fitted(graphs)[3].cpu().numpy()
        return np.add.reduceat(nodes, graphs.node_ptr[:-1]) if len(graphs) else np.zeros(0, int)

    def _fitted(self, graphs: Graphs) -> tuple[Tensor | None, Tensor | None, Counter[str], Tensor]:
        """Labels, attributes, unknown labels, and ``[nodes]`` int64, whether a node has one."""
        self._check_features(graphs)
        label, unseen, nodes = self._labels(graphs)
        attr = graphs.node_attr
        if self.encoding is not None:
            columns = fit_columns(graphs, self.encoding)
            attr, unseen, nodes = columns.attr, unseen + columns.unseen, nodes | columns.nodes
        return label, attr, unseen, nodes.long()

    def _check_features(self, graphs: Graphs) -> None:
        if self.encoding is None:
            self._check_attributes(graphs.name, graphs.num_features - len(graphs.node_label_names))
        if bool(self.node_labels) != bool(graphs.node_label_names):
            what = "no node labels" if self.node_labels else "node labels"
            raise SagpoolError(
                f"{graphs.name} has {what}; the model was trained with {self.feature_kind}."
            )
        one_only = graphs.feature_kind, self.feature_kind
        if one_only[0] != one_only[1] and ("degree" in one_only or "all" in one_only):
            raise SagpoolError(
                f"{graphs.name} has {graphs.feature_kind} as node features; the model was trained "
                f"with {self.feature_kind}."
            )

    def _check_attributes(self, place: str, attributes: int) -> None:
        if attributes != self.attributes:
            raise SagpoolError(
                f"{place} has {attributes} attributes per node; the model was trained with "
                f"{self.attributes}."
            )

    def _labels(self, graphs: Graphs) -> tuple[Tensor | None, Counter[str], Tensor]:
        none = torch.zeros(graphs.num_nodes, dtype=torch.bool, device=graphs.device)
        if graphs.node_label is None or graphs.node_label_names == self.node_labels:
            return graphs.node_label, Counter(), none
        column_of = {name: column for column, name in enumerate(self.node_labels)}
        columns = [column_of.get(self._known(name), -1) for name in graphs.node_label_names]
        # The last entry is for nodes without a label, -1.
        table = torch.tensor([*columns, -1], dtype=torch.int32, device=graphs.device)
        label = table[graphs.node_label.long()]
        unknown = (label < 0) & (graphs.node_label >= 0)
        codes = graphs.node_label[unknown].sort().values.tolist()
        return label, Counter(graphs.node_label_names[code] for code in codes), unknown

    def _known(self, name: str) -> str:
        """The name of the label; degrees above the highest known degree count as that degree."""
        if self.has_labels:
            return name
        return str(min(int(name), max(int(known) for known in self.node_labels)))

    def _classes(self, graphs: Graphs) -> Tensor | None:
        if graphs.y is None or graphs.class_names == self.class_names:
            return graphs.y
        if not set(graphs.class_names) <= set(self.class_names):
            return None
        table = [self.class_names.index(name) for name in graphs.class_names]
        return torch.tensor(table, device=graphs.device)[graphs.y]

    def _targets(self, graphs: Graphs) -> Tensor | None:
        if graphs.targets is None or graphs.target_names == self.target_names:
            return graphs.targets
        column_of = {name: column for column, name in enumerate(graphs.target_names)}
        known = [name for name in self.target_names if name in column_of]
        if not known:
            return None
        targets = graphs.targets.new_full((len(graphs), len(self.target_names)), torch.nan)
        for name in known:
            targets[:, self.target_names.index(name)] = graphs.targets[:, column_of[name]]
        return targets


def _need_labels(record: Record) -> None:
    if record.labels is None:
        raise SagpoolError(f"{record.place} has no node labels; the model was trained with them.")


def _checked(record: Record, encoding: Encoding) -> Record:
    """`Vocabulary.check` for the columns of ``all``."""
    if record.molecule is not None and record.fragments is None:
        record = described(record)
    if encoding.labels:
        _need_labels(record)
    attributes = len(encoding.of_group(ATTRIBUTE))
    if attributes != record.width and attributes:
        raise SagpoolError(
            f"{record.place} has {record.width} attributes per node; the model was trained with "
            f"{attributes}."
        )
    titles = {*record.more_labels, *record.edge_labels, ATTRIBUTE, DEGREE, NEIGHBOUR}
    titles |= set() if record.edge_features is None else {EDGE_ATTRIBUTE}
    missing = [group for group in encoding.groups if group not in titles]
    if missing and record.num_edges:
        raise SagpoolError(f"{record.place} has no '{missing[0]}'; the model was trained with it.")
    return replace(
        record,
        labels=record.labels if encoding.labels else None,
        features=record.features if attributes else None,
        more_labels={t: v for t, v in record.more_labels.items() if t in encoding.groups},
        edge_labels={t: v for t, v in record.edge_labels.items() if t in encoding.groups},
        edge_features=record.edge_features if EDGE_ATTRIBUTE in encoding.groups else None,
    )


def _check_encoding(encoding: Encoding, columns: int) -> None:
    if len(encoding.columns) != columns or len(set(encoding.columns)) < columns:
        raise DecodingError("the columns of the encoding do not fit")
    in_order = [c for group in encoding.groups for c in encoding.of_group(group)]
    numbers = [column.group in NUMBERS for column in encoding.columns]
    if tuple(in_order) != encoding.columns or numbers != sorted(numbers, reverse=True):
        raise DecodingError("the columns of the encoding are not in the order of its groups")
    if not all(_is_degree(column.name) for column in encoding.of_group(DEGREE)):
        raise DecodingError("a degree in the encoding is not a number")


def _is_degree(name: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,9}", name))
