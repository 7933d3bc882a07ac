"""A trace in a notebook: its picture, with lines about the prediction, the nodes and reasons."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from sagpool.explain.draw import png, svg
from sagpool.explain.parts import signed, strongest
from sagpool.explain.trace import Trace
from sagpool.html import Html, card, note, table

LARGEST = 150_000  # characters of a drawing; beyond it, pixels take less
GREY = "#808080"  # can be read on white and on black
WIDEST = 1500  # pixels
MOST_LISTED = 8
LONGEST = 120  # characters of the name of a reason
FITTING = "max-width: 100%; height: auto"


def trace_html(trace: Trace) -> str:
    label = escape(trace.caption)
    opening = f'<svg role="img" aria-label="{label}" style="{FITTING}" '
    picture = svg(trace, captioned=False).replace("<svg ", opening, 1)
    if len(picture) > LARGEST:
        pixels = b64encode(png(trace, ink=GREY, most_pixels=WIDEST)).decode()
        picture = f'<img alt="{label}" style="{FITTING}" src="data:image/png;base64,{pixels}"/>'
    return card(trace.caption, Html(picture), *_last_level(trace), *_reasons(trace))


def _last_level(trace: Trace) -> list[Html]:
    """Which nodes are left at the end, those with the largest scores first."""
    if not trace.levels:
        return [] if trace.reasons_of else [note("This method keeps no nodes.")]
    kept, score = trace.levels[-1].kept.tolist(), trace.levels[-1].score
    listed = [f"{node} {trace.node_labels[node]}".rstrip() for node in kept]
    if score is not None:
        order = sorted(range(len(kept)), key=lambda i: (-abs(score[i]), kept[i]))
        listed = [f"{listed[i]} ({_signed(score[i])})" for i in order]
    more = ", …" if len(listed) > MOST_LISTED else ""
    names = ", ".join(listed[:MOST_LISTED]) + more
    what = "node and label" if any(trace.node_labels) else "node"
    scored = "" if score is None else ", with the score"
    told = [note(f"Kept at level {len(trace.levels)} ({what}{scored}): {names}")]
    part = None if trace.net is None else trace.net.sentence
    return told if part is None else [*told, note(part)]


def _reasons(trace: Trace) -> list[Html]:
    """What each reason added, and in a picture without levels, which one is marked."""
    if trace.reasons_of is None:
        return []
    listed = [(one.name[:LONGEST], f"{one.value:.3g}", signed(one.amount)) for one in trace.reasons]
    told = [table(("reason", "value", "amount"), listed), note(trace.reasons_of.sentence)]
    marked = None if trace.levels else strongest(trace.reasons)
    if marked is not None:
        told.append(note(f"Marked: {marked.name[:LONGEST]}"))
    return told


def _signed(score: float) -> str:
    return f"{score:+.2f}".replace("-", "−")
