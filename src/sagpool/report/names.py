"""Display names of methods and settings: ``sagpool-h-cheb`` is SAGPool with a subscript.

A method of any name can be displayed; methods of the package and the paper have nicer names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from sagpool.models import Display
from sagpool.report.tex_characters import TEX

ARCHITECTURES = ("global", "hierarchical", "other")
_BASES = {
    "set2set": "Set2Set",
    "sortpool": "SortPool",
    "sagpool": "SAGPool",
    "diffpool": "DiffPool",
    "gpool": "gPool",
    "random": "Random",
    "nopool": "NoPool",
    "complement": "Complement",
    "mlp": "MLP",
    "mincut": "MinCutPool",
    "dmon": "DMoN",
    "justbalance": "JustBalance",
    "hosc": "HOSC",
    "gmt": "GMT",
    "asap": "ASAP",
    "edgepool": "EdgePool",
    "panpool": "PANPool",
    "graclus": "Graclus",
    "kmis": "k-MIS",
    "ndp": "NDP",
    "gin": "GIN",
}
_SUFFIXES = {
    "cheb": "Cheb",
    "sage": "SAGE",
    "gat": "GAT",
    "serial2": "serial, 2 layers",
    "parallel2": "parallel, M=2",
    "parallel4": "parallel, M=4",
    "conv1d": "1-D conv",
    "masks2": "2 masks",
    "masks4": "4 masks",
}
# The order of the paper's Tables 3 and 4.
_ORDER = [
    *("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h"),
    *(f"sagpool-h-{suffix}" for suffix in ("cheb", "sage", "gat", "augmentation")),
    *(f"sagpool-h-{suffix}" for suffix in ("serial2", "parallel2", "parallel4")),
]


# Display settings of the current report, which override the names in these tables.
_displays: ContextVar[Mapping[str, Display]] = ContextVar("displays", default=MappingProxyType({}))
_first: ContextVar[Sequence[str]] = ContextVar("first", default=())


@contextmanager
def displayed(displays: Mapping[str, Display], first: Sequence[str] = ()) -> Iterator[None]:
    """In this block methods have these names and colours, and those in ``first`` come first."""
    tokens = _displays.set(displays), _first.set(first)
    try:
        yield
    finally:
        _displays.reset(tokens[0])
        _first.reset(tokens[1])


def display(method: str) -> Display:
    """The display settings of a method with these settings, or else of the method."""
    known = _displays.get()
    return known.get(method) or known.get(method.partition(", ")[0], Display())


class Parts(NamedTuple):
    base: str
    architecture: str  # g, h, or empty for other names
    suffix: str
    settings: str = ""  # with the preceding comma; empty if a display name tells them


def parts(method: str) -> Parts:
    """The parts of a method's name, with or without settings: ``diffpool-h, losses none``."""
    name, comma, settings = method.partition(", ")
    found = re.fullmatch(r"(.+)-([gh])(?:-(.+))?", name)
    named = (found[1], found[2], found[3] or "") if found else (name, "", "")
    told = _displays.get().get(method, Display()).name
    return Parts(*named, "" if told else comma + settings)


def is_variant(method: str) -> bool:
    """Whether the method is SAGPool with another score function."""
    found = parts(method)
    return found.base == "sagpool" and bool(found.suffix)


def architecture(method: str) -> str:
    return {"g": "global", "h": "hierarchical", "": "other"}[parts(method).architecture]


def in_order(methods: Iterable[str]) -> list[str]:
    """Each method once: first the paper's methods in its order, then the others as given.

    A method with settings follows the method without.
    """
    listed = list(dict.fromkeys(methods))
    plain = dict.fromkeys(method.partition(", ")[0] for method in listed)
    first = dict.fromkeys([*_first.get(), *_ORDER])
    order = [*first, *(method for method in plain if method not in first)]
    return sorted(listed, key=lambda name: (order.index(name.partition(", ")[0]), ", " in name))


def label(method: str) -> str:
    """The display name in figures; by default the registered name."""
    name = display(method).name or method.partition(", ")[0]
    return name + parts(method).settings


def plain(method: str) -> str:
    base, index, suffix, settings = _display(method)
    name = f"{base}_({index}, {suffix})" if suffix else f"{base}_{index}" if index else base
    return name + settings


def html(method: str) -> Markup:
    base, index, suffix, settings = _display(method)
    below = f"{index}, {suffix}" if suffix else index
    return escape(base) + (Markup("<sub>{}</sub>").format(below) if below else "") + settings


def tex(method: str) -> str:
    base, index, suffix, settings = map(tex_escape, _display(method))
    if not index:
        return base + settings
    if not suffix:
        return f"{base}$_{index}${settings}"
    return rf"{base}$_{{{index},\textrm{{{suffix}}}}}${settings}"


def tex_escape(text: str) -> str:
    return text.translate(TEX)


def setting(value: Any) -> str:
    """A value in its usual notation: 5e-4, 0.5, 128; several: 5e-4 or 0.5."""
    if isinstance(value, list):
        return " or ".join(map(setting, value))
    if isinstance(value, float):
        if value and abs(value) < 0.01:
            digits, exponent = f"{value:e}".split("e")
            return f"{float(digits):g}e{int(exponent)}"
        return f"{value:g}"
    return str(value)


def settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {setting(value)}" for name, value in values.items())


def common_settings(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the same value everywhere; empty if there is only one set."""
    first, *others = several
    return {k: v for k, v in first.items() if others and all(o.get(k) == v for o in others)}


def _display(method: str) -> Parts:
    base, index, suffix, settings = parts(method)
    if name := display(method).name:
        return Parts(name, "", "", settings)
    return Parts(_BASES.get(base, base), index, _SUFFIXES.get(suffix, suffix), settings)
