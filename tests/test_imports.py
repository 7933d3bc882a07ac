"""What importing the package loads, each time in a fresh interpreter."""

import subprocess
import sys

import pytest


def loaded_by(*codes: str) -> list[set[str]]:
    """The modules after each of these, where there is no ``fcntl``, as on Windows.

    One after the other in one interpreter: torch takes seconds to import.
    """
    steps = [f"{code}\nprint(*sys.modules)" for code in codes]
    check = "\n".join(["import sys; sys.modules['fcntl'] = None", *steps])
    ended = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    lines = ended.stdout.splitlines()[-len(codes) :]  # after what the code itself has printed
    return [set(line.split()) for line in lines]


def test_explain_needs_no_classifier_and_the_package_alone_almost_nothing():
    alone, statistics, explain = loaded_by(
        "import sagpool",
        "import sagpool.statistics",
        "import sagpool.explain, sagpool.explain.explained, sagpool.explain.draw",
    )
    assert not alone & {"torch", "numpy", "sklearn"}
    assert "scipy" not in statistics
    assert not {name for name in explain if name.startswith(("sagpool.classifier", "sagpool.ben"))}


def test_models_need_no_scikit_learn_and_the_estimator_neither_bench_nor_report():
    models, estimator = loaded_by(
        "import sagpool.fleet, sagpool.classifier, sagpool.explain",
        "from sagpool import SAGPoolClassifier",
    )
    assert not models & {"sklearn", "matplotlib"}
    assert "sagpool.classifier.estimator" in estimator
    assert not {name for name in estimator if name.startswith(("sagpool.bench", "sagpool.report"))}
    assert not {name for name in estimator if name.startswith("sagpool.cli")}
    assert not estimator & {"matplotlib", "networkx", "torch_geometric"}


def test_commands_wait_for_scipy_until_a_test_is_computed():
    (modules,) = loaded_by("import sagpool.cli.bench, sagpool.cli.report")
    assert "scipy.stats" not in modules


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_answers_without_torch(option):
    code = (
        f"sys.argv = ['sagpool', '{option}']\nfrom sagpool.cli.main import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code"
    )
    (modules,) = loaded_by(code)
    assert "sagpool.cli.commands" in modules
    assert not modules & {"torch", "numpy"}
