"""Writing the page and the scores of explanations."""

from pathlib import Path

from sagpool.explain.explained import Explained
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer.data import Drawn, drawn, on_page, packed
from sagpool.report.page import template


def write_explorer(explained: Explained, folder: OutputFolder) -> Path:
    """Write ``index.html``, ``scores.csv`` and ``reasons.csv``; returns the path of the page.

    There are no scores of a model that keeps no nodes, and no reasons of a net.

    Args:
        explained: what to show; of very many nodes, the first graphs are on the page
        folder: the files of an earlier call in it are replaced
    """
    folder.create()  # before the work, which takes a while
    paths = [folder.write(name, content) for name, content in explorer_files(explained).items()]
    folder.finish()
    return paths[-1]


def explorer_files(explained: Explained) -> dict[str, bytes]:
    """The content of the tables that there are, and of the page, ``index.html``, which is last."""
    pairs = list(zip(explained.traces, explained.effects, strict=True))
    graphs = [drawn(trace, effect) for trace, effect in pairs[: on_page(explained)]]
    files = {}
    if explained.has_levels:
        files["scores.csv"] = explained.scores()
    if explained.has_reasons:
        files["reasons.csv"] = explained.reasons()
    files["index.html"] = _page(explained, graphs)
    return {name: text.encode() for name, text in files.items()}


def _page(explained: Explained, graphs: list[Drawn]) -> str:
    verdicts = [graph.whole.correct for graph in graphs]
    warning = None if explained.fidelity is None else explained.fidelity.warning
    net, source = explained.traces[0].net, explained.traces[0].reasons_of
    elsewhere = (warning, None if source is None else source.sentence)
    title = f"What {explained.method if net is None else net.name} keeps of {explained.data}"
    if source is not None and not explained.has_levels:
        title = f"What {source.name} counts in {explained.data}"
    return template("explorer/page.html").render(
        title=title,
        has_levels=explained.has_levels,
        has_reasons=explained.has_reasons,
        count=len(graphs),
        total=explained.total if explained.total != len(graphs) else None,
        right=None if None in verdicts else sum(map(bool, verdicts)),
        warning=warning,
        reasons_of=elsewhere[1],
        sentences=[sentence for sentence in explained.sentences if sentence not in elsewhere],
        unseen=explained.unseen.most_common(),
        packed=packed(explained, graphs),
    )
