"""The settings that the searches chose."""

from typing import Any

from sagpool.bench.records import Ranked
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, method, numbers, words


def section(content: Content) -> Section:
    searched = any(summary.cell.ranking for summary in content.summaries)
    parts = [Part(table=_table(content))] if searched else []
    return Section("search", "What the search chose", parts)


def _table(content: Content) -> Table:
    cells = [summary.cell for summary in content.summaries if summary.cell.ranking]
    best = [_candidate(cell.ranking, 0) for cell in cells]
    second = [_candidate(cell.ranking, 1) for cell in cells]
    return listing(
        "search",
        "What the searches chose, by the mean validation accuracy (in percent) over the folds of "
        "the first seed, and the runner-up. Test results had no part in it.",
        [
            words("data set", [content.label(cell.dataset) for cell in cells]),
            words("method", [method(cell.method) for cell in cells]),
            words("chosen", [found["settings"] for found in best]),
            words("runner-up", [found.get("settings", "none") for found in second]),
            numbers("validation", [found["accuracy"] for found in best]),
            numbers("of the runner-up", [found.get("accuracy") for found in second]),
            numbers("candidates", [len(cell.ranking) for cell in cells], "d"),
            numbers("search", [cell.search for cell in cells]),
        ],
        [
            {
                "dataset": cell.dataset,
                "method": cell.method,
                "search": cell.search,
                "candidates": len(cell.ranking),
                **{f"chosen_{name}": value for name, value in first.items()},
                **{f"second_{name}": value for name, value in runner_up.items()},
            }
            for cell, first, runner_up in zip(cells, best, second, strict=True)
        ],
    )


def _candidate(ranking: tuple[Ranked, ...], rank: int) -> dict[str, Any]:
    """The candidate at this rank with the settings in which it differs; empty if there is none."""
    if rank >= len(ranking):
        return {}
    candidate = ranking[rank]
    common = names.common_settings([one.settings for one in ranking])
    own = {name: value for name, value in candidate.settings.items() if name not in common}
    return {
        "settings": names.settings(own),
        "accuracy": 100 * candidate.accuracy,
        "loss": candidate.loss,
        "runs": candidate.runs,
    }
