"""Pieces of HTML for the display of objects in notebooks.

They need no script, style sheet or other file. Text has the font and the colour of the surrounding
page, so that it is readable on light and on dark pages. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NewType

Html = NewType("Html", str)

LINE = "1px solid rgba(128, 128, 128, 0.4)"
CELL = "padding: 2px 14px 2px 0; border: 0; vertical-align: top; background: none"
TABLE = "border-collapse: collapse; border: 0; margin: 4px 0; font-size: inherit; color: inherit"
MUTED = "opacity: 0.75"


def card(title: str, *parts: Html) -> Html:
    """A heading and its content, which scrolls if it is too wide for the page."""
    heading = f'<div style="font-weight: 600; margin: 2px 0">{escape(title)}</div>'
    return Html(f'<div style="overflow-x: auto; color: inherit">{heading}{"".join(parts)}</div>')


def note(text: str) -> Html:
    """A line of small print."""
    return Html(f'<div style="{MUTED}; margin: 4px 0">{escape(text)}</div>')


def facts(entries: Mapping[str, str]) -> Html:
    """Names and values, one pair per row."""
    rows = "".join(
        f'<tr style="background: none"><th scope="row" style="{CELL}; text-align: left; '
        f'font-weight: normal; {MUTED}">{escape(name)}</th>'
        f'<td style="{CELL}; text-align: left">{escape(value)}</td></tr>'
        for name, value in entries.items()
    )
    return Html(f'<table style="{TABLE}">{rows}</table>')


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> Html:
    """A table; its first ``words`` columns are aligned left, those of numbers right."""

    def cells(tag: str, row: Sequence[str], style: str) -> str:
        aligned = ["left" if column < words else "right" for column in range(len(heads))]
        return "".join(
            f'<{tag} style="{CELL}; text-align: {side}; {style}">{escape(text)}</{tag}>'
            for text, side in zip(row, aligned, strict=True)
        )

    head = cells("th", heads, f"font-weight: 600; white-space: nowrap; border-bottom: {LINE}")
    body = "".join(
        f'<tr style="background: none">{cells("td", row, "white-space: nowrap")}</tr>'
        for row in rows
    )
    return Html(
        f'<table style="{TABLE}"><thead><tr style="background: none">{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def bars(counts: Mapping[str, int]) -> Html:
    """A bar for each name, in proportion to its fraction of the total."""
    total = max(sum(counts.values()), 1)
    rows = "".join(
        f'<tr style="background: none"><td style="{CELL}; text-align: left">{escape(name)}</td>'
        f'<td style="{CELL}; text-align: right">{count:,}</td>'
        f'<td style="{CELL}; text-align: left; width: 160px">'
        f'<div style="width: {100 * count / total:.1f}%; height: 0.7em; margin-top: 0.35em; '
        'background: currentColor; opacity: 0.45"></div></td>'
        f'<td style="{CELL}; text-align: right">{100 * count / total:.1f} %</td></tr>'
        for name, count in counts.items()
    )
    return Html(f'<table style="{TABLE}">{rows}</table>')
