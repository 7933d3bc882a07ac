"""`RawGraphs`, all that a source has, and the choice of node features from it."""

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch.nn.functional import normalize

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import DENSE, LABELS
from sagpool.graphs.edge_cleaning import NO_REPAIRS, Repairs
from sagpool.graphs.graphs import Graphs

log = logging.getLogger("sagpool")

Features = Literal["auto", "labels", "attributes", "both", "degree"]
Normalise = Literal["none", "l2"]  # the features of each node
FEATURE_KINDS = {"both": "attributes+labels"}  # `Graphs.feature_kind`, if it is not the same word


class Codes(NamedTuple):
    """Values as small integers; ``names[code]`` is the value as text."""

    code: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Packed adjacency as in `Graphs`, with all labels and attributes of the source."""

    name: str
    node_counts: np.ndarray  # [graphs] int64
    edge_counts: np.ndarray  # [graphs] int64
    degree: np.ndarray  # [nodes] int32
    col: np.ndarray  # [edges] int32
    y: np.ndarray | None = None  # [graphs] int64
    class_names: tuple[str, ...] = ()
    node_labels: np.ndarray | None = None  # [nodes, label columns] int32 codes
    node_label_names: tuple[tuple[str, ...], ...] = ()  # one tuple for each label column
    node_attr: np.ndarray | None = None  # [nodes, attributes] float32
    edge_attr: np.ndarray | None = None  # [edges, edge features] float32
    repairs: Repairs = NO_REPAIRS


def encode(values: Sequence[object] | np.ndarray) -> Codes:
    """Number the values that occur, in ascending order."""
    array = np.asarray(values)
    if array.dtype.kind == "U" and any(str(value).endswith("\0") for value in values):
        array = np.array(values, object)  # NumPy's texts lose null characters at their end
    unique, code = np.unique(array, return_inverse=True)
    return Codes(code.reshape(-1), tuple(str(value) for value in unique))


def encode_degrees(degree: np.ndarray, cap: int) -> Codes:
    """Number the degrees that occur, in ascending order; higher ones than the cap count as it."""
    capped = np.minimum(degree, np.int32(min(cap, 2**31 - 1)))
    occurs = np.bincount(capped) > 0
    code_of = (np.cumsum(occurs) - 1).astype(np.int32)
    return Codes(code_of[capped], tuple(map(str, np.flatnonzero(occurs).tolist())))


def encode_texts(texts: Sequence[str]) -> Codes:
    """Number the texts that occur, in ascending order; by size if all are finite numbers."""
    names = sorted(set(texts))
    with suppress(ValueError):  # raised by float for a text that is not a number
        if all(math.isfinite(float(name)) for name in names):
            names.sort(key=float)
    code = {name: number for number, name in enumerate(names)}
    return Codes(np.fromiter(map(code.__getitem__, texts), np.int64, len(texts)), tuple(names))


def dense_matrix(attributes: np.ndarray | None, labels: Sequence[Codes]) -> np.ndarray | None:
    """``[rows, columns]`` float32: attributes, then one-hot labels; None if there is neither."""
    if not labels:
        return attributes
    width = 0 if attributes is None else attributes.shape[1]
    rows = np.arange(len(labels[0].code))
    matrix = np.zeros((len(rows), width + sum(len(codes.names) for codes in labels)), np.float32)
    if attributes is not None:
        matrix[:, :width] = attributes
    for code, names in labels:
        matrix[rows, width + code] = 1
        width += len(names)
    return matrix


def choose_features(raw: RawGraphs, features: Features = "auto", degree_cap: int = 64) -> Graphs:
    """Make `Graphs` with the requested node features.

    Args:
        raw: the graphs as they were read
        features: as in `sagpool.load`; ``auto`` prefers labels, as the paper's code does
        degree_cap: higher degrees count as this one
    """
    if features not in get_args(Features):
        raise SagpoolError(
            f"Unknown node features '{features}'; choose one of {', '.join(get_args(Features))}."
        )
    kind = _feature_kind(raw, features)
    attr = raw.node_attr if kind in ("attributes", "both") else None
    labels, names = None, raw.node_label_names
    if kind in ("labels", "both"):
        labels = raw.node_labels
    elif kind == "degree":
        if degree_cap < 1:
            raise SagpoolError(f"The degree cap must be at least 1, not {degree_cap}.")
        degrees = encode_degrees(raw.degree, degree_cap)
        labels, names = degrees.code[:, None], (degrees.names,)

    if labels is not None:
        LABELS.check(sum(map(len, names)), raw.name)
    if labels is not None and labels.shape[1] > 1:
        DENSE.check(len(labels) * sum(map(len, names)), f"{raw.name} (several columns of labels)")
        # `Graphs` holds one label per node; data sets with several are rare and small.
        attr = dense_matrix(attr, [Codes(*one) for one in zip(labels.T, names, strict=True)])
        labels = None

    if raw.repairs:
        log.warning("%s: %s.", raw.name, raw.repairs)
    return Graphs(
        node_counts=raw.node_counts,
        edge_counts=raw.edge_counts,
        degree=torch.from_numpy(raw.degree),
        col=torch.from_numpy(raw.col),
        y=None if raw.y is None else torch.from_numpy(raw.y),
        node_label=None
        if labels is None
        else torch.from_numpy(np.ascontiguousarray(labels[:, 0], np.int32)),
        node_attr=None if attr is None else torch.from_numpy(attr),
        edge_attr=None if raw.edge_attr is None else torch.from_numpy(raw.edge_attr),
        node_label_names=() if labels is None else names[0],
        class_names=raw.class_names,
        feature_kind=FEATURE_KINDS.get(kind, kind),
        name=raw.name,
    )


def unit_rows(graphs: Graphs) -> Graphs:
    """The graphs with the features of each node divided by their L2 norm; zeros stay zeros.

    One-hot features have this norm already: without attributes, the graphs stay as they are.
    Otherwise labels become attributes, and the fingerprint is another.
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
