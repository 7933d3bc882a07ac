"""Ours beside the paper's: the layout of its Tables 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sagpool.bench.summary import Pair, Summary
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.table import Cell, Column, Section, Table, method, text

SIGNIFICANT = 0.05
ARCHITECTURES = ("global", "hierarchical", "other")


@dataclass(frozen=True)
class Leader:
    """The best of a group on a data set."""

    method: str
    second: str | None
    p: float | None  # against the second, after Holm; None where there is nothing to compare with

    @property
    def clear(self) -> bool:
        return self.p is not None and self.p < SIGNIFICANT


def groups(content: Content) -> dict[str, list[Summary]]:
    """The cells of the main table, by architecture."""
    found: dict[str, list[Summary]] = {}
    for title in ARCHITECTURES:
        found[title] = [
            s
            for s in content.shown
            if names.architecture(s.cell.method) == title and not names.is_variant(s.cell.method)
        ]
    return {title: members for title, members in found.items() if members}


def leader(summaries: Sequence[Summary], pairs: Sequence[Pair]) -> Leader:
    """Of cells on one data set."""
    best, *others = sorted(summaries, key=lambda s: -s.spread.mean)
    if not others:
        return Leader(best.cell.method, None, None)
    second = others[0].cell.method
    wanted = {best.cell.method, second}
    p = next(
        (
            pair.holm
            for pair in pairs
            if pair.dataset == best.cell.dataset and {pair.first, pair.second} == wanted
        ),
        None,
    )
    return Leader(best.cell.method, second, p)


def results_table(content: Content) -> Table:
    sections = {
        f"{title} pooling" if title != "other" else "other": members
        for title, members in groups(content).items()
    }
    caption = "Test accuracy in percent: mean ± standard deviation over the per-seed means."
    return _matrix("results", caption, sections, content)


def variants_table(content: Content) -> Table | None:
    sections = {}
    for base in ("sagpool-h", "sagpool-g"):
        family = [s for s in content.shown if _family(s.cell.method) == base]
        with_variants = {s.cell.dataset for s in family if s.cell.method != base}
        if with_variants:
            title = f"SAGPool and its variants, {names.architecture(base)}"
            sections[title] = [s for s in family if s.cell.dataset in with_variants]
    caption = "Variants of the score: test accuracy in percent, as in the table before."
    return _matrix("variants", caption, sections, content) if sections else None


def _family(name: str) -> str:
    base, architecture, _ = names.parts(name)
    return f"{base}-{architecture}"


def _matrix(name: str, caption: str, sections: dict[str, list[Summary]], content: Content) -> Table:
    used = {s.cell.dataset for members in sections.values() for s in members}
    datasets = [dataset for dataset in content.datasets if dataset in used]
    rows: list[Section] = []
    records: list[dict[str, Any]] = []
    for title, members in sections.items():
        leaders = {
            dataset: leader(here, content.pairs)
            for dataset in datasets
            if (here := [s for s in members if s.cell.dataset == dataset])
        }
        by_place = {(s.cell.method, s.cell.dataset): s for s in members}
        body = []
        for row in names.in_order(s.cell.method for s in members):
            cells = [method(row)]
            for dataset in datasets:
                summary = by_place.get((row, dataset))
                cells.append(text("") if summary is None else _cell(summary, leaders[dataset]))
                if summary is not None:
                    records.append(_record(title, summary, leaders[dataset]))
            body.append(cells)
        rows.append(Section(title, body))
    rows += _most_frequent(content, datasets)
    columns = [Column(text("method")), *(Column(_title(content, d), True) for d in datasets)]
    notes = _notes(content, datasets, records)
    return Table(name, caption, columns, rows, records, notes, matrix=True)


def _title(content: Content, dataset: str) -> Cell:
    if not content.note(dataset):
        return text(dataset)
    html = Markup('{}<br><span class="small">{}</span>').format(dataset, content.note(dataset))
    return Cell(content.label(dataset), html, names.tex_escape(content.label(dataset)))


def _most_frequent(content: Content, datasets: list[str]) -> list[Section]:
    shares = [content.majority(dataset) for dataset in datasets]
    if all(share is None for share in shares):
        return []
    cells = [text("" if share is None else f"{share:.2f}") for share in shares]
    return [Section("for comparison", [[text("most frequent class"), *cells]])]


def _cell(summary: Summary, best: Leader) -> Cell:
    cell, spread = summary.cell, summary.spread
    wins = best.method == cell.method and best.second is not None
    mark = "†" if wins and not best.clear else ""
    mean = f"{spread.mean:.2f}"
    std = "" if spread.std_seeds is None else f" ± {spread.std_seeds:.2f}"
    details = _details(summary)

    plain = f"**{mean}**" if wins else mean
    plain = "; ".join([f"{plain}{std}{mark}", *details])
    strong = Markup("<strong>{}</strong>").format(mean) if wins else Markup(mean)
    html = Markup('<span class="ours">{}{}{}</span>').format(strong, std, mark)
    html += Markup("").join(
        Markup('<br><span class="small">{}</span>').format(part) for part in details
    )
    tex_mean = rf"\mathbf{{{mean}}}" if wins else mean
    tex_std, tex_mark = std.replace("±", r"\pm"), r"^\dagger" if mark else ""
    small = [rf"\footnotesize {names.tex_escape(part)}" for part in details]
    lines = r" \\ ".join([f"${tex_mean}{tex_std}{tex_mark}$", *small])
    return Cell(plain, html, rf"\shortstack{{{lines}}}")


def _details(summary: Summary) -> list[str]:
    cell, spread = summary.cell, summary.spread
    found = []
    if spread.ci95 is not None:
        found.append(f"{spread.ci95[0]:.1f} to {spread.ci95[1]:.1f}")
    if cell.paper_mean is not None:
        paper = f"paper {cell.paper_mean:.2f}"
        paper += "" if cell.paper_std is None else f" ± {cell.paper_std:.2f}"
        if summary.deviation is not None:
            paper += f" ({summary.deviation:+z.1f})".replace("-", "−")
        found.append(paper)
    asked = cell.seeds * cell.settings["folds"]
    if len(summary.runs) < asked:
        found.append(f"{len(summary.runs)} of {asked} runs")
    if summary.diverged:
        found.append(f"{summary.diverged} diverged")
    if summary.failures:
        found.append(f"{len(summary.failures)} failed")
    return found


def _record(group: str, summary: Summary, best: Leader) -> dict[str, Any]:
    low, high = summary.spread.ci95 or (None, None)
    wins = best.method == summary.cell.method and best.second is not None
    return {
        "group": group,
        "method": summary.cell.method,
        "dataset": summary.cell.dataset,
        "mean": summary.spread.mean,
        "std_seeds": summary.spread.std_seeds,
        "ci95_low": low,
        "ci95_high": high,
        "runs": len(summary.runs),
        "diverged": summary.diverged,
        "failed": len(summary.failures),
        "paper_mean": summary.cell.paper_mean,
        "paper_std": summary.cell.paper_std,
        "deviation": summary.deviation,
        "best": wins,
        "significant": best.clear if wins else None,
        "second": best.second if wins else None,
        "holm_p": best.p if wins else None,
    }


def _notes(content: Content, datasets: list[str], records: list[dict[str, Any]]) -> list[str]:
    """What the marks mean, of those that there are."""

    def some(test: Callable[[dict[str, Any]], bool]) -> bool:
        return any(test(record) for record in records)

    notes = []
    if some(lambda r: r["ci95_low"] is not None):
        notes.append(
            f"“a to b”: 95 % interval of the mean, from {_runs(content)} runs unless the cell says "
            "otherwise, corrected for trainings that share data."
        )
    if some(lambda r: r["paper_mean"] is not None):
        notes.append(
            "In brackets: our mean less the paper's, in units of the paper's standard deviation."
        )
    if some(lambda r: r["best"]):
        notes.append("Bold: the highest mean of its group and data set.")
    if some(lambda r: r["best"] and not r["significant"]):
        notes.append(
            "† It is not significantly ahead of the second (corrected resampled t-test, p after "
            f"Holm at least {SIGNIFICANT})."
        )
    if some(lambda r: r["std_seeds"] is None):
        notes.append("No ±: there is one seed alone.")
    if any(content.note(dataset) == "structure only" for dataset in datasets):
        notes.append(
            "Structure only: node degrees took the place of the attributes with which the paper's "
            "numbers were made; the two do not answer the same question."
        )
    if some(lambda r: r["diverged"] > 0):
        notes.append(
            "Diverged: the loss became infinite or not a number. Such a run counts with the best "
            "weights that it had before, if it had any."
        )
    failures = [failure for s in content.shown for failure in s.failures]
    if failures:
        first = failures[0]
        notes.append(
            "Failed: came to no result, however often it was tried. The first of them, "
            f"{first.method} on {first.name}, seed {first.seed}, fold {first.fold}: {first.reason}"
        )
    lost = [s.cell for s in content.summaries if not s.learnt]
    if lost:
        which = ", ".join(f"{cell.method} on {cell.dataset}" for cell in lost)
        notes.append(f"Not shown, since all of its trainings diverged at once: {which}.")
    return notes


def _runs(content: Content) -> str:
    """Trainings of a whole cell."""
    asked = {s.cell.seeds * s.cell.settings["folds"] for s in content.shown}
    return " or ".join(str(count) for count in sorted(asked))
