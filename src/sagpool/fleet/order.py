"""The graphs of each member in each batch of an epoch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagpool.graphs.batch import NO_GRAPH
from sagpool.randomness import bits_of_each


class Order(NamedTuple):
    """The shuffled graphs of one member in one epoch."""

    key: int
    epoch: int
    graphs: np.ndarray


def epoch_orders(
    train: Sequence[np.ndarray],
    keys: np.ndarray,
    epochs: np.ndarray,
    known: Sequence[Order] = (),
) -> list[Order]:
    """The training graphs of each member, shuffled by its own key.

    Args:
        train: for each member, the graphs it trains on
        keys: ``[members]`` uint64, keys of the random numbers
        epochs: ``[members]`` which epoch this is for each member
        known: orders computed ahead; used if key and epoch are the same
    """
    wanted = list(zip(keys.tolist(), epochs.tolist(), train, strict=True))
    ahead = {(order.key, order.epoch, len(order.graphs)): order for order in known}
    orders = [ahead.get((key, epoch, len(graphs))) for key, epoch, graphs in wanted]
    missing = [member for member, order in enumerate(orders) if order is None]
    if missing:
        most = max(len(train[member]) for member in missing)
        random = bits_of_each(keys[missing], epochs[missing], most)
        for member, bits in zip(missing, random, strict=True):
            key, epoch, graphs = wanted[member]
            orders[member] = Order(key, epoch, graphs[np.argsort(bits[: len(graphs)])])
    return [order for order in orders if order is not None]


def epoch_batches(orders: Sequence[Order], batch_size: int) -> np.ndarray:
    """The orders of all members, cut into batches.

    Returns:
        ``[batches, members, batch_size]`` graph numbers, padded with -1 at the end of a member
    """
    batches = -(-max(len(order.graphs) for order in orders) // batch_size)
    ids = np.full((len(orders), batches * batch_size), NO_GRAPH, np.int64)
    for row, order in zip(ids, orders, strict=True):
        row[: len(order.graphs)] = order.graphs
    return ids.reshape(len(orders), batches, batch_size).swapaxes(0, 1)
