"""The graphs of each member in each batch of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from sagpool.graphs import Graphs
from sagpool.graphs.batch import NO_GRAPH
from sagpool.ops import to_device
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


def cut_short(batch: np.ndarray) -> np.ndarray:
    """Without the padding at the end that all members have: the last batch is short for all."""
    most = int((batch != NO_GRAPH).sum(1).max())
    return batch[:, : max(1, most)]


class Padded(NamedTuple):
    """Graph numbers on the device, and how many rows and entries their batch is padded to."""

    ids: Tensor  # [members, graphs] int32, -1 for none
    rows: int  # of each member
    entries: int  # of all members


class DeviceBatches(NamedTuple):
    """Batches of graph numbers on the device, and what the host knows about them."""

    flat: Tensor  # int32, the numbers of all batches
    shapes: tuple[tuple[int, int], ...]  # members and graphs of each batch
    rows: tuple[int, ...]  # of the largest member of each batch, with a filler
    entries: tuple[int, ...]  # of all members of each batch

    def each(self) -> list[DeviceBatches]:
        """One by one."""
        parts = self.flat.split([members * graphs for members, graphs in self.shapes])
        rest = zip(parts, self.shapes, self.rows, self.entries, strict=True)
        return [DeviceBatches(part, (shape,), (r,), (e,)) for part, shape, r, e in rest]

    def padded(self) -> list[Padded]:
        parts = self.flat.split([members * graphs for members, graphs in self.shapes])
        rest = zip(parts, self.shapes, self.rows, self.entries, strict=True)
        return [Padded(part.view(shape), r, e) for part, shape, r, e in rest]


def on_device(graphs: Graphs, batches: Sequence[np.ndarray]) -> DeviceBatches:
    """Move batches of graph numbers, ``[members, graphs]`` each, to the device in one copy."""
    flat = np.concatenate([ids.ravel() for ids in batches])
    nodes = np.append(graphs.node_counts, 1)[flat]  # -1 stands for a filler with one node
    entries = graphs.batch_source.counts[flat]
    ends = np.cumsum([ids.size for ids in batches])[:-1]
    each = zip(batches, np.split(nodes, ends), np.split(entries, ends), strict=True)
    sizes = [(int(n.reshape(ids.shape).sum(1).max()) + 1, int(e.sum())) for ids, n, e in each]
    return DeviceBatches(
        to_device(flat.astype(np.int32), graphs.device),
        tuple((len(ids), ids.shape[1]) for ids in batches),
        *zip(*sizes, strict=True),
    )
