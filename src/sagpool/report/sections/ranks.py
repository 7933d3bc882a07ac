"""Ranks over data sets, as a critical-difference diagram."""

from matplotlib.axes import Axes

from sagpool.bench.claims import p_text
from sagpool.bench.ranks import Ranks, rank_methods
from sagpool.explain.draw import INK
from sagpool.report import canvas, names
from sagpool.report.colours import MUTED, colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, method, numbers, words
from sagpool.statistics import SIGNIFICANT

ROW, BAR = 0.2, 0.09  # inches, of a name and of a bar
LONGEST = 20  # characters of a name


def section(content: Content) -> Section:
    found = rank_methods(content.groups[0].main)
    title = "Ranks over data sets"
    if found is None:
        return Section("ranks", title, [])
    few = (
        f" With {len(found.datasets)} data sets no pair can be below {p_text(found.least_p)}, so "
        "that nothing here can be significant."
        if found.least_p >= SIGNIFICANT
        else ""
    )
    return Section(
        "ranks",
        title,
        [Part(drawings=[_drawing(found)]), Part("As a list", _table(found), folded=True)],
        [
            f"The mean rank of each method over {len(found.datasets)} data sets; 1 would be the "
            "highest mean accuracy on all of them. A bar joins methods of which no two differ "
            f"significantly (Wilcoxon's signed-rank test over data sets, p after Holm below "
            f"{SIGNIFICANT}). Friedman's test that all ranks are chance: p {p_text(found.friedman)}"
            f".{few}",
            "Methods that were not run on all of these data sets are left out. Unlike the pairs "
            "above, this is about data sets in general, of which these are a small sample.",
        ],
    )


def _drawing(found: Ranks) -> Drawing:
    rows, bars = -(-len(found.methods) // 2), len(found.alike)
    height = 0.3 + BAR * (bars + 1) + ROW * rows
    figure = canvas.new_figure("Mean ranks", canvas.head_height(()) + height)
    ax = canvas.add_axes(figure, left=0.1, right=0.1, bottom=0.02, top=canvas.head_height(()))
    draw_ranks(ax, found, height)
    listed = ", ".join(found.datasets)
    return Drawing("ranks", f"Critical-difference diagram over {listed}", figure)


def draw_ranks(ax: Axes, found: Ranks, height: float) -> None:
    """Draw the diagram.

    Args:
        ax: to draw on
        found: the ranks
        height: of the axes in inches, the unit of its y axis
    """
    count, means = len(found.methods), found.means
    inset = 0.32 * count  # on each side, for the names
    ax.set(xlim=(1 - inset, count + inset), ylim=(height, 0), yticks=[], xticks=[])
    ax.spines["bottom"].set_visible(False)
    axis = 0.24
    ax.plot([1, count], [axis, axis], color=INK, linewidth=1)
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [axis - 0.05, axis], color=INK, linewidth=1)
        if count <= 12 or rank in (1, count) or rank % 5 == 0:
            ax.text(rank, axis - 0.07, str(rank), size=canvas.SMALL, color=INK, ha="center")
    for number, (first, last) in enumerate(found.alike):
        y = axis + BAR * (number + 1)
        ends = [means[first] - 0.06, means[last] + 0.06]
        ax.plot(ends, [y, y], color=INK, linewidth=3, solid_capstyle="butt")
    below = axis + BAR * (len(found.alike) + 1)
    half = -(-count // 2)
    for number, (name, mean) in enumerate(zip(found.methods, means, strict=True)):
        left = number < half
        row = number if left else count - 1 - number
        y, end = below + ROW * (row + 0.5), 1 - 0.12 * inset if left else count + 0.12 * inset
        tint = colour(name)
        ax.plot([mean, mean, end], [axis, y, y], color=tint, linewidth=1)
        label = canvas.short(names.label(name), LONGEST)
        text = f"{label}  {mean:.1f}" if left else f"{mean:.1f}  {label}"
        ax.text(
            end, y, f" {text} ", size=canvas.SMALL, color=INK, va="center",
            ha="right" if left else "left",
        )  # fmt: skip
    ax.tick_params(colors=MUTED)


def _table(found: Ranks) -> Table:
    columns = [
        words("method", [method(name) for name in found.methods]),
        numbers("mean rank", list(found.means)),
        *(
            numbers(name, list(row), "g")
            for name, row in zip(found.datasets, found.ranks, strict=True)
        ),
    ]
    records = [
        {"method": name, "mean_rank": float(mean)}
        | {d: float(r) for d, r in zip(found.datasets, found.ranks[:, i], strict=True)}
        for i, (name, mean) in enumerate(zip(found.methods, found.means, strict=True))
    ]
    caption = "Ranks of the methods on each data set; equal means share the mean of their ranks."
    return listing("ranks", caption, columns, records)
