"""Write what follows from published rows: tables beside them, and numbers of a page.

python scripts/reproduction_page.py results/lee2019 docs/reproduction.md

The page has pairs of markers, ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, and the text
between them is replaced. The same rows give the same bytes.
"""

import argparse
import csv
import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sagpool import SagpoolError
from sagpool.bench.claims import CellRows, Line, Verdict, p_text
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import load_experiment
from sagpool.report import names
from sagpool.report.sections.claims import (
    Judged,
    claims_table,
    comparisons_table,
    judge_claims,
    phrase,
    summary,
)
from sagpool.statistics import SIGNIFICANT, Spread, compare, holm, spread, spread_ratio

Key = tuple[str, str]  # data set and method


@dataclass(frozen=True)
class Published:
    """The rows in a folder of results, by cell, in the order of the paper."""

    experiment: Experiment
    rows: Mapping[Key, list[dict[str, str]]]
    cells: Mapping[Key, CellRows]
    judged: list[Judged]

    def spread(self, key: Key) -> Spread:
        learnt = self.cells[key].learnt
        seeds = np.array([seed for seed, _ in learnt])
        return spread(np.array(list(learnt.values())), seeds, self.cells[key].folds)

    def lines(self, kind: str = "") -> list[Line]:
        """All comparisons of claims of this kind, or of all kinds."""
        return [
            line for one in self.judged if kind in ("", one.claim.kind) for line in one.found.lines
        ]


def read_published(folder: Path, experiment: Experiment) -> Published:
    """Read rows.csv, settings.json and, for the features of the data sets, tables/data.csv."""
    rows: dict[Key, list[dict[str, str]]] = defaultdict(list)
    for row in _csv(folder / "rows.csv"):
        if row.get("shown", "1") == "1":
            rows[row["name"], row["method"]].append(row)
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    kinds = {
        row["fingerprint"][:12]: row["feature_kind"] for row in _csv(folder / "tables/data.csv")
    }
    cells = {}
    for key, here in rows.items():
        if len({row["settings"] for row in here}) > 1 and "shown" not in here[0]:
            raise SagpoolError(f"{folder} has rows of {' '.join(key)} with several settings.")
        cells[key] = _cell(here, settings[here[0]["settings"]], kinds, experiment)
    order = [*experiment.accuracy, *(key for key in rows if key not in experiment.accuracy)]
    ordered = {key: rows[key] for key in order if key in rows}
    return Published(experiment, ordered, cells, judge_claims(experiment, cells))


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _cell(
    rows: list[dict[str, str]],
    settings: dict[str, float],
    kinds: dict[str, str],
    experiment: Experiment,
) -> CellRows:
    name, data = rows[0]["name"], rows[0]["data"]
    kind = kinds[data]
    note = "" if kind == experiment.feature_kinds.get(name, kind) else kind
    return CellRows(
        {(int(row["seed"]), int(row["fold"])): 100 * float(row["test_accuracy"]) for row in rows},
        (name, data, settings["folds"], settings["validation"]),
        int(settings["folds"]),
        "structure only" if note == "degree" else note,
    )


def verdicts(published: Published) -> str:
    """What is found about the claims, in a few lines."""
    tested = [one for one in published.judged if one.found.lines]
    counted = [one for one in published.judged if one.claim.kind == "parameters"]
    lines = [f"- {_bold(one)}: {phrase(one.claim.text).plain} {_short(one)}." for one in tested]
    if counted:
        held = sum(one.found.verdict is Verdict.HOLDS for one in counted)
        lines.append(f"- Of {len(counted)} claims about numbers of parameters, {held} hold.")
    return "\n".join([summary(published.judged), "", *lines])


def _bold(one: Judged) -> str:
    return f"**{str(one.found.verdict).capitalize()}**{'†' if one.marked else ''}"


def _short(one: Judged) -> str:
    if one.claim.kind == "agrees-with-published":
        return phrase(one.found.found[0]).plain
    by_pair: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in one.found.lines:
        by_pair[line.second].append(line)
    parts = []
    for second, lines in by_pair.items():
        *single, overall = lines  # that of the mean over the data sets is the last
        other = "" if len(second) > 1 else f"{names.plain(second[0])} "
        clear = [f"{line.dataset} {line.outcome}" for line in single if line.outcome != "undecided"]
        parts.append(f"{other}{_signed(overall.value)} ({'; '.join([overall.outcome, *clear])})")
    against = "Against " if len(next(iter(by_pair))) == 1 else "Difference "
    return against + ", ".join(parts)


def claims(published: Published) -> str:
    return claims_table(published.judged).to_markdown().rstrip("\n")


def agreement(published: Published) -> str:
    """How each method agrees with the published results."""
    lines = published.lines("agrees-with-published")
    if not lines:
        return "No cell could be tested."
    heads = ["method", "cells", "agree", "higher", "lower", "largest difference"]
    table = [_row([*heads, "seed spread, ours / paper"]), _row(["---", *["---:"] * 6])]
    for method in dict.fromkeys(line.first[0] for line in lines):
        here = [line for line in lines if line.first == (method,)]
        outcomes = [line.outcome for line in here]
        counts = [outcomes.count(outcome) for outcome in ("agrees", "higher", "lower")]
        largest = max(here, key=lambda line: abs(line.value))
        ratio = spread_ratio(_spreads(published, line) for line in here)
        cells = [
            *(names.plain(method), len(here), *counts),
            f"{_signed(largest.value)} ({largest.dataset})",
            "" if ratio is None else f"{ratio:.2f}",
        ]
        table.append(_row(cells))
    differ = sum(line.outcome != "agrees" for line in lines)
    higher = sum(line.outcome == "higher" for line in lines)
    sentence = f"{differ} of {len(lines)} cells differ; in {higher} of them ours is higher."
    ratio = spread_ratio(_spreads(published, line) for line in lines)
    if ratio is not None:
        sentence += f" In the geometric mean, our seed spread is {ratio:.2f} times the paper's."
    return "\n".join([*table, "", sentence])


def _spreads(published: Published, line: Line) -> tuple[float, float]:
    key = (line.dataset, line.first[0])
    means = list(published.cells[key].seed_means.values())
    return float(np.std(means, ddof=1)), published.experiment.accuracy[key].std


def comparison(published: Published) -> str:
    """The paper's results beside ours."""
    tests = {
        (line.dataset, line.first[0]): line for line in published.lines("agrees-with-published")
    }
    heads = ["data set", "method", "paper", "ours", "difference", "p", "result", "runs"]
    heads += ["over folds", "epochs", "time"]
    aligned = ["---", "---", "---:", "---:", "---:", "---:", "---", *["---:"] * 4]
    return "\n".join(
        [
            _row(heads),
            _row(aligned),
            *(_row(_cells(published, key, tests)) for key in published.rows),
        ]
    )


def _cells(published: Published, key: Key, tests: Mapping[Key, Line]) -> list[object]:
    dataset, method = key
    rows, cell, found = published.rows[key], published.cells[key], published.spread(key)
    precision = rows[0]["precision"]
    paper = published.experiment.accuracy.get(key)
    test = tests.get(key)
    return [
        dataset + (f" ({cell.note})" if cell.note else ""),
        method + ("" if precision == "float32" else f" ({precision})"),
        "" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}",
        f"{found.mean:.2f}" + ("" if found.std_seeds is None else f" ± {found.std_seeds:.2f}"),
        *(
            ("", "", "not tested")
            if test is None
            else (_signed(test.value), _p(test.p), test.outcome)
        ),
        len(rows),
        "" if found.std_folds is None else f"± {found.std_folds:.2f}",
        f"{np.mean([int(row['epochs']) for row in rows]):.0f}",
        f"{sum(float(row['seconds']) for row in rows):.0f} s",
    ]


def facts(published: Published) -> str:
    """Sentences about the rows and about the differences between methods."""
    complete = published.experiment.seeds * int(published.experiment.protocol["folds"])
    fewer: dict[int, list[str]] = defaultdict(list)
    for (dataset, method), rows in published.rows.items():
        if len(rows) < complete:
            fewer[len(rows)].append(f"{names.plain(method)} on {dataset}")
    whole = len(published.rows) - sum(map(len, fewer.values()))
    sentence = f"- Of {len(published.rows)} cells, {whole} have all {complete} runs."
    sentence += "".join(
        f" {runs} runs: {', '.join(cells)}." for runs, cells in sorted(fewer.items())
    )
    used = [key for key, cell in published.cells.items() if not cell.note]
    folds = [found for key in used if (found := published.spread(key).std_folds) is not None]
    papers = [accuracy.std for accuracy in published.experiment.accuracy.values()]
    spreads = (
        f"- The standard deviation over single runs is {min(folds):.1f} to {max(folds):.1f} "
        f"points. The paper's ±, of means over all folds, is {min(papers):.1f} to "
        f"{max(papers):.1f}."
    )
    return "\n".join([sentence, spreads, _pairs(published)])


def _pairs(published: Published) -> str:
    """How many pairs of methods differ significantly on each data set."""
    counts = []
    for dataset in dict.fromkeys(name for name, _ in published.rows):
        here = [
            cell for (name, _), cell in published.cells.items() if name == dataset and not cell.note
        ]
        p = []
        for first, second in itertools.combinations(here, 2):
            common = sorted(first.learnt.keys() & second.learnt.keys())
            if not common:
                continue
            pair = (
                np.array([cell.accuracy[split] for split in common]) for cell in (first, second)
            )
            p.append(compare(*pair, first.folds).p)
        if p:
            significant = sum(one < SIGNIFICANT for one in holm(p))
            counts.append(f"{dataset} {significant} of {len(p)}")
    return f"- Pairs of methods that differ significantly: {', '.join(counts)}."


BLOCKS: dict[str, Callable[[Published], str]] = {
    "verdicts": verdicts,
    "claims": claims,
    "agreement": agreement,
    "comparison": comparison,
    "facts": facts,
}


def filled(page: str, published: Published) -> str:
    """The page with new text between its markers."""
    for name, block in BLOCKS.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise SagpoolError(f"The page needs one '{begin.strip()}' and one '{end}'.")
        pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
        text = f"{begin}{block(published)}\n{end}"
        page = re.sub(pattern, lambda _, text=text: text, page, flags=re.DOTALL)
    return page


def write_derived(folder: Path, page: Path | None = None) -> None:
    """Write comparison.md, the tables of the claims, and the numbers of the page."""
    published = read_published(folder, load_experiment("lee2019"))
    (folder / "comparison.md").write_text(comparison(published) + "\n", "utf-8")
    if published.lines():
        for table in (claims_table(published.judged), comparisons_table(published.judged)):
            path = folder / "tables" / table.name
            path.with_suffix(".md").write_text(table.to_markdown(), "utf-8")
            path.with_suffix(".csv").write_text(table.to_csv(), "utf-8")
    if page:
        page.write_text(filled(page.read_text("utf-8"), published), "utf-8")


def _row(cells: list[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _signed(value: float) -> str:
    return f"{value:+z.2f}".replace("-", "−")


def _p(p: float) -> str:
    return p_text(p).replace("<", "&lt;")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    try:
        write_derived(arguments.folder, arguments.page)
    except (OSError, SagpoolError) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
