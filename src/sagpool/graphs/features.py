"""Chooses node features from everything that a source provides."""

import logging
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch.nn.functional import normalize

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import DENSE, LABELS
from sagpool.graphs.columns import Encoding
from sagpool.graphs.everything import encode_everything
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.raw_graphs import Codes, RawGraphs, dense_matrix, encode_degrees

log = logging.getLogger("sagpool")

Features = Literal["auto", "labels", "attributes", "both", "degree", "all"]
Normalise = Literal["none", "l2"]  # normalisation of the features of each node
# `Graphs.feature_kind`, where it differs from the argument
FEATURE_KINDS = {"both": "attributes+labels"}


class _Chosen(NamedTuple):
    label: np.ndarray | None  # [nodes]
    label_names: tuple[str, ...]
    attr: np.ndarray | None  # [nodes, attributes]
    kind: str
    encoding: Encoding | None = None


def choose_features(
    raw: RawGraphs, features: Features | Encoding = "auto", degree_cap: int = 64
) -> Graphs:
    """Make `Graphs` with the requested node features.

    Args:
        raw: the graphs as they were read
        features: as in `sagpool.load`; ``auto`` prefers labels, as the paper's code does; an
            `Encoding` gives the same columns as those of other graphs with ``all``
        degree_cap: higher degrees count as this one
    """
    if not isinstance(features, Encoding) and features not in get_args(Features):
        raise SagpoolError(
            f"Unknown node features '{features}'; choose one of {', '.join(get_args(Features))}."
        )
    if degree_cap < 1:
        raise SagpoolError(f"The degree cap must be at least 1, not {degree_cap}.")
    chosen = _chosen(raw, features, degree_cap)
    if raw.repairs:
        log.warning("%s: %s.", raw.name, raw.repairs)
    attr, edge_attr = chosen.attr, _edge_matrix(raw)
    return Graphs(
        node_counts=raw.node_counts,
        edge_counts=raw.edge_counts,
        degree=torch.from_numpy(raw.degree),
        col=torch.from_numpy(raw.col),
        y=None if raw.y is None else torch.from_numpy(raw.y),
        node_label=None
        if chosen.label is None
        else torch.from_numpy(np.ascontiguousarray(chosen.label, np.int32)),
        node_attr=None if attr is None else torch.from_numpy(attr),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr),
        targets=None if raw.targets is None else torch.from_numpy(raw.targets),
        group=None if raw.group is None else torch.from_numpy(raw.group),
        time=None if raw.time is None else torch.from_numpy(raw.time),
        fragments=raw.fragments,
        ids=_default_ids(len(raw.node_counts)) if raw.ids is None else raw.ids,
        node_label_names=chosen.label_names,
        class_names=raw.class_names,
        target_names=raw.target_names,
        task=raw.task,
        continuous=0 if chosen.encoding is None else chosen.encoding.continuous,
        encoding=chosen.encoding,
        feature_kind=chosen.kind,
        name=raw.name,
    )


def _default_ids(graphs: int) -> np.ndarray:
    """The ids of graphs that have no names: 1, 2, ..."""
    return np.array([str(number) for number in range(1, graphs + 1)], object)


def _chosen(raw: RawGraphs, features: Features | Encoding, degree_cap: int) -> _Chosen:
    if isinstance(features, Encoding) or features == "all":
        known = features if isinstance(features, Encoding) else None
        label, label_names, everything, encoding = encode_everything(raw, known, degree_cap)
        return _Chosen(label, label_names, everything, "all", encoding)
    kind = _feature_kind(raw, features)
    attr = raw.node_attr if kind in ("attributes", "both") else None
    labels, names = None, raw.node_label_names
    if kind in ("labels", "both"):
        labels = raw.node_labels
    elif kind == "degree":
        degrees = encode_degrees(raw.degree, degree_cap)
        labels, names = degrees.code[:, None], (degrees.names,)
    word = FEATURE_KINDS.get(kind, kind)
    if labels is None:
        return _Chosen(None, (), attr, word)
    LABELS.check(sum(map(len, names)), raw.name)
    if labels.shape[1] == 1:
        return _Chosen(labels[:, 0], names[0], attr, word)
    DENSE.check(len(labels) * sum(map(len, names)), f"{raw.name} (several columns of labels)")
    # `Graphs` holds one label per node; data sets with several are rare and small.
    attr = dense_matrix(attr, [Codes(*one) for one in zip(labels.T, names, strict=True)])
    return _Chosen(None, (), attr, word)


def _edge_matrix(raw: RawGraphs) -> np.ndarray | None:
    """Attributes of the edges, then one-hot labels (PyG's order), ``[edges, features]``."""
    labels = raw.edge_labels
    numbers = len(raw.col) * sum(len(codes.names) for codes in labels)
    if numbers > DENSE.most:
        log.warning(
            "%s. The edge labels are left out of `edge_attr`.", DENSE.sentence(numbers, raw.name)
        )
        labels = ()
    return dense_matrix(raw.edge_attr, [Codes(code, names) for _, code, names in labels])


def unit_rows(graphs: Graphs) -> Graphs:
    """The graphs with the features of each node divided by their L2 norm; zeros stay zeros.

    One-hot features have this norm already: without attributes, the graphs stay as they are.
    Otherwise labels become attributes, and the fingerprint changes.
    """
    if graphs.node_attr is None:
        return graphs
    return replace(
        graphs,
        node_attr=normalize(graphs.x),
        node_label=None,
        node_label_names=(),
        feature_kind=f"{graphs.feature_kind}, L2-normalised",
    )


def _feature_kind(raw: RawGraphs, features: Features) -> Features:
    has_labels, has_attributes = raw.node_labels is not None, raw.node_attr is not None
    if features == "auto":
        return "labels" if has_labels else "attributes" if has_attributes else "degree"
    if features in ("labels", "both") and not has_labels:
        raise SagpoolError(f"{raw.name} has no node labels.")
    if features in ("attributes", "both") and not has_attributes:
        raise SagpoolError(f"{raw.name} has no node attributes.")
    return features
