"""The data of the explorer: one value for each graph, node or edge, in columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.explain.effects import Effect
from sagpool.explain.explained import Explained
from sagpool.explain.surroundings import drawn_nodes, induced
from sagpool.explain.trace import Trace
from sagpool.report.explorer.molecule import Structure, Symbol, structure
from sagpool.report.explorer.pack import pack
from sagpool.report.explorer.predictions import prediction_columns

T = TypeVar("T")

MOST_ON_PAGE = 4_000_000  # limit on nodes, edges and nodes of reasons of all graphs, about 30 MB
MOST_LEVELS = 32  # because levels are bits of a number
GRID = 32767  # positions are integers from 0 to this


@dataclass(frozen=True, eq=False)
class Drawn:
    """The parts of one graph that the page shows."""

    whole: Trace
    trace: Trace  # trace of the drawn part
    nodes: np.ndarray | None  # numbers of the drawn nodes; None for all
    molecule: Structure | None
    effect: Effect | None

    @property
    def edges(self) -> np.ndarray:
        """``[edges, 3]``: two nodes, and the kind of a bond or 0."""
        if self.molecule is not None:
            return self.molecule.bonds
        return np.pad(self.trace.edges, ((0, 0), (0, 1)))

    @property
    def masks(self) -> int:
        """Number of masks of each level; 0 if there is only one, which is the level."""
        return len(self.whole.levels[0].masks) if self.whole.levels else 0

    def of_mask(self, number: int) -> Drawn:
        """The nodes that one mask keeps, instead of those of all masks."""
        whole, trace = (
            replace(one, levels=tuple(level.masks[number] for level in one.levels))
            for one in (self.whole, self.trace)
        )
        return replace(self, whole=whole, trace=trace)

    @property
    def bits(self) -> np.ndarray:
        """``[nodes]``: bit i is set if level i + 1 keeps the node."""
        bits = np.zeros(self.trace.num_nodes, np.int64)
        for bit, level in enumerate(self.trace.levels):
            bits[level.kept] |= 1 << bit
        return bits


def drawn(trace: Trace, effect: Effect | None) -> Drawn:
    nodes = drawn_nodes(trace)
    part = trace if nodes is None else induced(trace, nodes)
    molecule = None if trace.molecule is None else structure(trace.molecule)
    return Drawn(trace, part, nodes, molecule, effect)


def on_page(explained: Explained) -> int:
    """Number of graphs that fit on a page, at least one."""
    sizes = accumulate(
        trace.num_nodes * (1 + sum(len(level.masks) for level in trace.levels[:1]))
        + len(trace.edges)
        + sum(len(reason.nodes) for reason in trace.reasons)
        for trace in explained.traces
    )
    return max(1, sum(size <= MOST_ON_PAGE for size in sizes))


def packed(explained: Explained, graphs: list[Drawn]) -> str:
    """The data of these graphs as text; see `pack`."""
    levels = len(graphs[0].whole.levels)  # the same for every graph
    if levels > MOST_LEVELS:
        raise SagpoolError(f"A page shows at most {MOST_LEVELS} levels, not {levels}.")
    labels = _numbered(label for graph in graphs for label in graph.trace.node_labels)
    symbols: dict[Symbol, int] = _numbered(
        symbol for graph in graphs if graph.molecule for symbol in graph.molecule.symbols
    )
    reasons = _numbered(reason.name for graph in graphs for reason in graph.trace.reasons)
    net = graphs[0].whole.net
    about = {
        "data": explained.data,
        "net": None if net is None or net.sentence is None else net.name,
        "reasons": list(reasons),
        "classes": graphs[0].whole.class_names,
        "target": explained.target.name,
        "targets": explained.target.names,
        "levels": levels,
        "masks": graphs[0].masks,
        "labels": list(labels),
        "symbols": list(symbols),
        "names": [graph.whole.title for graph in graphs],
        "scored": any(level.score is not None for graph in graphs for level in graph.whole.levels),
    }
    columns = _graph_columns(graphs) | _node_columns(graphs, labels) | _edge_columns(graphs)
    columns |= prediction_columns([g.whole for g in graphs], [g.effect for g in graphs])
    columns |= _level_columns(graphs)
    for number in range(graphs[0].masks):
        own = _level_columns([graph.of_mask(number) for graph in graphs])
        columns |= {f"{name}_{number + 1}": values for name, values in own.items()}
    return pack(
        about, columns | _molecule_columns(graphs, symbols) | _reason_columns(graphs, reasons)
    )


def _graph_columns(graphs: list[Drawn]) -> dict[str, np.ndarray]:
    """Columns of the graphs; ``unlike`` the training data is 0 if unknown."""
    return {
        "number": np.array([graph.whole.number for graph in graphs]),
        "size": np.array([graph.whole.num_nodes for graph in graphs]),
        "nodes": np.array([graph.trace.num_nodes for graph in graphs]),
        "edges": np.array([len(graph.edges) for graph in graphs]),
        "molecule": np.array([graph.molecule is not None for graph in graphs], np.int64),
        "unlike": np.array([bool(graph.whole.unlike) for graph in graphs], np.int64),
        "partial": np.array([graph.nodes is not None for graph in graphs], np.int64),
    }


def _node_columns(graphs: list[Drawn], labels: dict[str, int]) -> dict[str, np.ndarray]:
    traces = [graph.trace for graph in graphs]
    columns = {
        "label": np.array([labels[label] for trace in traces for label in trace.node_labels]),
        "node": _joined([graph.nodes for graph in graphs if graph.nodes is not None]),
    }
    if any(trace.ground_truth is not None for trace in traces):
        columns["truth"] = np.concatenate([_truth(trace) for trace in traces])
    return columns


def _level_columns(graphs: list[Drawn]) -> dict[str, np.ndarray]:
    """Columns of the levels, graph by graph, level by level; scores only for kept nodes."""
    counts = [[len(level.kept) for level in graph.whole.levels] for graph in graphs]
    levels = [level for graph in graphs for level in graph.trace.levels]
    scores = [
        np.full(len(level.kept), np.nan) if level.score is None else level.score for level in levels
    ]
    return {
        "kept": np.array(counts, np.int64).ravel(),
        "bits": np.concatenate([graph.bits for graph in graphs]),
        "score": _joined(scores, float),
    }


def _reason_columns(graphs: list[Drawn], names: dict[str, int]) -> dict[str, np.ndarray]:
    """Columns of the reasons, graph by graph, with the drawn nodes of each."""
    reasons = [reason for graph in graphs for reason in graph.trace.reasons]
    return {
        "reasons": np.array([len(graph.trace.reasons) for graph in graphs]),
        "reason": np.array([names[reason.name] for reason in reasons], np.int64),
        "reason_value": np.array([reason.value for reason in reasons], float),
        "reason_amount": np.array([reason.amount for reason in reasons], float),
        "reason_nodes": np.array([len(reason.nodes) for reason in reasons], np.int64),
        "reason_node": np.array([node for one in reasons for node in one.nodes], np.int64),
    }


def _truth(trace: Trace) -> np.ndarray:
    truth = np.zeros(trace.num_nodes, np.int64)
    if trace.ground_truth is not None:
        truth[trace.ground_truth] = 1
    return truth


def _edge_columns(graphs: list[Drawn]) -> dict[str, np.ndarray]:
    edges = np.concatenate([graph.edges for graph in graphs])
    return {"source": edges[:, 0], "target": edges[:, 1], "bond": edges[:, 2]}


def _molecule_columns(graphs: list[Drawn], symbols: dict[Symbol, int]) -> dict[str, np.ndarray]:
    """Columns of the molecules; positions are on a grid whose longer side is ``extent``."""
    molecules = [graph.molecule for graph in graphs if graph.molecule is not None]
    extents, positions = [], []
    for molecule in molecules:
        corner = molecule.positions.min(axis=0)
        extent = max(float((molecule.positions - corner).max()), 1e-6)
        extents.append(extent)
        positions.append(np.rint((molecule.positions - corner) / extent * GRID).astype(np.int64))
    places = np.concatenate([np.zeros((0, 2), np.int64), *positions])
    return {
        "extent": np.array(extents, float),
        "x": places[:, 0],
        "y": places[:, 1],
        "symbol": np.array([symbols[s] for m in molecules for s in m.symbols], np.int64),
    }


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """Each distinct value with its number, in order of appearance."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _joined(arrays: list[np.ndarray], kind: type = np.int64) -> np.ndarray:
    return np.concatenate([np.zeros(0, kind), *arrays])
