"""Resolves names in docstrings as a reader would.

A docstring may say `Graphs` in any module, but Sphinx looks for the name only in the module of the
docstring. Pages of source code link back to names under one package for each module, which is wrong
for names that another package exports.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    if node.get("refdomain") != "py":
        return None
    objects = env.domains.python_domain.objects
    target = node["reftarget"]
    names = [name for name in objects if name == target or name.endswith(f".{target}")]
    places = {(objects[name].docname, objects[name].node_id) for name in names}
    if len(places) != 1:
        return None
    ((page, anchor),) = places
    return make_refnode(app.builder, node["refdoc"], page, anchor, content, target)


def link_back(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if not page.startswith("_modules/sagpool/"):
        return
    objects = app.env.domains.python_domain.objects.values()

    def link(match: re.Match[str]) -> str:
        page, name = match.groups()
        end = f".{name.split('.', 2)[-1]}"
        ids = {item.node_id for item in objects if item.docname.endswith(Path(page).stem)}
        found = [name] if name in ids else [item for item in ids if item.endswith(end)]
        return f'href="{page}#{found[0]}"' if len(found) == 1 else match[0]

    context["body"] = re.sub(r'href="([^"#]+)#(sagpool\.[\w.]+)"', link, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("missing-reference", resolve)
    app.connect("html-page-context", link_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
