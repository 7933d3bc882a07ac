"""Packed batches beside their dense matrices, and the layers' equations on these."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sagpool.graphs import Adjacency, Graphs, Structure, pack
from sagpool.graphs.edge_cleaning import pack_edges
from sagpool.nn import (
    AttentionScore,
    ChebConv,
    GATConv,
    GCNConv,
    GINConv,
    MLPConv,
    SAGEConv,
)

# Nodes, and pairs of neighbours.
GRAPHS = {
    "one node": (1, []),
    "triangle with a tail": (5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]),
    "no edge": (3, []),
    "components": (7, [(0, 1), (1, 2), (4, 5)]),
    "star": (6, [(2, 0), (2, 1), (2, 3), (2, 4), (2, 5)]),
    "square": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "complete": (5, [(i, j) for i in range(5) for j in range(i)]),
    "pair": (2, [(0, 1)]),
    "ladder": (
        12,
        [*((i, i + 1) for i in range(5)), *((i, i + 1) for i in range(6, 11)), (0, 6), (3, 9)],
    ),
}
MEMBERS = [
    ["ladder", "one node", "components"],
    ["triangle with a tail", "no edge", "star", "square"],
    ["pair", "complete"],
]


@dataclass(frozen=True)
class Packed:
    """A packed batch, and what it holds."""

    adjacency: Adjacency
    places: list[int]  # of the real graphs: which of all graphs of all members each one is
    matrices: list[Tensor]  # of the real graphs: A, [nodes, nodes] float64

    def split(self, x: Tensor, level: Structure | None = None) -> list[Tensor]:
        """The rows of each real graph, before pooling or of another level."""
        ptr = (level or self.adjacency).layout.node_ptr
        return [x[ptr[place] : ptr[place + 1]] for place in self.places]

    def each(self, x: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Member, A and X of each real graph."""
        for place, A, X in zip(self.places, self.matrices, self.split(x), strict=True):
            yield place // self.adjacency.layout.graphs, A, X

    def features(self, channels: int, seed: int = 0, *, ties: bool = False) -> Tensor:
        """Random rows, zero for fillers; with ties, many of them are equal."""
        random = torch.Generator().manual_seed(seed)
        rows = len(self.adjacency.layout.graph)
        x = torch.randn(rows, channels, generator=random, dtype=torch.float64)
        if ties:
            x = x.round().clamp(-1, 1)
        real = torch.zeros(rows, 1, dtype=torch.float64)
        for part in self.split(real):
            part.fill_(1)
        return (x * real).requires_grad_()


def dense_matrix(name: str) -> Tensor:
    nodes, pairs = GRAPHS[name]
    A = torch.zeros(nodes, nodes, dtype=torch.float64)
    for i, j in pairs:
        A[i, j] = A[j, i] = 1
    return A


@pytest.fixture(scope="session")
def packed() -> Callable[..., Packed]:
    """Packs members, each a list of the names of its graphs."""
    names = list(GRAPHS)
    counts = np.array([nodes for nodes, _ in GRAPHS.values()])
    first = np.cumsum(counts) - counts
    pairs = [(f + i, f + j) for f, (_, p) in zip(first, GRAPHS.values(), strict=True) for i, j in p]
    edges = pack_edges(*np.array(pairs).T, counts)
    graphs = Graphs(
        node_counts=counts,
        edge_counts=edges.edge_counts,
        degree=torch.from_numpy(edges.degree),
        col=torch.from_numpy(edges.col),
        node_attr=torch.zeros(int(counts.sum()), 1),
    )

    def make(*members: list[str], spare: int = 0) -> Packed:
        ids = [[names.index(name) for name in member] for member in members]
        adjacency = pack(graphs, ids).structure
        if spare:
            adjacency = pack(graphs, ids, rows=adjacency.layout.rows + spare).structure
        places = [
            m * adjacency.layout.graphs + g
            for m, member in enumerate(members)
            for g in range(len(member))
        ]
        matrices = [dense_matrix(name) for member in members for name in member]
        return Packed(adjacency, places, matrices)

    return make


@pytest.fixture(scope="session")
def fleet(packed) -> Packed:
    """Three members with different graphs, and a filler of several rows each."""
    return packed(*MEMBERS, spare=2)


@pytest.fixture(scope="session")
def alone(packed) -> list[Packed]:
    """The members of the fleet, each by itself."""
    return [packed(member) for member in MEMBERS]


def normalised(A: Tensor) -> Tensor:
    """D^-1/2 A D^-1/2, where the root of no degree is 0."""
    degree = A.sum(1)
    root = torch.where(degree > 0, degree.clamp(min=1e-9) ** -0.5, 0)
    return torch.diag(root) @ A @ torch.diag(root)


def gcn(conv: GCNConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    out = normalised(A + torch.eye(len(A)).to(A)) @ X @ conv.linear.weight[m]
    return out if conv.linear.bias is None else out + conv.linear.bias[m]


def cheb(conv: ChebConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    identity = torch.eye(len(A)).to(A)
    laplacian = identity - normalised(A)
    scaled = 2 * laplacian / 2 - identity  # λ_max = 2
    T = [identity, scaled]
    while len(T) < len(conv.linears):
        T.append(2 * scaled @ T[-1] - T[-2])
    out = sum(t @ X @ linear.weight[m] for t, linear in zip(T, conv.linears, strict=False))
    return out if conv.linears[0].bias is None else out + conv.linears[0].bias[m]


def sage(conv: SAGEConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    mean = torch.diag(1 / A.sum(1).clamp(min=1)) @ A @ X
    out = X @ conv.root.weight[m] + mean @ conv.neighbours.weight[m]
    return out if conv.neighbours.bias is None else out + conv.neighbours.bias[m]


def gat(conv: GATConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    times = A + torch.eye(len(A)).to(A)  # how often j is attended to from i
    out = 0
    for head in range(conv.heads):
        columns = slice(head * conv.out_channels, (head + 1) * conv.out_channels)
        H = X @ conv.linear.weight[m][:, columns]
        energy = (H @ conv.target[m, 0, head])[:, None] + (H @ conv.source[m, 0, head])[None]
        attention = times * torch.where(energy > 0, energy, 0.2 * energy).exp()
        out = out + attention / attention.sum(1, keepdim=True) @ H / conv.heads
    return out if conv.bias is None else out + conv.bias[m]


def convolve(conv: nn.Module, m: int, A: Tensor, X: Tensor) -> Tensor:
    """The convolution of member m on one graph."""
    equations = {GCNConv: gcn, ChebConv: cheb, SAGEConv: sage, GATConv: gat, GINConv: gin}
    return {**equations, MLPConv: mlp}[type(conv)](conv, m, A, X)


def gin(conv: GINConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    hidden = ((A @ X + X) @ conv.first.weight[m] + conv.first.bias[m]).relu()
    return hidden @ conv.second.weight[m] + conv.second.bias[m]


def mlp(conv: MLPConv, m: int, A: Tensor, X: Tensor) -> Tensor:
    return X @ conv.linear.weight[m] + conv.linear.bias[m]


def two_hop(A: Tensor) -> Tensor:
    """The binary graph of the nodes one or two hops apart."""
    return (A + A @ A > 0).to(A) * (1 - torch.eye(len(A)).to(A))


def score(attention: AttentionScore, m: int, A: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """What the nodes of one graph are ranked by, and Z."""
    if attention.augmentation == "two-hop":
        A = two_hop(A)
    elif attention.augmentation:
        A = A + A @ A
        if attention.needs_pairs:  # attention weighs each pair itself, whatever A says
            A = (A > 0).to(A) * (1 - torch.eye(len(A)).to(A))
    raw = []
    for gnn in attention.gnns:
        h = X
        for depth, conv in enumerate(gnn):
            h = convolve(conv, m, A, h if depth == 0 else h.tanh())
        raw.append(h[:, 0])
    Z = sum(r.tanh() for r in raw) / len(raw)
    return (raw[0] if len(raw) == 1 else Z), Z


def top(rank: Tensor, count: int) -> list[int]:
    """The highest, ties to the lower node, in ascending order; ranked in single precision."""
    values = rank.detach().float().tolist()
    return sorted(sorted(range(len(values)), key=lambda i: (-values[i], i))[:count])


def matrices(packed: Packed, structure: Structure) -> list[Tensor]:
    """A of each real graph, read from the CSR of another level."""
    adjacency = structure.csr()
    rows = len(adjacency.layout.graph)
    A = -torch.eye(rows, dtype=torch.float64)  # each row names itself, which A does not
    for i in range(rows):
        for j in adjacency.col[adjacency.row_ptr[i] : adjacency.row_ptr[i + 1]]:
            A[i, j] += 1
    ptr = adjacency.layout.node_ptr
    spans = [slice(int(ptr[place]), int(ptr[place + 1])) for place in packed.places]
    for span in spans:  # nobody has a neighbour in another graph
        assert A[span].abs().sum() == A[span, span].abs().sum()
    return [A[span, span] for span in spans]


@pytest.fixture(scope="session")
def dense() -> SimpleNamespace:
    """The equations, on the dense matrices of one graph at a time."""
    return SimpleNamespace(
        convolve=convolve, score=score, top=top, matrices=matrices, two_hop=two_hop
    )


@pytest.fixture
def directed() -> tuple[Tensor, Tensor]:
    """Edges of one directed graph, unsorted, some twice, one a loop, and node features."""
    edges = [(0, 1), (3, 1), (1, 0), (2, 1), (0, 1), (4, 5), (5, 4), (1, 3), (2, 2), (5, 4)]
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.tensor(edges).T.contiguous(), x.requires_grad_()
