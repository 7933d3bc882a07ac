"""Graclus: pairs of nodes with a heavy edge between them."""

from dataclasses import dataclass

import numpy as np

from sagpool.graphs.host_graphs import Coarse, Coarsening, HostGraphs, merge


@dataclass(frozen=True)
class Graclus(Coarsening):
    """The greedy matching of Graclus (Dhillon, Guan and Kulis, 2007; Defferrard et al., 2016).

    Nodes are visited in a pseudo-random order. A node i that is not yet matched is merged with the
    unmatched neighbour j with the largest ``A_ij (1 / d_i + 1 / d_j)``, d being the sums of
    weights, or stays alone if there is none. ``A'`` has the sums of the weights between clusters.
    """

    def coarsen(self, graphs: HostGraphs) -> Coarse:
        inverse = 1 / np.maximum(graphs.degree, np.finfo(np.float64).tiny)
        gain = (graphs.weight * (inverse[graphs.row] + inverse[graphs.col])).tolist()
        # Lists, because reading single elements of an array is several times slower.
        ptr, col = graphs.row_ptr.tolist(), graphs.col.tolist()
        label = [-1] * graphs.nodes
        for node in range(graphs.nodes):
            if label[node] >= 0:
                continue
            label[node] = node
            best, partner = 0.0, -1
            for edge in range(ptr[node], ptr[node + 1]):
                if label[col[edge]] < 0 and gain[edge] > best:
                    best, partner = gain[edge], col[edge]
            if partner >= 0:
                label[partner] = node
        return merge(graphs, np.array(label, np.int64))
