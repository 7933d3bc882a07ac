"""The settings that searches chose, and the cost of searching."""

from collections import Counter
from typing import Any

from sagpool.bench.records import CellRecord
from sagpool.bench.selection import BY_ACCURACY, Select
from sagpool.bench.stored_cells import settings_text
from sagpool.bench.summary import Summary
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.sections.results import protocol
from sagpool.report.table import Table, listing, method, numbers, words


def section(content: Content) -> Section:
    parts = []
    for number, (sentence, cells) in enumerate(_by_protocol(content).items()):
        suffix = f"-protocol{number + 1}" if number else ""
        heading = "Another protocol" if number else ""
        searched = [s for s in cells if s.cell.select is Select.OVER_FOLDS and s.cell.ranking]
        nested = [s for s in cells if s.cell.per_fold]
        if searched:
            parts.append(Part(heading, _table(content, searched, suffix, sentence)))
        if nested:
            title = ", ".join(["Chosen per fold", *([heading.lower()] if heading else [])])
            parts.append(Part(title, _per_fold_table(content, nested, suffix, sentence)))
    return Section("search", "What the search chose", parts)


def _by_protocol(content: Content) -> dict[str, list[Summary]]:
    """The cells of all tables, by the sentence about their protocol.

    Cells that were requested again later are left out: two rows of one method would look alike.
    """
    found: dict[str, list[Summary]] = {}
    for group in (*content.groups, *content.regressions):
        if group.chosen in (Chosen.SEARCHED, Chosen.PER_FOLD):
            found.setdefault(protocol(content, group), []).extend(group.cells)
    return found


def _table(content: Content, searched: list[Summary], suffix: str, sentence: str) -> Table:
    cells = [s.cell for s in searched]
    best = [_candidate(s, 0) for s in searched]
    second = [_candidate(s, 1) for s in searched]
    criteria = list(dict.fromkeys(s.criterion for s in searched))
    shown = "" if criteria == [BY_ACCURACY] else "Validation: the mean accuracy, in percent. "
    caption = (
        f"What the searches chose, by the mean validation {' or '.join(criteria)}"
        f"{'' if shown else ' (in percent)'} over the folds of the first seed (of a race: of the "
        f"first seeds), and the runner-up. {shown}Test results had no part in it. {sentence}"
    )
    return listing(
        f"search{suffix}",
        caption.strip(),
        [
            words("data set", [content.label(cell.dataset) for cell in cells]),
            words("method", [method(s.method) for s in searched]),
            words("chosen", [found["settings"] for found in best]),
            words("runner-up", [found.get("settings", "none") for found in second]),
            numbers("validation", [found["accuracy"] for found in best]),
            numbers("of the runner-up", [found.get("accuracy") for found in second]),
            numbers("candidates", [len(cell.ranking) for cell in cells], "d"),
            numbers("search", [cell.search for cell in cells]),
            words("cost", [str(cell.cost or "") for cell in cells]),
        ],
        [
            {
                "dataset": s.cell.dataset,
                "method": s.method,
                "search": s.cell.search,
                "candidates": len(s.cell.ranking),
                **{f"chosen_{name}": value for name, value in first.items()},
                **{f"second_{name}": value for name, value in runner_up.items()},
                **_cost(s.cell),
            }
            for s, first, runner_up in zip(searched, best, second, strict=True)
        ],
        _notes(cells),
    )


def _per_fold_table(content: Content, nested: list[Summary], suffix: str, sentence: str) -> Table:
    cells = [s.cell for s in nested]
    often = [_most_often(s) for s in nested]
    over_folds = [_candidate(s, 0).get("settings", "") for s in nested]
    caption = (
        "Settings chosen separately for each seed and fold, by its own validation part; and the "
        "single candidate that is best over all of them. Test accuracies in percent. "
        f"{sentence}"
    )
    return listing(
        f"search-per-fold{suffix}",
        caption.strip(),
        [
            words("data set", [content.label(cell.dataset) for cell in cells]),
            words("method", [method(s.method) for s in nested]),
            numbers("mean", [s.spread.mean if s.learnt else None for s in nested]),
            words("best over all folds", over_folds),
            numbers("its mean", [s.over_folds for s in nested]),
            numbers("looks better by", [s.optimism for s in nested], "+z.2f"),
            words("chosen most often", [f"{entry} ({count})" for entry, count, _ in often]),
            numbers("different choices", [different for *_, different in often], "d"),
            numbers("search", [cell.search for cell in cells]),
            words("cost", [str(cell.cost or "") for cell in cells]),
        ],
        [
            {
                "dataset": s.cell.dataset,
                "method": s.method,
                "search": s.cell.search,
                "runs": len(s.runs),
                "mean": s.spread.mean if s.learnt else None,
                "over_folds_settings": settings,
                "over_folds_mean": s.over_folds,
                "over_folds_difference": s.optimism,
                "chosen_most_often": entry,
                "times": count,
                "different_choices": different,
                **_cost(s.cell),
            }
            for s, settings, (entry, count, different) in zip(
                nested, over_folds, often, strict=True
            )
        ],
        [
            "Looks better by: how much higher the mean is if one candidate is chosen for all "
            "folds, as usual. A graph that is tested in one fold then influences the choice by its "
            "validation results in others. Empty if the search did not train every candidate to "
            "the end.",
            *_notes(cells),
        ],
    )


def _notes(cells: list[CellRecord]) -> list[str]:
    if all(cell.cost is None or cell.cost.exact for cell in cells):
        return []
    return [
        "At most: trainings that the search did not finish count in the full grid with the epochs "
        "that they have left at least, until their patience is over."
    ]


def _cost(cell: CellRecord) -> dict[str, Any]:
    if cell.cost is None:
        return {}
    epochs, grid, exact = cell.cost
    return {"search_epochs": epochs, "grid_epochs": grid, "grid_epochs_exact": exact}


def _most_often(summary: Summary) -> tuple[str, int, int]:
    """The settings chosen most often, how often, and the number of different settings."""
    varied = [name for name, value in summary.cell.settings.items() if isinstance(value, list)]
    # Stores leave out the defaults of method settings.
    chosen = [{k: run.settings[k] for k in varied if k in run.settings} for run in summary.runs]
    counts = Counter(map(settings_text, chosen))
    (text, count), *_ = counts.most_common(1)
    settings = next(one for one in chosen if settings_text(one) == text)
    return names.settings(settings) or "the only candidate", count, len(counts)


def _candidate(summary: Summary, rank: int) -> dict[str, Any]:
    """The candidate at this rank, with the settings in which it differs; empty if there is none."""
    ranking = summary.cell.ranking
    if rank >= len(ranking):
        return {}
    candidate = ranking[rank]
    common = names.common_settings([one.settings for one in ranking])
    own = {name: value for name, value in candidate.settings.items() if name not in common}
    return {
        "settings": names.settings(own),
        "accuracy": 100 * candidate.accuracy if summary.loss is None else None,
        "loss": candidate.loss,
        "runs": candidate.runs,
    }
