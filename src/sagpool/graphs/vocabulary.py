"""`Vocabulary`: the node features and classes of a model, and fitting other graphs to them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch

from sagpool.errors import SagpoolError
from sagpool.foreign.values import DecodingError, decode, shorten
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.records import Record

# `Graphs.feature_kind`, and the argument of `load` that gives it.
_KINDS: dict[str, Features] = {
    "labels": "labels",
    "attributes": "attributes",
    "attributes+labels": "both",
    "degree": "degree",
}


class Fitted(NamedTuple):
    graphs: Graphs
    unseen: Counter[str]  # node labels that are not in the vocabulary, with their node counts


@dataclass(frozen=True)
class Vocabulary:
    """The node features and classes that a model was trained with."""

    feature_kind: str  # labels, attributes, attributes+labels, degree
    node_labels: tuple[str, ...]  # label of each one-hot column
    attributes: int  # number of attributes
    class_names: tuple[str, ...]

    @staticmethod
    def of(graphs: Graphs) -> Vocabulary:
        """The vocabulary of training graphs."""
        names = graphs.node_label_names
        attributes = graphs.num_features - len(names)
        return Vocabulary(graphs.feature_kind, names, attributes, graphs.class_names)

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Vocabulary:
        """From the values of `to_json`; a ValueError if they are anything else."""
        vocabulary = decode(Vocabulary, entry, "the vocabulary")
        kind, labels = vocabulary.feature_kind, vocabulary.node_labels
        if kind not in _KINDS or vocabulary.attributes < 0:
            raise DecodingError(
                f"{shorten(kind)} with {vocabulary.attributes} attributes are not node features"
            )
        for key in ("node_labels", "class_names"):
            listed = getattr(vocabulary, key)
            if len(set(listed)) < len(listed):
                raise DecodingError(f"{key} has a duplicate name")
        if kind == "degree" and not all(re.fullmatch("[0-9]{1,9}", name) for name in labels):
            raise DecodingError("a degree in node_labels is not a number")
        return vocabulary

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def num_features(self) -> int:
        return self.attributes + len(self.node_labels)

    @property
    def features(self) -> Features:
        """The argument of `load` that gives these features."""
        return _KINDS[self.feature_kind]

    def check(self, record: Record) -> Record:
        """The graph with only the parts that the model uses; an error if one is missing."""
        if self.feature_kind in ("labels", "attributes+labels"):
            if record.labels is None:
                raise SagpoolError(
                    f"{record.place} has no node labels; the model was trained with them."
                )
        elif record.labels is not None:
            record = replace(record, labels=None)
        if self.feature_kind in ("attributes", "attributes+labels"):
            self._check_attributes(record.place, record.width)
        elif record.features is not None:
            record = replace(record, features=None)
        return record

    def fit(self, graphs: Graphs) -> Fitted:
        """The graphs with their features in these columns, and their classes in this order.

        A node with an unknown label has zeros in all columns. If any class is unknown, the result
        has no classes.
        """
        self._check_attributes(graphs.name, graphs.num_features - len(graphs.node_label_names))
        if bool(self.node_labels) != bool(graphs.node_label_names):
            what = "no node labels" if self.node_labels else "node labels"
            raise SagpoolError(
                f"{graphs.name} has {what}; the model was trained with {self.feature_kind}."
            )
        if (graphs.feature_kind == "degree") != (self.feature_kind == "degree"):
            raise SagpoolError(
                f"{graphs.name} has {graphs.feature_kind} as node features; the model was trained "
                f"with {self.feature_kind}."
            )
        label, unseen = self._labels(graphs)
        fitted = replace(
            graphs,
            node_label=label,
            node_label_names=self.node_labels,
            y=self._classes(graphs),
            class_names=self.class_names,
            feature_kind=self.feature_kind,
        )
        return Fitted(fitted, unseen)

    def _check_attributes(self, place: str, attributes: int) -> None:
        if attributes != self.attributes:
            raise SagpoolError(
                f"{place} has {attributes} attributes per node; the model was trained with "
                f"{self.attributes}."
            )

    def _labels(self, graphs: Graphs) -> tuple[torch.Tensor | None, Counter[str]]:
        if graphs.node_label is None or graphs.node_label_names == self.node_labels:
            return graphs.node_label, Counter()
        column_of = {name: column for column, name in enumerate(self.node_labels)}
        columns = [column_of.get(self._known(name), -1) for name in graphs.node_label_names]
        # The last entry is for nodes without a label, -1.
        table = torch.tensor([*columns, -1], dtype=torch.int32, device=graphs.device)
        label = table[graphs.node_label.long()]
        unknown = graphs.node_label[(label < 0) & (graphs.node_label >= 0)]
        codes = unknown.sort().values.tolist()
        return label, Counter(graphs.node_label_names[code] for code in codes)

    def _known(self, name: str) -> str:
        """Degrees above the highest one of the vocabulary count as that one."""
        if self.feature_kind != "degree":
            return name
        return str(min(int(name), max(int(known) for known in self.node_labels)))

    def _classes(self, graphs: Graphs) -> torch.Tensor | None:
        if graphs.y is None or graphs.class_names == self.class_names:
            return graphs.y
        if not set(graphs.class_names) <= set(self.class_names):
            return None
        table = [self.class_names.index(name) for name in graphs.class_names]
        return torch.tensor(table, device=graphs.device)[graphs.y]
