"""Writes the page and the scores of explanations."""

from pathlib import Path

from sagpool.explain.explained import Explained
from sagpool.explain.numbers import number_text
from sagpool.explain.trace import Trace
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer.data import Drawn, drawn, on_page, packed
from sagpool.report.page import template


def write_explorer(explained: Explained, folder: OutputFolder) -> Path:
    """Write ``index.html``, ``scores.csv`` and ``reasons.csv``; returns the path of the page.

    A model that keeps no nodes has no scores, and a net has no reasons.

    Args:
        explained: explanations; if they have too many nodes, the page shows only the first graphs
        folder: the files of an earlier call in it are replaced
    """
    folder.create()  # fail early: the rest takes a while
    paths = [folder.write(name, content) for name, content in explorer_files(explained).items()]
    folder.finish()
    return paths[-1]


def explorer_files(explained: Explained) -> dict[str, bytes]:
    """The contents of the tables, if any, and of the page, ``index.html``, which is last."""
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
        target=explained.target,
        score=_score([graph.whole for graph in graphs]),
        warnings=[one for one in (explained.unlike_warning, warning) if one is not None],
        reasons_of=elsewhere[1],
        sentences=[sentence for sentence in explained.sentences if sentence not in elsewhere],
        unseen=explained.unseen.most_common(),
        packed=packed(explained, graphs),
    )


def _score(traces: list[Trace]) -> str | None:
    """Number of correct predictions, or the mean error of numbers; None if unknown."""
    errors = [trace.numbers.error for trace in traces if trace.numbers is not None]
    verdicts = [trace.correct for trace in traces if trace.correct is not None]
    known = [error for error in errors if error is not None]
    labelled = len(known or verdicts)
    if not labelled:
        return None
    partly = labelled < len(traces)
    if known:
        some = f" ({labelled:,} labelled)" if partly else ""
        return f"mean absolute error {number_text(sum(known) / labelled)}{some}"
    return f"{sum(verdicts):,} of {labelled:,}{' labelled' if partly else ''} right"
