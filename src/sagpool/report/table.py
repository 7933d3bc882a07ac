"""Tables, and the forms in which they are kept: Markdown, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from sagpool.report import names


@dataclass(frozen=True)
class Cell:
    """What stands in a table, for each of its forms."""

    plain: str
    html: Markup
    tex: str


@dataclass(frozen=True)
class Column:
    title: Cell
    number: bool = False  # aligned to the right, or in the middle of a matrix


@dataclass(frozen=True)
class Section:
    """Rows under a heading of their own; no heading if it is empty."""

    heading: str
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        name: of its files
        caption: what it shows
        columns: with their titles
        sections: with the rows
        records: the same as plain values, for machines; what the CSV form holds
        notes: what the marks mean
        matrix: whether cells are to be centred, as they hold several lines
    """

    name: str
    caption: str
    columns: Sequence[Column]
    sections: Sequence[Section]
    records: Sequence[dict[str, Any]]
    notes: Sequence[str] = field(default=())
    matrix: bool = False

    def to_markdown(self) -> str:
        lines = [
            _markdown_row(column.title.plain for column in self.columns),
            _markdown_row("---:" if column.number else "---" for column in self.columns),
        ]
        for section in self.sections:
            if section.heading:
                heading = f"*{_markdown(section.heading)}*"
                lines.append(_raw_row([heading, *[""] * (len(self.columns) - 1)]))
            lines += [_markdown_row(cell.plain for cell in row) for row in section.rows]
        body = "\n".join(lines)
        notes = "".join(f"\n\n{_markdown(note)}" for note in self.notes)
        return f"{_markdown(self.caption)}\n\n{body}{notes}\n"

    def to_csv(self) -> str:
        text = io.StringIO()
        header = list(dict.fromkeys(name for record in self.records for name in record))
        writer = csv.DictWriter(text, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return text.getvalue()

    def to_tex(self) -> str:
        """For a document with the package booktabs."""
        aligned = "".join("r" if column.number else "l" for column in self.columns)
        if self.matrix:
            aligned = aligned.replace("r", "c")
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            f"\\caption{{{names.tex_escape(self.caption)}}}",
            "\\centering\\small",
            f"\\begin{{tabular}}{{{aligned}}}",
            "\\toprule",
            _tex_row(f"\\textbf{{{column.title.tex}}}" for column in self.columns),
        ]
        for section in self.sections:
            lines.append("\\midrule")
            lines += [_tex_row(cell.tex for cell in row) for row in section.rows]
        lines += ["\\bottomrule", "\\end{tabular}"]
        lines += [f"\n{{\\footnotesize {names.tex_escape(note)}}}" for note in self.notes]
        return "\n".join([*lines, "\\end{table}", ""])


def text(value: object) -> Cell:
    words = "" if value is None else str(value)
    return Cell(words, escape(words), names.tex_escape(words))


def number(value: float | None, form: str = ".2f") -> Cell:
    """A number with a true minus sign, or nothing."""
    return text(None if value is None else format(value, form).replace("-", "−"))


def method(name: str) -> Cell:
    return Cell(names.plain(name), names.html(name), names.tex(name))


def code(words: str) -> Cell:
    """A name or a command, as it is typed."""
    typed = Markup("<code>{}</code>").format(words)
    # A verbatim text would need a delimiter that is not in it.
    return Cell(words, typed, f"\\texttt{{{names.tex_escape(words)}}}")


def long(words: str) -> Cell:
    """A text that may be broken into lines, such as a command."""
    return Cell(words, Markup('<span class="long">{}</span>').format(words), code(words).tex)


def plus_minus(mean: float | None, std: float | None) -> Cell:
    if mean is None:
        return text(None)
    words = f"{mean:.2f}" + ("" if std is None else f" ± {std:.2f}")
    tex = words.replace("±", r"\pm")
    return Cell(words, Markup(words), f"${tex}$")


def listing(
    name: str,
    caption: str,
    titles: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    records: Sequence[dict[str, Any]],
    *,
    words: Container[str],
    notes: Sequence[str] = (),
) -> Table:
    """A plain list; the columns titled ``words`` hold words, the others numbers."""
    columns = [Column(text(title), number=title not in words) for title in titles]
    return Table(name, caption, columns, [Section("", rows)], records, notes)


def _markdown_row(cells: Any) -> str:
    return _raw_row(_markdown(cell) for cell in cells)


def _raw_row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(words: str) -> str:
    """Names may hold what Markdown or the HTML in it would take for its own."""
    for mark, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        words = words.replace(mark, instead)
    return words.replace("\n", " ")


def _tex_row(cells: Any) -> str:
    return f"{' & '.join(cells)} \\\\"
