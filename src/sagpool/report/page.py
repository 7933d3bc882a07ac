"""The page: one file that needs no other."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sagpool.report.content import Content
from sagpool.report.headline import headline, scope
from sagpool.report.provenance import span
from sagpool.report.sections import Section


def template(name: str) -> Template:
    """A page with what all pages have: the style, and the button for dark and light."""
    environment = Environment(
        loader=PackageLoader("sagpool.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def page(content: Content, sections: Sequence[Section]) -> str:
    return template("report.html").render(
        title=_title(content),
        scope=scope(content),
        headline=headline(content),
        span=span(content),
        store=content.name,
        sections=sections,
    )


def _title(content: Content) -> str:
    names = content.datasets
    if len(names) > 3:
        return f"Graph pooling on {len(names)} data sets"
    *others, last = names
    return (
        f"Graph pooling on {', '.join(others)} and {last}" if others else f"Graph pooling on {last}"
    )
