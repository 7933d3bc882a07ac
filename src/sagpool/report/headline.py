"""The main result in a sentence or two."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from sagpool.bench.summary import Summary
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.results import groups, leader


def headline(content: Content) -> list[Markup]:
    """Who leads where, and how close we are to the paper; each sentence on its own."""
    told = [
        _leaders(title, members, content)
        for title, members in groups(content).items()
        if len({s.cell.method for s in members}) > 1
    ]
    if not told:
        told = [_single(summary) for summary in content.shown[:3]]
    return [*told, *_agreement(content)]


def scope(content: Content) -> str:
    """How much there is: data sets, methods, trainings."""
    methods = len({s.cell.method for s in content.shown})
    seeds = max(len({run.seed for run in s.runs}) for s in content.shown)
    folds = max(s.cell.settings["folds"] for s in content.shown)
    parts = [
        _count(len(content.datasets), "data set"),
        _count(methods, "method"),
        f"{_count(seeds, 'seed')} × {folds} folds",
        _count(len(content.runs), "training"),
    ]
    return " · ".join(parts)


def _leaders(title: str, members: list[Summary], content: Content) -> Markup:
    compared = {
        dataset: [s for s in members if s.cell.dataset == dataset] for dataset in content.datasets
    }
    compared = {dataset: here for dataset, here in compared.items() if len(here) > 1}
    first = [leader(here, content.pairs) for here in compared.values()]
    if not first:
        return Markup("No two {} methods were run on one data set.").format(title)
    # Of as many leads each, the paper's order decides.
    order = names.in_order(one.method for one in first)
    leads = Counter(one.method for one in first)
    most = max(order, key=lambda method: leads[method])
    clear = sum(one.clear for one in first if one.method == most)
    kind = f"{title} methods" if title != "other" else "other methods"
    sentence = Markup("Among the {}, <strong>{}</strong> has the highest mean ").format(
        kind, names.html(most)
    )
    if len(compared) == 1:
        (dataset, here), (best,) = next(iter(compared.items())), first
        mean = next(s.spread.mean for s in here if s.cell.method == best.method)
        ahead = "significantly ahead of" if best.clear else "not significantly ahead of"
        return sentence + Markup("on {}: {:.1f} %, {} {}.").format(
            content.label(dataset), mean, ahead, names.html(best.second or "")
        )
    times = f"on {leads[most]} of {len(compared)} data sets"
    if not clear:
        return sentence + Markup("{}, nowhere significantly ahead of the second.").format(times)
    ahead = "all of them" if clear == leads[most] and clear > 1 else f"{clear} of these"
    if leads[most] == 1:
        return sentence + Markup("{}, significantly ahead of the second.").format(times)
    return sentence + Markup("{}, and on {} it is significantly ahead of the second.").format(
        times, ahead
    )


def _single(summary: Summary) -> Markup:
    spread = summary.spread
    std = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.1f}"
    return Markup("<strong>{}</strong> reaches {:.1f}{} % on {}, over {}.").format(
        names.html(summary.cell.method),
        spread.mean,
        std,
        summary.cell.dataset,
        _count(len(summary.runs), "training"),
    )


def _agreement(content: Content) -> list[Markup]:
    """Leaving out what does not answer the same question as the paper."""
    deviations = [
        abs(s.deviation) for s in content.shown if s.deviation is not None and not s.cell.note
    ]
    if not deviations:
        return []
    if len(deviations) == 1:
        sentence = "Our mean lies {:.1f} of the paper's standard deviations from the paper's."
        return [Markup(sentence).format(deviations[0])]
    one, two = (sum(d <= limit for d in deviations) for limit in (1, 2))
    return [
        Markup(
            "Of {} published means, ours is within one of the paper's standard deviations for {}, "
            "and within two for {}."
        ).format(len(deviations), one, two)
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
