"""The page of `sagpool explain`: pictures of the nodes that a model kept."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib import rc_context

from sagpool.explain.draw import draw
from sagpool.explain.explained import Explained
from sagpool.explain.trace import Trace
from sagpool.output_folder import OutputFolder
from sagpool.report.canvas import hide_small_labels
from sagpool.report.page import template
from sagpool.report.picture import STYLE, inline, to_svg

DPI = 150


@dataclass(frozen=True, eq=False)
class Card:
    """A graph on the page."""

    trace: Trace
    figure: Markup

    @property
    def verdict(self) -> str:
        return {True: "right", False: "wrong", None: ""}[self.trace.correct]


def write_gallery(explained: Explained, folder: OutputFolder) -> Iterator[Path]:
    """Write ``scores.csv``, ``pictures/`` and ``index.html``; yields the path of each picture.

    Args:
        explained: what to show
        folder: the files of an earlier call in it are replaced
    """
    folder.write("scores.csv", explained.scores().encode())
    cards = []
    for trace in explained.by_confidence:
        path = folder.write(f"pictures/{explained.file_name(trace)}.png", _png(trace))
        cards.append(_card(trace, path.name))
        yield path
    folder.write("index.html", _page(explained, cards).encode())
    folder.finish()


def _png(trace: Trace) -> bytes:
    data = io.BytesIO()
    with rc_context(STYLE):
        draw(trace).savefig(data, dpi=DPI, facecolor="white", format="png")
    return data.getvalue()


def _card(trace: Trace, name: str) -> Card:
    with rc_context(STYLE):
        figure = draw(trace, wide=False, captioned=False)
        hide_small_labels(figure)
        return Card(trace, inline(to_svg(figure, name), trace.caption))


def _page(explained: Explained, cards: list[Card]) -> str:
    verdicts = {card.verdict for card in cards}
    return template("gallery.html").render(
        explained=explained,
        cards=cards,
        right=sum(card.verdict == "right" for card in cards),
        known="" not in verdicts,
        filtered=verdicts == {"right", "wrong"},
        scored=any(level.score is not None for level in cards[0].trace.levels),
    )
