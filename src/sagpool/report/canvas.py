"""Small figures that can be read on a phone, and the forms in which they are kept."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from sagpool.explain.draw import INK

# On the page, each of these is what the reader's theme makes of it.
MUTED = "#767676"
FAINT = "#e2e2e2"
GROUND = "#fefefe"
_THEMED = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    FAINT: "var(--line)",
    GROUND: "var(--ground)",
}

LEFT = 0.58  # inches, for the numbers at an axis and its label
WIDTH = 3.9  # inches; on a page of 374 CSS pixels a point is 4 / 3 of a pixel
SMALL, NORMAL, TITLE = 8.0, 8.5, 9.5  # points
DPI = 200
STYLE: dict[Any, Any] = {  # matplotlib's types would have each name spelt out
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "path.simplify": True,
    "text.parse_math": False,  # a $ in the name of a data set is a $
}


@dataclass(frozen=True)
class Picture:
    """A finished figure."""

    name: str  # of its files
    caption: str
    png: bytes
    svg: str  # on white
    inline: Markup  # for the page


def render(figure: Figure, name: str, caption: str) -> Picture:
    """The figure in all its forms; equal figures give equal bytes."""
    whole, png = _svg(figure, name), io.BytesIO()
    with rc_context(STYLE):
        figure.patch.set_facecolor("white")
        figure.set_dpi(DPI)
        FigureCanvasAgg(figure).print_png(png)
    white = re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', whole)
    return Picture(name, caption, png.getvalue(), white, _inline(whole, caption))


def inline(figure: Figure, name: str, caption: str) -> Markup:
    """The figure for the page alone; ``name`` is that of no other on it."""
    return _inline(_svg(figure, name), caption)


def _svg(figure: Figure, name: str) -> str:
    text = io.StringIO()
    # Names inside the file are hashes; with a salt for each figure they do not clash on the page.
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.patch.set_facecolor("none")
        FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    return text.getvalue()


def new_figure(height: float, title: str) -> Figure:
    """An empty figure of the common width, with a title in its upper left corner."""
    figure = Figure(figsize=(WIDTH, height), facecolor="none")
    figure.text(
        0.06 / WIDTH, 1 - 0.06 / height, short(title, 46), color=INK, size=TITLE, weight="bold",
        va="top",
    )  # fmt: skip
    return figure


def short(words: str, most: int = 26) -> str:
    """Names of others may be of any length; those of ours are left as they are."""
    return words if len(words) <= most else f"{words[: most - 1]}…"


def add_axes(
    figure: Figure, *, left: float, bottom: float, top: float, right: float = 0.12
) -> Axes:
    """Axes with these margins, in inches; lines where the eye needs them, and no others."""
    width, height = figure.get_size_inches()
    ax = figure.add_axes(
        (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height),
        facecolor="none",
    )
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set(color=MUTED, linewidth=0.6)
    ax.tick_params(colors=INK, labelsize=SMALL, length=0, pad=3)
    ax.tick_params(axis="x", which="both", color=MUTED, length=2.5, width=0.6)
    ax.set_axisbelow(True)
    return ax


def label_y(ax: Axes, words: str) -> None:
    """A label at the left edge of the figure, however wide the numbers are."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    middle = (ax.get_position().y0 + ax.get_position().y1) / 2
    ax.set_ylabel(words, color=INK, size=SMALL)
    ax.yaxis.set_label_coords(0.15 / WIDTH, middle, transform=figure.transFigure)


def room_for(texts: Sequence[str], size: float = SMALL) -> float:
    """The width of the longest text, in inches."""
    widths = [TextPath((0, 0), text, size=size).get_extents().width for text in texts]
    return 0.15 + max(widths) / 72


def legend_rows(labels: Sequence[str]) -> int:
    most = max(1, int((WIDTH - 0.1) / (room_for(labels) + 0.32)))  # columns
    return -(-len(labels) // most)


def add_legend(figure: Figure, handles: Sequence[Artist], *, top: float) -> None:
    """A legend in a few columns, ``top`` inches below the upper edge of the figure."""
    rows = legend_rows([str(handle.get_label()) for handle in handles])
    columns = -(-len(handles) // rows)
    # Matplotlib goes down the columns; people read along the rows.
    ordered = [handle for column in range(columns) for handle in handles[column::columns]]
    figure.legend(
        handles=ordered, loc="upper left", ncols=columns, frameon=False,
        bbox_to_anchor=(0, 1 - top / figure.get_size_inches()[1]), fontsize=SMALL,
        labelcolor=INK, borderpad=0, borderaxespad=0.35, handlelength=1.3, handletextpad=0.5,
        columnspacing=1.2, labelspacing=0.3,
    )  # fmt: skip


def _inline(svg: str, caption: str) -> Markup:
    """An element of the page: its colours, its font, and no names that could clash."""
    svg = svg[svg.index("<svg") :]
    unwanted = r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->"
    svg = re.sub(unwanted, "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r"font:\s*(?:(bold|\d+) )?([\d.]+px)[^;\"]*", _font, svg)
    svg = re.sub(r"font-family:[^;\"]*;?", "", svg)
    for ink, themed in _THEMED.items():
        svg = svg.replace(ink, themed)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = f'<svg class="figure" role="img" aria-label="{escape(caption)}" {box[0]}>'
    # Blank lines and indents are a tenth of the size.
    lines = (line.strip() for line in re.sub(r"<svg[^>]*>", opening, svg, count=1).splitlines())
    return Markup("\n".join(line for line in lines if line))


def _font(found: re.Match[str]) -> str:
    weight = f"font-weight: {found[1]}; " if found[1] else ""
    return f"{weight}font-size: {found[2]}"
