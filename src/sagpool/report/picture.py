"""Figures as PNG files, SVG files and elements of a page."""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from sagpool.explain.draw import INK
from sagpool.report.colours import FAINT, GROUND, MUTED

# On a page these colours follow the reader's theme.
_THEMED = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    FAINT: "var(--line)",
    GROUND: "var(--ground)",
}
DPI = 200
STYLE: dict[Any, Any] = {  # matplotlib's type for keys lists every option
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "path.simplify": True,
    "text.parse_math": False,  # a $ in the name of a data set is a $
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, its file name (without suffix), and its caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Picture:
    """A rendered drawing."""

    name: str  # file name without suffix
    png: bytes
    svg: str  # for a white background
    inline: Markup  # for the page


def render_all(drawings: Iterable[Drawing]) -> dict[Drawing, Picture]:
    """Render drawings under valid and unique file names."""
    used: set[str] = set()
    pictures = {}
    for drawing in drawings:
        valid = re.sub(r"[^A-Za-z0-9._-]+", "-", drawing.name)
        unique, count = valid, 2
        while unique.lower() in used:  # some file systems ignore case
            unique, count = f"{valid}-{count}", count + 1
        used.add(unique.lower())
        pictures[drawing] = _render(drawing, unique)
    return pictures


def _render(drawing: Drawing, name: str) -> Picture:
    """Render a figure; equal figures give equal bytes."""
    svg, png = to_svg(drawing.figure, name), io.BytesIO()
    with rc_context(STYLE):
        drawing.figure.patch.set_facecolor("white")
        drawing.figure.set_dpi(DPI)
        FigureCanvasAgg(drawing.figure).print_png(png)
    white = re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg)
    return Picture(name, png.getvalue(), white, inline(svg, drawing.caption))


def to_svg(figure: Figure, name: str) -> str:
    """The SVG; ``name`` must be unique among the figures of a page."""
    file = io.StringIO()
    # Ids inside the SVG are hashes; a salt per figure keeps them unique on the page.
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.patch.set_facecolor("none")
        figure.set_dpi(DPI)  # for large graphs, which are drawn as pixels
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    return file.getvalue()


def inline(svg: str, caption: str) -> Markup:
    """An element of a page, with its colours and font, and without ids that could clash."""
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
    # Removes blank lines and indentation, a tenth of the size.
    svg = opening + svg[svg.index(">") + 1 :]
    lines = (line.strip() for line in svg.splitlines())
    return Markup("\n".join(line for line in lines if line))


def _font(found: re.Match[str]) -> str:
    weight = f"font-weight: {found[1]}; " if found[1] else ""
    return f"{weight}font-size: {found[2]}"
