"""A collection of graphs in a notebook: its statistics, its classes, and its first graphs."""

from __future__ import annotations

from html import escape

import numpy as np
import torch

from sagpool.graphs.graphs import Graphs
from sagpool.html import MUTED, Html, bars, card, facts, note

MOST_CLASSES = 12
MOST_DRAWN = 6
LARGEST_DRAWN = 60  # most nodes of a graph that is drawn
SIDE, MARGIN = 110, 6  # pixels

# Visible on white and on black.
GREY, BLUE, RED, GREEN, OCHRE = "#858585", "#1f78c8", "#dd5a0b", "#0f9a6f", "#b07d08"
COLOURS = (GREY, BLUE, RED, GREEN, "#c2559c", OCHRE, "#7a6ad8")
OTHER = "#a8a8a8"
ELEMENTS = {"C": GREY, "N": BLUE, "O": RED, "Cl": GREEN, "S": OCHRE}  # as chemists expect


def graphs_html(graphs: Graphs) -> str:
    about = graphs.statistics()
    entries = {
        "graphs": f"{about.graphs:,}",
        "nodes of a graph": _sizes(graphs.node_counts, about.avg_nodes),
        "edges of a graph": _sizes(graphs.edge_counts // 2, about.avg_edges),
        "node features": f"{about.features} from {about.feature_kind}",
    }
    if graphs.targets is not None:
        entries["targets"] = f"{graphs.task}: {_listed(graphs.target_names)}"
    return card(about.name, facts(entries), *_classes(graphs), *_drawings(graphs))


def _sizes(counts: np.ndarray, mean: float) -> str:
    if not len(counts):
        return "none"
    return f"{mean:.1f} on average, {counts.min():,} to {counts.max():,}"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_CLASSES} more" if len(names) > MOST_CLASSES else ""
    return ", ".join(names[:MOST_CLASSES]) + more


def _classes(graphs: Graphs) -> list[Html]:
    if graphs.y is None or not graphs.class_names:
        return []
    counts = torch.bincount(graphs.y.cpu(), minlength=graphs.num_classes).tolist()
    named = [(f"class {name}", n) for name, n in zip(graphs.class_names, counts, strict=True)]
    if len(named) > MOST_CLASSES:
        rest = named[MOST_CLASSES - 1 :]
        named[MOST_CLASSES - 1 :] = [(f"{len(rest)} other classes", sum(n for _, n in rest))]
    return [bars(dict(named))]


def _drawings(graphs: Graphs) -> list[Html]:
    """The first graphs that are small enough, side by side, and a legend of their colours."""
    numbers = np.flatnonzero(graphs.node_counts <= LARGEST_DRAWN)[:MOST_DRAWN].tolist()
    if not numbers:
        return []
    colours = _colours(graphs)
    pictures = "".join(_drawing(graphs[i], i, colours) for i in numbers)
    shown = [Html(f'<div style="display: flex; flex-wrap: wrap; gap: 4px">{pictures}</div>')]
    if len(colours) > 1:
        meaning = "degree" if graphs.feature_kind == "degree" else "node label"
        shown.append(_legend(meaning, dict(zip(graphs.node_label_names, colours, strict=True))))
    if len(numbers) < len(graphs):
        shown.append(note(f"{len(numbers)} of {len(graphs):,} graphs are drawn."))
    return shown


def _colours(graphs: Graphs) -> list[str]:
    """The colour of each node label; elements have their usual colours, rare labels share one."""
    if graphs.node_label is None:
        return []
    names = graphs.node_label_names
    label = graphs.node_label[graphs.node_label >= 0].cpu().long()
    frequent = torch.bincount(label, minlength=len(names)).argsort(descending=True, stable=True)
    given = {name: ELEMENTS[name] for name in names if name in ELEMENTS}
    free = iter([colour for colour in COLOURS if colour not in given.values()])
    for name in (names[i] for i in frequent.tolist()):
        given[name] = given.get(name) or next(free, OTHER)
    return [given[name] for name in names]


def _drawing(graph: Graphs, number: int, colours: list[str]) -> str:
    at = _positions(graph)
    edges = graph.edge_index.T.cpu().numpy()
    lines = " ".join(f"M{at[a, 0]} {at[a, 1]}L{at[b, 0]} {at[b, 1]}" for a, b in edges if a < b)
    labels = [-1] * len(at) if graph.node_label is None else graph.node_label.tolist()
    radius = 4 if len(at) <= 30 else 2.5
    nodes = "".join(
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colours[label] if label >= 0 else OTHER}"/>'
        for (x, y), label in zip(at.tolist(), labels, strict=True)
    )
    about = f"graph {number}: {len(at)} nodes, {len(edges) // 2} edges"
    if graph.y is not None and graph.class_names:
        about += f", class {graph.class_names[int(graph.y[0])]}"
    return (
        f'<svg role="img" width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">'
        f"<title>{escape(about)}</title>"
        f'<path d="{lines}" stroke="currentColor" stroke-opacity="0.5" fill="none"/>{nodes}</svg>'
    )


def _positions(graph: Graphs) -> np.ndarray:
    """``[nodes, 2]`` int64 pixels; distances in the picture follow those in the graph."""
    import networkx as nx  # takes a moment to import

    joined = nx.Graph()
    joined.add_nodes_from(range(graph.num_nodes))
    joined.add_edges_from(graph.edge_index.T.tolist())
    near = dict(nx.all_pairs_shortest_path_length(joined))
    # Nodes of different components are slightly farther apart than any nodes of one component.
    apart = 2 + max(max(steps.values()) for steps in near.values())
    distance = {node: dict.fromkeys(joined, apart) | steps for node, steps in near.items()}
    found = nx.kamada_kawai_layout(joined, dist=distance)
    at = np.array([found[node] for node in joined])
    low, wide = at.min(0), max(float(np.ptp(at, axis=0).max()), 1e-9)
    free = (1 - np.ptp(at, axis=0) / wide) / 2  # the shorter side is centred
    inside = SIDE - 2 * MARGIN
    return np.rint(MARGIN + inside * ((at - low) / wide + free)).astype(np.int64)


def _legend(meaning: str, colours: dict[str, str]) -> Html:
    named = {name: colour for name, colour in colours.items() if colour != OTHER}
    if len(named) < len(colours):
        named["other"] = OTHER
    entries = "".join(
        f'<span style="margin-right: 12px; white-space: nowrap"><span style="color: {colour}">'
        f"&#9679;</span> {escape(name)}</span>"
        for name, colour in named.items()
    )
    return Html(f'<div><span style="{MUTED}; margin-right: 12px">{meaning}</span>{entries}</div>')
