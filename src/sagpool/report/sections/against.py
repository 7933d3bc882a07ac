"""All methods compared with the requested one."""

from markupsafe import Markup

from sagpool.bench.against import MEANING
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.table import Cell, listing, method, numbers, words
from sagpool.statistics import SIGNIFICANT


def section(content: Content) -> Section:
    found = content.against
    if not found:
        return Section("against", "", [])
    differences, intervals, ps = zip(*(one.words() for one in found), strict=True)
    columns = [
        words("data set", [content.label(one.summary.cell.dataset) for one in found]),
        words("method", [method(one.summary.method) for one in found]),
        numbers(
            "difference",
            [
                _bold(difference) if one.significant else difference
                for difference, one in zip(differences, found, strict=True)
            ],
        ),
        numbers("95 % interval", intervals),
        numbers("p", ps),
    ]
    records = []
    for one in found:
        row = one.to_json()
        low, high = row.pop("ci95")
        records.append(row | {"ci95_low": low, "ci95_high": high})
    caption = f"{MEANING.format(count=len(found))} Bold: p below {SIGNIFICANT}."
    table = listing("against", caption, columns, records)
    title = Markup("Against {}").format(names.html(found[0].reference))
    return Section("against", title, [Part(table=table)])


def _bold(words: str) -> Cell:
    html = Markup("<strong>{}</strong>").format(words)
    return Cell(f"**{words}**", html, rf"\textbf{{{words}}}")
