"""Write the numbers of docs/gpu.md that follow from published rows.

python scripts/gpu_page.py results docs/gpu.md

The text between the page's markers is replaced. The same rows give the same bytes.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from published_rows import FIRST_LOSSES, read_csv
from reproduction_page import filled

from sagpool import SagpoolError

PRECISIONS = ("float32", "tf32", "bf16")


def precision(folder: Path) -> str:
    """Accuracy and epochs with each precision."""
    by_precision: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in read_csv(folder / "rows.csv"):
        by_precision[row["precision"]].append(row)
    lines = [
        "| `--precision` | trainings | test accuracy | over seeds | epochs |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in PRECISIONS:
        here = by_precision[name]
        seeds: dict[str, list[float]] = defaultdict(list)
        for row in here:
            seeds[row["seed"]].append(100 * float(row["test_accuracy"]))
        means = [np.mean(values) for values in seeds.values()]
        epochs = np.mean([int(row["epochs"]) for row in here])
        lines.append(
            f"| `{name}` | {len(here)} | {np.mean(means):.2f} % | ± {np.std(means, ddof=1):.2f} "
            f"| {epochs:.0f} |"
        )
    return "\n".join(lines)


def devices(folder: Path) -> str:
    """The same trainings on a CPU and on a GPU."""
    cpu, gpu = (
        {(row["seed"], row["fold"]): row for row in read_csv(folder / name / "rows.csv")}
        for name in ("cpu", "h200")
    )
    means = [
        100 * np.mean([float(row["test_accuracy"]) for row in rows.values()]) for rows in (cpu, gpu)
    ]
    largest = max(
        abs(float(row[loss]) - float(gpu[key][loss]))
        for key, row in cpu.items()
        for loss in FIRST_LOSSES
    )
    return (
        f"{len(cpu)} trainings on a CPU and on an H200 have a mean test accuracy of "
        f"{means[0]:.3f} % and {means[1]:.3f} %. Their losses after the first epoch differ by at "
        f"most {largest:.1e}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    try:
        texts = {
            "precision": precision(arguments.results / "precision"),
            "devices": devices(arguments.results / "devices"),
        }
        page = filled(arguments.page.read_text("utf-8"), texts)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")
    arguments.page.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
