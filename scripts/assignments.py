"""Over how many clusters DiffPool spreads the nodes of a graph, early in its training.

python scripts/assignments.py --dataset NCI1 --losses both link

Trains one network for each choice of auxiliary losses for some epochs on a CPU, and prints two
means over the test graphs for each of its pooling layers: the entropy of a node's assignment, and
the number of clusters that the nodes of a graph are spread over. That number is exp(H) with the
entropy H of the graph's mean assignment: 1 if all nodes are in one cluster, the number of clusters
if the assignment is uniform.
"""

import argparse
import sys
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from sagpool import Graphs, SagpoolError, load
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Structure, pack
from sagpool.models import build
from sagpool.nn.pool import pools_of
from sagpool.nn.pool.pool import Context, Pooled
from sagpool.ops import Layout

LOSSES = ("both", "link", "none")


class Spread(NamedTuple):
    entropy: float  # of the assignment of a node
    clusters: float  # that a graph is spread over
    most: int  # number of clusters


def spread_of(assignment: Tensor, layout: Layout) -> Spread:
    """Means over the graphs of a batch of one model, without its filler.

    Args:
        assignment: ``[rows, clusters]``
        layout: which rows belong to which graph
    """
    ptr = layout.node_ptr.tolist()[: layout.graphs - layout.filler + 1]
    parts = [assignment[start:end] for start, end in pairwise(ptr)]
    of_nodes = torch.stack([_entropy(part).mean() for part in parts])
    of_graphs = torch.stack([_entropy(part.mean(0)).exp() for part in parts])
    return Spread(float(of_nodes.mean()), float(of_graphs.mean()), assignment.shape[1])


def _entropy(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(-1)


def measure(graphs: Graphs, training: Training) -> list[Spread]:
    """Of each pooling layer, with the weights of the lowest validation loss."""
    (result,) = train(graphs, [training], keep_weights=True)
    assert result.weights is not None
    model = build(training.method, shape_of(graphs, training)).eval()
    model.load_state_dict(result.weights)
    found: list[Spread] = []

    def look(_: torch.nn.Module, inputs: tuple[Tensor, Structure, Context], result: Pooled) -> None:
        assert result.assignment is not None
        found.append(spread_of(result.assignment, inputs[1].layout))

    for pool in pools_of(model):
        pool.register_forward_hook(look)
    with torch.no_grad():
        model(pack(graphs, split_of(graphs, training).test[None]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="MUTAG")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    arguments = parser.parse_args()
    try:
        graphs = load(arguments.dataset)
        for losses in arguments.losses:
            training = Training(
                "diffpool-h",
                method_settings=(("losses", losses),),
                max_epochs=arguments.epochs,
                **{"hidden": 128, "ratio": 0.25, "lr": 5e-4, "weight_decay": 1e-4},
            )
            for level, spread in enumerate(measure(graphs, training), start=1):
                print(
                    f"losses {losses}, level {level}: entropy {spread.entropy:.2f}, "
                    f"spread over {spread.clusters:.1f} of {spread.most} clusters",
                    flush=True,
                )
    except SagpoolError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
