r"""Further seeds of published cells, trained later with the settings that a search had chosen.

The settings of a cell are chosen once, by its first seeds. More seeds need no search, only the
same settings on the same data:

sagpool bench poolers --dataset MUTAG --method nopool-h --seeds 20 --store more.sqlite \
    --set hidden=128 --set lr=0.005 --set weight_decay=0.001
python scripts/publish_results.py more.sqlite results/poolers-seeds --shared --experiment poolers
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagpool import SagpoolError

Rows = list[dict[str, str]]
_SAME = ("name", "data", "method", "precision", "numerics")  # columns that are equal in a cell


@dataclass
class FurtherSeeds:
    """The rows of some folders, by all that decides a training except its seed and fold."""

    rows: dict[tuple[str, ...], Rows] = field(default_factory=dict)
    used: set[tuple[str, ...]] = field(default_factory=set)

    @staticmethod
    def read(tables: Sequence[tuple[Path, Rows]]) -> "FurtherSeeds":
        """Of each folder, all rows that belong to a cell; no training may be in two of them."""
        found: dict[tuple[str, ...], Rows] = defaultdict(list)
        seen: set[tuple[str, ...]] = set()
        for folder, rows in tables:
            settings = json.loads((folder / "settings.json").read_text("utf-8"))
            for row in rows:
                if not row["cells"]:
                    continue
                identity = _identity(row, settings[row["settings"]])
                training = (*identity, row["seed"], row["fold"])
                if training in seen:
                    raise SagpoolError(
                        f"{folder} has seed {row['seed']} of {row['method']} on {row['name']}, and "
                        "so has another folder with further seeds."
                    )
                seen.add(training)
                found[identity].append(row)
        return FurtherSeeds(dict(found))

    def extend(self, rows: Rows, settings: dict[str, Any]) -> Rows:
        """The rows of a cell, and those of seeds that it lacks.

        A seed in both was trained twice; the row of the cell is the one that counts.
        """
        if not self.rows:
            return rows
        identity = _identity(rows[0], settings)
        self.used.add(identity)
        seeds = {row["seed"] for row in rows}
        more = [row for row in self.rows.get(identity, ()) if row["seed"] not in seeds]
        _check_folds(more, {row["fold"] for row in rows})
        return [*rows, *({**row, "settings": rows[0]["settings"]} for row in more)]

    def check_all_used(self) -> None:
        """Raise an error if some rows belong to no cell, so that none is dropped silently."""
        for name, _, method, *_ in self.rows.keys() - self.used:
            raise SagpoolError(
                f"Further seeds of {method} on {name} have settings or data that no cell has."
            )


def _check_folds(rows: Rows, folds: set[str]) -> None:
    """Raise an error if a seed lacks some of the folds, since its mean would be of other graphs."""
    of_seed: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        of_seed[row["seed"]].add(row["fold"])
    for seed, found in of_seed.items():
        if found != folds:
            raise SagpoolError(
                f"Seed {seed} of {rows[0]['method']} on {rows[0]['name']} lacks some of its folds."
            )


def _identity(row: dict[str, str], settings: dict[str, Any]) -> tuple[str, ...]:
    return (*(row[column] for column in _SAME), json.dumps(settings, sort_keys=True))
