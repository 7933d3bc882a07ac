"""The head of the page: its title, the size of the comparison, and the main result."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from sagpool.bench.run_table import column
from sagpool.bench.selection import OPTIMISTIC
from sagpool.bench.summary import Pair, Summary, compare_methods
from sagpool.bench.variants import Chosen, Group
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.leaders import leader


def title(content: Content) -> str:
    *others, last = dict.fromkeys(s.cell.dataset for s in _cells(content))
    named = f"{', '.join(others)} and {last}" if others else last
    return f"Graph pooling on {named if len(others) < 3 else f'{len(others) + 1} data sets'}"


def scope(content: Content) -> str:
    """The numbers of data sets, methods, seeds, folds and trainings."""
    cells = _cells(content)
    methods, datasets = len({s.method for s in cells}), len({s.cell.dataset for s in cells})
    seeds = max(len(np.unique(column(s.runs, "seed"))) for s in cells)
    folds = " or ".join(map(str, sorted({s.cell.settings["folds"] for s in cells})))
    counts = [_count(datasets, "data set"), _count(methods, "method")]
    counts += [f"{_count(seeds, 'seed')} × {folds} folds", _count(len(content.runs), "training")]
    return " · ".join(counts)


def _cells(content: Content) -> list[Summary]:
    """The cells of all tables."""
    return [s for group in (*content.groups, *content.regressions) for s in group.cells]


def days(content: Content) -> str:
    """The days from the first command to the last result."""
    begin = content.invocations[0].started[:10]
    end = (content.runs.last_finished or "")[:10]
    return begin if begin == end else f"{begin} to {end}"


def sentences(content: Content) -> list[Markup]:
    """Which methods lead among all cells, and how close our results are to the paper's."""
    if not content.shown:
        return _lowest_errors(content)
    # Runs without an accuracy are left out of a mean, which is then too good.
    shown = [s for s in content.shown if s.whole]
    if not shown:
        sentence = "In every cell, some trainings diverged at once, so no method is said to lead."
        return [Markup(sentence)]
    # Variants, and methods with other settings, may lead as well.
    pairs = compare_methods(list(shown))
    families = {"": list(shown)} | {
        f"{architecture} ": members
        for architecture in names.ARCHITECTURES
        if (members := [s for s in shown if names.architecture(s.cell.method) == architecture])
    }
    if len(families) == 2:  # for a single architecture
        del families[""]
    leads = [
        _leads(family, members, content, pairs)
        for family, members in families.items()
        if len({s.method for s in members}) > 1
    ]
    warned = content.groups[0].chosen is Chosen.BY_TEST
    warning = [Markup("<strong>{}</strong>").format(OPTIMISTIC)] if warned else []
    first = leads or map(_single, shown[:3])
    elsewhere = [*_higher_in_other_tables(content), *_lowest_errors(content)]
    return [*warning, *first, *elsewhere, *_agreement(content)]


class _Found(NamedTuple):
    """A cell that may be the best on its data set."""

    value: float
    method: str
    group: Group


def _lowest_errors(content: Content) -> list[Markup]:
    """The lowest errors of regressions, without a test of their differences."""
    found = []
    tables = content.regressions
    for dataset in dict.fromkeys(s.cell.dataset for group in tables for s in group.cells):
        errors = [
            _Found(scores["rmse"].mean, s.method, group)
            for group in tables
            for s in group.cells
            if s.cell.dataset == dataset
            and "rmse" in (scores := content.scores[s.runs[0].key].scores)
        ]
        here = [one for one in errors if one.group is tables[0]]
        if here:
            best = min(here, key=lambda one: one.value)
            sentence = "<strong>{}</strong> has the lowest RMSE on {}: {:.3g}."
            found.append(
                Markup(sentence).format(names.html(best.method), content.label(dataset), best.value)
            )
        # In a tie, the first table.
        lowest = min(errors, key=lambda one: one.value, default=None)
        if lowest is not None and lowest.group is not tables[0]:
            error = Markup("{:.3g}").format(lowest.value)
            found.append(_in_another_table("lowest RMSE", dataset, lowest, error, content))
    return found


def _higher_in_other_tables(content: Content) -> list[Markup]:
    """The highest means of the store, if they are not in the first table."""
    found = []
    others = [group for group in content.groups[1:] if group.chosen is not Chosen.BY_TEST]
    elsewhere = [s.cell.dataset for group in others for s in group.cells]
    for dataset in dict.fromkeys([*content.datasets, *elsewhere]):
        best = max((s.spread.mean for s in content.of(dataset) if s.whole), default=-1.0)
        means = [
            _Found(s.spread.mean, s.method, group)
            for group in others
            for s in group.cells
            if s.cell.dataset == dataset and s.whole
        ]
        highest = max(means, key=lambda one: one.value, default=None)
        if highest is not None and highest.value > best:
            mean = Markup("{:.1f} %").format(highest.value)
            found.append(_in_another_table("highest mean", dataset, highest, mean, content))
    return found


def _in_another_table(
    what: str, dataset: str, found: _Found, value: Markup, content: Content
) -> Markup:
    protocol = " and another protocol" if found.group.differences else ""
    return Markup(
        "The {} of all on {} is in another table: <strong>{}</strong> with {}{}, {}."
    ).format(
        what, content.label(dataset), names.html(found.method), found.group.chosen, protocol, value
    )


def _leads(family: str, members: list[Summary], content: Content, pairs: Sequence[Pair]) -> Markup:
    compared = {
        dataset: [s for s in members if s.cell.dataset == dataset] for dataset in content.datasets
    }
    compared = {dataset: here for dataset, here in compared.items() if len(here) > 1}
    leaders = [leader(here, pairs) for here in compared.values()]
    if not leaders:
        return Markup("No two {}methods were run on one data set.").format(family)
    leads = Counter(method for one in leaders for method in one.methods)
    first, *tied = (method for method in leads if leads[method] == max(leads.values()))
    among = f"Among the {family}methods" if family else "Of all methods"
    sentence = Markup("{}, <strong>{}</strong> has the highest mean ").format(
        among, names.html(first)
    )
    if len(compared) == 1:
        (dataset, here), (best,) = next(iter(compared.items())), leaders
        mean = next(s.spread.mean for s in here if s.method == best.method)
        if best.tied:
            return Markup("{}, {} have the same highest mean on {}: {:.1f} %.").format(
                among, _listed(best.methods), content.label(dataset), mean
            )
        ahead = "significantly ahead of" if best.significant else "not significantly ahead of"
        return sentence + Markup("on {}: {:.1f} %, {} {}.").format(
            content.label(dataset), mean, ahead, names.html(best.second or "")
        )
    if tied:
        return Markup("{}, {} have the highest mean on {} of {} data sets each.").format(
            among, _listed([first, *tied]), leads[first], len(compared)
        )
    significant = sum(one.significant for one in leaders if first in one.methods)
    if not significant:
        ahead = "nowhere significantly ahead of the second"
    elif leads[first] == 1:
        ahead = "significantly ahead of the second"
    else:
        where = "all of them" if significant == leads[first] else f"{significant} of these"
        ahead = f"and on {where} it is significantly ahead of the second"
    return sentence + Markup("on {} of {} data sets, {}.").format(
        leads[first], len(compared), ahead
    )


def _listed(methods: Sequence[str]) -> Markup:
    """Up to three names, otherwise their number."""
    if len(methods) > 3:
        return Markup("<strong>{} methods</strong>").format(len(methods))
    *others, last = (
        Markup("<strong>{}</strong>").format(names.html(m)) for m in names.in_order(methods)
    )
    return Markup(", ").join(others) + Markup(" and ") + last


def _single(summary: Summary) -> Markup:
    spread = summary.spread
    std = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.1f}"
    trainings = _count(len(summary.accuracy), "training")
    return Markup("<strong>{}</strong> reaches {:.1f}{} % on {}, over {}.").format(
        names.html(summary.method), spread.mean, std, summary.cell.dataset, trainings
    )


def _agreement(content: Content) -> list[Markup]:
    """Agreement with the paper, for cells with its data, settings and protocol only."""
    if content.groups[0].differences or content.groups[0].chosen is Chosen.BY_TEST:
        return []
    known = content.experiment.datasets if content.experiment else content.datasets
    here = [s for s in content.shown if s.cell.dataset in known]
    same = [s for s in here if s.whole and not (s.cell.note or s.variant or s.cell.protocol)]
    deviations = [abs(s.deviation) for s in same if s.deviation is not None]
    if not deviations:
        return []
    if len(deviations) == 1:
        sentence = "Our mean differs from the paper's by {:.1f} of the paper's standard deviations."
        return [Markup(sentence).format(deviations[0])]
    one, two = (sum(d <= limit for d in deviations) for limit in (1, 2))
    return [
        Markup(
            "Of {} published means, ours is within one of the paper's standard deviations for {}, "
            "and within two for {}."
        ).format(len(deviations), one, two)
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
