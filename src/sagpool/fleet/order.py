"""Which graphs each member sees in which batch of an epoch."""

from collections.abc import Sequence

import numpy as np

from sagpool.graphs.batch import NO_GRAPH
from sagpool.randomness import bits_of_each


def epoch_batches(
    train: Sequence[np.ndarray], keys: np.ndarray, epochs: np.ndarray, batch_size: int
) -> np.ndarray:
    """The graphs of each member in a random order of its own, cut into batches.

    Args:
        train: for each member, the graphs it trains on
        keys: ``[members]`` uint64, of each member's order
        epochs: ``[members]`` which epoch this is for each member
        batch_size: graphs in a batch; the last one of a member may have fewer

    Returns:
        ``[batches, members, batch_size]`` graph numbers, -1 where a member has no more
    """
    counts = np.array([len(graphs) for graphs in train])
    batches = -(-int(counts.max()) // batch_size)
    ids = np.full((len(train), batches * batch_size), NO_GRAPH, np.int64)
    random = bits_of_each(keys, epochs, int(counts.max()))
    for member, graphs in enumerate(train):
        ids[member, : len(graphs)] = graphs[np.argsort(random[member, : len(graphs)])]
    return ids.reshape(len(train), batches, batch_size).swapaxes(0, 1)
