"""Random graphs in parts: training, validation and tests of a built-in data set."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.features import choose_features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.intake import pack_arrays
from sagpool.graphs.raw_graphs import Codes


class Part(NamedTuple):
    """Graphs of one kind."""

    name: str
    graphs: int
    nodes: tuple[int, int]  # smallest and largest number of nodes


class Drawn(NamedTuple):
    """Random graphs; nodes are numbered through all of them."""

    node_counts: np.ndarray  # [graphs]
    ends: np.ndarray  # [edges, 2]
    y: np.ndarray  # [graphs]
    truth: np.ndarray  # [nodes] float32


def packed(
    name: str,
    parts: Sequence[Part],
    drawn: Sequence[Drawn],
    class_names: tuple[str, ...],
    channels: np.ndarray | None = None,
    degree_cap: int = 64,
) -> Graphs:
    """The graphs of all parts.

    Args:
        name: name of the data set
        parts: the parts, in order
        drawn: the graphs of each part
        class_names: names of the classes
        channels: ``[nodes, channels]`` float32 features; None for degrees
        degree_cap: higher degrees count as this one
    """
    every = joined(drawn)
    raw = pack_arrays(
        name,
        every.node_counts,
        every.ends,
        undirected=True,
        classes=Codes(every.y, class_names),
        node_attr=channels,
    )
    graphs = choose_features(raw, "degree" if channels is None else "attributes", degree_cap)
    part = np.repeat(np.arange(len(parts)), [one.graphs for one in parts])
    return dataclasses.replace(
        graphs,
        ground_truth=torch.from_numpy(every.truth),
        part=torch.from_numpy(part),
        part_names=tuple(one.name for one in parts),
    )


def joined(drawn: Sequence[Drawn]) -> Drawn:
    sizes = [int(one.node_counts.sum()) for one in drawn]
    first = np.cumsum(sizes) - sizes
    return Drawn(
        np.concatenate([one.node_counts for one in drawn]),
        np.concatenate([one.ends + start for one, start in zip(drawn, first, strict=True)]),
        np.concatenate([one.y for one in drawn]),
        np.concatenate([one.truth for one in drawn]),
    )


def index_in_run(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., counts[0] - 1, 0, 1, ..., counts[1] - 1, ..."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def check_part(part: Part) -> None:
    if part.graphs < 1:
        raise SagpoolError(f"The part {part.name} needs at least 1 graph, not {part.graphs}.")
