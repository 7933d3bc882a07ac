"""``.. room:: sagpool.nn``: the reference of a package, from the names in its ``__all__``.

The lines of the directive's content are further classes, which are results or fields.
"""

from importlib import import_module
from inspect import isclass, isfunction, ismodule
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# A name in several of them is described in the first.
ROOMS = (
    "sagpool",
    "sagpool.nn",
    "sagpool.bench",
    "sagpool.classifier",
    "sagpool.explain",
    "sagpool.export",
    "sagpool.report",
    "sagpool.fleet",
    "sagpool.models",
    "sagpool.graphs",
    "sagpool.ops",
    "sagpool.testing",
)


class Room(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        (room,) = self.arguments
        homes = {name: _home(room, name) for name in _names(import_module(room))}
        lines = [f".. automodule:: {room}", "   :no-members:", ""]
        for title, kind in (("Functions", isfunction), ("Classes", isclass)):
            chosen = [name for name in homes if kind(_value(room, name))]
            if chosen:
                lines += [f".. rubric:: {title}", "", ".. autosummary::", "   :nosignatures:", ""]
                lines += [*(f"   {_reference(room, homes[name], name)}" for name in chosen), ""]
        own = [name for name, home in homes.items() if home == room]
        for kind in (isfunction, isclass, _is_value):
            for name in own:
                if kind(_value(room, name)):
                    lines += _described(f"{room}.{name}", _value(room, name))
        if self.content:
            lines += [".. rubric:: Classes of fields and results", ""]
            for path in self.content:
                lines += _described(path, _value(*path.rsplit(".", 1)))
        return self.parse_text_to_nodes("\n".join(lines))


def _described(path: str, value: object) -> list[str]:
    if not isclass(value):
        return [f".. auto{'function' if isfunction(value) else 'data'}:: {path}", ""]
    bases = ["   :show-inheritance:"] if value.__bases__ != (object,) else []
    return [f".. autoclass:: {path}", *bases, ""]


def _names(module: ModuleType) -> list[str]:
    """Public names; for a module without ``__all__``, the functions that it defines."""
    if hasattr(module, "__all__"):
        names = [name for name in module.__all__ if not name.startswith("__")]
        return [name for name in names if not ismodule(getattr(module, name))]
    functions = (name for name, value in vars(module).items() if isfunction(value))
    return [
        name
        for name in functions
        if not name.startswith("_") and getattr(module, name).__module__ == module.__name__
    ]


def _home(room: str, name: str) -> str:
    value = _value(room, name)
    for other in ROOMS[: ROOMS.index(room)]:
        module = import_module(other)
        if name in _names(module) and getattr(module, name) is value:
            return other
    return room


def _reference(room: str, home: str, name: str) -> str:
    return name if home == room else f"~{home}.{name}"


def _value(room: str, name: str) -> Any:
    return getattr(import_module(room), name)


def _is_value(value: object) -> bool:
    return not isclass(value) and not isfunction(value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("room", Room)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
