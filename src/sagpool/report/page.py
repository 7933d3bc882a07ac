"""The HTML page: a single self-contained file."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sagpool.report import headline
from sagpool.report.content import Content
from sagpool.report.picture import Drawing, Picture
from sagpool.report.section import Section


def template(name: str) -> Template:
    """A template of this package."""
    environment = Environment(
        loader=PackageLoader("sagpool.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def page(
    content: Content,
    sections: Sequence[Section],
    pictures: Mapping[Drawing, Picture],
    runs: Mapping[str, Any],
) -> str:
    """The page; ``runs`` is the result of `runs_behind`."""
    return template("report.html").render(
        title=headline.title(content),
        scope=headline.scope(content),
        headline=headline.sentences(content),
        days=headline.days(content),
        store=content.name,
        sections=sections,
        pictures=pictures,
        runs=runs,
    )
