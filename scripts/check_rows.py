"""Begin published trainings again, here, and compare the losses of their first epoch.

python scripts/check_rows.py results/lee2019 [--each 1] [--device cpu]

Every random number of a training follows from its settings, so the losses are the same on any
machine, but for rounding.
"""

import argparse
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from sagpool import SagpoolError, load
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.fleet import NUMERICS, Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots
from sagpool.ops.device import find_device

TOLERANCE = 1e-3


def chosen_rows(folder: Path, each: int) -> list[dict[str, str]]:
    """The first rows of each cell that were made by the numbers of today."""
    cells = defaultdict(list)
    with (folder / "rows.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            cell = cells[row["name"], row["method"], row["settings"], row["precision"]]
            if len(cell) < each and int(row["numerics"]) == NUMERICS:
                cell.append(row)
    return [row for cell in cells.values() for row in cell]


def difference(row: dict[str, str], settings: dict[str, Any], device: torch.device) -> float:
    """Of the losses on the training and the validation part, the larger one."""
    graphs = load(row["name"]).to(device)
    training = Training(row["method"], seed=int(row["seed"]), fold=int(row["fold"]), **settings)
    precision = row["precision"]
    with computing_in(precision, device):
        fleet = Fleet(graphs, [training], Slots.fill([0], 1), dtype=PRECISIONS[precision].dtype)
        fleet.epoch()
    train_loss, validation_loss, _ = fleet.state.curves[0][0]
    return max(
        abs(train_loss - float(row["first_train_loss"])),
        abs(validation_loss - float(row["first_validation_loss"])),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=1, help="trainings of each cell")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    largest = 0.0
    try:
        device = find_device(arguments.device)
        settings = json.loads((arguments.folder / "settings.json").read_text("utf-8"))
        for row in chosen_rows(arguments.folder, arguments.each):
            found = difference(row, settings[row["settings"]], device)
            largest = max(largest, found)
            what = f"{row['name']} {row['method']} seed {row['seed']} fold {row['fold']}"
            print(f"{what}: {found:.1e}", flush=True)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")
    print(f"largest difference: {largest:.1e}")
    sys.exit(largest > TOLERANCE)


if __name__ == "__main__":
    main()
