"""What the columns of a model's node features stand for, and bringing other graphs into them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.features import Features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.records import Record

# The kinds of node features that `Graphs` may have, and what `load` is asked for to get them.
_KINDS: dict[str, Features] = {
    "labels": "labels",
    "attributes": "attributes",
    "attributes+labels": "both",
    "degree": "degree",
}


class Fitted(NamedTuple):
    graphs: Graphs
    unseen: Counter[str]  # node labels that the vocabulary lacks, and how many nodes have them


@dataclass(frozen=True)
class Vocabulary:
    """The node features and classes that a model was trained with.

    Args:
        feature_kind: labels, attributes, attributes+labels, degree
        node_labels: what each one-hot column stands for
        attributes: how many there are
        class_names: what each class stands for
    """

    feature_kind: str
    node_labels: tuple[str, ...]
    attributes: int
    class_names: tuple[str, ...]

    @staticmethod
    def of(graphs: Graphs) -> Vocabulary:
        """That of graphs to be trained on."""
        attributes = 0 if graphs.node_attr is None else graphs.node_attr.shape[1]
        return Vocabulary(
            graphs.feature_kind, graphs.node_label_names, attributes, graphs.class_names
        )

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Vocabulary:
        """From plain values; a ValueError where they are not what `to_json` gives."""
        kind, attributes = entry["feature_kind"], entry["attributes"]
        if kind not in _KINDS or type(attributes) is not int or attributes < 0:
            raise ValueError(f"no features are {kind!r} with {attributes!r} attributes")
        names = []
        for key in ("node_labels", "class_names"):
            listed = entry[key]
            if type(listed) is not list or not all(type(name) is str for name in listed):
                raise ValueError(f"{key} is no list of names")
            if len(set(listed)) < len(listed):
                raise ValueError(f"{key} has a name twice")
            names.append(tuple(listed))
        if kind == "degree":
            [int(name) for name in names[0]]
        return Vocabulary(kind, names[0], attributes, names[1])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def num_features(self) -> int:
        return self.attributes + len(self.node_labels)

    @property
    def features(self) -> Features:
        """What to ask `load` for."""
        return _KINDS[self.feature_kind]

    def check(self, record: Record) -> Record:
        """The graph, if its nodes have all that the model needs, with nothing else."""
        labels, features = record.labels, record.features
        if self.feature_kind in ("labels", "attributes+labels"):
            if labels is None:
                raise SagpoolError(
                    f"{record.place} has no node labels; the model was trained with them."
                )
        elif labels is not None:
            record = record._replace(labels=None)
        if self.feature_kind in ("attributes", "attributes+labels"):
            if record.width != self.attributes:
                raise SagpoolError(
                    f"{record.place} has {record.width} numbers for each node, where the model was "
                    f"trained with {self.attributes}."
                )
        elif features is not None:
            record = record._replace(features=None)
        return record

    def fit(self, graphs: Graphs) -> Fitted:
        """The graphs with their features in these columns, and their classes in this order.

        A node whose label is not known has none: all its columns are zero. Graphs of classes that
        are not known, or of some that are and some that are not, come out without classes.
        """
        attributes = 0 if graphs.node_attr is None else graphs.node_attr.shape[1]
        if attributes != self.attributes:
            raise SagpoolError(
                f"{graphs.name} has {attributes} numbers for each node, where the model was "
                f"trained with {self.attributes}."
            )
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
        y = self._classes(graphs)
        fitted = replace(
            graphs,
            node_label=label,
            node_label_names=self.node_labels,
            y=y,
            class_names=self.class_names,
            feature_kind=self.feature_kind,
        )
        return Fitted(fitted, unseen)

    def _labels(self, graphs: Graphs) -> tuple[torch.Tensor | None, Counter[str]]:
        if graphs.node_label is None or graphs.node_label_names == self.node_labels:
            return graphs.node_label, Counter()
        place = {name: column for column, name in enumerate(self.node_labels)}
        columns = [place.get(self._known(name), -1) for name in graphs.node_label_names]
        # One more for -1, a node that has no label to begin with.
        table = torch.tensor([*columns, -1], dtype=torch.int32, device=graphs.device)
        label = table[graphs.node_label.long()]
        codes = graphs.node_label.cpu().numpy()
        counts = np.bincount(codes[codes >= 0], minlength=len(columns))
        unseen = Counter(
            {
                name: int(counts[code])
                for code, name in enumerate(graphs.node_label_names)
                if columns[code] < 0 and counts[code]
            }
        )
        return label, unseen

    def _known(self, name: str) -> str:
        """A degree above all that were seen counts as the highest of them."""
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
