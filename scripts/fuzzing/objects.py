"""Objects of PyG and networkx, and edge lists given to a layer."""

import math
from pathlib import Path
from random import Random
from typing import Any

import networkx
import numpy as np
import torch
from torch_geometric.data import Data

from fuzzing.graph_oracle import PlainGraph, random_graph, undirected
from fuzzing.mutations import odd_value
from fuzzing.target import WrongError, expect
from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs
from sagpool.nn import SAGPool


def _odd_tensor(random: Random, tensor: torch.Tensor) -> Any:
    action = random.randrange(9)
    if action == 0:
        return tensor.to(random.choice((torch.float16, torch.float64, torch.int32, torch.bool)))
    if action == 1:
        return tensor.reshape(-1)
    if action == 2:
        return tensor[..., :-1] if tensor.ndim and tensor.shape[-1] else tensor
    if action == 3:
        return tensor[None]
    if action == 4:
        return torch.zeros(0)
    if action == 5 and tensor.numel():
        changed = tensor.clone()
        value = random.choice((-1, 99, 2**40, float("nan"), float("inf"), 1e39))
        with torch.no_grad():
            try:
                changed.reshape(-1)[random.randrange(changed.numel())] = value
            except (RuntimeError, ValueError, OverflowError):
                changed.reshape(-1)[0] = -1
        return changed
    if action == 6:
        return tensor.to_sparse() if tensor.ndim else tensor
    if action == 7:
        return tensor.numpy()
    return odd_value(random, 1)


class Pyg:
    """Lists of PyG's Data."""

    def __init__(self, folder: Path) -> None:
        pass

    def run(self, random: Random) -> None:
        graphs = [random_graph(random, 0, 2) for _ in range(random.randrange(1, 5))]
        data = []
        for graph in graphs:
            pairs = [end for a, b in sorted(graph.edges) for end in ((a, b), (b, a))]
            data.append(
                Data(
                    x=torch.tensor(graph.features),
                    edge_index=torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T,
                    y=torch.tensor([int(graph.target)]),
                )
            )
        valid = random.random() < 0.15
        if not valid:
            one, field = random.choice(data), random.choice(("x", "edge_index", "y", "edge_attr"))
            before = one.get(field)
            one[field] = None if random.random() < 0.1 else _odd_tensor(
                random, torch.ones(one.num_edges, 1) if before is None else before
            )  # fmt: skip
        made = _accepted(lambda: Graphs.from_pyg(data), valid)
        if valid:
            _same(made, graphs)
        else:
            _same(made, [_plain(one) for one in data])


def _plain(data: Data) -> PlainGraph:
    """The graph that PyG's object describes, by its own fields."""
    index = torch.zeros(2, 0) if data.edge_index is None else torch.as_tensor(data.edge_index)
    index = index.to_dense() if index.is_sparse else index
    expect(bool((index == index.long()).all()), "accepted an edge_index that is not whole")
    pairs = [tuple(pair) for pair in index.long().T.tolist()]
    x = None if data.x is None else torch.as_tensor(data.x)
    x = x.to_dense() if x is not None and x.is_sparse else x
    target = None if data.y is None else str(int(torch.as_tensor(data.y)))
    nodes = int(data.num_nodes)
    rows = None if x is None else x.reshape(nodes, -1).float().tolist()
    return PlainGraph(nodes, undirected(pairs), None, rows, target)


def _accepted(make: Any, valid: bool) -> Graphs:
    try:
        return make()
    except SagpoolError as error:
        if valid:
            raise WrongError(f"a valid input was refused: {error}") from None
        raise


def _same(made: Graphs, graphs: list[PlainGraph]) -> None:
    expect(len(made) == len(graphs), "another number of graphs")
    for number, (one, graph) in enumerate(zip(made, graphs, strict=True)):
        expect(one.num_nodes == graph.nodes, f"graph {number}: {one.num_nodes} nodes")
        pairs = [tuple(pair) for pair in one.edge_index.T.tolist()]
        expect(undirected(pairs) == graph.edges, f"graph {number}: other edges")
        if graph.features is not None:
            same = np.allclose(one.x.numpy(), np.array(graph.features, np.float32), equal_nan=True)
            expect(same, f"graph {number}: other features")
        if one.y is not None:
            name = made.class_names[int(one.y)]
            expect(name == graph.target, f"graph {number}: class {name}, not {graph.target}")
        else:
            expect(graph.target is None, f"graph {number}: its class is lost")


class Networkx:
    """Lists of networkx graphs with odd attributes."""

    def __init__(self, folder: Path) -> None:
        pass

    def run(self, random: Random) -> None:
        plain = [random_graph(random, 1, 2) for _ in range(random.randrange(1, 5))]
        graphs, y = [], [int(graph.target) for graph in plain]
        use = random.choice(("label", "x", None))
        for graph in plain:
            made = random.choice((networkx.Graph, networkx.DiGraph, networkx.MultiGraph))()
            for node in range(graph.nodes):
                options = {"label": graph.labels[node][0], "x": graph.features[node]}
                made.add_node(f"n{node}", **({use: options[use]} if use else {}))
            made.add_edges_from((f"n{a}", f"n{b}") for a, b in graph.edges)
            graphs.append(made)
        valid = random.random() < 0.15
        classes: Any = y
        if not valid:
            one = random.choice(graphs)
            action = random.randrange(6)
            node = random.choice(list(one.nodes))
            if action < 3:
                one.nodes[node][use or "x"] = odd_value(random, 1)
            elif action == 3 and one.edges:
                a, b = next(iter(one.edges))[:2]
                one.add_edge(a, b, weight=odd_value(random, 1))
            elif action == 4:
                classes = [*y[:-1], odd_value(random, 1)]
            else:
                classes = random.choice((None, [], "abc", y[:-1], [*y, 1]))
        made = _accepted(lambda: Graphs.from_networkx(graphs, classes), valid)
        expect(len(made) == len(plain), "another number of graphs")
        for number, (found, graph) in enumerate(zip(made, plain, strict=True)):
            pairs = [tuple(pair) for pair in found.edge_index.T.tolist()]
            expect(undirected(pairs) == graph.edges, f"graph {number}: other edges")
            expect(found.x.isfinite().all().item(), "features that are not finite")
            if classes is not None:
                name = made.class_names[int(found.y)]
                given = classes[number]
                number_of = {"True": 1.0, "False": 0.0}
                same = name == given
                if not isinstance(given, str):
                    same = (number_of[name] if name in number_of else float(name)) == float(given)
                expect(same, f"graph {number}: class {name}, not {given!r}")
            if valid and use == "label":
                names = [made.node_label_names[code] for code in found.node_label.tolist()]
                expect(names == [row[0] for row in graph.labels], f"graph {number}: other labels")


class EdgeIndex:
    """The arguments of a pooling layer in PyG's form."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.pool = SAGPool(3, 0.5)

    def run(self, random: Random) -> None:
        sizes = [random.randrange(1, 6) for _ in range(random.randrange(1, 4))]
        nodes = sum(sizes)
        batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        start, pairs = 0, []
        for size in sizes:
            for _ in range(random.randrange(2 * size)):
                pairs.append([start + random.randrange(size), start + random.randrange(size)])
            start += size
        arguments: dict[str, Any] = {
            "x": torch.tensor([[random.gauss(0, 1) for _ in range(3)] for _ in range(nodes)]),
            "edge_index": torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T,
            "batch": batch,
        }
        valid = random.random() < 0.15
        if not valid:
            name = random.choice(list(arguments))
            changed = _odd_tensor(random, arguments[name])
            arguments[name] = changed if isinstance(changed, torch.Tensor) else arguments[name]
            if arguments[name].is_sparse:
                arguments[name] = arguments[name].to_dense()
        out = _accepted(lambda: self.pool(**arguments), valid)
        given = arguments["batch"].tolist()
        kept = out.perm.tolist()
        for graph in set(given):
            left = sum(given[node] == graph for node in kept)
            expect(left == math.ceil(given.count(graph) / 2), f"graph {graph} keeps {left} nodes")
        wanted = {
            (a, b)
            for a, b in arguments["edge_index"].T.tolist()
            if a in set(kept) and b in set(kept)
        }
        left_edges = {(kept[a], kept[b]) for a, b in out.edge_index.T.tolist()}
        expect(wanted == left_edges, "other edges are left")
