"""Deterministic positions for drawing the nodes of a graph."""

import math

import networkx as nx
import numpy as np

# Kamada and Kawai's layout is the clearest, but its cost grows with all pairs of nodes.
MOST_NODES_FOR_ALL_PAIRS = 150
STARTS = 5
GAP = 1.0  # between components; an edge has about this length


def layout(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Positions with a mean edge length of one, ``[nodes, 2]``, for ``edges [edges, 2]``.

    Each component is laid out separately; they are arranged in rows, the largest first.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edges.tolist())
    components = [sorted(component) for component in nx.connected_components(graph)]
    components.sort(key=lambda component: (-len(component), component))
    parts = [_component_layout(graph.subgraph(component), component) for component in components]
    positions = np.empty((num_nodes, 2))
    for component, part in zip(components, _side_by_side(parts), strict=True):
        positions[component] = part
    return positions


def _component_layout(graph: nx.Graph, nodes: list[int]) -> np.ndarray:
    """A connected graph, its longest axis horizontal, its lower left corner at the origin."""
    if len(nodes) == 1:
        return np.zeros((1, 2))
    # Sorted, because the node order of a subgraph view varies and the layout depends on it.
    ordered = nx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.edges))
    if len(nodes) <= MOST_NODES_FOR_ALL_PAIRS:
        points = _least_stress(ordered)
    else:
        points = _points(nx.spring_layout(ordered, seed=0))
    points -= points.mean(axis=0)
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    points = points @ axes.T  # [nodes, 2], the widest direction first
    index = {node: i for i, node in enumerate(nodes)}
    ends = np.array([[index[a], index[b]] for a, b in ordered.edges])
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    points /= lengths.mean()
    return points - points.min(axis=0)


def _least_stress(graph: nx.Graph) -> np.ndarray:
    """The best of a few layouts: from a single start, one molecule in eight stays folded."""
    starts = [nx.spring_layout(graph, seed=seed) for seed in range(STARTS - 1)]
    found = [_points(nx.kamada_kawai_layout(graph, pos=start)) for start in (None, *starts)]
    distance = np.asarray(nx.floyd_warshall_numpy(graph))
    return min(found, key=lambda points: _stress(points, distance))


def _stress(points: np.ndarray, distance: np.ndarray) -> float:
    """Deviation of lengths from graph distances, at the best scale."""
    one, other = np.triu_indices(len(points), 1)
    ratio = np.linalg.norm(points[one] - points[other], axis=1) / distance[one, other]
    # Rounded, so that ties between equally good layouts break the same way on every machine.
    return round(float(1 - ratio.sum() ** 2 / (ratio @ ratio) / len(ratio)), 6)


def _points(found: dict[int, np.ndarray]) -> np.ndarray:
    return np.array(list(found.values()))  # [nodes, 2], in the order of the nodes


def _side_by_side(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Shift the parts next to each other, in rows of about equal width."""
    boxes = np.array([part.max(axis=0) + GAP for part in parts])  # [parts, 2]
    width = max(boxes[:, 0].max(), math.sqrt(1.5 * boxes.prod(axis=1).sum()))
    moved = []
    x = y = height = 0.0
    for part, (across, up) in zip(parts, boxes, strict=True):
        if x > 0 and x + across > width + 1e-9:
            x, y, height = 0.0, y - height, 0.0
        # Parts are aligned at the top of their row, and rows go downwards.
        moved.append(part + np.array([x, y - up]))
        x, height = x + across, max(height, up)
    return moved
