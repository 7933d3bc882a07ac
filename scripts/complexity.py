"""Sections 5.2 to 5.4 of the paper and its Figure 4: parameters, time, memory and cluster sizes.

python scripts/complexity.py results/lee2019 --device cuda

Writes complexity.json and figures into complexity/. Parameters are counted, cluster sizes follow
from the sizes of the graphs in a data set, and a training step of one model is measured on random
graphs: with a growing number of nodes at a fixed number of edges per node, and with a growing
number of edges at a fixed number of nodes. reproduction_page.py makes a section of the page from
the JSON file.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from complexity_figures import write_figures
from torch import Tensor

from sagpool import Graphs, SagpoolError, load
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.provenance import code_state
from sagpool.fleet.versions import versions
from sagpool.graphs import pack
from sagpool.models import Shape, build, count_parameters
from sagpool.nn import Selection, Streams
from sagpool.ops.device import find_device

RATIOS = ("1/4", "1/2", "1")
SIZES = (20, 100, 200, 300, 400, 500)  # nodes of the largest graph, as in the paper's Figure 4
CHANNELS, CLASSES = 128, 2  # also as in that figure
CLUSTER_RATIOS = ("1/10", "1/4", "1/2")  # the first one is the paper's example
LARGE = 1000  # nodes; the paper counts graphs above this size
EDGES_PER_NODE, RATIO = 4, 0.25
WARM_UP, MOST_SECONDS = 2, 1.0
SLOW = 0.2


@dataclass(frozen=True)
class Sizes:
    """The measurements: graphs of a batch, and the two series."""

    graphs: int
    nodes: tuple[int, ...]  # sizes with `EDGES_PER_NODE` edges per node
    fixed_nodes: int
    edges_per_node: tuple[int, ...]  # edges per node, with `fixed_nodes` nodes
    repeats: int
    slow: float = SLOW  # seconds of a step above which larger graphs are left out


ON_GPU = Sizes(8, (256, 1024, 4096, 16384, 65536), 4096, (1, 4, 16, 64), 10)
ON_CPU = Sizes(4, (32, 64, 128, 256), 128, (1, 2, 4, 8, 16), 5)


def count_all(methods: Sequence[str]) -> dict[str, Any]:
    """The parameters of every method for all ratios, and for all sizes of the largest graph."""
    counts = {
        method: {
            ratio: [_count(method, Fraction(ratio), nodes) for nodes in SIZES] for ratio in RATIOS
        }
        for method in methods
    }
    return {"channels": CHANNELS, "classes": CLASSES, "nodes": SIZES, "counts": counts}


def _count(method: str, ratio: Fraction, nodes: int) -> int:
    kept = int(Selection(ratio).counts(np.array([nodes]))[0])
    shape = Shape(CHANNELS, CLASSES, CHANNELS, ratio, kept, nodes)
    return count_parameters(method, shape)


def cluster_sizes(graphs: Graphs) -> dict[str, Any]:
    """Rows of each graph after the first pooling: ⌈kN⌉ nodes, or clusters by the largest graph."""
    nodes = np.sort(graphs.node_counts)
    ratios = {}
    for ratio in CLUSTER_RATIOS:
        clusters = int(Selection(Fraction(ratio)).counts(nodes[-1:])[0])
        ratios[ratio] = {"clusters": clusters, "expanded": int((nodes < clusters).sum())}
    return {
        "dataset": graphs.name,
        "graphs": len(nodes),
        "large": int((nodes > LARGE).sum()),
        "nodes": nodes.tolist(),
        "ratios": ratios,
    }


def random_graphs(count: int, nodes: int, edges: int) -> Graphs:
    """Graphs with exactly this many nodes and pairs of neighbours each."""
    random = np.random.default_rng(nodes + edges)
    edges = min(edges, nodes * (nodes - 1) // 2)
    rows = []
    for _ in range(count):
        pairs = np.zeros(0, np.int64)  # first * nodes + second, each pair once
        while len(pairs) < edges:
            a, b = random.integers(0, nodes, (2, 2 * edges))
            new = np.minimum(a, b) * nodes + np.maximum(a, b)
            pairs = np.unique(np.concatenate([pairs, new[a != b]]))
        pairs = random.choice(pairs, edges, replace=False)
        rows.append(np.sort(np.concatenate([pairs, pairs % nodes * nodes + pairs // nodes])))
    every = np.concatenate([row + i * nodes * nodes for i, row in enumerate(rows)])
    degree = np.bincount(every // nodes, minlength=count * nodes)
    return Graphs(
        np.full(count, nodes),
        np.full(count, 2 * edges),
        torch.from_numpy(degree.astype(np.int32)),
        torch.from_numpy((every % nodes).astype(np.int32)),
        torch.arange(count) % CLASSES,
        node_attr=torch.from_numpy(random.normal(0, 1, (count * nodes, CHANNELS)).astype("f4")),
        class_names=tuple(map(str, range(CLASSES))),
        name="random",
    )


@dataclass(frozen=True)
class Cost:
    """The cost of a training step: forward and backward pass of one model."""

    method: str
    series: str  # nodes or edges, whichever grows
    nodes: int  # nodes of each graph
    edges: int
    milliseconds: float
    bytes: int


def measure_all(methods: Sequence[str], sizes: Sizes, device: torch.device) -> list[Cost]:
    """Measure all methods; on a CPU with one thread, so that growth depends only on the graphs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(methods, sizes, device)
    finally:
        torch.set_num_threads(threads)


def _measure(methods: Sequence[str], sizes: Sizes, device: torch.device) -> list[Cost]:
    series = [("nodes", nodes, EDGES_PER_NODE * nodes) for nodes in sizes.nodes]
    series += [("edges", sizes.fixed_nodes, m * sizes.fixed_nodes) for m in sizes.edges_per_node]
    found, left_out = [], set[tuple[str, str]]()
    for name, nodes, edges in series:
        graphs = random_graphs(sizes.graphs, nodes, edges).to(device)
        for method in methods:
            if (method, name) in left_out:
                continue
            seconds = np.inf
            with suppress(torch.OutOfMemoryError):
                step = training_step(method, graphs)
                used = step_bytes(step, device)
                seconds = step_seconds(step, device, sizes.repeats)
                edges_here = int(graphs.edge_counts[0]) // 2
                found.append(Cost(method, name, nodes, edges_here, 1000 * seconds, used))
            if seconds > sizes.slow:
                left_out.add((method, name))
    return found


def training_step(method: str, graphs: Graphs) -> Callable[[], None]:
    nodes = int(graphs.node_counts[0])
    shape = Shape(CHANNELS, CLASSES, CHANNELS, RATIO, k=-(-nodes // 4), max_nodes=nodes)
    torch.manual_seed(0)
    model = build(method, shape).to(graphs.device)
    every = np.arange(len(graphs))[None]
    streams = Streams(torch.zeros(1, dtype=torch.int64, device=graphs.device))

    def step() -> None:
        batch = pack(graphs, every)
        model.zero_grad(set_to_none=True)
        model(batch, streams).loss_sums(batch).sum().backward()

    return step


def step_seconds(step: Callable[[], None], device: torch.device, repeats: int) -> float:
    """The median time; with fewer repeats if they take long."""
    seconds: list[float] = []
    for turn in range(WARM_UP + repeats):
        _wait(device)
        start = time.perf_counter()
        step()
        _wait(device)
        if turn >= WARM_UP:
            seconds.append(time.perf_counter() - start)
        if sum(seconds) > MOST_SECONDS:
            break
    return statistics.median(seconds)


def step_bytes(step: Callable[[], None], device: torch.device) -> int:
    """The peak memory of a step on a GPU; on a CPU the bytes saved for the backward pass."""
    if device.type == "cuda":
        step()  # values that are computed once for a data set are not part of a step
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        return torch.cuda.max_memory_allocated(device) - before
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        step()
    return sum(saved.values())


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dataset", default="DD", help="whose cluster sizes are counted (DD)")
    parser.add_argument("--nodes", type=int, nargs="+", help="of a graph")
    parser.add_argument("--edges-per-node", type=int, nargs="+")
    parser.add_argument("--repeats", type=int)
    parser.add_argument(
        "--slow", type=float, default=SLOW,
        help=f"seconds of a step, after which larger graphs are left out ({SLOW})",
    )  # fmt: skip
    options = parser.parse_args()
    tables = load_experiment("lee2019").tables
    try:
        device = find_device(options.device)
        on_gpu = device.type == "cuda"
        usual = ON_GPU if on_gpu else ON_CPU
        sizes = Sizes(
            usual.graphs,
            tuple(options.nodes or usual.nodes),
            options.nodes[-1] if options.nodes else usual.fixed_nodes,
            tuple(options.edges_per_node or usual.edges_per_node),
            options.repeats or usual.repeats,
            options.slow,
        )
        every = dict.fromkeys((*tables["table3"].methods, *tables["table4"].methods))
        result = {
            "device": torch.cuda.get_device_name(device) if on_gpu else "CPU",
            "memory": "peak of a step" if on_gpu else "saved for the backward pass",
            "versions": versions() | code_state(),
            "sizes": asdict(sizes) | {"channels": CHANNELS, "ratio": RATIO},
            "parameters": count_all(list(every)),
            "costs": [asdict(c) for c in measure_all(tables["table3"].methods, sizes, device)],
            "clusters": cluster_sizes(load(options.dataset)),
        }
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "complexity.json").write_text(_text(result), "utf-8")
        write_figures(json.loads(_text(result)), options.folder / "complexity")
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")


def _text(result: dict[str, Any]) -> str:
    """JSON with a line for each entry; measurements have four significant digits."""
    rounded = [c | {"milliseconds": float(f"{c['milliseconds']:.4g}")} for c in result["costs"]]
    lines = [
        f'"{key}": [\n  ' + ",\n  ".join(map(json.dumps, rounded)) + "\n ]"
        if key == "costs"
        else f'"{key}": {json.dumps(value)}'
        for key, value in result.items()
    ]
    return "{\n " + ",\n ".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
