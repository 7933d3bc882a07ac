"""The tests of data sets with a fixed split, side by side."""

from typing import Any

from sagpool.bench.summary import Summary
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.table import Head, RowGroup, Table, file_name, method, text


def section(content: Content) -> Section:
    tested = [s for s in content.shown if s.tests]
    datasets = list(dict.fromkeys(s.cell.dataset for s in tested))
    tables = [_table(d, [s for s in tested if s.cell.dataset == d]) for d in datasets]
    return Section(
        "tests",
        "Each test of a fixed split",
        [Part(f"{content.label(d)}", t) for d, t in zip(datasets, tables, strict=True)],
        [
            "Trainings on a fixed split differ only in their seeds. No test influences the choice "
            "of settings."
        ]
        if tested
        else [],
    )


def _table(dataset: str, summaries: list[Summary]) -> Table:
    """Methods are rows, tests are columns."""
    tests = list(dict.fromkeys(name for s in summaries for name in s.tests))
    of_method = {s.method: s for s in summaries}
    rows, records = [], list[dict[str, Any]]()
    for row in names.in_order(of_method):
        summary, cells = of_method[row], [method(row)]
        for name in tests:
            cells.append(text(_shown(summary, name)))
            if name in summary.tests:
                records.append(_record(summary, name))
        rows.append(cells)
    main = summaries[0].main_test
    others = f" All other tables have the accuracy of the test '{main}'." if main else ""
    return Table(
        file_name(f"tests-{dataset}"),
        f"{dataset}: accuracy in percent, mean ± standard deviation over the seeds.{others}",
        [Head(text("method")), *(Head(text(name), number=True) for name in tests)],
        [RowGroup("", rows)],
        records,
    )


def _shown(summary: Summary, name: str) -> str:
    if (found := summary.tests.get(name)) is None:
        return ""
    shown = f"{found.mean:.2f}" + ("" if found.std_seeds is None else f" ± {found.std_seeds:.2f}")
    if name in (published := summary.cell.paper_tests or {}):
        shown += "; paper {:g} ± {:g}".format(*published[name])
    return shown


def _record(summary: Summary, name: str) -> dict[str, Any]:
    low, high = summary.tests[name].ci95 or (None, None)
    paper_mean, paper_std = (summary.cell.paper_tests or {}).get(name, (None, None))
    return {
        "dataset": summary.cell.dataset,
        "method": summary.method,
        "test": name,
        "mean": summary.tests[name].mean,
        "std_seeds": summary.tests[name].std_seeds,
        "ci95_low": low,
        "ci95_high": high,
        "runs": len(summary.runs),
        "paper_mean": paper_mean,
        "paper_std": paper_std,
    }
