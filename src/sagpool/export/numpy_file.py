"""A model as one Python file and one ``.npz`` file, which need only NumPy."""

from __future__ import annotations

import ast
import io
import json
from importlib.resources import files

import numpy as np

from sagpool.export.plan import Plan

# In the order of their imports.
RUNTIME = (
    *("arrays", "structure", "layers", "clusters", "pools", "nets"),
    *("features", "simple", "inputs", "model"),
)
PACKAGE = "sagpool.export.runtime"
HEADER = '''"""A model exported by sagpool. Needs NumPy and the file `.npz` with the same name.

    from this_file import Model
    model = Model()
    out = model(labels=["C", "C", "O"], edges=[[0, 1], [1, 2]])

See `Model` at the end for inputs and outputs. The program is the same for every model: names and
numbers are in the `.npz` file.
"""
'''


def npz_bytes(plan: Plan) -> bytes:
    """The content of the ``.npz`` file: the weights, and the description as JSON text."""
    text = np.frombuffer(json.dumps(plan.description).encode(), np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, plan=text, **plan.arrays)  # type: ignore[arg-type]
    return file.getvalue()


def program_text() -> str:
    """The Python file: all files of the runtime in a row."""
    imports: set[str] = set()
    bodies = []
    for name in RUNTIME:
        source = (files(PACKAGE) / f"{name}.py").read_text()
        tree = ast.parse(source)
        lines = source.splitlines()
        dropped = set[int]()
        for node in tree.body:
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            if is_import and not getattr(node, "module", "").startswith(PACKAGE):
                imports.add(ast.unparse(node))
            if is_import or node is tree.body[0]:  # the first is the docstring of the file
                assert node.end_lineno is not None
                dropped |= set(range(node.lineno - 1, node.end_lineno))
        kept = [line for number, line in enumerate(lines) if number not in dropped]
        bodies.append("\n".join(kept).strip())
    return "\n\n\n".join([HEADER + "\n" + "\n".join(sorted(imports)), *bodies]) + "\n"
