"""Pictures of the nodes that a model kept, in files and on a page."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib import rc_context

from sagpool.errors import SagpoolError
from sagpool.explain.draw import draw
from sagpool.explain.explained import Explained
from sagpool.explain.trace import Trace
from sagpool.report.canvas import STYLE, inline
from sagpool.report.figures.kept import hide_small_labels
from sagpool.report.page import template

DPI = 150
_OURS = re.compile(r"\d+(-[A-Za-z0-9._-]+)?\.png")


@dataclass(frozen=True, eq=False)
class Card:
    """A graph on the page."""

    trace: Trace
    file: str
    figure: Markup

    @property
    def verdict(self) -> str:
        return {True: "right", False: "wrong", None: ""}[self.trace.correct]


def write_gallery(explained: Explained, folder: Path) -> Iterator[Path]:
    """Write ``pictures/``, ``scores.csv`` and, at last, ``index.html``; each picture's path.

    Args:
        explained: what to show
        folder: made if it is not there; what an earlier call wrote is overwritten
    """
    try:
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
        (folder / "scores.csv").write_text(explained.scores(), encoding="utf-8")
        cards, written = [], set()
        for trace in explained.by_confidence:
            path = folder / "pictures" / f"{explained.file_name(trace)}.png"
            path.write_bytes(_png(trace))
            cards.append(_card(trace, path.name))
            written.add(path)
            yield path
        _remove_others(folder / "pictures", written)
        (folder / "index.html").write_text(_page(explained, cards), encoding="utf-8")
    except OSError as error:
        raise SagpoolError(
            f"{error.filename or folder} cannot be written: {error.strerror}."
        ) from None


def _png(trace: Trace) -> bytes:
    data = io.BytesIO()
    with rc_context(STYLE):
        draw(trace).savefig(data, dpi=DPI, facecolor="white", format="png")
    return data.getvalue()


def _card(trace: Trace, file: str) -> Card:
    with rc_context(STYLE):
        figure = draw(trace, wide=False, captioned=False)
        hide_small_labels(figure)
        return Card(trace, file, inline(figure, file, trace.caption))


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


def _remove_others(folder: Path, written: Collection[Path]) -> None:
    """Remove pictures that an earlier call wrote here and this one did not; other files stay."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path not in written:
            path.unlink()
