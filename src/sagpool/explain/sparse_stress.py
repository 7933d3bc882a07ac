"""A layout for large graphs, whose cost grows in proportion to the number of nodes.

Pivot MDS (Brandes and Pich, 2006) gives the overall shape: classical scaling of the distances to a
few pivots. The sparse stress model (Ortmann, Klimenta and Brandes, 2017) then fits the lengths of
edges, and the distances to the pivots, which stand for the nodes around them.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

PIVOTS = 40
STEPS = 50
SPREADING = 20  # of these steps, the last: nodes that are too close are pushed apart
SMALL_STEPS = 25  # for a graph all of whose nodes are pivots
DAMPING = 0.7  # damping: all nodes move at once, and neighbours would oscillate
NEIGHBOURS = 4  # that a node is pushed away from
CLOSE = 0.6  # an edge has length 1


def sparse_stress_layout(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Positions of a connected graph, ``[nodes, 2]``, for ``edges [edges, 2]``."""
    graph = _adjacency(num_nodes, edges)
    pivots, distance = _spread_pivots(graph, min(num_nodes, PIVOTS))
    weight = _weights(distance)
    points = _pivot_mds(distance)
    source, target = np.concatenate([edges, edges[:, ::-1]]).T
    small = len(pivots) == num_nodes
    for step in range(SMALL_STEPS if small else STEPS):
        goal = _by_pivots(points, points[pivots], distance, weight)  # [nodes, 3]: Σ w x, Σ w
        goal += _by_pairs(points, source, target, np.ones(len(source)))
        if not small and step >= STEPS - SPREADING:
            goal += _by_overlaps(points)
        points += DAMPING * (goal[:, :2] / goal[:, 2:] - points)
    return points


def _adjacency(num_nodes: int, edges: np.ndarray) -> csr_array:
    both = np.concatenate([edges, edges[:, ::-1]])
    ones = np.ones(len(both))
    return csr_array((ones, (both[:, 0], both[:, 1])), shape=(num_nodes, num_nodes))


def _spread_pivots(graph: csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes that are far from each other, and the distances of all nodes to them.

    Returns:
        the pivots ``[pivots]`` and the distances ``[nodes, pivots]``
    """
    nodes = graph.shape[0]
    if count == nodes:
        return np.arange(nodes), _distances(graph, np.arange(nodes)).astype(np.float32)
    pivot = int(_distances(graph, 0).argmax())
    pivots, columns = [pivot], [_distances(graph, pivot)]
    nearest = columns[0]
    while len(pivots) < count:
        pivot = int(nearest.argmax())
        pivots.append(pivot)
        columns.append(_distances(graph, pivot))
        nearest = np.minimum(nearest, columns[-1])
    return np.array(pivots), np.stack(columns, axis=1).astype(np.float32)


def _distances(graph: csr_array, nodes: int | np.ndarray) -> np.ndarray:
    return np.asarray(dijkstra(graph, indices=nodes, unweighted=True))


def _pivot_mds(distance: np.ndarray) -> np.ndarray:
    squared = distance.astype(np.float64) ** 2
    centred = squared.mean(0) + squared.mean(1, keepdims=True) - squared - squared.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    points = centred @ vectors[:, :-3:-1]  # [nodes, 1 or 2], the widest direction first
    points *= np.sign(points[np.abs(points).argmax(0), range(points.shape[1])])
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    points *= distance.std() / max(float(points[:, 0].std()), 1e-9)
    # Nodes with equal distances to all pivots would coincide and never separate.
    turn = np.arange(len(points)) * 2.39996  # the golden angle
    return points + 0.3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _weights(distance: np.ndarray) -> np.ndarray:
    """Of the distance to each pivot, which stands for the nodes around it."""
    nearest = distance.argmin(axis=1)
    around = np.empty_like(distance)
    for pivot in range(distance.shape[1]):
        region = np.sort(distance[nearest == pivot, pivot])
        around[:, pivot] = np.searchsorted(region, distance[:, pivot] / 2, "right")
    return np.where(distance > 0, around / np.maximum(distance, 1) ** 2, 0).astype(np.float32)


def _by_pivots(
    points: np.ndarray, pivots: np.ndarray, distance: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The weighted position that the distances to the pivots pull each node to, and the weight."""
    offset = [np.subtract.outer(points[:, i], pivots[:, i]).astype(np.float32) for i in (0, 1)]
    pull = weight * distance / np.maximum(np.hypot(*offset), 1e-6)  # [nodes, pivots]
    drawn = [weight @ pivots[:, i] + (pull * offset[i]).sum(axis=1) for i in (0, 1)]
    return np.stack([*drawn, weight.sum(axis=1)], axis=1).astype(np.float64)


def _by_pairs(
    points: np.ndarray, source: np.ndarray, target: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """The same by pairs of nodes with a wanted length, each of weight 1."""
    offset = points[source] - points[target]
    norm = np.maximum(np.hypot(*offset.T), 1e-6)
    wanted = points[target] + offset * (length / norm)[:, None]
    drawn = [np.bincount(source, wanted[:, i], len(points)) for i in (0, 1)]
    return np.stack([*drawn, np.bincount(source, minlength=len(points))], axis=1)


def _by_overlaps(points: np.ndarray) -> np.ndarray:
    """The same by the nearest nodes, where they are too close."""
    count = min(NEIGHBOURS + 1, len(points))
    distance, near = cKDTree(points).query(points, k=count)
    source, rank = np.nonzero((distance < CLOSE) & (near != np.arange(len(points))[:, None]))
    return _by_pairs(points, source, near[source, rank], np.full(len(source), CLOSE))
