"""A small grid on MUTAG, trained by the sagpool that Python finds; prints seconds as JSON.

The argument is ``all`` (one call for all trainings) or ``shapes`` (one for each shape of model).
It uses only names that are older than most of the package, so it also runs with earlier code.
"""

import json
import os
import sys
import time
from itertools import product

import torch

from sagpool import load
from sagpool.fleet import Training, train

SHAPES = tuple(product((16, 32, 64, 128), (1 / 2, 1 / 4)))  # hidden size and ratio
RATES, FOLDS = (5e-3, 1e-3), 10
CORES = 2


def trainings_of(hidden: int, ratio: float) -> list[Training]:
    return [
        Training("sagpool-h", hidden=hidden, ratio=ratio, lr=lr, fold=fold, patience=20)
        for lr in RATES
        for fold in range(FOLDS)
    ]


def main() -> None:
    torch.set_num_threads(min(CORES, len(os.sched_getaffinity(0))))
    graphs = load("MUTAG")
    lists = [trainings_of(*shape) for shape in SHAPES]
    if sys.argv[1] == "all":
        lists = [[training for one in lists for training in one]]
    wall, cpu = time.perf_counter(), time.process_time()
    results = [result for trainings in lists for result in train(graphs, trainings)]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    epochs = sum(result.epochs for result in results)
    print(json.dumps({"wall": wall, "cpu": cpu, "epochs": epochs}))


if __name__ == "__main__":
    main()
