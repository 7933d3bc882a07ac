"""Repeat the first epoch of published trainings and compare the losses.

python scripts/check_rows.py results/lee2019 results/controls [--each 1] [--device cpu]

Every random number of a training follows from its settings, so the losses are the same on every
machine except for rounding.
"""

import argparse
import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from sagpool import Graphs, SagpoolError, load
from sagpool.bench.plan import METHOD_VERSION, training_of
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.fleet import NUMERICS
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots
from sagpool.graphs.features import FEATURE_KINDS, unit_rows
from sagpool.models import method_version
from sagpool.ops.device import find_device

# Rounding may swap the ranks of two nodes, so a few trainings may differ slightly.
CLOSE, MOST = 1e-5, 0.75  # at least this fraction of the trainings must be this close
FAR = 1e-3  # and all of them this close,
# or within so many times the difference between float32 and float64 on this machine.
SENSITIVE = 10

Loaded = dict[tuple[str, str], Graphs]  # data sets, by name and fingerprint


def chosen_rows(folder: Path, each: int) -> list[dict[str, str]]:
    """The first rows of each cell, without rows that only a search has seen."""
    cells = defaultdict(list)
    same = ("name", "data", "method", "settings", "precision")
    with (folder / "rows.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            if row.get("cells", "all"):
                cells[tuple(row[name] for name in same)].append(row)
    return [row for cell in cells.values() for row in cell[:each]]


def load_as_published(row: dict[str, str], kinds: dict[str, str]) -> Graphs:
    """The data set of a row, with its node features and their normalisation."""
    names = {kind: name for name, kind in FEATURE_KINDS.items()}
    kind = kinds.get(row["data"], "auto")
    graphs = load(row["name"], names.get(kind, kind))  # type: ignore[arg-type]
    for candidate in (graphs, unit_rows(graphs)):
        if candidate.fingerprint().startswith(row["data"]):
            return candidate
    raise SagpoolError("The local data set is different.")


def feature_kinds(folder: Path) -> dict[str, str]:
    """Kinds of features by the first digits of the fingerprint of a data set."""
    path = folder / "tables" / "data.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as lines:
        return {row["fingerprint"][:12]: row["feature_kind"] for row in csv.DictReader(lines)}


def difference(row: dict[str, str], graphs: Graphs, settings: dict[str, Any]) -> float:
    """The larger of the differences in training and validation loss."""
    precision = row["precision"]
    losses = first_losses(row, graphs, settings, precision, PRECISIONS[precision].dtype)
    return largest(losses, [float(row["first_train_loss"]), float(row["first_validation_loss"])])


def rounding(row: dict[str, str], graphs: Graphs, settings: dict[str, Any]) -> float:
    """The same difference between a training in float32 and one in float64, both here."""
    dtypes = torch.float32, torch.float64
    return largest(*(first_losses(row, graphs, settings, "float32", dtype) for dtype in dtypes))


def first_losses(
    row: dict[str, str],
    graphs: Graphs,
    settings: dict[str, Any],
    precision: str,
    dtype: torch.dtype,
) -> list[float]:
    """The losses for training and validation after the first epoch."""
    training = replace(
        training_of(row["method"], settings), seed=int(row["seed"]), fold=int(row["fold"])
    )
    with computing_in(precision, graphs.device):
        fleet = Fleet(graphs, [training], Slots.fill([0], 1), dtype=dtype)
        fleet.advance()
    train_loss, validation_loss, _ = fleet.state.curves[0][0]
    return [train_loss, validation_loss]


def largest(some: list[float], others: list[float]) -> float:
    return max(distance(*pair) for pair in zip(some, others, strict=True))


def distance(one: float, other: float) -> float:
    """Difference of two losses: 0 between two NaNs; infinite between a NaN and a number."""
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    return abs(one - other)


class Checked(NamedTuple):
    """How far a training is from its row, and whether rounding alone moves it as far."""

    difference: float
    is_sensitive: bool = False


def agree(trainings: Sequence[Checked]) -> bool:
    close = sum(one.difference <= CLOSE for one in trainings)
    none_far = all(one.difference <= FAR or one.is_sensitive for one in trainings)
    return bool(trainings) and none_far and close >= MOST * len(trainings)


def check(folder: Path, each: int, device: torch.device, loaded: Loaded) -> list[Checked]:
    """Repeat trainings of a folder; returns and prints how far each is from its row."""
    checked = []
    kinds = feature_kinds(folder)
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    for row in chosen_rows(folder, each):
        what = f"{row['name']} {row['method']} seed {row['seed']} fold {row['fold']}"
        try:
            if int(row["numerics"]) != NUMERICS:
                raise SagpoolError("It was made with another version of the numerics.")
            own = settings[row["settings"]]
            if own.get(METHOD_VERSION, "") != method_version(row["method"]):
                raise SagpoolError("It was made with another version of the method.")
            key = (row["name"], row["data"])
            if key not in loaded:
                loaded[key] = load_as_published(row, kinds).to(device)
            found = Checked(difference(row, loaded[key], own))
            print(f"{what}: {found.difference:.1e}", flush=True)
            if found.difference > FAR and row["precision"] == "float32":
                moved = rounding(row, loaded[key], own)
                print(f"    float32 and float64 differ here by {moved:.1e}", flush=True)
                found = found._replace(is_sensitive=found.difference <= SENSITIVE * moved)
            checked.append(found)
        except SagpoolError as error:
            print(f"{what}: not checked. {error}", flush=True)
    return checked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder")
    parser.add_argument("--each", type=int, default=1, help="trainings per cell")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    checked: list[Checked] = []
    loaded: Loaded = {}
    try:
        device = find_device(arguments.device)
        for folder in arguments.folders:
            checked += check(folder, arguments.each, device, loaded)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")
    if not checked:
        sys.exit("No training could be checked.")
    close = sum(one.difference <= CLOSE for one in checked)
    furthest = max(one.difference for one in checked)
    print(f"{len(checked)} trainings, {close} within {CLOSE:g}, largest difference {furthest:.1e}")
    sys.exit(not agree(checked))


if __name__ == "__main__":
    main()
