"""The package has types for its users (py.typed)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sagpool

CODE = """\
import sagpool
from sagpool.nn import SAGPool

reveal_type(sagpool.load("MUTAG"))
sagpool.load(3)
SAGPool("16")
"""
# What the code does not need, and what takes long to read (torch alone 20 s).
SKIPPED = (
    "sagpool.classifier", "sagpool.explain",
    "torch", "torch_geometric", "numpy", "scipy", "matplotlib", "networkx", "rdkit", "triton",
    "rich", "prompt_toolkit",
)  # fmt: skip


def test_mypy_sees_types_in_the_file_of_a_user(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(CODE)
    skipped = ",".join(f"{name}.*" for name in SKIPPED)
    config = f"[mypy]\ncache_dir = cache\n[mypy-{skipped}]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(config)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "user.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(sagpool.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    revealed, load, pool, _ = done.stdout.splitlines()
    assert revealed.endswith('Revealed type is "sagpool.graphs.graphs.Graphs"')
    assert load.startswith('user.py:5: error: Argument 1 to "load" has incompatible type "int"')
    assert pool.startswith('user.py:6: error: Argument 1 to "SAGPool" has incompatible type "str"')


def test_the_mark_is_in_the_package():
    assert (Path(sagpool.__file__).parent / "py.typed").is_file()
