"""Peak memory of DiffPool and of augmented SAGPool, and growth of SAGPool with the graph.

python benchmarks/memory.py [--json]

Each figure is the growth of peak resident memory over one forward and backward pass, in a separate
process. Linux only: other systems cannot reset the peak.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv, GCNConv, SAGPooling, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from examples import Example, random_graphs
from measure import versions
from sagpool.graphs import Adjacency
from sagpool.nn import DiffPool, SAGPool

CHANNELS = 32
EDGES = [10**power for power in range(3, 8)]
# Like DD: most graphs have about 280 nodes, the largest ten times as many.
DD_SIZES = np.array([*range(120, 420, 20), 3000])
DD_EDGES_PER_NODE = 715.66 / 284.32


def diffpool_ours() -> Callable[[], Tensor]:
    graphs = random_graphs(DD_SIZES, DD_EDGES_PER_NODE)
    x, adjacency = features(graphs), graphs.packed()
    pool = DiffPool(CHANNELS, int(DD_SIZES.max()) // 4)

    def step() -> Tensor:
        pooled = pool(x, adjacency)
        return pooled.structure.neighbour_sum(pooled.x).sum() + pooled.auxiliary.sum()

    return step


def diffpool_dense() -> Callable[[], Tensor]:
    graphs = random_graphs(DD_SIZES, DD_EDGES_PER_NODE)
    x = features(graphs)
    assign = DenseGCNConv(CHANNELS, int(DD_SIZES.max()) // 4)

    def step() -> Tensor:
        rows, mask = to_dense_batch(x, graphs.batch)
        adj = to_dense_adj(graphs.edge_index, graphs.batch)
        assignment = assign(rows, adj, mask)
        pooled, coarse, link, entropy = dense_diff_pool(rows, adj, assignment, mask)
        return (coarse @ pooled).sum() + link + entropy

    return step


def augmentation_ours() -> Callable[[], Tensor]:
    graph = random_graphs(np.array([100_000]), edges_per_node=5)
    x, pool = features(graph), SAGPool(CHANNELS, augmentation=True)
    return lambda: pool(x, graph.edge_index, batch=graph.batch).x.sum()


def augmentation_materialised() -> Callable[[], Tensor]:
    graph = random_graphs(np.array([100_000]), edges_per_node=5)
    x, pool = features(graph), SAGPooling(CHANNELS, GNN=GCNConv)
    size = (len(graph.batch), len(graph.batch))

    def step() -> Tensor:
        ones = torch.ones(graph.edge_index.shape[1])
        once = torch.sparse_coo_tensor(graph.edge_index, ones, size, check_invariants=False)
        both = (once + torch.sparse.mm(once, once)).coalesce()
        # SAGPooling passes no edge weights to its convolution, so walk counts are dropped.
        return pool(x, both.indices(), batch=graph.batch)[0].sum()

    return step


def sagpool(edges: int) -> Callable[[], Tensor]:
    graph = random_graphs(np.array([edges // 10]), edges_per_node=5)
    x, pool, packed = features(graph), SAGPool(CHANNELS), graph.packed()

    def step() -> Tensor:
        # A new object each time, so that its normalisation is part of the measurement.
        adjacency = Adjacency(packed.layout, packed.row_ptr, packed.col)
        return pool(x, adjacency).x.sum()

    return step


TASKS: dict[str, Callable[[], Callable[[], Tensor]]] = {
    "diffpool_ours": diffpool_ours,
    "diffpool_dense": diffpool_dense,
    "augmentation_ours": augmentation_ours,
    "augmentation_materialised": augmentation_materialised,
} | {f"sagpool_{edges}": lambda edges=edges: sagpool(edges) for edges in EDGES}


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory, and growth with the graph.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--task", choices=TASKS, help="measure one task in this process")
    options = parser.parse_args()
    if options.task:
        torch.set_num_threads(1)  # so that growth depends only on the graph
        step, timed = TASKS[options.task](), options.task.startswith("sagpool")
        print(json.dumps(measure(step, timed=timed)))
        return
    figures = {name: in_separate_process(name) for name in TASKS}
    megabytes = {name: figure["bytes"] / 2**20 for name, figure in figures.items()}
    growth = [figures[f"sagpool_{edges}"] for edges in EDGES]
    time_growth = [figure["seconds"] for figure in growth]
    memory_growth = [figure["bytes"] for figure in growth]
    result = {
        "ratios": {
            "diffpool_dd": megabytes["diffpool_dense"] / megabytes["diffpool_ours"],
            "augmentation_large": megabytes["augmentation_materialised"]
            / megabytes["augmentation_ours"],
        },
        "exponents": {"time": exponent(time_growth), "memory": exponent(memory_growth)},
        # Constant costs of small graphs flatten the line, so its last decade is also shown.
        "last_decade": {
            "time": exponent(time_growth, last=2),
            "memory": exponent(memory_growth, last=2),
        },
        "megabytes": megabytes,
        "seconds": dict(zip((f"sagpool_{edges}" for edges in EDGES), time_growth, strict=True)),
        "versions": versions("sagpool", "torch", "torch-geometric", "numpy"),
    }
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


def features(graphs: Example) -> Tensor:
    return torch.randn(len(graphs.batch), CHANNELS, requires_grad=True)


def measure(step: Callable[[], Tensor], *, timed: bool) -> dict[str, float]:
    """Growth of the peak by the first step, and the median time of later steps."""
    ctypes.CDLL(None).malloc_trim(0)  # so that freed memory is not reused
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current size
    before = peak_bytes()
    step().backward()
    return {"bytes": peak_bytes() - before} | ({"seconds": median_seconds(step)} if timed else {})


def median_seconds(step: Callable[[], Tensor]) -> float:
    seconds: list[float] = []
    while len(seconds) < 5 or (len(seconds) < 100 and sum(seconds) < 2):
        start = time.perf_counter()
        step().backward()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def in_separate_process(task: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--task", task]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def exponent(values: list[float], last: int = 0) -> float:
    """Slope of log(value) against log(nodes + edges)."""
    sizes = [edges + edges // 10 for edges in EDGES]
    return float(np.polyfit(np.log(sizes[-last:]), np.log(values[-last:]), 1)[0])


def show(result: dict[str, Any]) -> None:
    for name, value in result["megabytes"].items():
        seconds = result["seconds"].get(name)
        print(
            f"{name:<26} {value:10.1f} MB", "" if seconds is None else f"{seconds * 1e3:10.2f} ms"
        )
    print()
    for name, value in result["ratios"].items():
        print(f"{name:<26} {value:10.1f} ×    less memory")
    for name, value in result["exponents"].items():
        last = result["last_decade"][name]
        print(
            f"{name:<26} {value:10.2f}      exponent against nodes + edges; "
            f"{last:.2f} from 10⁶ to 10⁷ edges"
        )
    print()
    print(", ".join(f"{name} {number}" for name, number in result["versions"].items()))


if __name__ == "__main__":
    main()
