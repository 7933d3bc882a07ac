"""Names in docstrings are found as their reader would find them.

A docstring says `Graphs`, wherever it stands. Sphinx looks for that name in the module of the
docstring alone.
"""

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


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
