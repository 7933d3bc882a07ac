"""Measure whether scores find the nodes that decide the class, where these are known.

python scripts/attention_quality.py --method sagpool-g-ratio -o results/attention/quality.csv
python scripts/attention_quality.py --method sagpool-g-ratio --set dropout=0.5 -o results/...

Trains a cell of the experiment knyazev2019, and measures the first pooling of each model on each
test: the AUC of its score for the true nodes, before the first step and at the end; the fraction of
nodes that it keeps, and the right fraction; and how many gates are saturated. Adds a row to the
file for each training and test.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from sagpool.bench import Overrides, load_experiment
from sagpool.bench.plan import plan, repeat
from sagpool.cli.options import parse_settings
from sagpool.fleet import Result, Training, train
from sagpool.fleet.random_guard import SeededDraws
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Graphs, load, pack, with_node_targets
from sagpool.models import build
from sagpool.nn import Scores, Streams
from sagpool.nn.pool import pools_of

CHUNK = 500  # graphs per batch
SATURATED = 0.01  # largest distance from the end of the gate's range, as a fraction of the range
SIGMOID, TANH = (0.0, 1.0), (-1.0, 1.0)


def parts_of(graphs: Graphs, training: Training) -> dict[str, np.ndarray]:
    found = split_of(graphs, training)
    first = next(name for name in graphs.part_names if name not in ("train", "validation"))
    return {first: found.test, **found.more_tests}


@torch.no_grad()
def first_pooling(model: nn.Module, graphs: Graphs, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """For each node: the sigmoid or tanh of its score, and whether it is kept."""
    gates, kept, pool = [], [], pools_of(model)[0]

    def note(_: object, __: object, scores: Scores) -> None:
        rank = scores.rank
        gates.append((rank + pool.start).sigmoid() if pool.learned else rank.tanh())

    hook = pool.attention.register_forward_hook(note)
    for start in range(0, len(numbers), CHUNK):
        batch = pack(graphs, [numbers[start : start + CHUNK]])
        rows = int(batch.structure.layout.sizes[0, :-1].sum())
        streams = Streams(torch.zeros(1, dtype=torch.int64))
        level = model.eval()(batch, streams).levels[0]
        gates[-1] = gates[-1][:rows]
        chosen = np.zeros(len(level.gate), bool)
        there = level.perm if level.presence is None else level.perm[level.presence > 0]
        chosen[there.numpy()] = True
        kept.append(chosen[:rows])
    hook.remove()
    return {"gate": torch.cat(gates).numpy(), "kept": np.concatenate(kept)}


def measure(graphs: Graphs, training: Training, result: Result) -> Iterator[dict[str, Any]]:
    assert result.weights is not None
    assert graphs.ground_truth is not None
    shape = shape_of(graphs, training)
    with SeededDraws(training.stream("weights", graphs.name)):
        start = build(training.method, shape).double()
    end = build(training.method, shape).double()
    end.load_state_dict(result.weights)
    low, high = SIGMOID if "ratio" in training.method else TANH
    parts = parts_of(graphs, training)
    scores = dict(zip(parts, (result.test, *result.more_tests.values()), strict=True))
    for name, numbers in parts.items():
        some = graphs[numbers]
        truth = some.ground_truth.numpy() > 0
        before, after = (first_pooling(one, graphs, numbers) for one in (start, end))
        near = SATURATED * (high - low)
        saturated = [
            float(((one["gate"] < low + near) | (one["gate"] > high - near)).mean())
            for one in (before, after)
        ]
        of_graph = some.batch.numpy()
        sizes = np.bincount(of_graph)
        kept, right = (np.bincount(of_graph, one) / sizes for one in (after["kept"], truth))
        yield {
            "test": name,
            "accuracy": scores[name].accuracy,
            "auc_start": roc_auc_score(truth, before["gate"]),
            "auc": roc_auc_score(truth, after["gate"]),
            "saturated_start": saturated[0],
            "saturated": saturated[1],
            "kept": kept.mean(),
            "true": right.mean(),
            "difference": np.abs(kept - right).mean(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="colors")
    parser.add_argument("--method", default="sagpool-g-ratio")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--node-targets", type=Path, help="as in `sagpool bench`")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    chosen = Overrides(
        (arguments.dataset,), (arguments.method,), settings=parse_settings(arguments.set)
    )
    (cell,) = plan(load_experiment("knyazev2019"), chosen, search=False)
    graphs, trainings = load(cell.dataset.source), repeat(cell.default, arguments.seeds)
    changes = list(arguments.set)
    if arguments.node_targets:
        graphs = with_node_targets(graphs, arguments.node_targets)
        changes.append(f"nodes={arguments.node_targets.stem}")
    rows = []
    for training, result in zip(
        trainings, train(graphs, trainings, keep_weights=True), strict=True
    ):
        for found in measure(graphs, training, result):
            about = {"method": training.method, "changes": " ".join(changes)}
            rows.append({**about, "seed": training.seed, **found})
    new = not arguments.output.exists()
    with arguments.output.open("a", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )
    for name in dict.fromkeys(row["test"] for row in rows):
        here = [row for row in rows if row["test"] == name]
        shown = (
            f"{column} {np.mean([row[column] for row in here]):.3f} ± "
            f"{np.std([row[column] for row in here], ddof=1):.3f}"
            for column in list(rows[0])[4:]
        )
        print(f"{name}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
