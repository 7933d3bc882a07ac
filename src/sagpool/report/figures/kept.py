"""Which nodes a model kept."""

from matplotlib.figure import Figure

from sagpool.explain import Trace
from sagpool.explain.draw import SIDE, draw
from sagpool.report.colours import colour

MOST_IN_A_LINE = 44  # characters
SMALLEST = 6.2  # points; on a phone, eight pixels


def kept_figure(trace: Trace, method: str) -> Figure:
    """The input and its levels, two panels in a row, and which method did it."""
    figure = draw(trace, wide=False)
    first = figure.texts[0]
    if len(first.get_text()) + len(method) <= MOST_IN_A_LINE:
        across = float(figure.get_size_inches()[0])
        figure.text(
            1 - SIDE / across, first.get_position()[1], method, color=colour(method), size=8.5,
            weight="bold", ha="right", va="top",
        )  # fmt: skip
    hide_small_labels(figure)
    return figure


def hide_small_labels(figure: Figure) -> None:
    """Labels of nodes that nobody could read would only look like dirt."""
    for ax in figure.axes:
        for label in ax.texts:
            label.set_visible(float(label.get_fontsize()) >= SMALLEST)
