"""Write what follows from published rows: tables beside them, and numbers of a page.

python scripts/reproduction_page.py results/lee2019 results/controls docs/reproduction.md

The claims are judged by the rows of all folders together; their tables go to a folder ``claims``
beside them. The page has pairs of markers, ``<!-- begin NAME -->`` and ``<!-- end NAME -->``,
and the text between them is replaced. The same rows give the same bytes.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from baselines_section import baselines_section
from choice_section import choice_section
from complexity_section import complexity_section
from controls_section import controls_section
from dataset_pairs import dataset_pairs, how_many_differ
from markdown_table import p_cell, table_row
from protocols_section import protocols_section
from published_rows import Key, Published, PublishedGroup, read_published

from sagpool import SagpoolError
from sagpool.bench.claims import CellRows, Judged, Line, Verdict
from sagpool.bench.claims.published import WIDEST, differing
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.report.picture import render_all
from sagpool.report.sections.claims import (
    CONTROL,
    claims_table,
    comparisons_table,
    phrase,
    related_text,
    summary,
)
from sagpool.report.sections.differences import differences_drawing
from sagpool.report.table import joined
from sagpool.statistics import spread_ratio

FEWER = "† Some of the rows are missing or incomplete."
NOT_SEARCHED = (
    "Fixed settings are not the paper's: it chose its own by a grid search for each method and "
    "does not report them. So a difference from the paper can come from the settings alone, and "
    "comparisons of methods with fixed settings hold only for those settings."
)
CLAIMS = "claims"  # folder of their tables
EXPERIMENT = "lee2019"  # whose claims are judged, and whose protocol is the usual one


def verdicts(published: Published) -> str:
    """What is found about the claims, in a few lines."""
    counted = [one for one in published.judged if one.claim.kind == "parameters"]
    tested = [
        one
        for one in published.judged
        if one not in counted and one.found.verdict is not Verdict.NOT_TESTED
    ]
    ways = dict.fromkeys(str(one.chosen) for one in tested if one.found.lines)
    same = f"Accuracies are those of cells with {next(iter(ways))}." if len(ways) == 1 else ""
    decided = [one for one in tested if one.found.verdict is not Verdict.UNDECIDED]
    lines = [f"- {_bold(one)}: {_quoted(one)} {_details(one, same)}." for one in decided]
    undecided = [one for one in tested if one not in decided]
    if undecided:
        listed = (f"  - {_quoted(one)} {_details(one, same)}{_mark(one)}." for one in undecided)
        few = f"{len(undecided)} claims. These differences are not significant"
        lines += [f"- **Undecided**: {few}.", *listed]
    if counted:
        held = sum(one.found.verdict is Verdict.HOLDS for one in counted)
        lines.append(f"- Of {len(counted)} claims about numbers of parameters, {held} hold.")
    notes = [FEWER] if any(one.marked for one in tested) else []
    notes += [NOT_SEARCHED] if any(one.chosen is Chosen.FIXED for one in tested) else []
    first = f"{summary(published.judged)} {same}".rstrip()
    return "\n".join([first, "", *lines, *(f"\n{note}" for note in notes)])


def _quoted(one: Judged) -> str:
    return f"“{phrase(one.claim.text).plain}”"


def _bold(one: Judged) -> str:
    return f"**{str(one.found.verdict).capitalize()}**{_mark(one)}"


def _mark(one: Judged) -> str:
    return "†" if one.marked else ""


def _details(one: Judged, same: str) -> str:
    """What was found; also how the settings were chosen, unless that is the same for all."""
    return _short(one) + ("" if same or not one.found.lines else f" ({one.chosen})")


def _short(one: Judged) -> str:
    if not one.found.lines:
        return joined(map(phrase, one.found.found)).plain
    if one.claim.kind == "agrees-with-published":
        return phrase(one.found.found[0]).plain
    if one.claim.kind == "steadier":
        ratios = [f"{line.dataset} {line.value:.2f}{_outcomes([line])}" for line in one.found.lines]
        return f"Ratio of the spreads: {', '.join(ratios)}"
    by_pair: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in one.found.lines:
        by_pair[line.second].append(line)
    parts = []
    for second, lines in by_pair.items():
        *single, overall = lines  # that of the mean over the data sets is the last
        words = [names.plain(second[0])] if len(second) == 1 else []
        words += [f"on {overall.dataset}"] if overall.dataset else []
        difference = f"{_signed(overall.value)}{_outcomes([overall, *single])}"
        parts.append(" ".join([*words, difference]))
    against = "Against " if len(next(iter(by_pair))) == 1 else "Difference "
    return against + ", ".join(parts)


def _outcomes(lines: Sequence[Line]) -> str:
    """The outcome of the first line, then of the data sets with a clear one; none if none is."""
    first, *others = lines
    clear = [f"{line.dataset} {line.outcome}" for line in others if line.outcome != "undecided"]
    known = clear or first.outcome != "undecided"
    return f" ({'; '.join([first.outcome, *clear])})" if known else ""


def claims(published: Published) -> str:
    table = claims_table(published.judged).to_markdown().rstrip("\n")
    return "\n\n".join([table, *related_text(published.experiment.related, published.changes)])


def agreement(published: Published) -> str:
    """How each method agrees with the published results, for each group of cells."""
    return _for_each(published, _agreement)


def _agreement(group: PublishedGroup) -> str:
    lines = group.agreement()
    if not lines:
        return "No cell could be tested."
    heads = ["method", "cells", "agree", "higher", "lower", "largest difference"]
    table = [table_row([*heads, "seed spread, ours / paper"]), table_row(["---", *["---:"] * 6])]
    for method in dict.fromkeys(line.first[0] for line in lines):
        here = [line for line in lines if line.first == (method,)]
        outcomes = [line.outcome for line in here]
        counts = [outcomes.count(outcome) for outcome in ("agrees", "higher", "lower")]
        largest = max(here, key=lambda line: abs(line.value))
        ratio = spread_ratio(_spreads(group, line) for line in here)
        cells = [
            *(names.plain(method), len(here), *counts),
            f"{_signed(largest.value)} ({largest.dataset})",
            "" if ratio is None else f"{ratio:.2f}",
        ]
        table.append(table_row(cells))
    differ, undecided = differing(lines), sum(line.outcome == "undecided" for line in lines)
    higher = sum(line.outcome == "higher" for line in lines)
    sentence = f"{differ} of {len(lines)} cells differ; in {higher} of them ours is higher."
    if undecided:
        sentence += f" {undecided} of the others have intervals wider than ±{WIDEST:g} points."
    ratio = spread_ratio(_spreads(group, line) for line in lines)
    if ratio is not None:
        sentence += f" In the geometric mean, our seed spread is {ratio:.2f} times the paper's."
    return "\n".join([*table, "", sentence])


def _spreads(group: PublishedGroup, line: Line) -> tuple[float, float]:
    key = (line.dataset, line.first[0])
    means = list(group.cells[key].seed_means.values())
    return float(np.std(means, ddof=1)), group.experiment.accuracy[key].std


def comparison(published: Published) -> str:
    """The paper's results beside ours, for each group of cells."""
    return _for_each(published, _comparison)


def _comparison(group: PublishedGroup) -> str:
    tests = {(line.dataset, line.first[0]): line for line in group.agreement()}
    heads = ["data set", "method", "paper", "ours", "difference", "p", "result", "runs"]
    heads += ["over folds", "epochs", "time"]
    aligned = ["---", "---", "---:", "---:", "---:", "---:", "---", *["---:"] * 4]
    rows = [table_row(_cells(group, key, tests)) for key in group.rows]
    return "\n".join([table_row(heads), table_row(aligned), *rows])


def _cells(group: PublishedGroup, key: Key, tests: Mapping[Key, Line]) -> list[object]:
    dataset, method = key
    rows, cell, found = group.rows[key], group.cells[key], group.spread(key)
    precision = rows[0]["precision"]
    paper = group.experiment.accuracy.get(key)
    test = tests.get(key)
    return [
        dataset + (f" ({cell.note})" if cell.note else ""),
        method + ("" if precision == "float32" else f" ({precision})"),
        "" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}",
        f"{found.mean:.2f}" + ("" if found.std_seeds is None else f" ± {found.std_seeds:.2f}"),
        *(
            ("", "", "not tested")
            if test is None
            else (_signed(test.value), p_cell(test.p), test.outcome)
        ),
        len(rows),
        "" if found.std_folds is None else f"± {found.std_folds:.2f}",
        f"{np.mean([int(row['epochs']) for row in rows]):.0f}",
        f"{sum(float(row['seconds']) for row in rows):.0f} s",
    ]


def search(published: Published) -> str:
    """What a search gained over fixed settings, by validation and by test."""
    usual = {group.chosen: group for group in published.groups if not group.differences}
    if not usual.keys() >= {Chosen.FIXED, Chosen.SEARCHED}:
        return ""
    fixed, searched = usual[Chosen.FIXED].rows, usual[Chosen.SEARCHED].rows
    table = [
        table_row(
            ["data set", "method", "validation, fixed", "searched", "test, fixed", "searched"]
        ),
        table_row(["---", "---", *["---:"] * 4]),
    ]
    gains: dict[str, list[float]] = defaultdict(list)
    for key in searched:
        if key not in fixed:
            continue
        cells: list[object] = list(key)
        for part in ("validation", "test"):
            before, after = (_mean(rows[key], f"{part}_accuracy") for rows in (fixed, searched))
            gains[part].append(after - before)
            cells += [f"{before:.2f}", f"{after:.2f} ({_signed(after - before)})"]
        table.append(table_row(cells))
    means = {part: float(np.mean(values)) for part, values in gains.items()}
    return "\n".join(
        [
            *table,
            "",
            f"In the mean over these {len(gains['test'])} cells a search gains "
            f"{_signed(means['validation'])} points of validation accuracy and "
            f"{_signed(means['test'])} of test accuracy.",
        ]
    )


def _mean(rows: Sequence[Mapping[str, str]], column: str) -> float:
    return 100 * float(np.mean([float(row[column]) for row in rows]))


def facts(published: Published) -> str:
    """Sentences about the rows and about the differences between methods."""
    return _for_each(published, _facts)


def _facts(group: PublishedGroup) -> str:
    fewer: dict[int, list[str]] = defaultdict(list)
    complete = group.experiment.seeds * max(cell.folds for cell in group.cells.values())
    for (dataset, method), rows in group.rows.items():
        if len(rows) < complete:
            fewer[len(rows)].append(f"{names.plain(method)} on {dataset}")
    whole = len(group.rows) - sum(map(len, fewer.values()))
    sentence = f"- Of {len(group.rows)} cells, {whole} have all {complete} runs."
    sentence += "".join(
        f" {runs} runs: {', '.join(cells)}." for runs, cells in sorted(fewer.items())
    )
    folds = [s for key in group.plain if (s := group.spread(key).std_folds) is not None]
    papers = [accuracy.std for accuracy in group.experiment.accuracy.values()]
    lines = [sentence]
    if folds:
        lines.append(
            f"- The standard deviation over single runs is {min(folds):.1f} to {max(folds):.1f} "
            f"points. The paper's ±, of means over all folds, is {min(papers):.1f} to "
            f"{max(papers):.1f}."
        )
    if counts := how_many_differ(dataset_pairs(_in_order(group))):
        lines.append(f"- {counts}")
    return "\n".join([*lines, *_kernels(group)])


def _in_order(group: PublishedGroup) -> dict[Key, CellRows]:
    """The cells that may be compared, in the order of the rows."""
    return {key: group.plain[key] for key in group.rows if key in group.plain}


def _kernels(group: PublishedGroup) -> list[str]:
    """Which versions of the kernels made the rows; nothing if no folder tells."""
    used = {
        key: dict.fromkeys(row["kernels"] for row in rows if "kernels" in row)
        for key, rows in group.rows.items()
    }
    every = dict.fromkeys(kernels for cell in used.values() for kernels in cell)
    if not every:
        return []
    untold = sum(not kernels for kernels in used.values())
    mixed = [f"{names.plain(m)} on {d}" for (d, m), kernels in used.items() if len(kernels) > 1]
    sentence = f"- Hash of the kernels that made the rows: {', '.join(every)}"
    sentence += f"; not recorded for {untold} of {len(used)} cells." if untold else "."
    return [sentence + (f" Means over several of them: {', '.join(mixed)}." if mixed else "")]


def _for_each(published: Published, block: Callable[[PublishedGroup], str]) -> str:
    """The text of each group below its caption."""
    return "\n\n".join(f"**{group.caption}**\n\n{block(group)}" for group in published.groups)


BLOCKS: dict[str, Callable[[Published], str]] = {
    "verdicts": verdicts,
    "claims": claims,
    "agreement": agreement,
    "comparison": comparison,
    "search": search,
    "baselines": baselines_section,
    "protocols": protocols_section,
    "facts": facts,
}


def filled(page: str, texts: Mapping[str, str]) -> str:
    """The page with new text between its markers."""
    for name, text in texts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise SagpoolError(f"The page needs one '{begin.strip()}' and one '{end}'.")
        pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
        new = f"{begin}{text}\n{end}" if text else begin + end
        page = re.sub(pattern, lambda _, new=new: new, page, flags=re.DOTALL)
    return page


def write_derived(folder: Path) -> None:
    """Write comparison.md beside the rows."""
    published = read_published([folder], load_experiment(EXPERIMENT))
    (folder / "comparison.md").write_text(comparison(published) + "\n", "utf-8")


def write_page(folders: Sequence[Path], page: Path) -> None:
    """Write the numbers of the page, from the rows of all folders together.

    The tables of the claims, and the picture of the controls, go to a folder beside them.
    """
    published = read_published(folders, load_experiment(EXPERIMENT))
    _write_claims(published, folders[0].parent / CLAIMS)
    texts = {name: block(published) for name, block in BLOCKS.items()}
    texts["controls"] = controls_section(published, folders)
    texts["choice"] = choice_section(published, folders)
    sections = (complexity_section(folder) for folder in folders)
    texts["complexity"] = "\n\n".join(section for section in sections if section)
    page.write_text(filled(page.read_text("utf-8"), texts), "utf-8")


def _write_claims(published: Published, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for table in (claims_table(published.judged), comparisons_table(published.judged)):
        path = folder / table.name
        path.with_suffix(".md").write_text(table.to_markdown(), "utf-8")
        path.with_suffix(".csv").write_text(table.to_csv(), "utf-8")
    controls = [one for one in published.judged if one.claim.where == CONTROL]
    drawing = differences_drawing("controls", "What the controls say", controls)
    if drawing:
        (picture,) = render_all([drawing]).values()
        (folder / f"{picture.name}.png").write_bytes(picture.png)


def _signed(value: float) -> str:
    return f"{value:+z.2f}".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="folder")
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    try:
        for folder in arguments.folders:
            write_derived(folder)
        write_page(arguments.folders, arguments.page)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
