"""Parameters, costs and cluster sizes: small graphs on a CPU, and the section made from them."""

import json
import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool import Graphs
from sagpool.bench.experiment_file import load_experiment

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
FIGURES = ("parameters", "time-nodes", "memory-nodes", "time-edges", "memory-edges", "clusters")


@pytest.fixture(scope="module")
def folder(run_script, tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("results") / "lee2019"
    done = run_script(
        "complexity.py", made, "--dataset", "MUTAG", "--nodes", 8, 16, 32, "--edges-per-node", 1, 2,
        "--repeats", 1, "--slow", "inf",
    )  # fmt: skip
    assert done.code == 0, done.err
    return made


@pytest.fixture(scope="module")
def result(folder):
    return json.loads((folder / "complexity.json").read_text("utf-8"))


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return lambda name: runpy.run_path(str(SCRIPTS / name))


def test_parameters_depend_on_the_size_of_graphs_in_diffpool_alone(result):
    counts = result["parameters"]["counts"]
    tables = load_experiment("lee2019").tables
    assert set(counts) == {*tables["table3"].methods, *tables["table4"].methods}
    growing = {
        m for m, lines in counts.items() if len({c for line in lines.values() for c in line}) > 1
    }
    assert growing == {"diffpool-h"}
    by_ratio = counts["diffpool-h"]
    assert by_ratio["1/4"][-1] < by_ratio["1/2"][-1] < by_ratio["1"][-1]
    assert counts["sagpool-h"]["1"][0] - counts["gpool-h"]["1"][0] == 3, "a bias in each score"


def test_both_series_of_every_method_are_measured(result):
    costs = result["costs"]
    for method in load_experiment("lee2019").tables["table3"].methods:
        here = [c for c in costs if c["method"] == method]
        by_series = [(c["series"], c["nodes"], c["edges"]) for c in here]
        assert by_series == [
            *(("nodes", nodes, min(4 * nodes, nodes * (nodes - 1) // 2)) for nodes in (8, 16, 32)),
            *(("edges", 32, edges) for edges in (32, 64)),
        ]
        nodes = [c["bytes"] for c in here if c["series"] == "nodes"]
        assert nodes == sorted(set(nodes)), "more nodes take more memory"
        assert all(c["milliseconds"] > 0 for c in here)
    assert result["memory"] == "saved for the backward pass"
    assert {"commit", "kernels"} <= result["versions"].keys()


def test_a_slow_method_is_not_measured_on_larger_graphs(scripts):
    names = scripts("complexity.py")
    sizes = names["Sizes"](2, (4, 8, 16), 4, (1, 2), 1, slow=0.0)
    found = names["measure_all"](["gpool-h"], sizes, torch.device("cpu"))
    assert [(cost.series, cost.nodes) for cost in found] == [("nodes", 4), ("edges", 4)]


@pytest.mark.parametrize(("nodes", "edges"), [(8, 100), (20, 30), (300, 600)])
def test_random_graphs_have_the_size_that_was_asked_for(scripts, nodes, edges):
    graphs = scripts("complexity.py")["random_graphs"](3, nodes, edges)
    assert isinstance(graphs, Graphs)
    for graph in (graphs[i] for i in range(3)):
        pairs = {tuple(sorted(pair)) for pair in graph.edge_index.T.tolist()}
        assert graph.num_nodes == nodes
        assert len(pairs) == min(edges, nodes * (nodes - 1) // 2)
        assert graph.num_edges == 2 * len(pairs), "both directions of each"
        assert all(a != b for a, b in pairs)


def test_cluster_sizes_against_counting_by_hand(scripts, result):
    sizes = np.array([3, 10, 40, 100, 1001])
    one = np.zeros(0, np.int32)
    graphs = Graphs(sizes, np.zeros(5, np.int64), one, one, name="made")
    found = scripts("complexity.py")["cluster_sizes"](graphs)
    assert found["ratios"] == {
        "1/10": {"clusters": 101, "expanded": 4},
        "1/4": {"clusters": 251, "expanded": 4},
        "1/2": {"clusters": 501, "expanded": 4},
    }
    assert (found["graphs"], found["large"]) == (5, 1)
    assert result["clusters"]["nodes"] == sorted(result["clusters"]["nodes"])


@pytest.mark.parametrize("name", ["DD"])
def test_the_example_of_the_paper(scripts, real_data, name):
    from sagpool import load

    found = scripts("complexity.py")["cluster_sizes"](load(name))
    assert (found["large"], found["graphs"]) == (10, 1178)
    assert (found["nodes"][0], found["nodes"][-1]) == (30, 5748)
    assert found["ratios"]["1/10"]["clusters"] == 575, "⌈kN⌉; the paper rounds down"


def test_figures(folder):
    for name in FIGURES:
        assert (folder / "complexity" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_section_follows_from_the_file(folder, result, scripts):
    section = scripts("complexity_section.py")["complexity_section"]
    text = section(folder)
    low, high = result["parameters"]["counts"]["diffpool-h"]["1"][::5]
    assert f"{low:,} to {high:,} |" in text
    assert "| SAGPool_h | 91,205 | 91,205 | 91,205 |" in text
    assert "0 of 188 graphs of MUTAG have over 1,000 nodes; the smallest has 10, the large" in text
    for name in FIGURES:
        assert f"(../{folder.parent.name}/lee2019/complexity/{name}.png)" in text
    assert section(folder / "nowhere") == ""


def test_exponents(scripts, folder):
    names = scripts("complexity_section.py")
    exponent, section = names["_exponent"], names["complexity_section"]
    sizes = (10, 20, 40, 80)
    costs = [{"nodes": n, "bytes": 7 * n**2 if n > 20 else 10**9} for n in sizes]
    assert exponent(costs, "nodes", "bytes") == "2.00", "of the last two"
    assert exponent(costs[:1], "nodes", "bytes") == ""
    assert "| Set2Set_g |" in section(folder)
    table = re.search(r"(\| method \| time.*?)\n\n", section(folder), re.S)[1].splitlines()
    assert {line.count("|") for line in table} == {7}


@pytest.mark.parametrize(
    ("sagpool", "diffpool", "verdict"),
    [
        ((1.0, 1.0), (2.0, 2.0), "holds"),
        ((1.0, 0.1), (2.0, 2.0), "holds"),
        ((0.1, 1.0), (2.0, 2.0), "holds in part"),  # the time of launches says nothing
        ((0.1, 1.0), (2.5, 2.0), "holds in part"),
        ((2.0, 2.0), (1.0, 1.0), "does not hold"),
    ],
)
def test_the_claim_about_time_and_memory_is_judged_by_exponents(
    sagpool, diffpool, verdict, scripts
):
    costs = [
        {
            "method": method, "series": series, series: size,
            "milliseconds": size**time, "bytes": size**memory,
        }
        for method, (time, memory) in (("sagpool-h", sagpool), ("diffpool-h", diffpool))
        for series in ("nodes", "edges")
        for size in (10, 100)
    ]  # fmt: skip
    growth = scripts("complexity_claims.py")["_growth"]
    found = growth(costs, "a device")
    assert found.verdict == verdict
    time, memory = diffpool
    outcomes = ["holds" if 1.7 <= one <= 2.3 else "does not hold" for one in diffpool]
    assert found.found[-1][-1] == (
        f" in the nodes (claimed: 2): time {time:.2f} ({outcomes[0]}), "
        f"memory {memory:.2f} ({outcomes[1]})"
    )
    assert growth(costs[:1], "a device").verdict == "undecided"


def test_the_claim_about_cluster_sizes_is_counted(scripts):
    judge = scripts("complexity_claims.py")["_cluster_sizes"]
    found = {"large": 1, "graphs": 10, "ratios": {"1/10": {"clusters": 57, "expanded": 6}}}
    assert judge(found).verdict == "holds"
    found["ratios"]["1/10"]["expanded"] = 5
    assert judge(found).verdict == "does not hold"


def test_the_page_has_the_section_only_if_there_is_the_file(folder, run_script, tmp_path):
    results = tmp_path / "lee2019"
    (results / "tables").mkdir(parents=True)
    for name in ("rows.csv", "settings.json", "tables/data.csv"):
        shutil.copy(ROOT / "results" / "lee2019" / name, results / name)
    page = tmp_path / "page.md"
    shutil.copy(ROOT / "docs" / "reproduction.md", page)
    heading = "## Parameters, time, memory and cluster sizes"
    for there in (True, False):
        if there:
            shutil.copy(folder / "complexity.json", results)
        else:
            (results / "complexity.json").unlink()
        assert run_script("reproduction_page.py", results, page).code == 0
        text = page.read_text("utf-8")
        assert (heading in text) == there
        assert ("Rows have no time or memory" in text) != there, "a claim that needs the file"
