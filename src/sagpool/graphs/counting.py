"""`colors` and `triangles`: the class is a count, and the counted nodes are known.

After "Understanding Attention and Generalization in Graph Neural Networks" (Knyazev, Taylor and
Amer, 2019). Both are learnt on small graphs and tested on larger ones.
"""

import numpy as np
import torch

from sagpool.graphs.drawn_parts import Drawn, Part, check_part, index_in_run, joined, packed
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.splits import TRAIN, VALIDATION
from sagpool.randomness import key_of, permutation, uniform

GREEN, CHANNELS = 1, 4
COLORS = 3  # red, green and blue; the fourth channel is zero except in large-c
MOST = 10  # green nodes, or triangles, of a graph
SMALL = (4, 25)  # nodes of a small graph
BLOCK = 2**24  # pairs of nodes that are checked at a time


def colors(train: int = 500, validation: int = 2500, test: int = 2500, *, seed: int = 0) -> Graphs:
    """Random graphs whose class is the number of their green nodes, 0 to 10.

    Edges carry no information. Features are the channels of a node's colour. Nodes of ``large-c``
    that are not green have random channels, one of which is zero in all other graphs; their green
    channel is zero.

    Args:
        train: graphs of 4 to 25 nodes
        validation: graphs of 4 to 25 nodes
        test: graphs in each of three tests: of 4 to 25 nodes (``test``), and of 26 to 200 nodes
            (``large``, ``large-c``)
        seed: the same seed gives the same graphs

    Returns:
        graphs with ``part`` and ``ground_truth``: 1 for the green nodes
    """
    large = (26, 200)
    parts = _small_parts(train, validation, test)
    parts += [Part("large", test, large), Part("large-c", test, large)]
    drawn, channels = [], []
    for part in parts:
        check_part(part)
        y = permutation(_key("class", part, seed), part.graphs) % (MOST + 1)
        smallest = np.maximum(part.nodes[0], y)
        span = part.nodes[1] - smallest + 1
        counts = smallest + (uniform(_key("nodes", part, seed), part.graphs) * span).astype(int)
        ends = _random_edges(counts, part, seed)
        green = _random_nodes(y, counts, part, seed)
        drawn.append(Drawn(counts, ends, y, green.astype(np.float32)))
        channels.append(_channels(green, part, seed))
    names = tuple(str(count) for count in range(MOST + 1))
    return packed("colors", parts, drawn, names, np.concatenate(channels))


def triangles(
    train: int = 30_000, validation: int = 5000, test: int = 5000, *, seed: int = 0
) -> Graphs:
    """Random graphs whose class is the number of their triangles, 1 to 10, balanced.

    Features are degrees.

    Args:
        train: graphs of 4 to 25 nodes
        validation: graphs of 4 to 25 nodes
        test: graphs in each of two tests: of 4 to 25 nodes (``test``), and of 26 to 100 nodes
            (``large``)
        seed: the same seed gives the same graphs

    Returns:
        graphs with ``part`` and ``ground_truth``: in how many triangles a node is
    """
    parts = [*_small_parts(train, validation, test), Part("large", test, (26, 100))]
    drawn = [_balanced(part, seed) for part in parts]
    names = tuple(str(count) for count in range(1, MOST + 1))
    return packed("triangles", parts, drawn, names)


def _small_parts(train: int, validation: int, test: int) -> list[Part]:
    counts = {TRAIN: train, VALIDATION: validation, "test": test}
    return [Part(name, count, SMALL) for name, count in counts.items()]


def _balanced(part: Part, seed: int) -> Drawn:
    """Graphs with 1 to 10 triangles, each number equally often; others are drawn and dropped."""
    check_part(part)
    wanted = np.bincount(np.arange(part.graphs) % MOST, minlength=MOST)
    kept: list[Drawn] = []
    for attempt in range(10_000):
        if not wanted.any():
            break
        several = part._replace(graphs=max(200, min(20_000, 2 * int(wanted.sum()))))
        span = part.nodes[1] - part.nodes[0] + 1
        key = _key(f"nodes {attempt}", part, seed)
        counts = part.nodes[0] + (uniform(key, several.graphs) * span).astype(int)
        ends = _random_edges(counts, several, seed, attempt)
        corners = _triangles_of_nodes(counts, ends)
        total = np.add.reduceat(corners, np.cumsum(counts) - counts).astype(int) // 3
        y = total - 1
        take = np.zeros(len(y), bool)
        for number in np.flatnonzero(wanted):
            found = np.flatnonzero(y == number)[: wanted[number]]
            take[found] = True
            wanted[number] -= len(found)
        kept.append(_subset(Drawn(counts, ends, y, corners), take))
    assert not wanted.any(), "every number of triangles occurs"
    shuffled = permutation(_key("order", part, seed), part.graphs)
    return _reordered(joined(kept), shuffled)


def _triangles_of_nodes(counts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """In how many triangles each node is, ``[nodes]`` float32."""
    corners = np.zeros(int(counts.sum()), np.float32)
    first = np.cumsum(counts) - counts
    graph = np.repeat(np.arange(len(counts)), counts)[ends[:, 0]]
    width = int(counts.max())
    step = max(1, BLOCK // width**2)
    for start in range(0, len(counts), step):
        stop = min(start + step, len(counts))
        inside = (graph >= start) & (graph < stop)
        own = graph[inside]
        u, v = (ends[inside] - first[own][:, None]).T
        a = torch.zeros(stop - start, width, width)
        a[own - start, u, v] = 1
        a[own - start, v, u] = 1
        paths = (torch.bmm(a, a) * a).sum(2).numpy() / 2
        real = np.arange(width) < counts[start:stop, None]
        corners[first[start] : first[start] + counts[start:stop].sum()] = paths[real]
    return corners


def _random_edges(counts: np.ndarray, part: Part, seed: int, attempt: int = 0) -> np.ndarray:
    """⌊(1 + u) n⌋ different edges for n nodes, or all, with u uniform in [0, 1), ``[edges, 2]``."""
    pairs = counts * (counts - 1) // 2
    more = uniform(_key(f"edges {attempt}", part, seed), len(counts))
    wanted = np.minimum(((1 + more) * counts).astype(np.int64), pairs)
    width = int(wanted.max())
    draws = uniform(_key(f"pairs {attempt}", part, seed), len(counts) * width)
    draws = draws.reshape(len(counts), width)
    first = np.cumsum(counts) - counts
    found, step = [], max(1, BLOCK // int(pairs.max()))
    for start in range(0, len(counts), step):
        block = slice(start, start + step)
        graph, pair = _different(pairs[block], wanted[block], draws[block])
        found.append(np.stack(_pair(pair), 1) + first[block][graph][:, None])
    return np.concatenate(found)


def _different(
    limits: np.ndarray, wanted: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``wanted[i]`` different numbers below ``limits[i]`` for each i (Floyd's algorithm).

    Returns:
        the i of each number, ascending, and the numbers
    """
    taken = np.zeros((len(limits), int(limits.max())), bool)
    for step in range(draws.shape[1]):
        rows = np.flatnonzero(step < wanted)
        last = (limits - wanted)[rows] + step
        drawn = (draws[rows, step] * (last + 1)).astype(np.int64)
        taken[rows, np.where(taken[rows, drawn], last, drawn)] = True
    graph, number = np.nonzero(taken)
    return graph, number


def _pair(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (0, 1), (0, 2), (1, 2), (0, 3), ... by number: smaller and larger node."""
    larger = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
    larger -= larger * (larger - 1) // 2 > index  # where the square root was rounded up
    return index - larger * (larger - 1) // 2, larger


def _random_nodes(wanted: np.ndarray, counts: np.ndarray, part: Part, seed: int) -> np.ndarray:
    """Random nodes of each graph, ``wanted`` of them, ``[nodes]`` bool."""
    graph = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((uniform(_key("green", part, seed), len(graph)), graph))
    chosen = np.empty(len(graph), bool)
    chosen[order] = index_in_run(counts) < np.repeat(wanted, counts)
    return chosen


def _channels(green: np.ndarray, part: Part, seed: int) -> np.ndarray:
    """``[nodes, channels]`` float32"""
    rows = len(green)
    if part.name == "large-c":
        values = uniform(_key("channels", part, seed), rows * CHANNELS).reshape(rows, CHANNELS)
        values[:, GREEN] = 0
        values[green] = np.eye(CHANNELS)[GREEN]
        return values.astype(np.float32)
    blue = uniform(_key("blue", part, seed), rows) < 0.5
    code = np.where(green, GREEN, np.where(blue, COLORS - 1, 0))
    return np.eye(CHANNELS, dtype=np.float32)[code]


def _subset(drawn: Drawn, graphs: np.ndarray) -> Drawn:
    """The graphs whose entry of ``[graphs]`` bool is True."""
    nodes = np.repeat(graphs, drawn.node_counts)
    number = np.cumsum(nodes) - 1
    ends = drawn.ends[nodes[drawn.ends[:, 0]]]
    return Drawn(drawn.node_counts[graphs], number[ends], drawn.y[graphs], drawn.truth[nodes])


def _reordered(drawn: Drawn, order: np.ndarray) -> Drawn:
    """The graphs in another order."""
    counts = drawn.node_counts
    first = np.cumsum(counts) - counts
    nodes = np.repeat(first[order] - (np.cumsum(counts[order]) - counts[order]), counts[order])
    nodes += np.arange(len(nodes))  # the earlier number of each node
    number = np.empty_like(nodes)
    number[nodes] = np.arange(len(nodes))
    return Drawn(counts[order], number[drawn.ends], drawn.y[order], drawn.truth[nodes])


def _key(stream: str, part: Part, seed: int) -> np.uint64:
    return key_of("counting", stream, part.name, *part.nodes, seed)
