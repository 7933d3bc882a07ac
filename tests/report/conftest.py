"""Stores with made-up results, and a browser if one is installed."""

import dataclasses
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, sync_playwright

from sagpool import Graphs, load
from sagpool.bench.plan import repeat, run_key, settings_of
from sagpool.bench.records import CellRecord, Ranked
from sagpool.bench.store import Store
from sagpool.classifier.model import TrainedModel
from sagpool.explain import Level, Trace
from sagpool.explain.explained import Explained, explain_input
from sagpool.explain.inputs import from_source
from sagpool.fleet import NUMERICS, Curve, Result, Score, Training
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
VERSIONS = {"sagpool": "0.1.0", "torch": "2.13.0", "numerics": str(NUMERICS)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if CHROMIUM is None:
        absent = [item for item in items if item.path.name.endswith("browser.py")]
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


@dataclass(frozen=True)
class Made:
    """A cell of a made-up store.

    Args:
        dataset: its name
        method: a registered name, or any other
        mean: of the accuracies, in percent
        settings: of the training
        seeds: how many
        paper: published mean and standard deviation
        diverged: how many of the runs diverge at once
        candidates: settings that a search has ranked, best first
        runs: how many are finished; all by default
        accuracy: of every run, in percent; random by default
        feature_kind: of the data set
        graphs: how many pooled graphs are stored
        epochs: mean number of epochs
        confusion: of every run
    """

    dataset: str = "MADE"
    method: str = "sagpool-h"
    mean: float = 70.0
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: int = 2
    paper: tuple[float, float] | None = None
    diverged: int = 0
    candidates: tuple[dict[str, Any], ...] = ()
    runs: int | None = None
    accuracy: tuple[float, ...] | None = None
    feature_kind: str = "labels"
    graphs: int = 0
    epochs: int = 30
    confusion: tuple[tuple[int, ...], ...] = ((5, 2), (1, 4))


def make_store(path: Path, cells: Sequence[Made]) -> Path:
    with Store.writing(path) as store, pytest.MonkeyPatch.context() as patch:
        # Some of the methods are registered nowhere.
        patch.setattr("sagpool.bench.plan.method_version", lambda name: "")
        fill_store(store, cells)
    return path


def fill_store(store: Store, cells: Sequence[Made]) -> None:
    random = np.random.default_rng(0)
    invocation = store.begin("sagpool bench made", "made", "made-up CPU", VERSIONS)
    store.connection.execute("BEGIN")
    for made in cells:
        graphs = _graphs(made.dataset, made.feature_kind)
        fingerprint = graphs.fingerprint()
        store.add_data(graphs, fingerprint)
        template = Training(made.method, **{"folds": 5, **made.settings})
        ranking = tuple(
            Ranked(settings_of(dataclasses.replace(template, **other)), 0.75 - 0.01 * i, 0.5, 5)
            for i, other in enumerate(made.candidates)
        )
        store.add_cell(
            CellRecord(
                made.dataset, made.dataset, fingerprint, made.method, settings_of(template),
                "float32", NUMERICS, made.seeds, invocation, "grid" if ranking else "none",
                ranking, int(1e6 * (1 + len(made.method) / 10)), *(made.paper or (None, None)),
                "structure only" if made.feature_kind == "degree" else "",
            )
        )  # fmt: skip
        for number, training in enumerate(repeat(template, made.seeds)[: made.runs]):
            diverged = number < made.diverged
            result = _result(random, training, made, number, diverged)
            traces = _traces(random, graphs, made.graphs) if number == 0 else []
            key = run_key(graphs, fingerprint, training, "float32")
            store.add(key, graphs.name, fingerprint, result, "float32", invocation, traces)
        for i, other in enumerate(made.candidates):
            for training in repeat(dataclasses.replace(template, **other), 1):
                lower = dataclasses.replace(made, mean=made.mean - i, accuracy=None)
                result = _result(random, training, lower, 0, diverged=False)
                key = run_key(graphs, fingerprint, training, "float32")
                store.add(key, graphs.name, fingerprint, result, "float32", invocation)
    store.connection.execute("COMMIT")


def _graphs(name: str, feature_kind: str) -> Graphs:
    first = zlib.crc32(
        name.encode()
    )  # different graphs for each data set, and so another fingerprint
    kinds = [nx.gnp_random_graph(12 + i % 7, 0.2, seed=first + i) for i in range(20)]
    graphs = Graphs.from_networkx(kinds, y=["a", "a", "b", "a", "b"] * 4, name=name)
    return dataclasses.replace(graphs, feature_kind=feature_kind)


def _result(
    random: np.random.Generator, training: Training, made: Made, number: int, diverged: bool
) -> Result:
    nothing = Score(float("nan"), float("nan"))
    if diverged:
        empty = np.array([np.nan])
        return Result(
            training, True, 0, 1, nothing, nothing, nothing, np.zeros((2, 2), int),
            Curve(empty, empty, empty), 5000, 0.1,
        )  # fmt: skip
    epochs = max(2, int(random.gamma(8, made.epochs / 8)))
    time = np.arange(epochs)
    noise = random.normal(0, 0.01, (2, epochs))
    train = 0.35 + 0.35 * np.exp(-time / (0.2 * made.epochs)) + noise[0]
    validation = 0.5 + 0.2 * np.exp(-time / (0.25 * made.epochs)) + 1e-4 * time + noise[1]
    accuracy = (
        made.mean + 0.8 * np.sin(training.seed) + random.normal(0, 3)
        if made.accuracy is None
        else made.accuracy[number]
    ) / 100
    score = Score(0.5, float(np.clip(accuracy, 0, 1)))
    return Result(
        training, False, int(validation.argmin()) + 1, epochs, score, score, score,
        np.array(made.confusion), Curve(train, validation, 1 - validation), 5000,
        0.01 * epochs * (1 + len(made.method) % 5),
    )  # fmt: skip


def _traces(random: np.random.Generator, graphs: Graphs, count: int) -> list[Trace]:
    traces = []
    for number in range(count):
        graph = graphs[number]
        edges = graph.edge_index.T.numpy()
        left, levels = np.arange(graph.num_nodes), []
        for _ in range(3):
            left = np.sort(random.choice(left, -(-len(left) // 2), replace=False))
            levels.append(Level(left, np.tanh(random.normal(0, 1, len(left)))))
        traces.append(
            Trace(
                graphs.name, number, graph.num_nodes, edges[edges[:, 0] < edges[:, 1]],
                tuple("CNO"[i] for i in random.integers(0, 3, graph.num_nodes)), ("a", "b"), 0,
                np.array([0.7, 0.3]), None, tuple(levels),
            )
        )  # fmt: skip
    return traces


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """A store with these cells: ``make(Made(...), Made(...))``."""
    return lambda *cells: make_store(tmp_path / "runs.sqlite", cells)


@pytest.fixture(scope="session")
def make_at() -> Callable[[Path, Sequence[Made]], Path]:
    """A store at this path: ``make_at(path, [Made(...), Made(...)])``."""
    return make_store


@pytest.fixture(scope="session")
def made() -> type[Made]:
    return Made


@pytest.fixture(scope="session")
def chromium() -> str:
    assert CHROMIUM is not None
    return CHROMIUM


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


# A bit of everything: two architectures, variants, a search, a cell requested twice, published
# numbers, an unfinished and a diverged cell.
RICH = (
    Made("FIRST", "sagpool-g", 72, paper=(71, 1), graphs=2),
    Made("FIRST", "sortpool-g", 65, paper=(70, 0.8)),
    Made("FIRST", "gpool-h", 69, seeds=1, graphs=1),
    Made("FIRST", "sagpool-h", 71, {"lr": 0.05}, paper=(70.5, 0.9), graphs=2),
    Made(
        "FIRST", "sagpool-h", 70, {"lr": 0.005}, paper=(70.5, 0.9), graphs=2,
        candidates=({"lr": 0.005}, {"lr": 0.001}, {"lr": 0.01, "hidden": 64}),
    ),
    Made("FIRST", "sagpool-h-cheb", 70.5),
    Made("FRANKENSTEIN", "sagpool-h", 61, paper=(61.73, 0.76), feature_kind="degree", diverged=1),
    Made("FRANKENSTEIN", "gpool-h", 62, paper=(61.46, 0.84), feature_kind="degree", runs=7),
)  # fmt: skip


@pytest.fixture(scope="session")
def rich_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("rich") / "runs.sqlite", RICH)


@pytest.fixture(scope="session")
def rich(rich_store: Path) -> Path:
    """The folder of a report of that store."""
    from sagpool.report import write_report

    return write_report(rich_store, rich_store.with_name("report")).parent


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Explained:
    """Explanations of molecules of all kinds by an untrained model."""
    path = tmp_path_factory.mktemp("explained") / "drugs.csv"
    path.write_text(
        "smiles,label\nCC(=O)Oc1ccccc1C(=O)O,yes\nCN1C=NC2=C1C(=O)N(C(=O)N2C)C,no\n"
        "C[C@H](N)C(=O)O,no\nO=[N+]([O-])c1ccc(Cl)cc1,yes\n[Na+].[Cl-],no\nC,yes\n"
        f"{'CC(=O)NC' * 12},no\n"
    )
    graphs = load(path)
    shape = Shape(graphs.num_features, graphs.num_classes, hidden=8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        weights = build("sagpool-h", shape).state_dict()
    model = TrainedModel.of_net("sagpool-h", shape, Vocabulary.of(graphs), weights)
    return explain_input(model, from_source(str(path), model.vocabulary, limit=50))
