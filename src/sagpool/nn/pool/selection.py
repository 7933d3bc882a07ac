"""How many nodes of each graph are kept, which ones, and the pooled graphs."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, InducedGraphs, Structure
from sagpool.nn.pool.pool import Fused, Pool, Pooled, check_rows
from sagpool.ops import (
    Chosen,
    HostLayout,
    Layout,
    PooledRows,
    choose_rows,
    pool_rows,
    pooled_layout,
    segment_max,
)
from sagpool.ops.device import kernels_for, to_device
from sagpool.ops.select import ROUNDING

Ratio = float | Fraction


@dataclass(eq=False)
class Selection:
    """⌈ratio · N⌉ nodes of each graph, or k nodes, or all if there are fewer.

    Args:
        ratio: in (0, 1]; a float stands for a simple fraction, so that 0.6 of 25 nodes are 15;
            1.0 keeps all; an integer is a k, as in PyG
        k: at least 1; a number, or an array that fits ``[members, graphs]``, fillers not counted;
            takes precedence over ratio. Its owner may change the array and then call `refresh`
    """

    ratio: Ratio = 0.5
    k: int | np.ndarray | None = None
    fraction: Fraction = field(init=False, repr=False)  # the fraction that the ratio stands for
    _k_on_device: Tensor | None = field(default=None, repr=False)
    _copied: tuple[int, ...] = field(default=(), repr=False)  # k as copied to the device

    def __post_init__(self) -> None:
        if isinstance(self.ratio, Integral) and not isinstance(self.ratio, bool) and self.ratio > 0:
            self.k = int(self.ratio) if self.k is None else self.k
            self.ratio = 1.0
        if not isinstance(self.ratio, (int, float, Fraction)) or not 0 < self.ratio <= 1:
            raise SagpoolError(f"The ratio must be above 0 and at most 1, not {self.ratio}.")
        if self.k is not None:
            k = np.asarray(self.k)
            if not np.issubdtype(k.dtype, np.integer) or not k.size or k.min() < 1:
                raise SagpoolError(f"k must be integers of at least 1, not {self.k}.")
        self.fraction = Fraction(self.ratio).limit_denominator(10**9)

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        """Number of nodes kept of each graph, ``[members, graphs]`` like ``sizes``."""
        if self.k is not None:
            try:
                return np.minimum(sizes, np.broadcast_to(self.k, sizes.shape))
            except ValueError:
                raise SagpoolError(
                    f"k has shape {np.shape(self.k)}, which does not fit {sizes.shape[-1]} graphs."
                ) from None
        kept = -(-sizes * self.fraction.numerator // self.fraction.denominator)
        return np.clip(kept, 1, sizes)

    @property
    def rounds(self) -> bool:
        """Whether `counts` rounds, so that the number does not follow from the fraction."""
        return False

    @property
    def one_k_per_member(self) -> bool:
        """Whether all graphs of a member have the same k, or none."""
        return self.k is None or np.ndim(self.k) == 0 or np.shape(self.k)[-1] == 1

    @property
    def max_k(self) -> int | None:
        return None if self.k is None else int(np.max(self.k))

    def k_on(self, device: torch.device, members: int) -> Tensor | None:
        """The k of each member, ``[members]`` on the device; None without a k.

        Always the same tensor, so that a recorded step sees what `refresh` wrote.
        """
        known = self._k_on_device
        if known is None or known.device != device or len(known) != members:
            self.refresh(device, members)
        return self._k_on_device

    def refresh(self, device: torch.device, members: int) -> None:
        """Copy k to the device if it has changed; before a recording, which cannot copy."""
        if self.k is None or not self.one_k_per_member:
            return
        k = np.broadcast_to(np.ravel(self.k), members).astype(np.int64)
        known = self._k_on_device
        if known is None or known.device != device or len(known) != members:
            self._k_on_device = to_device(k, device)
        elif tuple(k) != self._copied:
            known.copy_(to_device(k, device))
        self._copied = tuple(k)


class SelectingPool(Pool):
    """The common base of layers that keep some of the nodes.

    Args:
        selection: how many nodes are kept
    """

    leaves = "nodes"

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self.selection = selection

    def rows_left(self, sizes: np.ndarray) -> np.ndarray | None:
        return self.selection.counts(sizes)

    def refresh(self, device: torch.device, members: int) -> None:
        self.selection.refresh(device, members)

    def max_rows(self) -> int | None:
        return self.selection.max_k


class Selected(NamedTuple):
    """Which rows are to be kept."""

    chosen: Chosen  # one row of each filler
    layout: Layout  # layout of the rows that will be left
    gate: Tensor | None  # [rows], the factor of each row, if there is one


def select_top(layout: Layout, rank: Tensor, gate: Tensor | None, selection: Selection) -> Selected:
    """The nodes of each graph that are highest in ``rank``, ``[rows]``."""
    if layout.filler and selection.one_k_per_member and kernels_for(rank) is not None:
        k = selection.k_on(layout.device, layout.members)
        new = pooled_layout(layout, selection.fraction, k, selection.max_k)
        return Selected(choose_rows(rank, layout, new), new, gate)
    return select_top_on_host(layout, rank, gate, selection)


def select_top_on_host(
    layout: Layout, rank: Tensor, gate: Tensor | None, selection: Selection
) -> Selected:
    """The same as `select_top`, with sizes that the host knows."""
    new = _layout_left(layout, selection)
    return Selected(choose_rows(rank, layout, new), new, gate)


def select_above(layout: Layout, gate: Tensor, min_score: float) -> Selected:
    """The nodes whose gate is above ``min_score``, and the highest of each graph in any case.

    Nodes that equal the highest up to rounding are kept too, as in PyG. The number of kept nodes
    depends on the scores, so the host has to wait for the device.
    """
    one = HostLayout(np.ones_like(layout.sizes), filler=layout.filler, device=layout.device)
    best = choose_rows(gate, layout, one).marks()
    peak = segment_max(gate.detach()[:, None], layout.node_ptr, layout.graph).view(-1)
    limit = (peak - ROUNDING).clamp(max=min_score).index_select(0, layout.graph)
    mask = best | (gate > limit)
    if layout.filler:
        filler = layout.graph % layout.graphs == layout.graphs - 1
        mask = torch.where(filler, best, mask)
    counts = torch.bincount(layout.graph[mask], minlength=layout.sizes.size)
    on_host = counts.cpu().numpy().reshape(layout.sizes.shape)
    real = on_host[:, :-1] if layout.filler else on_host
    return Selected(Chosen(mask), _padded(real, layout), gate)


def keep_selected(
    x: Tensor, structure: Structure, selected: Selected, layout: Layout | None = None
) -> Pooled:
    """``X[idx] ⊙ gate[idx]`` and ``A[idx, idx]`` for the selected nodes idx, in their order.

    Args:
        x: ``[rows, channels]``
        structure: structure of the rows
        selected: which rows are kept
        layout: layout of the rows to select from, if they are copies of the rows x: see
            `repeated_layout`
    """
    new = selected.layout
    left = pool_rows(x, selected.gate, selected.chosen, layout or structure.layout, new)
    return Pooled(
        left.x,
        InducedGraphs(new, partial(_induced, structure.csr(), new, left)),
        source=left.perm,
        gate=selected.gate,
        fused=Fused(left.x, left.readout),
    )


def _induced(before: Adjacency, layout: Layout, left: PooledRows) -> Adjacency:
    """The graphs that are left; the two-hop graphs of the input are pooled along."""
    return Adjacency(
        layout,
        *left.induce(before.row_ptr, before.col),
        symmetric=before.symmetric,
        make_two_hop=partial(_induced_two_hop, before, layout, left),
    )


def _induced_two_hop(before: Adjacency, layout: Layout, left: PooledRows) -> Adjacency:
    wide = before.two_hop
    return Adjacency(layout, *left.induce(wide.row_ptr, wide.col), symmetric=wide.symmetric)


def keep_top(x: Tensor, structure: Structure, rank: Tensor, selection: Selection) -> Pooled:
    """``idx = top-rank(rank, k)``, ``X[idx]``, ``A[idx, idx]`` (Equation 4, without a gate).

    Kept nodes stay in their order, so that edges stay sorted; ties go to the lower node.

    Args:
        x: ``[rows, channels]``
        structure: structure of the rows
        rank: ``[rows]``; the highest nodes are selected
        selection: how many nodes are kept
    """
    check_rows(x, structure.layout)
    return keep_selected(x, structure, select_top(structure.layout, rank, None, selection))


def _layout_left(layout: Layout, selection: Selection) -> HostLayout:
    real = layout.sizes[:, :-1] if layout.filler else layout.sizes
    return _padded(selection.counts(real), layout)


def _padded(counts: np.ndarray, layout: Layout) -> HostLayout:
    """The layout with these row counts, which do not include fillers."""
    if layout.filler:
        # Every member gets as many rows as the largest member needs, with at least one filler row.
        real = counts.sum(axis=1)
        counts = np.concatenate([counts, (real.max() + 1 - real)[:, None]], axis=1)
    return HostLayout(counts, filler=layout.filler, device=layout.device)
