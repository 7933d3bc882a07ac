"""One SAGPool layer, forward and backward on the CPU, against PyG's SAGPooling(GNN=GCNConv).

python benchmarks/layers.py [--data FOLDER] [--json]
"""

import argparse
import os
from collections.abc import Callable
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGPooling

from examples import Example, batch_like, random_graphs
from measure import by_turns, report, versions
from sagpool.graphs import Adjacency
from sagpool.nn import SAGPool

CHANNELS, RATIO, BATCH = 128, 0.5, 128
SIDES = {
    "ours": "SAGPool(x, edge_index, batch=batch)",
    "packed": "SAGPool(x, adjacency), its normalisation included",
    "pyg": "SAGPooling(x, edge_index, batch=batch)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="One pooling layer, compared with PyG.")
    parser.add_argument("--data", metavar="FOLDER", help="in place of SAGPOOL_DATA")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=100, help="of each batch (100)")
    options = parser.parse_args()
    if options.data:
        os.environ["SAGPOOL_DATA"] = options.data

    examples = {name.lower(): batch_like(name, BATCH) for name in ("PROTEINS", "NCI1", "DD")}
    examples["large"] = random_graphs(np.array([100_000]), edges_per_node=5)
    examples["unsorted"] = examples["large"].shuffled()
    ratios, seconds, meaning = {}, {}, {}
    for name, example in examples.items():
        # A step on the large graph takes as long as fifty on a small batch.
        repeats = options.repeats if len(example.batch) < 50_000 else -(-options.repeats // 4)
        times = by_turns(steps(example), repeats)
        ratios[name] = times["pyg"] / times["ours"]
        meaning[name] = f"pyg / ours; {example}"
        for side, value in times.items():
            seconds[f"{name}_{side}"] = value
            meaning[f"{name}_{side}"] = SIDES[side]
    unsorted = ratios.pop("unsorted")
    meaning["unsorted"] = "pyg / ours; large with its edges in random order"
    meaning["mean"] = "of all but the unsorted one"
    if not options.json:
        ratios |= {"unsorted": unsorted, "mean": mean([*ratios.values()])}
    packages = versions("sagpool", "torch", "torch-geometric", "numpy")
    report(ratios, seconds, packages, meaning=meaning, as_json=options.json)


def steps(example: Example) -> dict[str, Callable[[], None]]:
    """One training step of each side on the same graphs."""
    torch.manual_seed(0)
    ours, pyg = SAGPool(CHANNELS, RATIO), SAGPooling(CHANNELS, RATIO, GNN=GCNConv)
    x = torch.randn(len(example.batch), CHANNELS, requires_grad=True)
    edge_index, batch, packed = example.edge_index, example.batch, example.packed()
    upstream = torch.randn_like(ours(x, packed).x)

    def step(layer: nn.Module, pooled: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            layer.zero_grad()
            pooled().backward(upstream)

        return run

    def fresh() -> Adjacency:
        """A copy without values cached by an earlier step."""
        return Adjacency(packed.layout, packed.row_ptr, packed.col)

    return {
        "ours": step(ours, lambda: ours(x, edge_index, batch=batch).x),
        "packed": step(ours, lambda: ours(x, fresh()).x),
        "pyg": step(pyg, lambda: pyg(x, edge_index, batch=batch)[0]),
    }


if __name__ == "__main__":
    main()
