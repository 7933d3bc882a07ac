"""Every cell of the store, including those that were requested again with other settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagpool.bench.summary import Summary
from sagpool.bench.variants import of_latest_data, of_latest_versions, way_chosen
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.superseded import superseded_note
from sagpool.report.table import Table, code, listing, numbers, plus_minus, words


def section(content: Content) -> Section:
    left_out = _left_out(content)
    of_all = f"of these {len(content.summaries)} cells"
    intro = {
        f"{len(left_out.repeated)} {of_all} were requested again later with other settings, or "
        "with another search; the tables of results show the one requested last, never the best "
        "one.": left_out.repeated,
        f"{len(left_out.other_data)} {of_all} were trained on an earlier version of the data, or "
        f"on other data of the same name ({_datasets(left_out.other_data)}); the tables of results "
        "show only cells of the data requested last.": left_out.other_data,
        f"{len(left_out.other_version)} {of_all} were made by another version of their method "
        f"({_methods(left_out.other_version)}); the tables of results show only cells of the "
        "version requested last.": left_out.other_version,
    }
    sentences = [sentence for sentence, applies in intro.items() if applies]
    return Section("cells", "All cells", [Part(table=_table(content))], sentences)


def left_out_notes(content: Content) -> list[str]:
    """Which requests, data and versions of methods the tables of results leave out."""
    left_out = _left_out(content)
    where = "They are left out here; “All cells” has them."
    notes = {
        "Other results are on an earlier version of the data, or on other data of the same name: "
        f"{_datasets(left_out.other_data)}. {where}": left_out.other_data,
        f"Other results are of another version of the method: {_methods(left_out.other_version)}. "
        f"{where}": left_out.other_version,
    }
    listed = [note for note, applies in notes.items() if applies]
    superseded = superseded_note((*content.groups, *content.regressions))
    return [*listed, superseded] if superseded else listed


@dataclass(frozen=True)
class _LeftOut:
    """Cells that are in no table of results."""

    repeated: list[Summary]  # with other settings or another search
    other_data: list[Summary]  # of the same name
    other_version: list[Summary]  # of the method


def _left_out(content: Content) -> _LeftOut:
    groups = (*content.groups, *content.regressions)
    shown = {id(s.cell) for group in groups for s in group.cells}
    trained = [s for s in content.summaries if s.learnt or s.loss is not None]
    absent = [s for s in trained if id(s.cell) not in shown]
    same_data, same_version = of_latest_data(trained), of_latest_versions(trained)
    return _LeftOut(
        repeated=[s for s in absent if s in same_data and s in same_version],
        other_data=[s for s in absent if s not in same_data],
        other_version=[s for s in absent if s in same_data and s not in same_version],
    )


def _datasets(summaries: Sequence[Summary]) -> str:
    return ", ".join(dict.fromkeys(s.cell.dataset for s in summaries))


def _methods(summaries: Sequence[Summary]) -> str:
    """The methods, with their data sets: ``hub-h on MUTAG, motifs``."""
    return "; ".join(
        f"{name} on {_datasets([s for s in summaries if s.cell.method == name])}"
        for name in dict.fromkeys(s.cell.method for s in summaries)
    )


def _table(content: Content) -> Table:
    summaries = content.summaries
    common = names.common_settings([summary.cell.settings for summary in summaries])
    own = [
        {name: value for name, value in s.cell.settings.items() if name not in common}
        for s in summaries
    ]
    versions = {(s.cell.dataset, s.cell.fingerprint) for s in summaries}
    changed = len(versions) > len({dataset for dataset, _ in versions})
    data = [words("data", [code(s.cell.fingerprint[:8]) for s in summaries])] if changed else []
    computed = {
        name: values
        for name in ("precision", "numerics")
        if len({*(values := [getattr(s.cell, name) for s in summaries])}) > 1
    }
    return listing(
        "cells",
        "All cells. Accuracies in percent; epochs and seconds are means of a single training.",
        [
            words("data set", [content.label(s.cell.dataset) for s in summaries]),
            *data,
            words("method", [code(s.cell.method) for s in summaries]),
            *(words(name, map(str, values)) for name, values in computed.items()),
            words("settings are", [_how_chosen(s) for s in summaries]),
            numbers("runs", [len(s.runs) for s in summaries], "d"),
            numbers("diverged", [s.diverged for s in summaries], "d"),
            numbers("mean", [s.spread.mean if s.learnt else None for s in summaries]),
            numbers("± seeds", [s.spread.std_seeds for s in summaries]),
            numbers("± folds", [s.spread.std_folds for s in summaries]),
            numbers("95 % interval", [_interval(s) for s in summaries]),
            numbers("paper", [plus_minus(s.cell.paper_mean, s.cell.paper_std) for s in summaries]),
            numbers("epochs", [s.epochs for s in summaries], ".0f"),
            numbers("seconds", [s.seconds / len(s.runs) for s in summaries]),
            numbers("parameters", [s.parameters for s in summaries], ",d"),
            words("settings", [names.settings(settings) or "as below" for settings in own]),
        ],
        [
            _record(s)
            | ({"fingerprint": s.cell.fingerprint} if changed else {})
            | {name: getattr(s.cell, name) for name in computed}
            for s in summaries
        ],
        [f"The same everywhere: {names.settings(common)}."] if common else [],
    )


def _chosen(summary: Summary) -> str:
    """Searched, fixed, chosen per fold, chosen by test accuracy."""
    return way_chosen(summary.cell).removeprefix("settings ").removesuffix(" settings")


def _how_chosen(summary: Summary) -> str:
    """As `_chosen`, with the search: two searches may find the same settings."""
    search = "" if summary.cell.search == "none" else f" ({summary.cell.search})"
    return f"{_chosen(summary)}{search}"


def _interval(summary: Summary) -> str:
    ci95 = summary.spread.ci95
    return "" if ci95 is None else f"{ci95[0]:.2f} to {ci95[1]:.2f}"


def _record(summary: Summary) -> dict[str, Any]:
    record = summary.to_json()
    settings = {f"setting_{name}": value for name, value in record.pop("settings").items()}
    low, high = record.pop("ci95") or (None, None)
    record["chosen"] = _chosen(summary)
    tests = {f"test_{name}": one["mean"] for name, one in record.pop("tests", {}).items()}
    return {**record, "ci95_low": low, "ci95_high": high, **settings, **tests}
