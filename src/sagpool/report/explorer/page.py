"""Writing the page and the scores of explanations."""

from pathlib import Path

from sagpool.explain.explained import Explained
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer.data import Drawn, drawn, on_page, packed
from sagpool.report.page import template


def write_explorer(explained: Explained, folder: OutputFolder) -> Path:
    """Write ``scores.csv`` and ``index.html``; returns the path of the page.

    Args:
        explained: what to show; of very many nodes, the first graphs are on the page
        folder: the files of an earlier call in it are replaced
    """
    folder.create()  # before the work, which takes a while
    paths = [folder.write(name, content) for name, content in explorer_files(explained).items()]
    folder.finish()
    return paths[-1]


def explorer_files(explained: Explained) -> dict[str, bytes]:
    """The content of ``scores.csv`` and of the page, ``index.html``."""
    pairs = list(zip(explained.traces, explained.effects, strict=True))
    graphs = [drawn(trace, effect) for trace, effect in pairs[: on_page(explained)]]
    return {
        "scores.csv": explained.scores().encode(),
        "index.html": _page(explained, graphs).encode(),
    }


def _page(explained: Explained, graphs: list[Drawn]) -> str:
    verdicts = [graph.whole.correct for graph in graphs]
    told = explained.fidelity
    return template("explorer/page.html").render(
        method=explained.method,
        data_set=explained.data,
        count=len(graphs),
        total=explained.total if explained.total != len(graphs) else None,
        right=None if None in verdicts else sum(map(bool, verdicts)),
        warning=told.warning,
        sentences=[sentence for sentence in told.sentences if sentence != told.warning],
        unseen=explained.unseen.most_common(),
        packed=packed(explained, graphs),
    )
