"""The head of the page: its title, the size of the comparison, and the main result."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from sagpool.bench.run_table import column
from sagpool.bench.selection import OPTIMISTIC
from sagpool.bench.summary import Pair, Summary, compare_methods
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.leaders import leader


def title(content: Content) -> str:
    *others, last = dict.fromkeys(s.cell.dataset for s in _titled_cells(content))
    named = f"{', '.join(others)} and {last}" if others else last
    return f"Graph pooling on {named if len(others) < 3 else f'{len(others) + 1} data sets'}"


def scope(content: Content) -> str:
    """The numbers of data sets, methods, seeds, folds and trainings."""
    cells = _titled_cells(content)
    methods, datasets = len({s.method for s in cells}), len({s.cell.dataset for s in cells})
    seeds = max(len(np.unique(column(s.runs, "seed"))) for s in cells)
    folds = max(s.cell.settings["folds"] for s in cells)
    counts = [_count(datasets, "data set"), _count(methods, "method")]
    counts += [f"{_count(seeds, 'seed')} × {folds} folds", _count(len(content.runs), "training")]
    return " · ".join(counts)


def _titled_cells(content: Content) -> Sequence[Summary]:
    """The cells in the title of the page."""
    return content.shown or content.regressions[0].cells


def days(content: Content) -> str:
    """The days from the first command to the last result."""
    begin = content.invocations[0].started[:10]
    end = (content.runs.last_finished or "")[:10]
    return begin if begin == end else f"{begin} to {end}"


def sentences(content: Content) -> list[Markup]:
    """Which methods lead among all cells, and how close our results are to the paper's."""
    shown = content.shown
    if not shown:
        return _lowest_errors(content)
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
    return [*warning, *first, *_higher_in_other_tables(content), *_agreement(content)]


def _lowest_errors(content: Content) -> list[Markup]:
    """The lowest errors of regressions, without a test of their differences."""
    found = []
    cells = _titled_cells(content)
    for dataset in dict.fromkeys(s.cell.dataset for s in cells):
        errors = {
            s.method: scores["rmse"].mean
            for s in cells
            if s.cell.dataset == dataset
            and "rmse" in (scores := content.scores[s.runs[0].key].scores)
        }
        if errors:
            best = min(errors, key=lambda method: errors[method])
            sentence = "<strong>{}</strong> has the lowest RMSE on {}: {:.3g}."
            found.append(
                Markup(sentence).format(names.html(best), content.label(dataset), errors[best])
            )
    return found


def _higher_in_other_tables(content: Content) -> list[Markup]:
    """The highest means of the store, if they are not in the first table."""
    found = []
    for dataset in content.datasets:
        best = max(s.spread.mean for s in content.of(dataset))
        others = [
            (s.spread.mean, s.method, group)
            for group in content.groups[1:]
            for s in group.cells
            if s.cell.dataset == dataset and group.chosen is not Chosen.BY_TEST
        ]
        mean, method, group = max(others, key=lambda one: one[0], default=(0.0, "", None))
        if group is not None and mean > best:
            protocol = " and another protocol" if group.differences else ""
            found.append(
                Markup(
                    "The highest mean of all on {} is in another table: <strong>{}</strong> with "
                    "{}{}, {:.1f} %."
                ).format(content.label(dataset), names.html(method), group.chosen, protocol, mean)
            )
    return found


def _leads(family: str, members: list[Summary], content: Content, pairs: Sequence[Pair]) -> Markup:
    compared = {
        dataset: [s for s in members if s.cell.dataset == dataset] for dataset in content.datasets
    }
    compared = {dataset: here for dataset, here in compared.items() if len(here) > 1}
    leaders = [leader(here, pairs) for here in compared.values()]
    if not leaders:
        return Markup("No two {}methods were run on one data set.").format(family)
    # Sorted in the paper's order, which decides ties.
    leads = Counter(method for one in leaders for method in one.methods)
    most = max(names.in_order(leads), key=lambda method: leads[method])
    among = f"Among the {family}methods" if family else "Of all methods"
    sentence = Markup("{}, <strong>{}</strong> has the highest mean ").format(
        among, names.html(most)
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
    significant = sum(one.significant for one in leaders if most in one.methods)
    if not significant:
        ahead = "nowhere significantly ahead of the second"
    elif leads[most] == 1:
        ahead = "significantly ahead of the second"
    else:
        where = "all of them" if significant == leads[most] else f"{significant} of these"
        ahead = f"and on {where} it is significantly ahead of the second"
    return sentence + Markup("on {} of {} data sets, {}.").format(leads[most], len(compared), ahead)


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
    trainings = _count(len(summary.runs), "training")
    return Markup("<strong>{}</strong> reaches {:.1f}{} % on {}, over {}.").format(
        names.html(summary.method), spread.mean, std, summary.cell.dataset, trainings
    )


def _agreement(content: Content) -> list[Markup]:
    """Agreement with the paper, for cells with its data, settings and protocol only."""
    if content.groups[0].differences or content.groups[0].chosen is Chosen.BY_TEST:
        return []
    known = content.experiment.datasets if content.experiment else content.datasets
    here = [s for s in content.shown if s.cell.dataset in known]
    same = [s for s in here if not (s.cell.note or s.variant or s.cell.protocol)]
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
