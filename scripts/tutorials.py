"""Execute the notebooks of docs/tutorials and write their outputs into them.

    python scripts/tutorials.py [NOTEBOOK ...]

The notebooks are the source: edit their cells in Jupyter or by hand, then run this (or `make
tutorials`). It needs no Jupyter. Each notebook runs in an empty folder and gets the outputs that
Jupyter would show, without metadata. A cell whose output may differ between machines, because it
depends on a training, has the tag "varies".
"""

import argparse
import ast
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

Notebook = dict[str, Any]


def execute(notebook: Notebook, change: Callable[[str], str] = str) -> Notebook:
    """The notebook with new outputs, in our form; ``change`` is applied to code before it runs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    with _empty_folder():
        for number, cell in enumerate(notebook["cells"], 1):
            source = "".join(cell["source"])
            tags = [tag for tag in cell["metadata"].get("tags", []) if tag == "varies"]
            new: dict[str, Any] = {
                "cell_type": cell["cell_type"],
                "id": f"cell-{number}",
                "metadata": {"tags": tags} if tags else {},
                "source": _lines(source),
            }
            if cell["cell_type"] == "code":
                count = 1 + sum(one["cell_type"] == "code" for one in cells)
                outputs = run_cell(change(source), names, f"cell {number}", count)
                new |= {"execution_count": count, "outputs": outputs}
            cells.append(new)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def run_cell(source: str, names: dict[str, Any], title: str, count: int) -> list[dict[str, Any]]:
    """The outputs of a cell: its printed text, and the value of its last line."""
    tree = ast.parse(source, title)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, title, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), title, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            shown = {"text/html": _lines(value._repr_html_())} | shown
        outputs.append(
            {
                "data": shown,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def to_text(notebook: Notebook) -> str:
    """The content of the file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="by default all tutorials")
    for path in parser.parse_args().notebooks or sorted(TUTORIALS.glob("*.ipynb")):
        text = to_text(execute(json.loads(path.read_text("utf-8"))))
        path.write_text(text, "utf-8")
        print(f"{path.name}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
