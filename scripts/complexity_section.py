"""The section of the reproduction page about parameters, time, memory and cluster sizes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from complexity_claims import exponent

from sagpool.bench.experiment_file import load_experiment
from sagpool.report import names

SERIES = ("nodes", "edges")
COMMAND = "python scripts/complexity.py results/lee2019 --device cuda"


def complexity_section(folder: Path) -> str:
    """The section; empty if the folder has no complexity.json."""
    path = folder / "complexity.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text("utf-8"))
    figures = f"../{folder.parent.name}/{folder.name}/complexity"
    return "\n\n".join(
        [
            "## Parameters, time, memory and cluster sizes",
            f"The paper's sections 5.2 to 5.4, from [complexity.json]({figures}.json), which "
            f"`{COMMAND}` writes.",
            _parameters(result["parameters"]),
            f"![parameters against the size of the largest graph]({figures}/parameters.png)",
            "Section 5.3 says that SAGPool's time grows with |E| and its memory with |V| + |E|, "
            "and both of dense pooling with |V|².",
            _costs(result),
            "\n".join(
                f"![{what} of a training step against {series}]({figures}/{what}-{series}.png)"
                for series in SERIES
                for what in ("time", "memory")
            ),
            _clusters(result["clusters"]),
            f"![nodes and clusters after the first pooling]({figures}/clusters.png)",
        ]
    )


def _parameters(found: Mapping[str, Any]) -> str:
    ratios = list(next(iter(found["counts"].values())))
    rows = [f"| method | {' | '.join(f'k = {ratio}' for ratio in ratios)} |"]
    rows.append(f"| --- |{' ---: |' * len(ratios)}")
    for method in names.in_order(found["counts"]):
        counts = found["counts"][method].values()
        cells = [_range(line) for line in counts]
        rows.append(f"| {names.plain(method)} | {' | '.join(cells)} |")
    sizes = found["nodes"]
    words = (
        f"Number of parameters with {found['channels']} node features, hidden size "
        f"{found['channels']} and {found['classes']} classes, if the largest graph has {sizes[0]} "
        f"to {sizes[-1]} nodes (the paper's Figure 4). One number: it does not depend on that."
    )
    return "\n".join([words, "", *rows])


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _costs(result: Mapping[str, Any]) -> str:
    sizes = result["sizes"]
    heads = [f"{what} against {size}" for size in SERIES for what in ("time", "memory")]
    rows = [f"| method | {' | '.join(heads)} | largest step |", f"| --- |{' ---: |' * 5}"]
    for method in load_experiment("lee2019").tables["table3"].methods:
        here = [cost for cost in result["costs"] if cost["method"] == method]
        cells = [
            _exponent([c for c in here if c["series"] == series], series, what)
            for series in SERIES
            for what in ("milliseconds", "bytes")
        ]
        most = max(here, key=lambda cost: cost["nodes"])
        largest = f"{most['nodes']:,} nodes: {most['milliseconds']:.3g} ms, "
        largest += f"{most['bytes'] / 2**20:,.0f} MiB"
        rows.append(f"| {names.plain(method)} | {' | '.join(cells)} | {largest} |")
    words = (
        f"One training step of one model on {result['device']}, {sizes['graphs']} random graphs, "
        f"{sizes['channels']} features, k = 1/4; memory: {result['memory']}. The columns have the "
        "exponents with which time and memory grow from the last but one size to the last: 1 is "
        "proportional, 2 quadratic. Short steps wait for the launch of their kernels, so their "
        f"time hardly grows. Nodes: up to {max(sizes['nodes']):,} in a graph, with four edges per "
        f"node; a method is not measured further once a step takes long. Edges: up to "
        f"{max(sizes['edges_per_node'])} per node in graphs of {sizes['fixed_nodes']:,} nodes."
    )
    return "\n".join([words, "", *rows])


def _exponent(costs: list[dict[str, Any]], series: str, what: str) -> str:
    slope = exponent(costs, series, what)
    return "" if slope is None else f"{slope:z.2f}".replace("-", "−")


def _clusters(found: Mapping[str, Any]) -> str:
    nodes, graphs = found["nodes"], found["graphs"]
    words = (
        "Section 5.4 says that 10 of 1178 graphs of D&D have over 1000 nodes (smallest 30, largest "
        "5748), so that 574 clusters, at k = 10 %, expand most of the graphs. Counted: "
        f"{found['large']} of {graphs:,} graphs of {found['dataset']} have over 1,000 nodes; the "
        f"smallest has {nodes[0]:,}, the largest {nodes[-1]:,}. SAGPool keeps ⌈kN⌉ of the N nodes "
        "of each graph. DiffPool's clusters are as many for all graphs:"
    )
    rows = ["| k | clusters | graphs with fewer nodes than clusters |", "| --- | ---: | ---: |"]
    for ratio, one in found["ratios"].items():
        share = 100 * one["expanded"] / graphs
        rows.append(f"| {ratio} | {one['clusters']:,} | {one['expanded']:,} ({share:.1f} %) |")
    return "\n".join([words, "", *rows])
