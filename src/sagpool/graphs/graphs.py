"""`Graphs`: many graphs packed into a few flat arrays."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.graphs.batch import BatchSource, dense_features
from sagpool.graphs.columns import Encoding
from sagpool.graphs.indexing import Index, selected
from sagpool.ops import ragged_arange, repeat_each, with_self_entries

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_array
    from torch_geometric.data import Data

Task = Literal["classification", "multitask", "regression"]


@dataclass(frozen=True)
class Statistics:
    """The columns of the paper's Table 1, the kind of features and the largest class."""

    name: str
    graphs: int
    classes: int
    avg_nodes: float
    avg_edges: float  # undirected: each pair of neighbours counts once
    features: int
    feature_kind: str
    majority: float | None  # fraction of the most frequent class; None without classes


@dataclass(frozen=True, eq=False, repr=False)
class Graphs:
    """An immutable collection of undirected graphs, stored one after the other.

    The adjacency is CSR, with neighbours as indices *inside their own graph*: a slice of the
    collection is a view, and any other subset is one ragged gather. Counts stay on the host, so
    that shapes are known without synchronising with the device of the tensors.

    A single graph is a collection of one: ``graphs[3].x``, ``graphs[3].edge_index``.

    Args:
        node_counts: ``[graphs]`` nodes of each graph, at least one, on the host
        edge_counts: ``[graphs]`` directed edges of each graph, on the host
        degree: ``[nodes]`` int32, the lengths of the CSR rows
        col: ``[edges]`` int32, the neighbours of node 0, then of node 1, ..., ascending
        y: ``[graphs]`` int64 class of each graph
        node_label: ``[nodes]`` int32, the one-hot column of each node; -1 is an all-zero row
        node_attr: ``[nodes, attributes]`` float32
        edge_attr: ``[edges, edge features]`` float32
        ground_truth: ``[nodes]`` how relevant each node is for the class, if known: bool, or a
            number, 0 for irrelevant
        node_target: ``[nodes]`` float32, at least 0: targets of the node scores, if they are not
            the ground truth; see `with_node_targets`
        part: ``[graphs]`` int64, for data sets that come with a split
        targets: ``[graphs, tasks]`` float32 instead of classes, NaN where not measured
        fold: ``[graphs]`` int64, the fold of a cross-validation that tests each graph, if given
        group: ``[graphs]`` int64; graphs of one group (a scaffold) are never split up
        time: ``[graphs]`` int64, the order in which graphs were made; equal for the same time
        fragments: ``[graphs, 2**32]`` sparse counts of the Morgan environments of molecules
        ids: ``[graphs]`` the name of each graph in its source
        node_label_names: label of each one-hot column
        class_names: name of each class
        part_names: ``train``, ``validation``, and the names of one or more tests
        target_names: name of each task
        task: what the targets are: ``classification`` (y), ``multitask`` (targets of 0 and 1) or
            ``regression`` (targets)
        continuous: how many leading columns of ``node_attr`` are measurements on any scale; 0
            unless the features are ``all``
        encoding: the meaning of the columns, if the features are ``all``
        feature_kind: source of the node features (labels, attributes, degree, ...)
        name: name of the data set
    """

    node_counts: np.ndarray
    edge_counts: np.ndarray
    degree: Tensor
    col: Tensor
    y: Tensor | None = None
    node_label: Tensor | None = None
    node_attr: Tensor | None = None
    edge_attr: Tensor | None = None
    ground_truth: Tensor | None = None
    node_target: Tensor | None = None
    part: Tensor | None = None
    targets: Tensor | None = None
    fold: Tensor | None = None
    group: Tensor | None = None
    time: Tensor | None = None
    fragments: csr_array | None = None
    ids: np.ndarray | None = None
    node_label_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    part_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    task: Task = "classification"
    continuous: int = 0
    encoding: Encoding | None = None
    feature_kind: str = "attributes"
    name: str = "graphs"

    def __post_init__(self) -> None:
        for counts in (self.node_counts, self.edge_counts):
            counts.setflags(write=False)

    @staticmethod
    def from_pyg(data: Sequence[Data], **options: Any) -> Graphs:
        """Pack a list of PyG ``Data``; see :func:`sagpool.graphs.convert.from_pyg`."""
        from sagpool.graphs.convert import from_pyg

        return from_pyg(data, **options)

    @staticmethod
    def from_networkx(
        graphs: Sequence[networkx.Graph], y: Sequence[Any] | None = None, **options: Any
    ) -> Graphs:
        """Pack networkx graphs; see :func:`sagpool.graphs.convert.from_networkx`."""
        from sagpool.graphs.convert import from_networkx

        return from_networkx(graphs, y, **options)

    def to_pyg(self) -> list[Data]:
        """Unpack to a list of PyG ``Data``."""
        from sagpool.graphs.convert import to_pyg

        return to_pyg(self)

    @property
    def num_nodes(self) -> int:
        return int(self.node_counts.sum())

    @property
    def num_edges(self) -> int:
        """Directed edges: each pair of neighbours counts twice."""
        return int(self.edge_counts.sum())

    @property
    def num_features(self) -> int:
        attributes = 0 if self.node_attr is None else self.node_attr.shape[1]
        return attributes + len(self.node_label_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The name of each column of ``x``."""
        attributes = self.num_features - len(self.node_label_names)
        numbered = tuple(f"attribute {number}" for number in range(attributes))
        dense = numbered if self.encoding is None else tuple(map(str, self.encoding.columns))
        of_labels = "label" if self._has_labels else "degree"
        return (*dense, *(f"{of_labels} {name}" for name in self.node_label_names))

    @property
    def _has_labels(self) -> bool:
        """Whether the one-hot labels are not degrees."""
        return self.feature_kind != "degree" if self.encoding is None else self.encoding.labels

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_outputs(self) -> int:
        """Number of outputs of a model, one for each class or for each task of the targets."""
        if self.task == "classification" or self.targets is None:
            return self.num_classes
        return self.targets.shape[1]

    @property
    def device(self) -> torch.device:
        return self.col.device

    @cached_property
    def node_ptr(self) -> np.ndarray:
        """``[graphs + 1]`` on the host: graph g has the nodes ``node_ptr[g]:node_ptr[g + 1]``."""
        return _offsets(self.node_counts)

    @cached_property
    def edge_ptr(self) -> np.ndarray:
        """``[graphs + 1]`` on the host: graph g has the edges ``edge_ptr[g]:edge_ptr[g + 1]``."""
        return _offsets(self.edge_counts)

    @cached_property
    def row_ptr(self) -> Tensor:
        """``[nodes + 1]`` int64: node v has the neighbours ``col[row_ptr[v]:row_ptr[v + 1]]``."""
        return pad(torch.cumsum(self.degree, 0), (1, 0))

    @cached_property
    def batch_source(self) -> BatchSource:
        """The collection in the form from which `pack` makes batches."""
        own = torch.arange(self.num_nodes, device=self.device) - self._first_node()
        row_ptr, col = with_self_entries(self.row_ptr, self.col, own)
        counts = np.append(self.edge_counts + self.node_counts, 0)
        label, attr = self.node_label, self.node_attr
        return BatchSource(
            length=pad(row_ptr.diff().int(), (0, 1)),
            col=col,
            counts=counts,
            ptr=_offsets(counts[:-1]),
            first_node=self.node_ptr,
            y=None if self.y is None else pad(self.y, (0, 1)),
            targets=self._batch_targets(),
            task=self.task,
            node_label=None if label is None else pad(label, (0, 1), value=-1),
            node_attr=None if attr is None else pad(attr, (0, 0, 0, 1)),
            node_target=self._batch_node_target(),
            num_labels=len(self.node_label_names),
        )

    @property
    def x(self) -> Tensor:
        """``[nodes, features]`` float32: attributes, then one-hot labels (PyG's order).

        Computed on each call: the one-hot matrix of a large data set is almost all zeros, so only
        the labels are stored.
        """
        return dense_features(self.node_attr, self.node_label, len(self.node_label_names))

    @property
    def batch(self) -> Tensor:
        """``[nodes]`` int64, the graph of each node, as PyG's batch vector."""
        return self._per_node(torch.arange(len(self)))

    @property
    def edge_index(self) -> Tensor:
        """``[2, edges]`` int64 in PyG's form, nodes numbered through the whole collection."""
        nodes = torch.arange(self.num_nodes, device=self.device)
        target = repeat_each(nodes, self.degree.long(), self.num_edges)
        return torch.stack([self.col + self._first_node().index_select(0, target), target])

    def to(self, device: torch.device | str) -> Graphs:
        """The same graphs on another device."""
        return self._changed(lambda tensor, _: tensor.to(device))

    def fingerprint(self) -> str:
        """A hash of all that a training depends on: structure, features, classes and parts."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        names = (self.node_label_names, self.class_names)
        digest = hashlib.sha256(repr((*names, *self.part_names)).encode())
        for counts in (self.node_counts, self.edge_counts):
            digest.update(np.ascontiguousarray(counts).data)
        tensors = ("degree", "col", "y", "node_label", "node_attr", "part", "targets", "fold")
        for field in (*tensors, "node_target"):
            if (tensor := getattr(self, field)) is not None:
                digest.update(tensor.contiguous().cpu().numpy().data)
        if self.fragments is not None:
            for array in (self.fragments.indptr, self.fragments.indices, self.fragments.data):
                digest.update(np.ascontiguousarray(array).data)
        for field in ("group", "time"):
            if (tensor := getattr(self, field)) is not None:
                digest.update(field.encode())
                digest.update(tensor.contiguous().cpu().numpy().data)
        described = (self.task, self.target_names, self.continuous, self.encoding)
        if described != ("classification", (), 0, None):
            digest.update(repr(described).encode())
        return digest.hexdigest()

    def statistics(self) -> Statistics:
        majority = None
        if self.y is not None and len(self):
            majority = int(torch.bincount(self.y).max()) / len(self)
        graphs = max(len(self), 1)
        return Statistics(
            name=self.name,
            graphs=len(self),
            classes=self.num_classes,
            avg_nodes=self.num_nodes / graphs,
            avg_edges=self.num_edges / 2 / graphs,
            features=self.num_features,
            feature_kind=self.feature_kind,
            majority=majority,
        )

    def __len__(self) -> int:
        return len(self.node_counts)

    def __iter__(self) -> Iterator[Graphs]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Index) -> Graphs:
        graphs = selected(index, len(self))
        return self._slice(graphs) if isinstance(graphs, slice) else self._gather(graphs)

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"Graphs({s.name}: {s.graphs} graphs, {s.classes} classes, "
            f"on average {s.avg_nodes:.2f} nodes and {s.avg_edges:.2f} edges, "
            f"{s.features} features from {s.feature_kind})"
        )

    def _repr_html_(self) -> str:
        from sagpool.graphs.display import graphs_html

        return graphs_html(self)

    def _slice(self, graphs: slice) -> Graphs:
        part = {
            "graph": graphs,
            "node": slice(int(self.node_ptr[graphs.start]), int(self.node_ptr[graphs.stop])),
            "edge": slice(int(self.edge_ptr[graphs.start]), int(self.edge_ptr[graphs.stop])),
        }
        return self._changed(lambda tensor, per: tensor[part[per]], graphs)

    def _gather(self, ids: np.ndarray) -> Graphs:
        def entries(starts: np.ndarray, counts: np.ndarray) -> Tensor:
            on_device = torch.from_numpy(np.stack([starts[ids], counts[ids]])).to(self.device)
            return ragged_arange(on_device[0], on_device[1], int(counts[ids].sum()))

        part = {
            "graph": torch.from_numpy(ids).to(self.device),
            "node": entries(self.node_ptr, self.node_counts),
            "edge": entries(self.edge_ptr, self.edge_counts),
        }
        return self._changed(lambda tensor, per: tensor.index_select(0, part[per]), ids)

    def _changed(self, change: Any, graphs: slice | np.ndarray = slice(None)) -> Graphs:
        """``change(tensor, "graph" | "node" | "edge")`` applied to every tensor of the graphs."""
        changed: dict[str, Any] = {
            field: None if getattr(self, field) is None else change(getattr(self, field), per)
            for field, per in TENSORS.items()
        }
        for name in ("node_counts", "edge_counts", "fragments", "ids"):
            if (of_graphs := getattr(self, name)) is not None:
                changed[name] = of_graphs[graphs]
        return dataclasses.replace(self, **changed)

    def _batch_targets(self) -> Tensor | None:
        """``[graphs + 1, tasks]``, NaN for the filler; None if the classes are learnt."""
        if self.targets is None or self.task == "classification":
            return None
        return pad(self.targets, (0, 0, 0, 1), value=torch.nan)

    def _batch_node_target(self) -> Tensor | None:
        """``[nodes + 1]`` float32, 0 for the node of fillers; None if nothing is known."""
        known = self.ground_truth if self.node_target is None else self.node_target
        return None if known is None else pad(known.float(), (0, 1))

    def _first_node(self) -> Tensor:
        """``[nodes]`` int64, the first node of each node's graph."""
        return self._per_node(torch.from_numpy(self.node_ptr[:-1]))

    def _per_node(self, per_graph: Tensor) -> Tensor:
        counts = torch.tensor(self.node_counts, device=self.device)
        return repeat_each(per_graph.to(self.device), counts, self.num_nodes)


# The tensors of `Graphs`, and whether they have one entry per graph, node or edge.
TENSORS = {
    "degree": "node",
    "col": "edge",
    "y": "graph",
    "node_label": "node",
    "node_attr": "node",
    "edge_attr": "edge",
    "ground_truth": "node",
    "node_target": "node",
    "part": "graph",
    "targets": "graph",
    "fold": "graph",
    "group": "graph",
    "time": "graph",
}


def _offsets(counts: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
