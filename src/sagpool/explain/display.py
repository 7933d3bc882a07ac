"""A trace in a notebook: its picture, with a line about the prediction and one about the nodes."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from sagpool.explain.draw import png, svg
from sagpool.explain.trace import Trace
from sagpool.html import Html, card, note

LARGEST = 150_000  # characters of a drawing; beyond it, pixels take less
GREY = "#808080"  # can be read on white and on black
WIDEST = 1500  # pixels
MOST_LISTED = 8
FITTING = "max-width: 100%; height: auto"


def trace_html(trace: Trace) -> str:
    label = escape(trace.caption)
    opening = f'<svg role="img" aria-label="{label}" style="{FITTING}" '
    picture = svg(trace, captioned=False).replace("<svg ", opening, 1)
    if len(picture) > LARGEST:
        pixels = b64encode(png(trace, ink=GREY, most_pixels=WIDEST)).decode()
        picture = f'<img alt="{label}" style="{FITTING}" src="data:image/png;base64,{pixels}"/>'
    return card(trace.caption, Html(picture), *_last_level(trace))


def _last_level(trace: Trace) -> list[Html]:
    """Which nodes are left at the end, those with the largest scores first."""
    if not trace.levels:
        return [note("This method keeps no nodes.")]
    kept, score = trace.levels[-1].kept.tolist(), trace.levels[-1].score
    listed = [f"{node} {trace.node_labels[node]}".rstrip() for node in kept]
    if score is not None:
        order = sorted(range(len(kept)), key=lambda i: (-abs(score[i]), kept[i]))
        listed = [f"{listed[i]} ({_signed(score[i])})" for i in order]
    more = ", …" if len(listed) > MOST_LISTED else ""
    names = ", ".join(listed[:MOST_LISTED]) + more
    what = "node and label" if any(trace.node_labels) else "node"
    scored = "" if score is None else ", with the score"
    return [note(f"Kept at level {len(trace.levels)} ({what}{scored}): {names}")]


def _signed(score: float) -> str:
    return f"{score:+.2f}".replace("-", "−")
