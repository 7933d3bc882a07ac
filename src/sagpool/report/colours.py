"""The colours of figures: greys that follow the theme of the page, and one for each method.

The colours of methods have a contrast of at least 3 to a white and to a dark page, and people with
a colour vision deficiency can tell the methods of one panel apart.
"""

import zlib

from sagpool.report import names

MUTED = "#767676"
FAINT = "#e2e2e2"
GROUND = "#fefefe"

_METHODS = {
    "set2set-g": "#b07d08",
    "sortpool-g": "#2b93c9",
    "sortpool-g-conv1d": "#4f86a8",
    "sagpool-g": "#c2559c",
    "nopool-g": "#858585",
    "diffpool-h": "#0f9a6f",
    "gpool-h": "#1f78c8",
    "sagpool-h": "#dd5a0b",
    "random-h": "#858585",
    "mincut-h": "#2a8f4f",
    "dmon-h": "#8a5fd0",
    "justbalance-h": "#c0503f",
    "hosc-h": "#5f7f9f",
    "gmt-g": "#3f8a2f",
    "asap-h": "#d0409a",
    "edgepool-h": "#2f8fa8",
    "panpool-h": "#7f7fbf",
    "graclus-h": "#a07030",
    "kmis-h": "#5f9020",
    "ndp-h": "#3f7f6f",
    "complement-h": "#6f6f7a",
    "nopool-h": "#8f7f6f",
}
# Variants of SAGPool: warm shades for -h, purple ones for -g.
_VARIANTS = {
    "cheb": ("#b8860b", "#8e6fd0"),
    "sage": ("#9a5b1e", "#a0479f"),
    "gat": ("#e0567a", "#7b5fc4"),
    "augmentation": ("#b23a2e", "#d0569a"),
    "serial2": ("#85821c", "#b06ac0"),
    "parallel2": ("#a3456b", "#965a86"),
    "parallel4": ("#a36bc4", "#bb6f9f"),
    "ratio": ("#4f9a2f", "#4f7fd0"),
    "masks2": ("#c8604f", "#9f5fd8"),
    "masks4": ("#d0486f", "#8868b8"),
}
# Activities of a device; neighbours in a stack can be told apart.
KINDS = {
    "steps": "#1f78c8",
    "evaluation": "#b07d08",
    "compiling": "#c2559c",
    "recording": "#0f9a6f",
    "waiting": FAINT,
}
_OTHERS = ("#6f7f14", "#7a6ad8", "#14908f", "#a8628f", "#b46a3c", "#5b8a5b")


def colour(method: str) -> str:
    """The same colour in all figures and all reports; for a method of any name."""
    if own := names.display(method).colour:
        return own
    if method in _METHODS:
        return _METHODS[method]
    for start, shade in (("sagpool-h-", 0), ("sagpool-g-", 1)):
        if method.startswith(start) and (suffix := method.removeprefix(start)) in _VARIANTS:
            return _VARIANTS[suffix][shade]
    return _OTHERS[zlib.crc32(method.encode()) % len(_OTHERS)]
