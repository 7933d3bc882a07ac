r"""Write the numbers of docs/poolers.md that follow from published rows.

python scripts/poolers_page.py results/poolers results/poolers-link docs/poolers.md \
    --more results/poolers-seeds

The text between the page's markers is replaced, and the first folder gets pairs.csv. Unfinished
cells are shown as missing, and the text names them. Costs come from files rates*.json in the first
folder, if there are any (see poolers_cost.py). The same files give the same bytes.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from control_tables import CONTROLS, Gain, accuracies, against, gains, with_seeds
from dataset_pairs import dataset_pairs, how_many_differ, write_pairs
from markdown_table import table_row
from poolers_cost import cost_table
from published_rows import Key, PublishedGroup, read_published
from readouts_section import readouts_section
from reproduction_page import filled
from unsearched_section import unsearched_section

from sagpool import SagpoolError
from sagpool.bench.claims.phrases import signed
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.variants import Chosen
from sagpool.models import Display
from sagpool.report import names

EXPERIMENT = "poolers"
REFERENCES = (*CONTROLS, "sagpool-h")  # what all methods are compared with
# Rows of their own for other settings of a method, and their names.
FORMS = {"diffpool-h, losses link": Display("DiffPool_h (link loss)")}
PAIRS = "pairs.csv"
QUOTED = "CoCN"  # source of the numbers in the experiment's ``published.accuracy``


def planned(experiment: Experiment) -> list[Key]:
    """All cells of the experiment and of other forms of its methods, by data set."""
    return [
        (dataset, form)
        for dataset in experiment.datasets
        for table in experiment.tables.values()
        if dataset in table.datasets
        for method in table.methods
        for form in (method, *(form for form in FORMS if form.startswith(f"{method}, ")))
    ]


def read_groups(
    folders: Sequence[Path], more: Sequence[Path] = ()
) -> tuple[PublishedGroup, list[PublishedGroup]]:
    """All searched cells with the experiment's protocol, and the groups of other cells.

    ``more`` has further seeds of the cells.
    """
    experiment = load_experiment(EXPERIMENT)
    groups = read_published(folders, experiment, more).groups
    for group in groups:
        if group.chosen is Chosen.SEARCHED and not group.differences:
            return group, [other for other in groups if other is not group]
    where = " ".join(map(str, folders))
    raise SagpoolError(f"{where}: no searched cells with the protocol of {EXPERIMENT}.")


def compared(group: PublishedGroup) -> PublishedGroup:
    """The planned cells among those of a group, in the order of the experiment."""
    keys = [key for key in planned(group.experiment) if key in group.cells]
    return replace(
        group,
        rows={key: group.rows[key] for key in keys},
        cells={key: group.cells[key] for key in keys},
    )


def verdicts(group: PublishedGroup) -> str:
    """Which methods are better or worse than the controls, and than SAGPool."""
    found = {reference: gains(group, reference) for reference in REFERENCES}
    datasets, cells = len(group.experiment.datasets), len(planned(group.experiment))
    unfinished = f" so far ({len(group.cells)} of {cells} cells)" * (len(group.cells) < cells)
    lines = [
        f"**{_best(found, unfinished)}** A cell is one method on one data set. Differences are "
        "means over the data sets that both methods have, in percentage points; the number of data "
        f"sets is given if it is not {datasets}. Better and worse: p below 0.05 after Holm's "
        "correction; † marks what is no longer significant if one of the data sets is left out. "
        "[The tables below](#gains-over-the-controls) have the intervals, and the data sets on "
        "which a method differs.",
        "",
    ]
    for reference, some in found.items():
        text = _against(some, datasets) if some else "No finished cells."
        lines.append(f"- **{names.plain(reference)}.** {text}")
    return "\n".join(lines)


def _best(found: dict[str, list[Gain]], unfinished: str) -> str:
    """The methods that are better than every control with finished cells."""
    compared = {control: found[control] for control in CONTROLS if found[control]}
    better = [{gain.method for gain in some if gain.sign > 0} for some in compared.values()]
    best = names.in_order(set.intersection(*better) - set(CONTROLS)) if better else []
    return f"Methods that are better than each of {_listed(compared)}{unfinished}: {_listed(best)}."


def _against(found: Sequence[Gain], datasets: int) -> str:
    unclear = sum(gain.sign == 0 for gain in found)
    return (
        f"Better: {_named(found, 1, datasets)}. Worse: {_named(found, -1, datasets)}. "
        f"No significant difference: {unclear} of {len(found)}."
    )


def _named(found: Sequence[Gain], sign: int, datasets: int) -> str:
    """The methods that are better (or worse); if they are most, those that are not."""
    some = [gain for gain in found if gain.sign == sign]
    if 2 * len(some) <= len(found):
        return _joined(
            [
                f"{names.plain(gain.method)} {_mean(gain, datasets)}{'†' * bool(gain.needed)}"
                for gain in some
            ]
        )
    others = [gain.method for gain in found if gain.sign != sign]
    which = f"all but {_listed(others)}" if others else "all"
    some.sort(key=lambda gain: abs(gain.mean.mean))
    ends = dict.fromkeys(_mean(gain, datasets) for gain in (some[0], some[-1]))
    depend = [gain.method for gain in some if gain.needed]
    of_these = f" († {_listed(names.in_order(depend))})" if depend else ""
    return f"{which}, by {' to '.join(ends)}{of_these}"


def _mean(gain: Gain, datasets: int) -> str:
    count = len(gain.datasets)
    few = f" ({count} data set{'s' * (count > 1)})" if count < datasets else ""
    return f"{signed(gain.mean.mean)}{few}"


def accuracy(group: PublishedGroup) -> str:
    """The accuracies, with missing cells, what is missing, and how many pairs differ."""
    cells = planned(group.experiment)
    finished = " ".join(filter(None, [missing(group.cells, cells), cells_with_more_seeds(group)]))
    differing = how_many_differ(dataset_pairs(group.cells))
    return "\n\n".join(filter(None, [finished, accuracies(group, cells), differing]))


def cells_with_more_seeds(group: PublishedGroup) -> str:
    """Which cells have more seeds than the experiment; empty if none has."""
    found: dict[int, dict[str, list[str]]] = {}
    for (dataset, method), cell in group.cells.items():
        seeds = len(cell.seed_means)
        if seeds > group.experiment.seeds:
            found.setdefault(seeds, {}).setdefault(dataset, []).append(method)
    sentences = []
    for seeds, methods in found.items():
        parts = [
            f"{dataset} ({_all_or_listed(some, group, dataset)})"
            for dataset, some in methods.items()
        ]
        sentences.append(f"With {seeds} seeds: {', '.join(parts)}.")
    return " ".join([*sentences, f"The others have {group.experiment.seeds}."]) if found else ""


def _all_or_listed(methods: Sequence[str], group: PublishedGroup, dataset: str) -> str:
    count = sum(name == dataset for name, _ in group.cells)
    return "all methods" if len(methods) == count else _listed(names.in_order(methods))


def missing(finished: Iterable[Key], cells: Sequence[Key]) -> str:
    """How many cells are finished, and which are not, by data set."""
    done = set(finished)
    count = sum(key in done for key in cells)
    if count == len(cells):
        return f"All {count} cells are finished."
    parts = []
    for dataset in dict.fromkeys(dataset for dataset, _ in cells):
        here = [method for name, method in cells if name == dataset]
        there = [method for method in here if (dataset, method) in done]
        absent = [method for method in here if method not in there]
        if not there:
            parts.append(f"{dataset} (all methods)")
        elif len(absent) > len(there):
            parts.append(f"{dataset} (all but {_listed(there)})")
        elif absent:
            parts.append(f"{dataset} ({_listed(absent)})")
    return f"{count} of {len(cells)} cells are finished. Missing: {'; '.join(parts)}."


def gain_tables(group: PublishedGroup) -> str:
    found = ((reference, gains(group, reference)) for reference in REFERENCES)
    order = group.experiment.datasets
    return "\n\n".join(against(reference, some, order) for reference, some in found if some)


class Published(NamedTuple):
    """A published mean accuracy, in percent."""

    dataset: str
    method: str
    source: str
    mean: float
    std: float | None


def published_means(experiment: Experiment) -> list[Published]:
    """Of the experiment's methods, in its order."""
    cells = planned(experiment)
    plain = (method for _, method in cells if method not in FORMS)
    known = {names.plain(method).rpartition("_")[0]: method for method in plain}
    found = [
        Published(dataset, method, QUOTED, one.mean, one.std)
        for (dataset, method), one in experiment.accuracy.items()
    ]
    for text, means in experiment.elsewhere.items():
        name, _, source = text.rstrip(")").partition(" (")
        found += [Published(dataset, known[name], source, *one) for dataset, one in means.items()]
    return sorted(found, key=lambda one: cells.index((one.dataset, one.method)))


def published(group: PublishedGroup) -> str:
    """Our accuracies beside published ones, and how many of these lie in our intervals."""
    heads = ["data set", "method", "source", "published", "ours", "difference", "95 % interval"]
    table = [table_row([*heads, "published is"]), table_row([*["---"] * 3, *["---:"] * 4, "---"])]
    places: dict[str, list[str]] = {"inside": [], "above": [], "below": []}
    for one in published_means(group.experiment):
        if (one.dataset, one.method) not in group.cells:
            continue
        spread = group.spread((one.dataset, one.method))
        interval, place = "–", "–"
        if spread.ci95 is not None:
            low, high = spread.ci95
            interval = f"{low:.2f} to {high:.2f}"
            place = "above" if one.mean > high else "below" if one.mean < low else "inside"
            places[place].append(f"{names.plain(one.method)} on {one.dataset} ({one.source})")
        theirs = f"{one.mean:.2f}" + ("" if one.std is None else f" ± {one.std:.2f}")
        cells = [one.dataset, names.plain(one.method), one.source, theirs, with_seeds(spread)]
        cells += [signed(spread.mean - one.mean), interval, place]
        table.append(table_row(cells))
    sentence = (
        f"{len(places['inside'])} of {sum(map(len, places.values()))} published means lie inside "
        f"our interval. Above it: {_joined(places['above'])}. Below it: {_joined(places['below'])}."
    )
    return "\n".join([*table, "", sentence])


def _listed(methods: Iterable[str]) -> str:
    return _joined([names.plain(method) for method in methods])


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--more", type=Path, nargs="+", default=[], help="folders with further seeds of the cells"
    )
    arguments = parser.parse_args()
    try:
        every, others = read_groups(arguments.folders, arguments.more)
        group = compared(every)
        first = arguments.folders[0]
        with names.displayed(FORMS, [method for _, method in planned(group.experiment)]):
            texts = {
                "verdicts": verdicts(group),
                "accuracy": accuracy(group),
                "unsearched": unsearched_section(group, others),
                "gains": gain_tables(group),
                "readouts": readouts_section(every, [*group.cells]),
                "cost": cost_table(first, group),
                "published": published(group),
            }
        page = filled(arguments.page.read_text("utf-8"), texts)
        write_pairs(dataset_pairs(group.cells), first / PAIRS)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")
    arguments.page.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
