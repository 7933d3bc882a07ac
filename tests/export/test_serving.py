"""The example of docs/serving.md: started, and asked with graphs, molecules and odd names."""

import dataclasses
import json
import runpy
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from sagpool.classifier.conformal import Conformal
from sagpool.export import export
from sagpool.graphs.vocabulary import Vocabulary

APP = Path(__file__).parents[2] / "docs/serving/app.py"
CLASSES = ("<script>alert(1)</script>", "safe")


class Answer(NamedTuple):
    status: int
    kind: str
    content: dict


@pytest.fixture(scope="module")
def ask(tmp_path_factory, mutag, new_part, new_model):
    """Posts a graph to the server, which runs in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    labels = ("C", "N", "O", "F", "Cl", "Br", "<b>")
    vocabulary = Vocabulary("labels", labels, 0, CLASSES)
    model = new_model(mutag, new_part(mutag, "sagpool-g"), conformal=Conformal(0.9, (0.5,)))
    file = tmp_path_factory.mktemp("model") / "model.onnx"
    export(dataclasses.replace(model, vocabulary=vocabulary), file, graphs=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGPOOL_MODEL", str(file))
        app = runpy.run_path(str(APP))["app"]
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/predict"
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()

        def post(graph: dict) -> Answer:
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(address, json.dumps(graph).encode(), headers)
            try:
                answer = urllib.request.urlopen(request, timeout=60)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return Answer(answer.status, answer.headers["Content-Type"], json.load(answer))

        yield post
        server.should_exit = True
        thread.join()


def test_the_example_is_short():
    assert len(APP.read_text().splitlines()) <= 60


def test_a_graph(ask):
    graph = {"labels": ["C", "<b>", "<img src=x>"], "edges": [[0, 1], [1, 2]]}
    answer = ask(graph)
    assert answer.status == 200
    assert answer.kind == "application/json"
    found = answer.content
    assert found["class"] in CLASSES
    assert set(found["probabilities"]) == set(CLASSES)
    assert set(found["possible"]) <= set(CLASSES)
    assert found["unknown_labels"] == 1
    assert found["kept"] == [[0, 1, 2]]


def test_a_molecule(ask):
    pytest.importorskip("rdkit")
    found = ask({"smiles": "c1ccccc1[N+](=O)[O-]"}).content
    assert found["unknown_labels"] == 0
    assert len(found["kept"][0]) == 6


@pytest.mark.parametrize(
    "graph",
    [
        {"labels": ["C"], "edges": [[0, 5]]},
        {"labels": ["C"], "edges": [[0, -1]]},
        {"labels": []},
        {"smiles": "<script>"},
        {"labels": [3]},
    ],
)
def test_what_does_not_fit_is_refused(ask, graph):
    answer = ask(graph)
    assert answer.status == 422
    assert answer.kind == "application/json"
