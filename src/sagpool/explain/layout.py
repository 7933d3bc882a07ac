"""Deterministic positions for drawing the nodes of a graph."""

import math

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sagpool.explain.sparse_stress import sparse_stress_layout

# Kamada and Kawai's layout is the clearest, but its cost grows with all pairs of nodes.
MOST_NODES_FOR_ALL_PAIRS = 150  # in a component
MOST_NODES_IN_ALL = 300
STARTS = 5
GAP = 1.0  # between components; an edge has about this length
LONG = 15  # width / height above which a component is folded


def layout(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Positions with a mean edge length of one, ``[nodes, 2]``, for ``edges [edges, 2]``.

    Each component is laid out separately; they are arranged in rows, the largest first.
    """
    few = num_nodes <= MOST_NODES_IN_ALL
    components = _components(num_nodes, edges)
    made: dict[tuple[int, bytes], np.ndarray] = {}  # many small components are alike
    parts = []
    for nodes, inside in components:
        key = (len(nodes), inside.tobytes())
        if key not in made:
            made[key] = _component_layout(len(nodes), inside, few=few)
        parts.append(made[key])
    positions = np.empty((num_nodes, 2))
    for (nodes, _), part in zip(components, _side_by_side(parts), strict=True):
        positions[nodes] = part
    return positions


def _components(num_nodes: int, edges: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The nodes of each component, and its edges as positions among these; the largest first."""
    edges = np.unique(np.sort(edges.reshape(-1, 2), axis=1), axis=0)  # in one order, each once
    matrix = csr_array((np.ones(len(edges)), edges.T), shape=(num_nodes, num_nodes))
    count, owner = connected_components(matrix, directed=False)
    sizes = np.bincount(owner, minlength=count)
    nodes = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    place = np.empty(num_nodes, np.int64)
    place[np.concatenate(nodes)] = np.concatenate([np.arange(size) for size in sizes])
    of_edge = owner[edges[:, 0]]
    by_component = np.argsort(of_edge, kind="stable")
    ends = np.cumsum(np.bincount(of_edge, minlength=count))[:-1]
    inside = np.split(place[edges[by_component]], ends)
    order = sorted(range(count), key=lambda i: (-sizes[i], nodes[i][0]))
    return [(nodes[i], inside[i]) for i in order]


def _component_layout(num_nodes: int, edges: np.ndarray, *, few: bool) -> np.ndarray:
    """A connected graph, its longest axis horizontal, its lower left corner at the origin."""
    if num_nodes == 1:
        return np.zeros((1, 2))
    if num_nodes == 2:
        return np.array([[0.0, 0.0], [1.0, 0.0]])
    if few and num_nodes <= MOST_NODES_FOR_ALL_PAIRS:
        points = _least_stress(num_nodes, edges)
        return _aligned(points, edges)
    return _folded(_aligned(sparse_stress_layout(num_nodes, edges), edges))


def _aligned(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    points = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    points = points @ axes.T  # [nodes, 2], the widest direction first
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    points /= lengths.mean()
    return points - points.min(axis=0)


def _folded(points: np.ndarray) -> np.ndarray:
    """A long chain in rows that go to the right and to the left in turn."""
    length, height = points.max(axis=0)
    if length < LONG * (height + GAP):
        return points
    rows = math.ceil(math.sqrt(length / (2 * (height + 2 * GAP))))
    width = length / rows
    row = np.minimum(points[:, 0] // width, rows - 1)
    along = points[:, 0] - row * width
    x = np.where(row % 2, width - along, along)
    return np.stack([x, points[:, 1] + (rows - 1 - row) * (height + 2 * GAP)], axis=1)


def _least_stress(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """The best of a few layouts: with a single start, one molecule in eight stays tangled."""
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edges.tolist())
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
