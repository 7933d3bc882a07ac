"""The graphs of each member in each batch of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.graphs import Graphs
from sagpool.graphs.batch import NO_GRAPH
from sagpool.nn.random import bits_of_each
from sagpool.ops import to_device, to_host

ORDERS = ("shuffled", "fixed")

# The device shuffles at most this many epochs ahead, or this many numbers.
AHEAD, NUMBERS = 16, 2**22


class Padded(NamedTuple):
    """Graph numbers on the device, and how many rows and entries their batch is padded to."""

    ids: Tensor  # [members, graphs] int32, -1 for none
    rows: int  # per member
    entries: int  # sum over all members


class DeviceBatches(NamedTuple):
    """Batches of graph numbers on the device, and what the host knows about them."""

    flat: Tensor  # int32, the numbers of all batches
    shapes: tuple[tuple[int, int], ...]  # members and graphs of each batch
    rows: tuple[int, ...]  # rows of the largest member of each batch, with a filler
    entries: tuple[int, ...]  # entries of all members together, for each batch

    def each(self) -> list[DeviceBatches]:
        """A list with one element for each batch."""
        rest = zip(self._parts(self.flat), self.shapes, self.rows, self.entries, strict=True)
        return [DeviceBatches(part, (shape,), (r,), (e,)) for part, shape, r, e in rest]

    def padded(self) -> list[Padded]:
        rest = zip(self._parts(self.flat), self.shapes, self.rows, self.entries, strict=True)
        return [Padded(part.view(shape), r, e) for part, shape, r, e in rest]

    def followed_by(self, others: DeviceBatches) -> DeviceBatches:
        return DeviceBatches(
            torch.cat([self.flat, others.flat]),
            self.shapes + others.shapes,
            self.rows + others.rows,
            self.entries + others.entries,
        )

    def on_host(self) -> list[np.ndarray]:
        """``[members, graphs]`` of each batch."""
        parts = self._parts(to_host(self.flat))
        return [p.view(shape).numpy() for p, shape in zip(parts, self.shapes, strict=True)]

    def _parts(self, flat: Tensor) -> tuple[Tensor, ...]:
        return flat.split([members * graphs for members, graphs in self.shapes])


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


class Members(NamedTuple):
    """The members whose graphs are shuffled."""

    train: Sequence[np.ndarray]  # for each member, the graphs it trains on
    keys: np.ndarray  # [members] uint64, keys of the random streams
    epochs: np.ndarray  # [members] the current epoch of each member

    def after(self, count: int) -> Members:
        """The same members, this many epochs later."""
        return self._replace(epochs=self.epochs + count)


class Orders:
    """The training graphs of all members in random order, epoch after epoch.

    An order depends only on the key and the epoch of its member. The device shuffles for several
    epochs at once, and the host learns the sizes of all their batches in one copy.

    Args:
        graphs: on the device
        batch_size: graphs per member in a batch
        members: number of members; each may be replaced by another at any time
        kind: ``shuffled``, or ``fixed``: the shuffled order of a member's first epoch in all
            epochs. (The order of the data set would be worse: data sets are often sorted by class.)
    """

    def __init__(
        self, graphs: Graphs, batch_size: int, members: int, kind: str = "shuffled"
    ) -> None:
        self.graphs, self.batch_size, self.kind = graphs, batch_size, kind
        # The current members; both arrays are also on the device.
        self.keys, self.lengths = np.zeros(members, np.uint64), np.zeros(members, np.int64)
        self.keys_on_device = torch.zeros(members, dtype=torch.int64, device=graphs.device)
        self.ids = self.keys_on_device.new_empty((members, 0), dtype=torch.int32)
        self.plan: _Plan | None = None

    def batches(self, members: Members) -> DeviceBatches:
        """Every graph of each member once, in as few batches as possible.

        A member that has fewer graphs than others gets -1 for the missing ones.
        """
        return self._prepared(members, 1).batches(members.epochs)

    def prepare(self, members: Members, count: int) -> None:
        """Let the device compute ``count`` epochs, unless cached; does not wait for it."""
        self._prepared(members, count)

    def _prepared(self, members: Members, count: int) -> _Plan:
        self._update(members)
        plan, ahead = self.plan, 1
        if plan is not None:
            if plan.covers(members.epochs, count):
                return plan
            # The longer the members have not changed, the longer they are expected not to.
            ahead = min(2 * plan.count, AHEAD, NUMBERS // plan.flat.shape[1])
        self.plan = self._make(np.array(members.epochs), max(count, ahead))
        return self.plan

    def _update(self, members: Members) -> None:
        """Replace the members that have changed."""
        lengths = np.array([len(graphs) for graphs in members.train])
        changed = np.flatnonzero((members.keys != self.keys) | (lengths != self.lengths))
        if not len(changed):
            return
        self.plan = None
        self.keys, self.lengths, device = members.keys.copy(), lengths, self.graphs.device
        if lengths.max() > self.ids.shape[1]:
            width = -(-int(lengths.max()) // 16) * 16  # other members may have a graph or two more
            self.ids = self.ids.new_full((len(lengths), width), NO_GRAPH)
            changed = np.arange(len(lengths))
        ids = np.full((len(changed), self.ids.shape[1]), NO_GRAPH, np.int32)
        for row, member in zip(ids, changed.tolist(), strict=True):
            row[: lengths[member]] = members.train[member]
        rows = to_device(changed, device)
        self.ids[rows] = to_device(ids, device)
        self.keys_on_device[rows] = to_device(self.keys[changed].view(np.int64), device)

    def _make(self, epochs: np.ndarray, count: int) -> _Plan:
        (members,), most = epochs.shape, max(1, int(self.lengths.max()))
        ids, size = self.ids[:, :most], self.batch_size
        batches = -(-most // size)
        later = torch.arange(count, device=ids.device)[:, None]
        counters = to_device(epochs.astype(np.int64), ids.device) + later  # [epochs, members]
        if self.kind == "fixed":
            counters.zero_()
        bits = bits_of_each(self.keys_on_device, counters, most)  # [epochs, members, most]
        bits.masked_fill_(ids == NO_GRAPH, 2**63 - 1)  # these come last
        ids = ids.expand_as(bits).gather(2, bits.argsort(dim=2, stable=True))

        missing = batches * size - most  # free places of the last batch, for all members
        sizes = self.graphs.batch_source.sizes
        places = torch.where(ids == NO_GRAPH, sizes.shape[1] - 1, ids)  # the last is the filler
        each = sizes.index_select(1, places.view(-1)).view(2, count, members, most)
        nodes, entries = pad(each, (0, missing)).view(2, count, members, batches, size).sum(4)
        return _Plan(
            first=epochs,
            present=self.lengths > 0,
            flat=torch.cat([part.flatten(1) for part in ids.split(size, 2)], 1),
            shapes=tuple((members, min(size, most - first)) for first in range(0, most, size)),
            sizes_on_device=torch.stack([nodes.amax(1) + 1, entries.sum(1)]),
        )


@dataclass(eq=False)
class _Plan:
    """The batches of some epochs."""

    first: np.ndarray  # [members], the first epoch
    present: np.ndarray  # [members] bool, whether a member has graphs
    flat: Tensor  # [epochs, graphs of all members] int32, one batch after the other
    shapes: tuple[tuple[int, int], ...]  # members and graphs of each batch
    sizes_on_device: Tensor  # [2, epochs, batches] rows and entries

    @property
    def count(self) -> int:
        return len(self.flat)

    @cached_property
    def sizes(self) -> np.ndarray:
        """``[2, epochs, batches]``; the host waits for the device."""
        return to_host(self.sizes_on_device).numpy()

    def covers(self, epochs: np.ndarray, count: int) -> bool:
        """Whether the plan has these epochs of the members, and enough after them."""
        positions = (epochs - self.first)[self.present]
        return bool((positions == positions[0]).all() and 0 <= positions[0] <= self.count - count)

    def batches(self, epochs: np.ndarray) -> DeviceBatches:
        position = int((epochs - self.first)[self.present][0])
        rows, entries = self.sizes[:, position].tolist()
        return DeviceBatches(self.flat[position], self.shapes, tuple(rows), tuple(entries))
