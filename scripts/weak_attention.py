"""Estimate which nodes decide the class, as targets for supervised scores.

python scripts/weak_attention.py --dataset colors -o results/attention/weak.csv
sagpool bench knyazev2019 --dataset colors --method sagpool-g-ratio --set supervision=100 \
    --node-targets results/attention/weak.csv

After Knyazev, Taylor and Amer (2019): first a model without attention is trained. The target of a
node of a training graph is the change in the model's output for its prediction when the node is
removed: t_i = |y_i - y| / Σ_j |y_j - y|. The true nodes are not used.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sagpool.bench import Overrides, load_experiment
from sagpool.bench.plan import plan
from sagpool.explain.subgraphs import induced_subgraphs
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Graphs, load, pack
from sagpool.models import build

TEACHER = "nopool-g"
CHUNK = 500  # graphs per batch


def without_each_node(graph: Graphs) -> Graphs:
    """One copy of a graph for each of its nodes; copy i lacks node i."""
    nodes = graph.num_nodes
    keep = ~np.eye(nodes, dtype=bool)
    return induced_subgraphs(graph[np.zeros(nodes, np.int64)], keep.ravel())


@torch.no_grad()
def outputs(model: nn.Module, graphs: Graphs) -> np.ndarray:
    """``[graphs, classes]``"""
    found = []
    for start in range(0, len(graphs), CHUNK):
        numbers = np.arange(start, min(start + CHUNK, len(graphs)))
        found.append(model(pack(graphs, [numbers])).logits[0, : len(numbers)].numpy())
    return np.concatenate(found)


def effects(model: nn.Module, graphs: Graphs, number: int) -> np.ndarray:
    """``[nodes]`` effects in a graph, with sum 1; zeros if no node has an effect."""
    graph = graphs[[number]]
    if graph.num_nodes == 1:
        return np.ones(1)  # nothing would be left without its only node
    (whole,) = outputs(model, graph)
    predicted = whole.argmax()
    change = np.abs(outputs(model, without_each_node(graph))[:, predicted] - whole[predicted])
    return change / max(change.sum(), 1e-12)


def teacher(graphs: Graphs, training: Training) -> nn.Module:
    (result,) = train(graphs, [training], keep_weights=True)
    assert result.weights is not None
    model = build(training.method, shape_of(graphs, training)).double()
    model.load_state_dict(result.weights)
    print(f"{training.method}: test accuracy {100 * result.test.accuracy:.1f} %")
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="colors")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    (cell,) = plan(
        load_experiment("knyazev2019"), Overrides((arguments.dataset,), (TEACHER,)), search=False
    )
    graphs = load(cell.dataset.source)
    model = teacher(graphs, cell.default)
    with arguments.output.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["graph", "node", "target"])
        for number in split_of(graphs, cell.default).train.tolist():
            for node, target in enumerate(effects(model, graphs, number)):
                writer.writerow([number, node, f"{target:.4g}"])


if __name__ == "__main__":
    main()
