"""How much of the planted subgraph of `motifs` the methods keep: the tables of docs/explain.md.

python scripts/motif_recall.py --page docs/explain.md

Trains each method with eight seeds (fold 0 of each) and explains the test graphs of each training.
The text between the markers of the page is replaced.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markdown_table import table_row
from reproduction_page import filled

from sagpool import Graphs, load
from sagpool.classifier import trained_model
from sagpool.explain import explain_many, fidelity
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import split_of

SETTINGS = {"hidden": 32, "lr": 5e-3, "patience": 50, "max_epochs": 300}
METHODS = (
    *("random-h", "sagpool-h", "sagpool-h-gat", "sagpool-h-augmentation", "sagpool-h-sage"),
    *("sagpool-h-cheb", "gpool-h"),
)
SHOWN = "sagpool-h"  # its trainings are listed one by one


class Found(NamedTuple):
    """The results of one training on its test graphs."""

    accuracy: float
    recall: tuple[float, ...]  # recall at each level
    random: tuple[float, ...]  # recall of equally many random nodes
    only_kept: float  # probability of the predicted class given only the kept nodes
    only_dropped: float


def measure(graphs: Graphs, method: str, seeds: int, **settings: float) -> list[Found]:
    trainings = [Training(method, seed=seed, **settings) for seed in range(seeds)]
    found = []
    for training, result in zip(
        trainings, train(graphs, trainings, keep_weights=True), strict=True
    ):
        model, test = trained_model(graphs, result), split_of(graphs, training).test
        faithful = fidelity(model, graphs, explain_many(model, graphs, test))
        assert faithful.probability is not None
        found.append(
            Found(
                result.test.accuracy,
                tuple(level.recall for level in faithful.found),
                tuple(level.random_recall for level in faithful.found),
                faithful.probability.only_kept,
                faithful.probability.only_dropped,
            )
        )
    return found


def means_table(by_method: dict[str, list[Found]]) -> str:
    first = next(iter(by_method.values()))
    random = np.mean([one.random for one in first], axis=0)
    lines = [
        f"Means over {len(first)} trainings, each on the test graphs of its own split:",
        "",
        "| method | accuracy | recall at level 1 | level 2 | level 3 |",
        "| --- | ---: | ---: | ---: | ---: |",
        table_row(["the same number of random nodes", "", *_two(random)]),
    ]
    for method, found in by_method.items():
        recall = np.mean([one.recall for one in found], axis=0)
        accuracy = f"{100 * np.mean([one.accuracy for one in found]):.0f} %"
        control = " (control)" if method.startswith("random") else ""
        lines.append(table_row([f"`{method}`{control}", accuracy, *_two(recall)]))
    return "\n".join(lines)


def trainings_table(method: str, found: Sequence[Found]) -> str:
    above = [sum(one.recall[i] > one.random[i] for one in found) for i in range(3)]
    lines = [
        f"The trainings of `{method}`. Above random nodes at levels 1, 2 and 3: {above[0]}, "
        f"{above[1]} and {above[2]} of {len(found)}. The last columns are the mean probability of "
        "the predicted class given only the kept, and only the dropped nodes:",
        "",
        "| seed | accuracy | recall at level 1 | level 2 | level 3 | only kept | only dropped |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for seed, one in enumerate(found):
        accuracy = f"{100 * one.accuracy:.0f} %"
        given = _two((one.only_kept, one.only_dropped))
        lines.append(table_row([str(seed), accuracy, *_two(one.recall), *given]))
    return "\n".join(lines)


def _two(values: Sequence[float]) -> list[str]:
    return [f"{value:.2f}" for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    graphs = load("motifs")
    by_method = {method: measure(graphs, method, options.seeds, **SETTINGS) for method in METHODS}
    text = f"{means_table(by_method)}\n\n{trainings_table(SHOWN, by_method[SHOWN])}"
    print(text)
    if options.page:
        page = options.page.read_text("utf-8")
        options.page.write_text(filled(page, {"recall": text}), "utf-8")


if __name__ == "__main__":
    main()
