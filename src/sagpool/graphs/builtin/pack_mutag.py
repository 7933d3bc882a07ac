"""Makes ``MUTAG.npz`` from the TU files: ``python -m sagpool.graphs.builtin.pack_mutag ZIP``."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.graphs.cache import save_raw
from sagpool.graphs.raw_graphs import Labels
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import open_files

ATOMS = {"0": "C", "1": "N", "2": "O", "3": "F", "4": "I", "5": "Cl", "6": "Br"}
BONDS = {"0": "aromatic", "1": "single", "2": "double", "3": "triple"}
CLASSES = {"-1": "non-mutagenic", "1": "mutagenic"}


def main() -> None:
    raw = read_tu(open_files(Path(sys.argv[1])))
    small: dict[str, Any] = {
        field.name: value.astype(np.int16) if value.dtype != np.float32 else value
        for field in dataclasses.fields(raw)
        if isinstance(value := getattr(raw, field.name), np.ndarray)
    }
    raw = dataclasses.replace(
        raw,
        **small,
        class_names=tuple(CLASSES[name] for name in raw.class_names),
        node_label_names=tuple(tuple(ATOMS[n] for n in names) for names in raw.node_label_names),
        edge_labels=tuple(
            Labels("bond", labels.code.astype(np.int16), tuple(BONDS[n] for n in labels.names))
            for labels in raw.edge_labels
        ),
    )
    with (Path(__file__).parent / "MUTAG.npz").open("wb") as file:
        save_raw(raw, file, stamp="built in", compressed=True)


if __name__ == "__main__":
    main()
