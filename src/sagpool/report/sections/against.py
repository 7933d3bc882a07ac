"""All methods compared with the requested one."""

from markupsafe import Markup

from sagpool.bench.against import MEANING
from sagpool.report import names
from sagpool.report.content import ComparedGroup, Content
from sagpool.report.section import Part, Section
from sagpool.report.sections.results import heading, protocol, suffix
from sagpool.report.table import Cell, Table, listing, method, numbers, words
from sagpool.statistics import SIGNIFICANT


def section(content: Content) -> Section:
    if not content.against:
        return Section("against", "", [])
    reference = content.against[0].comparisons[0].reference
    title = Markup("Against {}").format(names.html(reference))
    return Section("against", title, [_part(content, one) for one in content.against])


def _part(content: Content, compared: ComparedGroup) -> Part:
    first = compared.group is content.groups[0]
    alone = first and len(content.against) == 1
    return Part("" if alone else heading(content, compared.group), _table(content, compared))


def _table(content: Content, compared: ComparedGroup) -> Table:
    found, group = compared.comparisons, compared.group
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
        low, high = row.pop("ci95") or (None, None)
        records.append(row | {"ci95_low": low, "ci95_high": high})
    caption = f"{MEANING.format(count=len(found))} Bold: p below {SIGNIFICANT}."
    caption = f"{caption} {protocol(content, group)}".strip()
    return listing(f"against{suffix(content, group)}", caption, columns, records)


def _bold(words: str) -> Cell:
    html = Markup("<strong>{}</strong>").format(words)
    return Cell(f"**{words}**", html, rf"\textbf{{{words}}}")
