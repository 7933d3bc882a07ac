"""Tables, and their output formats: Markdown, CSV, LaTeX and HTML."""

import csv
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from sagpool.report import names
from sagpool.spreadsheet import as_text


@dataclass(frozen=True)
class Cell:
    """The content of a table cell in each format."""

    plain: str
    html: Markup
    tex: str
    runs: str = ""  # on the page: id of the cell whose runs are behind the number, see `runs.py`


@dataclass(frozen=True)
class Head:
    """The head of a column; columns of numbers are aligned right, or centred in a matrix."""

    title: Cell
    number: bool = False


class Column(NamedTuple):
    """A column of a plain list."""

    head: Head
    cells: Sequence[Cell]


@dataclass(frozen=True)
class RowGroup:
    """Rows under a heading; an empty heading is not shown."""

    heading: str
    rows: Sequence[Sequence[Cell]]


def file_name(name: str) -> str:
    """The name without characters that file systems refuse; different for different names."""
    valid = re.sub(r'[\\/:*?"<>|\x00-\x1f]+', "-", name)
    return valid if valid == name else f"{valid}-{zlib.crc32(name.encode()):08x}"


@dataclass(frozen=True)
class Table:
    name: str  # file name without suffix
    caption: str
    heads: Sequence[Head]
    groups: Sequence[RowGroup]
    records: Sequence[dict[str, Any]]  # the same data as plain values, for the CSV file
    notes: Sequence[str] = ()  # explanations of the marks
    matrix: bool = False  # cells have several lines and are centred
    prose: bool = False  # cells are sentences, which wrap

    def to_markdown(self) -> str:
        lines = [
            _markdown_row(_markdown(head.title.plain) for head in self.heads),
            _markdown_row("---:" if head.number else "---" for head in self.heads),
        ]
        for group in self.groups:
            if group.heading:
                heading = f"*{_markdown(group.heading)}*"
                lines.append(_markdown_row([heading, *[""] * (len(self.heads) - 1)]))
            lines += [_markdown_row(_markdown(cell.plain) for cell in row) for row in group.rows]
        body = "\n".join(lines)
        notes = "".join(f"\n\n{_markdown(note)}" for note in self.notes)
        return f"{_markdown(self.caption)}\n\n{body}{notes}\n"

    def to_csv(self) -> str:
        file = io.StringIO()
        header = list(dict.fromkeys(name for record in self.records for name in record))
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: as_text(v) if isinstance(v, str) else v for k, v in record.items()}
            for record in self.records
        )
        return file.getvalue()

    def to_tex(self) -> str:
        """LaTeX for documents that use the booktabs package."""
        numbers = "c" if self.matrix else "r"
        wrapped = rf"p{{{0.9 / len(self.heads):.2f}\linewidth}}"
        words = rf">{{\raggedright\arraybackslash}}{wrapped}" if self.prose else "l"
        aligned = "".join(numbers if head.number else words for head in self.heads)
        lines = [
            f"% needs \\usepackage{{booktabs{',array' if self.prose else ''}}}",
            "\\begin{table}",
            f"\\caption{{{names.tex_escape(self.caption)}}}",
            "\\centering\\small",
            f"\\begin{{tabular}}{{{aligned}}}",
            "\\toprule",
            _tex_row(f"\\textbf{{{head.title.tex}}}" for head in self.heads),
        ]
        for group in self.groups:
            lines.append("\\midrule")
            lines += [_tex_row(cell.tex for cell in row) for row in group.rows]
        lines += ["\\bottomrule", "\\end{tabular}"]
        lines += [f"\n{{\\footnotesize {names.tex_escape(note)}}}" for note in self.notes]
        return "\n".join([*lines, "\\end{table}", ""])


def listing(
    name: str,
    caption: str,
    columns: Sequence[Column],
    records: Sequence[dict[str, Any]],
    notes: Sequence[str] = (),
    *,
    prose: bool = False,
) -> Table:
    """A table that is a plain list of rows."""
    heads, cells = zip(*columns, strict=True)
    rows = [RowGroup("", list(zip(*cells, strict=True)))]
    return Table(name, caption, heads, rows, records, notes, prose=prose)


def words(title: str, values: Iterable[Cell | str]) -> Column:
    """A column of words."""
    return Column(Head(text(title)), [_as_cell(value) for value in values])


def numbers(title: str, values: Iterable[Cell | str | float | None], form: str = ".2f") -> Column:
    """A column of numbers in this format; strings and cells are used unchanged."""
    return Column(Head(text(title), number=True), [_as_cell(value, form) for value in values])


def _as_cell(value: Cell | str | float | None, form: str = "") -> Cell:
    if isinstance(value, Cell):
        return value
    return text(value) if isinstance(value, str) else number(value, form)


def text(value: str) -> Cell:
    return Cell(value, escape(value), names.tex_escape(value))


def number(value: float | None, form: str = ".2f") -> Cell:
    """A number with a true minus sign; empty for None."""
    return text("" if value is None else format(value, form).replace("-", "−"))


def method(name: str) -> Cell:
    return Cell(names.plain(name), names.html(name), names.tex(name))


def joined(cells: Iterable[Cell], between: str | None = None) -> Cell:
    """Several cells in one, each on its own line unless ``between`` is given."""
    listed = list(cells)
    plain, html, tex = ("; ", "<br>", r" \newline ") if between is None else (between,) * 3
    return Cell(
        plain.join(cell.plain for cell in listed),
        Markup(html).join(cell.html for cell in listed),
        tex.join(cell.tex for cell in listed),
    )


def code(words: str) -> Cell:
    """A name or a command, as typed."""
    html = Markup("<code>{}</code>").format(words)
    # \verb would need a delimiter that the text does not contain.
    return Cell(words, html, f"\\texttt{{{names.tex_escape(words)}}}")


def long(words: str) -> Cell:
    """A text that may wrap, such as a command."""
    return Cell(words, Markup('<span class="long">{}</span>').format(words), code(words).tex)


def plus_minus(mean: float | None, std: float | None) -> Cell:
    if mean is None:
        return text("")
    words = f"{mean:.2f}" + ("" if std is None else f" ± {std:.2f}")
    tex = words.replace("±", r"\pm")
    return Cell(words, Markup(words), f"${tex}$")


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(words: str) -> str:
    """Escape characters that Markdown, or the HTML inside it, would interpret."""
    for mark, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        words = words.replace(mark, escaped)
    return words.replace("\n", " ")


def _tex_row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
