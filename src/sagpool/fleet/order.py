"""Which graphs each member sees in which batch of an epoch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagpool.graphs.batch import NO_GRAPH
from sagpool.randomness import bits_of_each


class Order(NamedTuple):
    """The graphs of one member in the order of one epoch."""

    key: int
    epoch: int
    graphs: np.ndarray


def epoch_orders(
    train: Sequence[np.ndarray],
    keys: np.ndarray,
    epochs: np.ndarray,
    known: Sequence[Order] = (),
) -> list[Order]:
    """The graphs of each member in a random order of its own.

    Args:
        train: for each member, the graphs it trains on
        keys: ``[members]`` uint64, of each member's order
        epochs: ``[members]`` which epoch this is for each member
        known: what was computed ahead, for each member; used where it is of the same key and epoch
    """
    wanted = list(zip(keys.tolist(), epochs.tolist(), train, strict=True))
    orders: list[Order | None] = [None] * len(wanted)
    for member, (order, (key, epoch, graphs)) in enumerate(zip(known, wanted, strict=False)):
        if order[:2] == (key, epoch) and len(order.graphs) == len(graphs):
            orders[member] = order
    missing = [member for member, order in enumerate(orders) if order is None]
    if missing:
        most = max(len(train[member]) for member in missing)
        random = bits_of_each(keys[missing], epochs[missing], most)
        for member, bits in zip(missing, random, strict=True):
            key, epoch, graphs = wanted[member]
            orders[member] = Order(key, epoch, graphs[np.argsort(bits[: len(graphs)])])
    return [order for order in orders if order is not None]


def epoch_batches(orders: Sequence[Order], batch_size: int) -> np.ndarray:
    """The orders of all members, cut into batches; the last one of a member may be smaller.

    Returns:
        ``[batches, members, batch_size]`` graph numbers, -1 where a member has no more
    """
    batches = -(-max(len(order.graphs) for order in orders) // batch_size)
    ids = np.full((len(orders), batches * batch_size), NO_GRAPH, np.int64)
    for row, order in zip(ids, orders, strict=True):
        row[: len(order.graphs)] = order.graphs
    return ids.reshape(len(orders), batches, batch_size).swapaxes(0, 1)
