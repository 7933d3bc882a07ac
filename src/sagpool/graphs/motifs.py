"""`motifs` and `motifs_shift`: random graphs whose class depends on a small planted subgraph."""

import dataclasses
import itertools

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.columns import Encoding
from sagpool.graphs.drawn_parts import Drawn, Part, check_part, index_in_run, packed
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.intake import pack_arrays
from sagpool.graphs.raw_graphs import Codes
from sagpool.graphs.splits import TRAIN, VALIDATION
from sagpool.randomness import key_of, permutation, uniform

# Five nodes and six edges each, so that size and density do not reveal the class.
MOTIFS = {
    "house": [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 0)],
    "bowtie": [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)],
    "theta": [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)],  # K₂,₃
}
MOTIF_NODES = 5
EAR_NODES = 3
MIN_NODES = MOTIF_NODES + EAR_NODES + 2
SMALL, LARGE = (15, 40), (100, 200)  # nodes of the graphs of `motifs_shift`
SHIFT_CAP = 8

Seed = tuple[int | str, ...]


def motifs(
    graphs: int = 1000,
    nodes: tuple[int, int] = (15, 40),
    *,
    classes: tuple[str, ...] = ("house", "bowtie"),
    seed: int = 0,
    degree_cap: int = 64,
    features: Features | Encoding = "degree",
) -> Graphs:
    """Generate random graphs, each with one motif that decides its class.

    The rest of a graph is a random tree with ears: paths over three new nodes that join two nodes
    of the tree. So every cycle outside the motif has at least five nodes, while each motif has a
    triangle or a square: no motif arises by chance. Node features are degrees.

    Args:
        graphs: number of graphs
        nodes: smallest and largest number of nodes of a graph, motif included
        classes: motifs to plant (house, bowtie, theta), one class each, balanced
        seed: the same seed gives the same graphs
        degree_cap: higher degrees count as this one
        features: ``degree``; ``all`` gives the same

    Returns:
        graphs with ``ground_truth``: the nodes of the motif
    """
    _check(graphs, nodes, classes)
    drawn = _drawn(graphs, nodes, classes, (seed,))
    raw = pack_arrays(
        "motifs",
        drawn.node_counts,
        drawn.ends,
        undirected=True,
        classes=Codes(drawn.y, classes),
    )
    return dataclasses.replace(
        choose_features(raw, features, degree_cap), ground_truth=torch.from_numpy(drawn.truth > 0)
    )


def motifs_shift(
    train: int = 500,
    validation: int = 500,
    test: int = 500,
    *,
    classes: tuple[str, ...] = ("house", "bowtie"),
    seed: int = 0,
) -> Graphs:
    """`motifs` that are learnt on small graphs and tested on larger ones.

    Features are degrees; degrees above 8 count as 8, so large graphs have no new features.

    Args:
        train: graphs of 15 to 40 nodes
        validation: graphs of 15 to 40 nodes
        test: graphs in each of two tests: of 15 to 40 nodes (``test``), and of 100 to 200 nodes
            (``large``)
        classes: motifs to plant, as in `motifs`
        seed: the same seed gives the same graphs

    Returns:
        graphs with ``part`` and ``ground_truth``: 1 for the nodes of the motif
    """
    counts = {TRAIN: train, VALIDATION: validation, "test": test}
    parts = [Part(name, count, SMALL) for name, count in counts.items()]
    parts.append(Part("large", test, LARGE))
    drawn = []
    for part in parts:
        check_part(part)
        _check(part.graphs, part.nodes, classes)
        drawn.append(_drawn(part.graphs, part.nodes, classes, (part.name, *part.nodes, seed)))
    return packed("motifs-shift", parts, drawn, classes, degree_cap=SHIFT_CAP)


def _drawn(graphs: int, nodes: tuple[int, int], classes: tuple[str, ...], seed: Seed) -> Drawn:
    y = permutation(key_of("motif class", *seed), graphs) % len(classes)
    span = nodes[1] - nodes[0] + 1
    node_counts = nodes[0] + _random_below(np.full(graphs, span), "motif nodes", seed)
    base_counts = node_counts - MOTIF_NODES
    # About one ear per ten nodes of the rest; the tree has at least two nodes.
    ears = np.minimum(1 + base_counts // 10, (base_counts - 2) // EAR_NODES)
    tree_counts = base_counts - ears * EAR_NODES

    first_node = np.cumsum(node_counts) - node_counts
    ends = np.concatenate(
        [
            _trees(first_node, tree_counts, seed),
            _ears(first_node, tree_counts, ears, seed),
            _planted(first_node, base_counts, [MOTIFS[name] for name in classes], y, seed),
        ],
        axis=1,
    )
    truth = np.arange(int(node_counts.sum())) >= np.repeat(first_node + base_counts, node_counts)

    # Nodes are shuffled inside each graph, so that their order carries no information.
    graph = np.repeat(np.arange(graphs), node_counts)
    order = np.lexsort((uniform(key_of("motif order", *seed), len(graph)), graph))
    return Drawn(node_counts, np.argsort(order)[ends.T], y, truth[order].astype(np.float32))


def _trees(first: np.ndarray, counts: np.ndarray, seed: Seed) -> np.ndarray:
    """Joins each node except the first to a random earlier one, ``[2, edges]``."""
    index = index_in_run(counts)
    parent = _random_below(index, "motif tree", seed)
    start = np.repeat(first, counts)
    return np.stack([start + index, start + parent])[:, index > 0]


def _ears(first: np.ndarray, trees: np.ndarray, ears: np.ndarray, seed: Seed) -> np.ndarray:
    """Paths over new nodes between two different nodes of the tree, ``[2, edges]``."""
    trees, start = np.repeat(trees, ears), np.repeat(first, ears)
    one = _random_below(trees, "motif ear start", seed)
    other = (one + 1 + _random_below(trees - 1, "motif ear end", seed)) % trees
    new = start + trees + EAR_NODES * index_in_run(ears)
    path = [start + one, *(new + i for i in range(EAR_NODES)), start + other]
    return np.concatenate([np.stack(pair) for pair in itertools.pairwise(path)], 1)


def _planted(
    first: np.ndarray,
    base_counts: np.ndarray,
    shapes: list[list[tuple[int, int]]],
    y: np.ndarray,
    seed: Seed,
) -> np.ndarray:
    """The motif of each graph, and one edge that joins it to the rest, ``[2, edges]``."""
    corner = first + base_counts
    shape = np.array(shapes)[y]  # [graphs, edges, 2]
    inside = corner[:, None, None] + shape
    tie = np.stack(
        [
            corner + _random_below(np.full(len(first), MOTIF_NODES), "motif tie", seed),
            first + _random_below(base_counts, "motif base tie", seed),
        ]
    )
    return np.concatenate([inside.reshape(-1, 2).T, tie], axis=1)


def _random_below(limits: np.ndarray, stream: str, seed: Seed) -> np.ndarray:
    """A random whole number from 0 to ``limits[i] - 1`` for each i."""
    return (uniform(key_of(stream, *seed), len(limits)) * limits).astype(np.int64)


def _check(graphs: int, nodes: tuple[int, int], classes: tuple[str, ...]) -> None:
    unknown = [name for name in classes if name not in MOTIFS]
    if unknown or len(set(classes)) < len(classes) or not classes:
        raise SagpoolError(f"Motif classes must be distinct, from {', '.join(MOTIFS)}.")
    if graphs < 1:
        raise SagpoolError(f"The number of graphs must be at least 1, not {graphs}.")
    if not MIN_NODES <= nodes[0] <= nodes[1]:
        raise SagpoolError(
            f"nodes must be (smallest, largest), both at least {MIN_NODES}, not {nodes}."
        )
