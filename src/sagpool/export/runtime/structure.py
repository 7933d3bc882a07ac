"""Which rows are joined: `Sparse` nodes, `Thinned` nodes that may be absent, `Dense` clusters."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sagpool.export.runtime.arrays import Array


class Edges(NamedTuple):
    """The edges of the input in both directions, sorted by target, then by source."""

    target: Array  # [edges]
    source: Array  # [edges]
    origin: Array  # [edges] the input edge from which each edge has its features


class Sparse:
    """A + I of graphs laid end to end, as entries sorted by target, then by source.

    Args:
        ops: array operations
        target: ``[entries]`` rows
        source: ``[entries]`` rows, one of which is the target itself
        graph: ``[rows]`` graph of each row, ascending
        sizes: ``[graphs]`` rows of each graph
        make_two_hop: returns the structure of nodes one or two hops apart in the input
    """

    def __init__(
        self,
        ops: Any,
        target: Array,
        source: Array,
        graph: Array,
        sizes: Array,
        make_two_hop: Callable[[], "Sparse"] | None = None,
    ) -> None:
        self.ops, self.target, self.source = ops, target, source
        self.graph, self.sizes = graph, sizes
        self.rows, self.graphs = ops.rows(graph), ops.rows(sizes)
        self.make_two_hop = make_two_hop
        ones = ops.as_int(target == target)
        self.lengths = ops.segment_sum(ops.reshape(ones, (-1, 1)), target, self.rows)
        self.degree = ops.as_float(self.lengths - 1)  # [rows, 1]
        self.edges: Edges  # only for the input
        self._scale: Array = None
        self._two_hop: Sparse | None = None

    @property
    def first(self) -> Array:
        """``[graphs]`` first row of each graph."""
        return self.ops.cumsum(self.sizes) - self.sizes

    def propagate(self, x: Array) -> Array:
        """``(A + I) x``"""
        ops = self.ops
        return ops.segment_sum(ops.gather(x, self.source), self.target, self.rows)

    def neighbour_sum(self, x: Array) -> Array:
        return self.propagate(x) - x

    def gcn(self, x: Array) -> Array:
        """``D̃^-1/2 (A + I) D̃^-1/2 x``"""
        ops = self.ops
        if self._scale is None:
            scale = 1.0 / ops.sqrt(self.degree + 1.0)
            self._scale = ops.gather(scale, self.target) * ops.gather(scale, self.source)
        sent = ops.gather(x, self.source) * self._scale
        return ops.segment_sum(sent, self.target, self.rows)

    def keep(self, rows: Array, sizes: Array) -> "Sparse":
        """The graphs of these ascending rows; ``sizes`` of them are in each graph."""
        ops = self.ops
        number = ops.arange(ops.rows(rows)) + 1  # 0 for dropped rows
        number = ops.reshape(ops.scatter(self.rows, rows, ops.reshape(number, (-1, 1))), (-1,))
        target, source = ops.gather(number, self.target), ops.gather(number, self.source)
        left = ops.nonzero((target >= 1) & (source >= 1))
        return Sparse(
            ops,
            ops.gather(target, left) - 1,
            ops.gather(source, left) - 1,
            ops.gather(self.graph, rows),
            sizes,
            lambda: self.two_hop().keep(rows, sizes),
        )

    def two_hop(self) -> "Sparse":
        """The structure that joins nodes one or two hops apart in the input."""
        if self._two_hop is None:
            self._two_hop = self.pairs() if self.make_two_hop is None else self.make_two_hop()
        return self._two_hop

    def pairs(self) -> "Sparse":
        """The structure that joins nodes one or two hops apart here."""
        ops = self.ops
        lengths = ops.reshape(self.lengths, (-1,))
        begin = ops.cumsum(lengths) - lengths  # first entry of each row
        # From the end of each entry, a walk continues along all entries of that row.
        walks = ops.gather(lengths, self.source)
        start = ops.cumsum(walks) - walks
        marks = ops.reshape(ops.as_int(start == start), (-1, 1))
        marked = ops.scatter(ops.last(ops.cumsum(walks)), start, marks)
        entry = ops.cumsum(ops.reshape(marked, (-1,))) - 1  # [walks]
        place = ops.arange(ops.rows(entry)) - ops.gather(start, entry)
        onward = ops.gather(begin, ops.gather(self.source, entry)) + place
        keys = ops.gather(self.target, entry) * self.rows + ops.gather(self.source, onward)
        keys, _ = ops.unique(keys)
        return Sparse(ops, keys // self.rows, keys % self.rows, self.graph, self.sizes)


class Walks:
    """A + A², only as products: (A + A²) x = Ax + A(Ax)."""

    def __init__(self, base: Any) -> None:
        self.ops, self.base = base.ops, base
        self.graph, self.sizes, self.rows = base.graph, base.sizes, base.rows
        self.degree = self.neighbour_sum(base.degree * 0.0 + 1.0)

    def neighbour_sum(self, x: Array) -> Array:
        once = self.base.neighbour_sum(x)
        return once + self.base.neighbour_sum(once)

    def gcn(self, x: Array) -> Array:
        return scaled_gcn(self.ops, self, x)

    def pairs(self) -> Sparse:
        pairs: Sparse = self.base.pairs()
        return pairs


class Thinned:
    """Graphs with absent nodes: ``presence`` ``[rows, 1]`` is 0 for them."""

    def __init__(self, base: Sparse, presence: Array) -> None:
        self.ops, self.base, self.presence = base.ops, base, presence
        self.graph, self.sizes, self.rows = base.graph, base.sizes, base.rows
        self.graphs = base.graphs
        self.degree = self.ops.maximum(base.neighbour_sum(presence), 0.0)

    def neighbour_sum(self, x: Array) -> Array:
        return self.base.neighbour_sum(x)

    def gcn(self, x: Array) -> Array:
        return scaled_gcn(self.ops, self, x)


class Dense:
    """Pooled graphs of ``clusters`` nodes each: ``matrix`` is ``[graphs, clusters, clusters]``."""

    def __init__(self, ops: Any, matrix: Array, clusters: int) -> None:
        self.ops, self.matrix, self.clusters = ops, matrix, clusters
        self.graphs = ops.rows(matrix)
        self.rows = self.graphs * clusters
        self.graph = ops.arange(self.rows) // clusters
        self.sizes = ops.arange(self.graphs) * 0 + clusters
        self.degree = ops.maximum(ops.reshape(ops.sum(matrix, 2), (-1, 1)), 0.0)

    def neighbour_sum(self, x: Array) -> Array:
        return self.ops.reshape(self.matrix @ self.by_graph(x), (self.rows, -1))

    def gcn(self, x: Array) -> Array:
        return scaled_gcn(self.ops, self, x)

    def by_graph(self, x: Array) -> Array:
        """``[graphs, clusters, channels]``"""
        return self.ops.reshape(x, (self.graphs, self.clusters, -1))


def scaled_gcn(ops: Any, structure: Any, x: Array) -> Array:
    """``D̃^-1/2 (A + I) D̃^-1/2 x`` from sums over neighbours."""
    scale = 1.0 / ops.sqrt(structure.degree + 1.0)
    scaled = scale * x
    return scale * (structure.neighbour_sum(scaled) + scaled)


def joined(ops: Any, edges: Array, sizes: Array) -> Sparse:
    """The structure of graphs with these edges, in both directions, each once.

    An edge that was given more than once has the features of the first; an edge that was given in
    one direction only has them in both.

    Args:
        ops: array operations
        edges: ``[edges, 2]`` from and to a node, numbered through all graphs
        sizes: ``[graphs]`` nodes of each graph
    """
    rows = ops.last(ops.cumsum(sizes))
    a = ops.reshape(ops.columns(edges, 0, 1), (-1,))
    b = ops.reshape(ops.columns(edges, 1, 2), (-1,))
    own = ops.arange(rows)
    # Given directions come before added ones, so that they count as the first.
    keys, first = ops.unique(ops.concat([b * rows + a, a * rows + b, own * rows + own], 0))
    target, source = keys // rows, keys % rows
    structure = Sparse(ops, target, source, graph_of_rows(ops, sizes, rows), sizes)
    proper = ops.nonzero(ops.as_int(target == source) < 1)
    given = ops.rows(a)
    origin = ops.gather(first, proper)
    structure.edges = Edges(
        ops.gather(target, proper),
        ops.gather(source, proper),
        ops.where(origin < given, origin, origin - given),
    )
    return structure


def graph_of_rows(ops: Any, sizes: Array, rows: Any) -> Array:
    """The graph of each row: counts the first rows of graphs."""
    first = ops.cumsum(sizes) - sizes
    begins = ops.scatter(rows, first, ops.reshape(ops.as_int(sizes == sizes), (-1, 1)))
    return ops.cumsum(ops.reshape(begins, (-1,))) - 1


def repeated(ops: Any, base: Sparse, members: int) -> Sparse:
    """The same graphs for each member, member after member."""
    if members == 1:
        return base

    def shifted(x: Array, by: Array) -> Array:
        return ops.concat([x + by * member for member in range(members)], 0)

    return Sparse(
        ops,
        shifted(base.target, base.rows),
        shifted(base.source, base.rows),
        shifted(base.graph, base.graphs),
        ops.concat([base.sizes] * members, 0),
    )
