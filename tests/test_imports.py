"""What importing the package loads, each time in a fresh interpreter."""

import subprocess
import sys

import pytest


def loaded_by(code: str) -> set[str]:
    """The modules that this code loads where there is no ``fcntl``, as on Windows."""
    check = f"import sys; sys.modules['fcntl'] = None\n{code}\nprint(*sys.modules, sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    return set(ended.stdout.splitlines())


def test_the_package_alone_loads_almost_nothing():
    modules = loaded_by("import sagpool")
    assert not modules & {"torch", "numpy", "sklearn"}


def test_the_estimator_needs_neither_bench_nor_report():
    modules = loaded_by("from sagpool import SAGPoolClassifier")
    assert "sagpool.classifier.estimator" in modules
    assert not {name for name in modules if name.startswith(("sagpool.bench", "sagpool.report"))}
    assert not {name for name in modules if name.startswith("sagpool.cli")}
    assert not modules & {"matplotlib", "networkx", "torch_geometric"}


def test_models_are_read_and_explained_without_scikit_learn():
    modules = loaded_by("import sagpool.fleet, sagpool.classifier, sagpool.explain")
    assert not modules & {"sklearn", "matplotlib"}


def test_statistics_wait_for_scipy_until_a_test_is_computed():
    assert "scipy" not in loaded_by("import sagpool.statistics")
    assert "scipy.stats" not in loaded_by("import sagpool.cli.bench, sagpool.cli.report")


def test_explain_needs_no_classifier():
    modules = loaded_by("import sagpool.explain, sagpool.explain.explained, sagpool.explain.draw")
    assert not {name for name in modules if name.startswith(("sagpool.classifier", "sagpool.ben"))}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_answers_without_torch(option):
    code = (
        f"sys.argv = ['sagpool', '{option}']\nfrom sagpool.cli.main import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code"
    )
    modules = loaded_by(code)
    assert "sagpool.cli.commands" in modules
    assert not modules & {"torch", "numpy"}
