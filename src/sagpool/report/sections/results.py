"""Our results and the paper's, in the layout of its Tables 3 and 4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sagpool.bench.majority import majority_note
from sagpool.bench.selection import OPTIMISTIC, Select
from sagpool.bench.summary import Pair, Summary, compare_methods
from sagpool.bench.variants import Chosen, Group, way_chosen
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.leaders import NO_LEADER, Leader, by_architecture, leader
from sagpool.report.matched import matched_notes
from sagpool.report.published_elsewhere import published_elsewhere
from sagpool.report.section import Part, Section
from sagpool.report.sections.cells import left_out_notes
from sagpool.report.table import Cell, Head, RowGroup, Table, method, number, text
from sagpool.statistics import SIGNIFICANT

PER_FOLD, BY_TEST = "chosen per fold", "chosen by test accuracy"
OTHER_SETTINGS = "with other settings"
MEASURE = "Test accuracy in percent: mean ± standard deviation over the per-seed means."
VARIANTS = "Variants of the score: test accuracy in percent, as in the table before."
SENTENCES = {
    Chosen.SEARCHED: "The settings of each cell were chosen by a search, by validation results.",
    Chosen.PER_FOLD: "The settings of each fold were chosen by its own validation part.",
    Chosen.FIXED: "The settings are fixed: there was no search.",
    Chosen.BY_TEST: "The settings of each cell were chosen by test accuracy.",
}


def section(content: Content) -> Section:
    published = any(s.cell.paper_mean is not None for group in content.groups for s in group.cells)
    several = (
        "Cells of different protocols, and cells with fixed and with searched settings, are in "
        "tables of their own. All figures, pairs and costs below are those of the first table."
    )
    return Section(
        "results",
        "Ours beside the paper's" if published else "Results",
        [
            *(part for group in content.groups for part in _parts(content, group)),
            *published_elsewhere(content),
        ],
        [*([several] if len(content.groups) > 1 else []), *left_out_notes(content)],
    )


def _parts(content: Content, group: Group) -> list[Part]:
    first = group is content.groups[0]
    pairs = content.pairs if first else compare_methods(group.main)
    scope = _Scope(content, group, pairs, suffix(content, group))
    above = heading(content, group) if len(content.groups) > 1 else ""
    results = _results_table(scope)
    variants = _variants_table(scope, VARIANTS if results.records else results.caption)
    if variants and not results.records:
        return [Part(above, variants)]
    return [
        Part(above, results),
        *([Part("Variants of SAGPool" if first else "", variants)] if variants else []),
    ]


def heading(content: Content, group: Group) -> str:
    """How a table is told from the others: its way of choosing settings, and its protocol."""
    return str(group.chosen).capitalize() + (", another protocol" if _place(content, group) else "")


def suffix(content: Content, group: Group) -> str:
    """The end of the file names of a table; empty for the first one."""
    place = _place(content, group)
    chosen = f"-{group.chosen.name.lower().replace('_', '-')}"
    first = group is content.groups[0]
    return ("" if first else chosen) + (f"-protocol{place + 1}" if place else "")


def _place(content: Content, group: Group) -> int:
    """The number of its protocol; 0 for that of the first table."""
    return list(dict.fromkeys(one.differences for one in content.groups)).index(group.differences)


@dataclass(frozen=True)
class _Scope:
    """A group of cells, with what its tables need."""

    content: Content
    group: Group
    pairs: Sequence[Pair]
    suffix: str  # of file names


def protocol(content: Content, group: Group) -> str:
    """How the protocol of a group differs from that of the experiment, as a sentence."""
    if not group.differences:
        return ""
    usual = f"that of {content.experiment.name}" if content.experiment else "the usual one"
    return f"The protocol is not {usual}: {'; '.join(group.differences)}."


def _results_table(scope: _Scope) -> Table:
    groups = {
        f"{architecture} pooling" if architecture != "other" else "other": members
        for architecture, members in by_architecture(scope.group).items()
    }
    main = scope.group.main
    others = [s for s in scope.group.cells if s not in main and not names.is_variant(s.cell.method)]
    groups |= {OTHER_SETTINGS: others} if others else {}
    caption = f"{MEASURE} {SENTENCES[scope.group.chosen]} {protocol(scope.content, scope.group)}"
    return _matrix(f"results{scope.suffix}", caption.strip(), groups, scope)


def _variants_table(scope: _Scope, caption: str) -> Table | None:
    groups = {}
    for base in ("sagpool-h", "sagpool-g"):
        family = [s for s in scope.group.cells if _family(s.cell.method) == base]
        with_variants = {s.cell.dataset for s in family if s.cell.method != base}
        if with_variants:
            title = f"SAGPool and its variants, {names.architecture(base)}"
            groups[title] = [
                s
                for s in family
                if s.cell.dataset in with_variants and not (s.variant and s.cell.method == base)
            ]
    return _matrix(f"variants{scope.suffix}", caption, groups, scope) if groups else None


def _family(name: str) -> str:
    found = names.parts(name)
    return f"{found.base}-{found.architecture}"


def _matrix(name: str, caption: str, groups: dict[str, list[Summary]], scope: _Scope) -> Table:
    """Methods are rows, in groups; data sets are columns."""
    content = scope.content
    datasets = list(dict.fromkeys(s.cell.dataset for m in groups.values() for s in m))
    rows: list[RowGroup] = []
    records: list[dict[str, Any]] = []
    for title, members in groups.items():
        leaders = {
            dataset: _leader([s for s in here if s.whole], scope.pairs, title)
            for dataset in datasets
            if (here := [s for s in members if s.cell.dataset == dataset])
        }
        summaries = {(s.method, s.cell.dataset): s for s in members}
        body = []
        for row in names.in_order(s.method for s in members):
            cells = [method(row)]
            for dataset in datasets:
                summary = summaries.get((row, dataset))
                cells.append(
                    text("")
                    if summary is None
                    else _cell(summary, leaders[dataset], content.cell_id(summary))
                )
                if summary is not None:
                    records.append(_record(title, summary, leaders[dataset]))
            body.append(cells)
        rows.append(RowGroup(title, body))
    rows += _most_frequent(scope, datasets)
    heads = [Head(text("method")), *(Head(_title(content, d), number=True) for d in datasets)]
    notes = _notes(scope, datasets, records)
    return Table(name, caption, heads, rows, records, notes, matrix=True)


def _leader(summaries: Sequence[Summary], pairs: Sequence[Pair], title: str) -> Leader:
    return leader(summaries, pairs) if summaries and title != OTHER_SETTINGS else NO_LEADER


def _title(content: Content, dataset: str) -> Cell:
    if not content.note(dataset):
        return text(dataset)
    html = Markup('{}<br><span class="small">{}</span>').format(dataset, content.note(dataset))
    return Cell(content.label(dataset), html, names.tex_escape(content.label(dataset)))


def _most_frequent(scope: _Scope, datasets: list[str]) -> list[RowGroup]:
    cells = [[s for s in scope.group.cells if s.cell.dataset == dataset] for dataset in datasets]
    accuracy = [scope.content.majority(here) for here in cells]
    if all(value is None for value in accuracy):
        return []
    row = [text("most frequent class"), *map(number, accuracy)]
    return [RowGroup("for comparison", [row])]


def _cell(summary: Summary, best: Leader, runs: str) -> Cell:
    spread = summary.spread
    wins = best.beats_others(summary.method)
    mark = "†" if wins and not best.significant else ""
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
    return Cell(plain, html, rf"\shortstack{{{lines}}}", runs)


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
    if cell.per_fold:
        found.append(PER_FOLD)
    if cell.select is Select.TEST:
        found.append(BY_TEST)
    planned, counted = cell.seeds * cell.settings["folds"], len(summary.accuracy)
    if counted < planned:
        found.append(f"{counted} of {planned} runs")
    elif counted > planned:  # of earlier experiments, or of a race
        found.append(f"{counted} runs")
    if summary.diverged:
        found.append(f"{summary.diverged} diverged")
    if summary.failures:
        found.append(f"{len(summary.failures)} failed")
    if summary.mismatch:
        found.append("not matched")
    return found


def _record(group: str, summary: Summary, best: Leader) -> dict[str, Any]:
    low, high = summary.spread.ci95 or (None, None)
    wins = best.beats_others(summary.method)
    return {
        "group": group,
        "method": summary.method,
        "dataset": summary.cell.dataset,
        "select": str(summary.select),
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
        "significant": best.significant if wins else None,
        "second": best.second if wins else None,
        "holm_p": best.p if wins else None,
        "not_matched": summary.mismatch,
    }


def _notes(scope: _Scope, datasets: list[str], records: list[dict[str, Any]]) -> list[str]:
    """Explain the marks that the table has."""
    content, cells = scope.content, scope.group.cells
    full = {s.cell.seeds * s.cell.settings["folds"] for s in cells}  # runs of a cell
    best = [record for record in records if record["best"]]
    failed = [
        f"{one.method} on {one.name}, seed {one.seed}, fold {one.fold}: {one.reason}"
        for s in cells
        for one in s.failures
    ]
    kernels = {s: used for s in cells if len(used := content.kernels(s)) > 1}
    matched = matched_notes(scope.group)
    unmatched = [f"{s.method} on {s.cell.dataset} ({s.mismatch})" for s in cells if s.mismatch]
    partly = any(s.mismatch is None for s in cells)
    lost = [
        f"{s.cell.method} on {s.cell.dataset}"
        + ("" if way_chosen(s.cell) is scope.group.chosen else f" with {way_chosen(s.cell)}")
        for s in content.summaries
        if not s.learnt and s.loss is None
    ]
    numbers = [s.cell.dataset for s in content.summaries if s.loss is not None]
    whole = all(s.whole for s in cells)
    applies = {
        f"“a to b”: 95 % interval of the mean, from {' or '.join(map(str, sorted(full)))} runs "
        "unless the cell says otherwise, corrected for trainings that share data.": any(
            record["ci95_low"] is not None for record in records
        ),
        "With a fixed split, the interval is that of the seeds alone.": any(
            s.tests and s.spread.ci95 is not None for s in cells
        ),
        "Most frequent class: the accuracy of always predicting it. With a fixed split it is the "
        "largest class of the main test.": any(s.majority is not None for s in cells),
        "In brackets: our mean less the paper's, in units of the paper's standard deviation.": any(
            record["paper_mean"] is not None for record in records
        ),
        "Bold: the highest mean of its group and data set"
        f"{'' if whole else ', of cells without runs that are left out'}.": bool(best),
        "† It is not significantly ahead of the second (corrected resampled t-test, p after Holm "
        f"at least {SIGNIFICANT}).": any(not record["significant"] for record in best),
        "No ±: the mean is of one seed alone.": any(
            record["std_seeds"] is None for record in records
        ),
        "Structure only: node degrees took the place of the attributes with which the paper's "
        "numbers were made; the two do not answer the same question.": any(
            "structure only" in content.note(dataset) for dataset in datasets
        ),
        f"{PER_FOLD.capitalize()}: the settings of every fold were chosen by its own validation "
        "part (nested). The other cells have the same settings in all folds.": any(
            s.cell.per_fold for s in cells
        ),
        OPTIMISTIC: scope.group.chosen is Chosen.BY_TEST,
        "Diverged: the loss became infinite or not a number. Such a run counts with the best "
        "weights that it had before; if it had none, it is left out of the mean.": any(
            record["diverged"] for record in records
        ),
        "Failed: ended with an error on every attempt. The first of them, "
        f"{''.join(failed[:1])}": bool(failed),
        **dict.fromkeys(matched, True),
        f"Not matched: {'; '.join(unmatched)}.": bool(unmatched),
        "The other cells were not part of the matched comparison.": partly
        and bool(matched or unmatched),
        _mixed_kernels(kernels): bool(kernels),
        (majority := majority_note(cells)): bool(majority),
        "Regressions have no accuracy; their errors are among the other scores: "
        f"{', '.join(dict.fromkeys(numbers))}.": bool(numbers),
        f"Not shown, since all of its trainings diverged at once: {', '.join(lost)}.": bool(lost),
    }
    return [note for note, condition in applies.items() if condition]


def _mixed_kernels(kernels: Mapping[Summary, Sequence[str]]) -> str:
    cells = [f"{s.method} on {s.cell.dataset} ({', '.join(used)})" for s, used in kernels.items()]
    return f"Means over runs that different kernels have made: {'; '.join(cells)}."
