"""Coarsened collections: computed once, and packed into batches like the graphs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.graphs.adjacency import Structure
from sagpool.graphs.batch import BatchSource, Origin, pack_on_device, pack_source
from sagpool.graphs.host_graphs import Coarsening, HostGraphs, canonical_order, hash_rows
from sagpool.graphs.weighted import WeightedAdjacency
from sagpool.ops import copied_runs
from sagpool.ops.device import on_cpu, wait_for_stream

_lock = RLock()  # fleets in other threads use the same levels


@dataclass(frozen=True, eq=False, kw_only=True)
class CoarseSource(BatchSource):
    """A coarsened collection, with weights, and the clusters of finer nodes it is made of.

    Args:
        weight: ``[entries]`` float64
        gcn_weight: ``[entries]`` float64, the entries of D̃^-1/2 (A + I) D̃^-1/2
        parent: ``[finer nodes + 1]`` int32, the index of the node's cluster in its graph, or -1
        child_ptr: ``[nodes + 2]`` int32, the first child of each node
        child: ``[children]`` int32, their indices in the finer graph, cluster after cluster
        host: the same graphs as NumPy arrays
    """

    weight: Tensor
    gcn_weight: Tensor
    parent: Tensor
    child_ptr: Tensor
    child: Tensor
    host: HostGraphs


class Clusters(NamedTuple):
    """Which rows of a packed batch a pooling merges."""

    ptr: Tensor  # [new rows + 1] int32, the first child of each new row
    child: Tensor  # [children] int32 rows; entries past ptr[-1] belong to no new row
    parent: Tensor  # [rows] int64, the new row of each row; -1 if it is dropped


def coarser(structure: Structure, coarsening: Coarsening) -> tuple[WeightedAdjacency, Clusters]:
    """The coarsened graphs of a batch, and which rows each new row is made of."""
    fine: Origin | None = getattr(structure, "origin", None)
    if fine is None:
        raise SagpoolError(
            f"{type(coarsening).__name__} coarsens the graphs of a data set before the training, "
            "so it cannot follow another kind of pooling, or work on edges that are not from one."
        )
    source = _coarse_source(fine.source, coarsening)
    if fine.chosen is not None:
        packed = pack_source(source, fine.chosen)
    else:
        assert fine.ids is not None
        members, graphs = fine.ids.shape
        most = _size_bound(_nodes(fine.source), _nodes(source), structure.layout.rows - 1, graphs)
        entries = _size_bound(
            fine.source.counts[:-1], source.counts[:-1], fine.entries, members * graphs
        )
        packed = pack_on_device(source, fine.ids, most + 1, entries)
    made, node, layout = packed.structure, packed.node, structure.layout

    parent = source.parent.index_select(0, fine.node)
    first = made.layout.node_ptr.index_select(0, layout.graph)
    parent = torch.where(parent < 0, -1, first + parent)

    count = source.child_ptr.diff().index_select(0, node)
    ptr = pad(torch.cumsum(count, 0, dtype=torch.int32), (1, 0))
    # Counting would wait for the device: use an upper bound, the number of rows.
    total = int(ptr[-1]) if on_cpu(ptr) else layout.total_rows
    child = copied_runs(
        *(source.child, source.child_ptr, node, ptr, total),
        shift=layout.node_ptr.index_select(0, made.layout.graph),
        # Unused entries point to the last row, so that a NaN does not reach another member.
        fill=layout.total_rows - 1,
    )
    of_entries = source.row_ptr, node, made.row_ptr, len(made.col)
    return (
        WeightedAdjacency(
            made.layout,
            made.row_ptr,
            made.col,
            copied_runs(source.weight, *of_entries),
            copied_runs(source.gcn_weight, *of_entries),
            made.origin,
        ),
        Clusters(ptr, child, parent),
    )


def _nodes(source: BatchSource) -> np.ndarray:
    return np.diff(source.first_node)


def _size_bound(fine: np.ndarray, coarse: np.ndarray, total: int, graphs: int) -> int:
    """An upper bound on the size of coarsened graphs that together had the size ``total``.

    Each of several lines lies above the points (fine, coarse) of all single graphs; the bound is
    the lowest of their values at the total.

    Args:
        fine: ``[graphs of the collection]`` sizes
        coarse: the same after the coarsening
        total: sum of the sizes of the chosen graphs
        graphs: number of chosen graphs; an empty place counts as a graph of one node
    """
    fine, coarse = np.append(fine, 1), np.append(coarse, 1)
    slopes = np.linspace(0, 1, 17)
    above = np.maximum((coarse - slopes[:, None] * fine).max(1), 0)
    return int(np.ceil((slopes * total + above * graphs).min()))


def _coarse_source(fine: BatchSource, coarsening: Coarsening) -> CoarseSource:
    with _lock:
        known = fine.coarsened.get(coarsening)
        if known is None:
            known = fine.coarsened[coarsening] = _coarsen(fine, coarsening)
            if known.col.is_cuda:
                # Other streams will read it.
                wait_for_stream(torch.cuda.current_stream(known.col.device))
        assert isinstance(known, CoarseSource)
        return known


def _coarsen(fine: BatchSource, coarsening: Coarsening) -> CoarseSource:
    if isinstance(fine, CoarseSource):
        parent, host = coarsening.coarsen(fine.host)
    else:
        graphs, order = _canonical(fine)
        parent = np.empty(graphs.nodes, np.int64)
        parent[order], host = coarsening.coarsen(graphs)
    graph_of = np.repeat(np.arange(len(fine.first_node) - 1), np.diff(fine.first_node))
    dropped = parent < 0
    children = np.argsort(np.where(dropped, host.nodes, parent), kind="stable")
    children = children[: len(parent) - dropped.sum()]
    counts = np.bincount(parent[children], minlength=host.nodes)

    own = np.arange(host.nodes)
    row, col = np.concatenate([own, host.row]), np.concatenate([own, host.col])
    order = np.argsort(row, kind="stable")  # the first entry of a row is the node itself
    weight = np.concatenate([np.ones(host.nodes), host.weight])[order]
    local = col[order] - host.first_node[host.graph[row[order]]]
    entries = np.bincount(row, minlength=host.nodes)
    scale = np.bincount(row[order], weight, minlength=host.nodes) ** -0.5
    ptr = np.concatenate([[0], np.cumsum(entries)])[host.first_node]

    def on_device(array: np.ndarray, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.from_numpy(array).to(fine.col.device, dtype)

    return CoarseSource(
        length=on_device(np.append(entries, 0)),
        col=on_device(local),
        counts=np.append(np.diff(ptr), 0),
        ptr=ptr,
        first_node=host.first_node,
        y=None,
        node_label=None,
        node_attr=None,
        num_labels=0,
        weight=on_device(weight, torch.float64),
        gcn_weight=on_device(weight * scale[row[order]] * scale[col[order]], torch.float64),
        parent=on_device(np.append(np.where(dropped, -1, parent - host.first_node[graph_of]), -1)),
        child_ptr=on_device(np.concatenate([[0], np.cumsum(np.append(counts, 0))])),
        child=on_device(children - fine.first_node[graph_of[children]]),
        host=host,
    )


def _canonical(source: BatchSource) -> tuple[HostGraphs, np.ndarray]:
    """The graphs of a collection in canonical order, and the permutation."""
    nodes = int(source.first_node[-1])
    length, col = source.length[:nodes].cpu().numpy(), source.col.cpu().numpy()
    row = np.repeat(np.arange(nodes), length)
    first = np.repeat(source.first_node[:-1], np.diff(source.first_node))
    ones = np.ones(len(row))
    graphs = HostGraphs.of_pairs(source.first_node, row, col + first[row], ones)
    known = (source.node_label, source.node_attr)
    features = [
        of_all[:nodes].cpu().numpy().reshape(nodes, -1) for of_all in known if of_all is not None
    ]
    order = canonical_order(graphs, hash_rows(np.concatenate(features, 1)))
    return graphs.reordered(order), order
