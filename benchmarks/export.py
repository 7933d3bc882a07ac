"""Exported models against our own predictor: file sizes, and the time for MUTAG many times over.

All three get graphs in memory, use one thread, and must give the same result.
`ratios` above 1: faster than our own predictor.

python benchmarks/export.py [--copies 20] [--method sagpool-h] [--json]
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from measure import by_turns, versions
from sagpool import load
from sagpool.classifier.model import TrainedModel
from sagpool.export import export
from sagpool.export.plan import plan_of
from sagpool.export.samples import inputs_of
from sagpool.export.write import numpy_content
from sagpool.graphs.source_records import source_records
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build

HIDDEN = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=20, help="of MUTAG's 188 graphs")
    parser.add_argument("--method", default="sagpool-h")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    options = parser.parse_args()
    torch.set_num_threads(1)

    once = load("MUTAG")
    graphs = once[np.tile(np.arange(len(once)), options.copies)]
    torch.manual_seed(0)
    shape = Shape(once.num_features, once.num_classes, hidden=HIDDEN, k=12, max_nodes=28)
    weights = build(options.method, shape).state_dict()
    model = TrainedModel.of_net(options.method, shape, Vocabulary.of(once), dict(weights))
    plan = plan_of(model)
    inputs = inputs_of([*source_records("MUTAG")] * options.copies, plan)
    with tempfile.TemporaryDirectory() as folder:
        paths = {"onnx": Path(folder) / "model.onnx", "numpy": Path(folder) / "model.py"}
        written = {name: export(model, path, check="MUTAG") for name, path in paths.items()}
        sizes = {name: sum(f.stat().st_size for f in one.files) for name, one in written.items()}
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(paths["onnx"], settings)
        run = numpy_content(paths["numpy"], plan).run
    predict = model.predictor()
    sides = {
        "sagpool": lambda: predict(graphs),
        "onnx": lambda: session.run(["probabilities"], inputs),
        "numpy": lambda: run(inputs),
    }
    seconds = by_turns(sides, options.repeats)
    ratios = {name: seconds["sagpool"] / seconds[name] for name in ("onnx", "numpy")}
    if options.json:
        packages = versions("sagpool", "torch", "numpy", "onnx", "onnxruntime")
        figures = {"ratios": ratios, "seconds": seconds, "bytes": sizes, "graphs": len(graphs)}
        print(json.dumps({**figures, "method": options.method, "versions": packages}))
        return
    print(f"{options.method}, {len(graphs):,} graphs: sagpool {seconds['sagpool']:.2f} s")
    for name, ratio in ratios.items():
        time = f"{seconds[name]:.2f} s, {ratio:.2f} times as fast"
        print(f"{name:<6} {time}, {sizes[name] / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
