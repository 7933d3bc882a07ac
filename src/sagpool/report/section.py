"""The parts of a section of the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sagpool.report.picture import Drawing
from sagpool.report.table import Table


@dataclass(frozen=True)
class Part:
    """A table, a piece of HTML, or drawings side by side, optionally under a heading."""

    heading: str = ""
    table: Table | None = None
    html: Markup | None = None
    drawings: Sequence[Drawing] = ()
    folded: bool = False  # show only the heading until the reader clicks on it


@dataclass(frozen=True)
class Section:
    """A section; without parts it is left out of the report."""

    anchor: str  # id on the page
    title: str
    parts: Sequence[Part]
    intro: Sequence[str] = ()  # paragraphs that explain how to read the parts
