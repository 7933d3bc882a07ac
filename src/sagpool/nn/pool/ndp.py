"""Node decimation pooling."""

from dataclasses import dataclass

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.graphs.host_graphs import Coarse, Coarsening, HostGraphs

SMALL_CUT = 0.5  # a cut with a smaller fraction of the weight is replaced by a random one
MOST_DENSE = 100  # components with more nodes compute only one eigenvector
ROUNDING = 1e-6  # numbers that are closer than this count as equal


@dataclass(frozen=True)
class NDP(Coarsening):
    """Node decimation pooling (Bianchi, Grattarola, Livi and Alippi, 2020).

    - The side of the largest cut that stays: ``V+ = {i : u_i >= 0}`` for the eigenvector u of the
      largest eigenvalue of the normalised Laplacian ``I - D^-1/2 A D^-1/2``. If the edges between
      the sides have less than half of the weight, a random half of the nodes stays instead.
    - Kron reduction of the Laplacian L = D - A:
      ``L' = L[V+, V+] - L[V+, V-] L[V-, V-]^-1 L[V-, V+]``.
    - Weights of ``A' = -L'`` below the threshold are dropped.

    The paper's graphs are connected. Here every connected component is cut separately: an
    eigenvector would be zero on all components but one. The sign of u is such that the first of its
    largest entries is positive, and in a random half the first of all nodes stays. If there are
    several eigenvectors, u is the one nearest to a fixed vector. So no machine cuts differently
    because it rounds differently.

    Args:
        threshold: weights below this are dropped, at least 0; the authors' is 0.01
    """

    threshold: float = 0.01

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SagpoolError(f"NDP needs a threshold of at least 0, not {self.threshold}.")

    def coarsen(self, graphs: HostGraphs) -> Coarse:
        from scipy.sparse import csgraph, csr_array  # slow to import

        shape = (graphs.nodes, graphs.nodes)
        whole = csr_array((graphs.weight, (graphs.row, graphs.col)), shape)
        _, component = csgraph.connected_components(whole, directed=False)
        nodes = np.argsort(component, kind="stable")
        ends = np.cumsum(np.bincount(component))
        stays = np.zeros(graphs.nodes, bool)
        pairs = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for first, end in zip([0, *ends[:-1]], ends, strict=True):
            own = nodes[first:end]
            if len(own) == 1:
                stays[own] = True
                continue
            a = _block(graphs, own)
            kept = _cut(a)
            stays[own[kept]] = True
            coarse = _kron_reduction(a, kept)
            row, col = np.nonzero((coarse >= self.threshold) & (coarse > 0))
            pairs.append((own[kept][row], own[kept][col], coarse[row, col]))
        place = np.cumsum(stays) - 1
        row, col, weight = map(np.concatenate, zip(*pairs, strict=True))
        first_node = np.concatenate([[0], np.cumsum(stays)])[graphs.first_node]
        left = HostGraphs.of_pairs(first_node, place[row], place[col], weight)
        return Coarse(np.where(stays, place, -1), left)


def _block(graphs: HostGraphs, own: np.ndarray) -> np.ndarray:
    """A of a component as a dense matrix."""
    counts = np.diff(graphs.row_ptr)[own]
    edges = np.repeat(graphs.row_ptr[own] - (np.cumsum(counts) - counts), counts)
    edges = edges + np.arange(len(edges))
    a = np.zeros((len(own), len(own)))
    a[np.repeat(np.arange(len(own)), counts), np.searchsorted(own, graphs.col[edges])] = (
        graphs.weight[edges]
    )
    return a


def _cut(a: np.ndarray) -> np.ndarray:
    """``[nodes]`` bool, True for nodes on the side that stays."""
    degree = a.sum(1)
    scale = 1 / np.sqrt(degree)
    normal = np.eye(len(a)) - scale[:, None] * a * scale
    start = np.random.default_rng(0).standard_normal(len(a))
    if len(a) <= MOST_DENSE:
        values, vectors = np.linalg.eigh(normal)
        largest = vectors[:, values > values[-1] - ROUNDING]
        u = largest @ (largest.T @ start)
    else:
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import eigsh

        # Of several eigenvectors it finds the one nearest to the start.
        u = eigsh(csr_array(normal), k=1, which="LA", v0=start)[1][:, 0]
    size = np.abs(u)
    u = u * np.sign(u[(size > (1 - ROUNDING) * size.max()).argmax()])
    stays = u >= -ROUNDING * size.max()
    across = a[stays][:, ~stays].sum() / (a.sum() / 2)
    if across < SMALL_CUT:
        order = np.random.default_rng(len(a)).permutation(np.arange(1, len(a)))
        stays = np.zeros(len(a), bool)
        stays[0] = True
        stays[order[: (len(a) - 1) // 2]] = True
    return stays


def _kron_reduction(a: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """``A'`` of the remaining nodes, without self-loops."""
    laplacian = np.diag(a.sum(1)) - a
    inner = laplacian[stays][:, stays]
    if not stays.all():
        across = laplacian[stays][:, ~stays]
        inner = inner - across @ np.linalg.solve(laplacian[~stays][:, ~stays], across.T)
    coarse = -(inner + inner.T) / 2
    np.fill_diagonal(coarse, 0)
    return coarse
