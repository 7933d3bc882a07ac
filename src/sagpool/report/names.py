"""Methods and settings as people write them: ``sagpool-h-cheb`` is SAGPool with indices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from markupsafe import Markup, escape

_BASES = {
    "set2set": "Set2Set",
    "sortpool": "SortPool",
    "sagpool": "SAGPool",
    "diffpool": "DiffPool",
    "gpool": "gPool",
    "random": "Random",
    "nopool": "NoPool",
}
_SUFFIXES = {
    "cheb": "Cheb",
    "sage": "SAGE",
    "gat": "GAT",
    "serial2": "serial, 2 layers",
    "parallel2": "parallel, M=2",
    "parallel4": "parallel, M=4",
    "conv1d": "1-D conv",
}
# As in the paper's Tables 3 and 4; what they do not have comes after.
_ORDER = [
    *("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h"),
    *(f"sagpool-h-{suffix}" for suffix in ("cheb", "sage", "gat", "augmentation")),
    *(f"sagpool-h-{suffix}" for suffix in ("serial2", "parallel2", "parallel4")),
]
_TEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "†": r"$^\dagger$",
    }
)


class Parts(NamedTuple):
    base: str
    architecture: str  # g, h, or nothing for a name of another form
    suffix: str


def parts(method: str) -> Parts:
    found = re.fullmatch(r"(.+?)-([gh])(?:-(.+))?", method)
    return Parts(found[1], found[2], found[3] or "") if found else Parts(method, "", "")


def is_variant(method: str) -> bool:
    """Whether it is SAGPool with another score than the paper's first one."""
    base, _, suffix = parts(method)
    return base == "sagpool" and bool(suffix)


def architecture(method: str) -> str:
    return {"g": "global", "h": "hierarchical", "": "other"}[parts(method).architecture]


def in_order(methods: Iterable[str]) -> list[str]:
    """The paper's order, then the order in which they come."""
    listed = list(dict.fromkeys(methods))
    place = {method: i for i, method in enumerate([*_ORDER, *listed][::-1])}
    return sorted(listed, key=lambda method: -place[method])


def plain(method: str) -> str:
    base, index, suffix = _written(method)
    joined = ", ".join(part for part in (index, suffix) if part)
    return f"{base}_{joined}" if index and not suffix else f"{base}_({joined})" if joined else base


def html(method: str) -> Markup:
    base, index, suffix = _written(method)
    joined = ", ".join(part for part in (index, suffix) if part)
    return escape(base) + (Markup("<sub>{}</sub>").format(joined) if joined else Markup(""))


def tex(method: str) -> str:
    base, index, suffix = _written(method)
    if not index:
        return tex_escape(base)
    if not suffix:
        return f"{tex_escape(base)}$_{index}$"
    return rf"{tex_escape(base)}$_{{{index},\textrm{{{tex_escape(suffix)}}}}}$"


def tex_escape(text: str) -> str:
    return text.translate(_TEX)


def setting(value: Any) -> str:
    """A number as one writes it: 5e-4, 0.5, 128."""
    if isinstance(value, float):
        if value and abs(value) < 0.01:
            digits, exponent = f"{value:e}".split("e")
            return f"{float(digits):g}e{int(exponent)}"
        return f"{value:g}"
    return str(value)


def settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {setting(value)}" for name, value in values.items())


def _written(method: str) -> Parts:
    base, index, suffix = parts(method)
    return Parts(_BASES.get(base, base), index, _SUFFIXES.get(suffix, suffix))
