"""k-MIS: clusters around nodes that are more than k hops apart."""

from dataclasses import dataclass

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs.host_graphs import Coarse, Coarsening, HostGraphs, merge


@dataclass(frozen=True)
class KMIS(Coarsening):
    """Maximal k-independent sets (Bacciu, Conte and Landolfi, 2023), by structure alone.

    Nodes are ranked by ``((A + I)^k 1)_i``, the lowest first. If all weights are equal this is the
    paper's greedy order, which leaves many nodes. In that order a node is chosen if no chosen node
    is within k hops. Rounds are parallel: nodes that are the first within k hops are chosen, and
    all nodes within k hops of them are excluded. Every node is assigned to the nearest chosen node,
    in a tie to the first. ``A'`` has the sums of the weights between clusters.

    Args:
        k: number of hops, at least 1
    """

    k: int = 1

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SagpoolError(f"k-MIS needs a k of at least 1, not {self.k}.")

    def coarsen(self, graphs: HostGraphs) -> Coarse:
        rank = self._ranks(graphs)
        none = graphs.nodes  # a rank after all others
        left = np.ones(graphs.nodes, bool)
        chosen = np.zeros(graphs.nodes, bool)
        while left.any():
            first = np.where(left, rank, none)
            for _ in range(self.k):
                first = _first_within_a_hop(graphs, first)
            new = left & (first == rank)
            near = np.where(new, 0, 1)
            for _ in range(self.k):
                near = _first_within_a_hop(graphs, near)
            chosen |= new
            left &= near > 0
        owner = np.where(chosen, rank, none)
        for _ in range(self.k):
            owner = np.where(owner == none, _first_within_a_hop(graphs, owner), owner)
        by_rank = np.empty_like(rank)
        by_rank[rank] = np.arange(len(rank))
        return merge(graphs, by_rank[owner])

    def _ranks(self, graphs: HostGraphs) -> np.ndarray:
        """``[nodes]`` ranks, 0 for the first node."""
        walks = np.ones(graphs.nodes)
        for _ in range(self.k):
            walks = walks + np.bincount(graphs.row, walks[graphs.col], graphs.nodes)
        rank = np.empty(graphs.nodes, np.int64)
        rank[np.argsort(walks, kind="stable")] = np.arange(graphs.nodes)
        return rank


def _first_within_a_hop(graphs: HostGraphs, rank: np.ndarray) -> np.ndarray:
    """The lowest rank among each node and its neighbours."""
    lowest = rank.copy()
    joined = np.flatnonzero(np.diff(graphs.row_ptr))
    if len(joined):
        smallest = np.minimum.reduceat(rank[graphs.col], graphs.row_ptr[joined])
        lowest[joined] = np.minimum(rank[joined], smallest)
    return lowest
