"""One pooling layer, forward and backward, compared with PyG's layer.

python benchmarks/layers.py [--device cpu|cuda] [--data FOLDER] [--json]

The figures of a GPU have the prefix ``cuda/``.
"""

import argparse
import os
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, SAGPooling, TopKPooling

from examples import Example, batch_like, one_graph
from measure import by_turns, report, versions
from sagpool.nn import GPool, SAGPool

CHANNELS, RATIO, BATCH, HEADS, MIN_SCORE = 128, 0.5, 128, 6, 0.03


class Case(NamedTuple):
    example: Callable[[], Example]
    ours: Callable[[int], nn.Module]
    pyg: Callable[[int], nn.Module]
    repeats: int


def cases(device: str, repeats: int) -> dict[str, Case]:
    gcn = partial(SAGPool, ratio=RATIO), partial(SAGPooling, ratio=RATIO, GNN=GCNConv)
    gat_pyg = partial(SAGPooling, ratio=RATIO, GNN=GATConv, heads=HEADS, concat=False)
    topk_pyg = partial(TopKPooling, ratio=RATIO)
    min_score_pyg = partial(SAGPooling, GNN=GCNConv, min_score=MIN_SCORE)
    read = cache(batch_like)
    proteins, nci1, dd = (partial(read, name, BATCH) for name in ("PROTEINS", "NCI1", "DD"))
    large = partial(one_graph, 100_000, 1_000_000)
    # On a CPU a tenth of the size: the whole takes minutes and 10 GB.
    huge = partial(
        one_graph, *((2_000_000, 20_000_000) if device == "cuda" else (200_000, 2_000_000))
    )
    tiny = partial(one_graph, 33, 132)
    few = -(-repeats // 4)
    return {
        "proteins": Case(proteins, *gcn, repeats),
        "nci1": Case(nci1, *gcn, repeats),
        "dd": Case(dd, *gcn, repeats),
        "large": Case(large, *gcn, few),
        "huge": Case(huge, *gcn, few),
        "tiny": Case(tiny, *gcn, 2 * repeats),
        "gat": Case(proteins, partial(SAGPool, ratio=RATIO, conv="gat"), gat_pyg, repeats),
        "topk": Case(proteins, partial(GPool, ratio=RATIO), topk_pyg, repeats),
        "min_score": Case(proteins, partial(SAGPool, min_score=MIN_SCORE), min_score_pyg, repeats),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="One pooling layer, compared with PyG.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--data", metavar="FOLDER", help="in place of SAGPOOL_DATA")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=100, help="of most cases (100)")
    parser.add_argument("--only", metavar="CASES", help="names of cases, separated by commas")
    options = parser.parse_args()
    if options.data:
        os.environ["SAGPOOL_DATA"] = options.data
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device here that torch can use")

    prefix = "cuda/" if options.device == "cuda" else ""
    wanted = options.only and options.only.split(",")
    ratios, seconds, meaning = {}, {}, {}
    for name, case in cases(options.device, options.repeats).items():
        if wanted and name not in wanted:
            continue
        example = case.example()
        times = by_turns(steps(case, example, torch.device(options.device)), case.repeats)
        key = prefix + name
        ratios[key] = times["pyg"] / times["ours"]
        meaning[key] = f"pyg / ours; {example}"
        for side, value in times.items():
            seconds[f"{key}_{side}"] = value
            meaning[f"{key}_{side}"] = "sagpool" if side == "ours" else "torch_geometric"
    packages = versions("sagpool", "torch", "torch-geometric", "numpy")
    report(ratios, seconds, packages, meaning=meaning, as_json=options.json)


def steps(case: Case, example: Example, device: torch.device) -> dict[str, Callable[[], None]]:
    """One training step of each side on the same graphs."""
    torch.manual_seed(0)
    edge_index, batch = example.edge_index.to(device), example.batch.to(device)
    x = torch.randn(len(batch), CHANNELS, device=device, requires_grad=True)
    upstream = torch.randn_like(x)

    def step(layer: nn.Module) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            layer.zero_grad()
            pooled = layer(x, edge_index, batch=batch)[0]
            # The number of nodes above a min_score may depend on rounding.
            pooled.backward(upstream[: len(pooled)])
            if device.type == "cuda":
                torch.cuda.synchronize()

        return run

    return {
        "ours": step(case.ours(CHANNELS).to(device)),
        "pyg": step(case.pyg(CHANNELS).to(device)),
    }


if __name__ == "__main__":
    main()
