"""The molecules of MoleculeNet tables and their random and scaffold splits."""

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

SPLITS = ("random", "scaffold")
TEST = 0.2
# chemprop trains on eight parts and stops by a ninth; other methods train on all nine.
VALIDATION = (1 - TEST) / 9


class Dataset(NamedTuple):
    name: str
    task: str  # "classification" or "regression"
    targets: tuple[str, ...]
    rows: list[dict[str, str]]  # rows with SMILES that RDKit can read
    scaffolds: list[str]  # Bemis-Murcko scaffolds, empty without rings


class Split(NamedTuple):
    """Row numbers of the readable molecules."""

    train: list[int]
    validation: list[int]
    test: list[int]


def read_dataset(folder: Path, name: str) -> Dataset:
    RDLogger.DisableLog("rdApp.*")
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    targets = tuple(column for column in rows[0] if column != "smiles")
    molecules = [Chem.MolFromSmiles(row["smiles"]) for row in rows]
    values = {row[target] for row in rows for target in targets}
    return Dataset(
        name,
        "classification" if values <= {"0", "1", ""} else "regression",
        targets,
        [row for row, molecule in zip(rows, molecules, strict=True) if molecule],
        [MurckoScaffoldSmiles(mol=molecule) for molecule in molecules if molecule],
    )


def read_split(folder: Path, dataset: Dataset, kind: str, repeat: int) -> Split:
    """The split stored in ``folder``; made and stored if missing."""
    path = folder / f"{dataset.name}.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    key = f"{kind}-{repeat}"
    if key not in stored:
        make = random_split if kind == "random" else scaffold_split
        split = make(dataset, np.random.default_rng(repeat))
        stored[key] = {"validation": split.validation, "test": split.test}
        folder.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in sorted(stored.items()))
        path.write_text(f"{{\n{lines}\n}}\n")
    held_out = {*stored[key]["validation"], *stored[key]["test"]}
    train = [i for i in range(len(dataset.rows)) if i not in held_out]
    return Split(train, stored[key]["validation"], stored[key]["test"])


def random_split(dataset: Dataset, random: np.random.Generator) -> Split:
    order = random.permutation(len(dataset.rows)).tolist()
    test, validation = _sizes(dataset)
    return Split(
        sorted(order[test + validation :]),
        sorted(order[test : test + validation]),
        sorted(order[:test]),
    )


def scaffold_split(dataset: Dataset, random: np.random.Generator) -> Split:
    """Molecules with the same scaffold stay together.

    Like chemprop's ``scaffold_balanced``: scaffolds with more molecules than half of a held-out
    part are assigned first, in random order, then the others; each goes to the first part with
    room.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for i, scaffold in enumerate(dataset.scaffolds):
        groups[scaffold].append(i)
    test, validation = _sizes(dataset)
    shuffled = [list(groups.values())[i] for i in random.permutation(len(groups))]
    shuffled.sort(key=lambda group: len(group) <= validation / 2)  # stable
    split = Split([], [], [])
    room = len(dataset.rows) - test - validation, validation, len(dataset.rows)
    for group in shuffled:
        part = next(
            part for part, size in zip(split, room, strict=True) if len(part) + len(group) <= size
        )
        part.extend(group)
    return Split(*(sorted(part) for part in split))


def _sizes(dataset: Dataset) -> tuple[int, int]:
    """Sizes of the test part and of the validation part."""
    return round(TEST * len(dataset.rows)), round(VALIDATION * len(dataset.rows))
