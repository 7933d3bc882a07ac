"""A million small graphs, from a file of JSON Lines to a file of probabilities, against PyG.

Ours is `sagpool predict` in a separate process, start and imports included. The peer reads the
same file into `Data` objects, collates them with PyG's DataLoader, runs the same net with the same
weights and writes the same table. It does so for the first graphs of the file, before and after
ours, and its time is extrapolated to all graphs. Both must give the same probabilities.

python benchmarks/predict.py [--graphs 1000000] [--json]
"""

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from measure import versions
from pyg_models import PyGHierarchical
from sagpool import TrainedModel
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build

METHOD, HIDDEN, BATCH = "sagpool-h", 64, 128
ELEMENTS = ("C", "N", "O", "S", "F", "Cl")
CLASSES = ("inactive", "active")
FREQUENCY = (70, 11, 12, 3, 2, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=20_000, help="graphs that PyG predicts")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    options = parser.parse_args()
    sample = min(options.sample, options.graphs)

    with tempfile.TemporaryDirectory() as folder:
        file, ours, theirs = (Path(folder) / n for n in ("graphs.jsonl", "ours.csv", "theirs.csv"))
        write_graphs(file, options.graphs)
        model = some_model()
        model.save_pretrained(Path(folder) / "model")
        net = same_in_pyg(model)
        pyg, sagpool, peak = [], [], 0.0
        for _ in range(options.repeats):
            pyg.append(predict_with_pyg(net, file, theirs, sample))
            seconds, megabytes = predict_with_sagpool(Path(folder) / "model", file, ours)
            sagpool.append(seconds)
            peak = max(peak, megabytes)
            pyg.append(predict_with_pyg(net, file, theirs, sample))
        check_agreement(ours, theirs, sample, options.graphs)

    seconds = {
        "sagpool": statistics.median(sagpool),
        "pyg": statistics.mean(pyg) * options.graphs / sample,
    }
    ratio = seconds["pyg"] / seconds["sagpool"]
    if options.json:
        packages = versions("sagpool", "torch", "torch-geometric", "numpy")
        figures = {"ratios": {"predict": ratio}, "peak_mb": peak, "seconds": seconds}
        print(json.dumps({**figures, "graphs": options.graphs, "versions": packages}))
        return
    print(f"{options.graphs:,} graphs: sagpool {seconds['sagpool']:.1f} s, peak {peak:.0f} MB; ")
    print(f"PyG {seconds['pyg']:.1f} s, from {sample:,} graphs; {ratio:.1f} times as fast")


def write_graphs(path: Path, count: int) -> None:
    """Trees with a ring now and then, of 5 to 15 nodes, labelled like atoms."""
    draw = random.Random(0)
    with path.open("w") as file:
        for number in range(count):
            nodes = draw.randint(5, 15)
            labels = draw.choices(ELEMENTS, FREQUENCY, k=nodes)
            # Edges to recent nodes, as along the chains of a molecule.
            edges = [[max(0, node - draw.randint(1, 3)), node] for node in range(1, nodes)]
            ring = [0, draw.randrange(2, nodes)]
            if draw.random() < 0.5 and ring not in edges:  # PyG would count an edge twice
                edges.append(ring)
            graph = {"id": f"g{number}", "nodes": labels, "edges": edges}
            file.write(json.dumps(graph) + "\n")


def some_model() -> TrainedModel:
    """A model with untrained weights, scaled so that graphs get different results."""
    torch.manual_seed(0)
    shape = Shape(len(ELEMENTS), len(CLASSES), hidden=HIDDEN)
    weights = {name: 3 * tensor for name, tensor in build(METHOD, shape).state_dict().items()}
    return TrainedModel.of_net(METHOD, shape, Vocabulary("labels", ELEMENTS, 0, CLASSES), weights)


def same_in_pyg(model: TrainedModel) -> nn.Module:
    net = PyGHierarchical(METHOD, len(ELEMENTS), HIDDEN, len(CLASSES), model.shape.ratio)
    layers = dict.fromkeys(name.rpartition(".")[0] for name in model.weights)
    with torch.no_grad():
        for pool in net.pools:
            pool.select.weight.fill_(1)  # PyG uses only its sign
        for kind in ("weight", "bias"):
            # The order of layers is the same on both sides.
            theirs = [
                p for n, p in net.named_parameters() if n.endswith(kind) and "select" not in n
            ]
            for layer, tensor in zip(layers, theirs, strict=True):
                ours = model.weights[f"{layer}.{kind}"][0]
                tensor.copy_(ours.T if kind == "weight" else ours[0])
    return net.eval()


def predict_with_sagpool(model: Path, file: Path, output: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of the command."""
    command = [sys.executable, "-m", "sagpool.cli.main", "predict", model, file, "-o", output]
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 has already waited
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit("sagpool predict failed.")
    return seconds, used.ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


@torch.no_grad()
def predict_with_pyg(net: nn.Module, file: Path, output: Path, count: int) -> float:
    """Seconds for the first graphs of the file."""
    start = time.perf_counter()
    column = {name: number for number, name in enumerate(ELEMENTS)}
    names, data = [], []
    with file.open() as lines:
        for line in islice(lines, count):
            graph = json.loads(line)
            names.append(graph["id"])
            labels = torch.tensor([column[label] for label in graph["nodes"]])
            one_way = torch.tensor(graph["edges"]).T
            edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
            x = nn.functional.one_hot(labels, len(ELEMENTS)).float()
            data.append(Data(x=x, edge_index=edge_index))
    probabilities = [
        net(batch.x, batch.edge_index, batch.batch).softmax(1)
        for batch in DataLoader(data, batch_size=BATCH)
    ]
    with output.open("w", newline="") as table:
        rows = csv.writer(table)
        rows.writerow(["id", "class", *(f"p_{name}" for name in CLASSES)])
        for name, row in zip(names, torch.cat(probabilities).tolist(), strict=True):
            predicted = CLASSES[int(np.argmax(row))]
            rows.writerow([name, predicted, *(f"{p:.6g}" for p in row)])
    return time.perf_counter() - start


def check_agreement(ours: Path, theirs: Path, sample: int, count: int) -> None:
    """Same graphs, same probabilities, and no row is missing."""
    with ours.open() as table:
        first = list(islice(csv.reader(table), sample + 1))
        rows = len(first) + sum(1 for _ in table) - 1
    with theirs.open(newline="") as table:
        expected = list(csv.reader(table))
    assert rows == count, f"{rows} rows for {count} graphs"
    assert [row[0] for row in first] == [row[0] for row in expected]
    found, wanted = (np.array([row[2:] for row in t[1:]], float) for t in (first, expected))
    assert wanted[:, 0].std() > 0.01, (
        "the net gives all graphs the same result: nothing is compared"
    )
    # If two scores differ in the last bit only, either node may be kept.
    differs = (np.abs(found - wanted) > 1e-4).any(1)
    assert differs.mean() < 0.01, f"{differs.mean():.1%} of the graphs have other probabilities"


if __name__ == "__main__":
    main()
