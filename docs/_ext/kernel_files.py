"""``.. kernel-files:: src/sagpool/ops/kernels``: lists what each file of kernels computes."""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class KernelFiles(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :widths: auto", ""]
        for file in sorted((ROOT / self.arguments[0]).glob("[!_]*.py")):
            self.env.note_dependency(str(file))
            text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            summary = " ".join(text.split("\n\n")[0].split())
            lines += [f"   * - ``{file.name}``", f"     - {summary}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("kernel-files", KernelFiles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
