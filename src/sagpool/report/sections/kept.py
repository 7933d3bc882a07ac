"""Which nodes the models kept."""

from matplotlib.figure import Figure

from sagpool.bench.summary import Summary
from sagpool.explain import Trace
from sagpool.explain.draw import SIDE, draw
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

CELLS_TO_DRAW = 4  # most cells of each data set
GRAPHS_TO_DRAW = 3  # most graphs of each cell; fewer if there are many data sets
FEW_DATASETS = 2
LONGEST_TITLE = 44  # most characters in one line


def section(content: Content) -> Section:
    return Section(
        "kept",
        "What was kept",
        [part for dataset in content.datasets if (part := _part(content, dataset)).drawings],
        [
            "Test graphs of the first run of a cell (seed 0, fold 0): the nodes that each pooling "
            "kept, coloured by the score that multiplies them. The graphs have about the median "
            "size, come from the classes in turn, and were not selected by their results. At most "
            "four methods of each data set are shown.",
        ],
    )


def _part(content: Content, dataset: str) -> Part:
    """Pictures of one data set, graph by graph, so that the methods can be compared."""
    graphs = GRAPHS_TO_DRAW if len(content.datasets) <= FEW_DATASETS else GRAPHS_TO_DRAW - 1
    traces = {s.method: content.traces[s.runs[0].key][:graphs] for s in _chosen(content, dataset)}
    numbers = dict.fromkeys(trace.number for of_method in traces.values() for trace in of_method)
    drawings = [
        Drawing(
            f"kept-{dataset}-{number}-{method}",
            f"{method}: {_sizes(trace)} nodes",
            _figure(trace, method),
        )
        for number in numbers
        for method, of_method in traces.items()
        for trace in of_method
        if trace.number == number
    ]
    return Part(f"{content.label(dataset)}: {', '.join(traces)}", drawings=drawings)


def _chosen(content: Content, dataset: str) -> list[Summary]:
    """Cells that have traces: SAGPool first, its variants last."""
    here = [s for s in content.of(dataset) if content.traces[s.runs[0].key]]
    here.sort(key=lambda s: (names.is_variant(s.method), "sagpool" not in s.method))
    return here[:CELLS_TO_DRAW]


def _figure(trace: Trace, method: str) -> Figure:
    """The input and its levels, two panels in a row, with the name of the method."""
    figure = draw(trace, wide=False)
    title = figure.texts[0]
    if len(title.get_text()) + len(method) <= LONGEST_TITLE:
        width = float(figure.get_size_inches()[0])
        figure.text(
            1 - SIDE / width, title.get_position()[1], method, color=colour(method), size=8.5,
            weight="bold", ha="right", va="top",
        )  # fmt: skip
    canvas.hide_small_labels(figure)
    return figure


def _sizes(trace: Trace) -> str:
    counts = [trace.num_nodes, *(len(level.kept) for level in trace.levels)]
    return " → ".join(map(str, counts))
