"""Describes fields of data classes and named tuples by the comments in the code."""

import ast
import inspect
import io
import textwrap
import tokenize
from functools import cache
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx


def describe_field(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    if what != "attribute" or (lines and not lines[0].startswith("Alias for field number")):
        return
    path, field = name.rsplit(".", 1)
    module, owner = path.rsplit(".", 1)
    cls = getattr(import_module(module), owner, None)
    if inspect.isclass(cls):
        lines[:] = [comments(cls).get(field, ""), ""]


@cache
def comments(cls: type[Any]) -> dict[str, str]:
    """For each field the trailing comment, or else the comment lines above it."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    texts = {line: token.string.lstrip("#").strip() for line, token in found.items()}
    alone = {line for line, token in found.items() if token.line.lstrip().startswith("#")}
    described = {}
    (tree,) = ast.parse(source).body
    for node in getattr(tree, "body", ()):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above, line = [], node.lineno - 1
        while line in alone:
            above.insert(0, texts[line])
            line -= 1
        behind = texts.get(node.end_lineno or 0)
        text = behind or " ".join(above)
        if text:
            described[node.target.id] = text[0].upper() + text[1:].rstrip(".") + "."
    return described


def setup(app: Sphinx) -> dict[str, bool]:
    # After napoleon, which would read words before a colon as a type.
    app.connect("autodoc-process-docstring", describe_field, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
