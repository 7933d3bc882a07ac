"""Ranks over data sets, as a critical-difference diagram."""

from markupsafe import Markup
from matplotlib.axes import Axes

from sagpool.bench.claims import p_text
from sagpool.bench.ranks import FEWEST, Ranks, rank_methods
from sagpool.explain.draw import INK
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, method, numbers, words
from sagpool.statistics import SIGNIFICANT

ROW, BAR = 0.2, 0.09  # heights of a name and of a bar, in inches
LONGEST = 15  # most characters of a name
MARGIN = 0.05  # inches, on each side
_NOTHING_SHARED = Markup(
    "<p>There is no diagram: it needs {fewest} methods that were run on the same {fewest} data "
    "sets.</p>"
).format(fewest=FEWEST)


def section(content: Content) -> Section:
    main = content.groups[0].main
    found = rank_methods(main)
    title = "Ranks over data sets"
    datasets = dict.fromkeys(s.cell.dataset for s in main)
    if found is None:
        enough = min(len(datasets), len({s.method for s in main})) >= FEWEST
        return Section("ranks", title, [Part(html=_NOTHING_SHARED)] if enough else [])
    absent = ", ".join(d for d in datasets if d not in found.datasets)
    few = (
        f" With {len(found.datasets)} data sets and {len(found.methods)} methods, p cannot be "
        f"below {p_text(found.least_p)}, even if one method is ahead of another on every data set: "
        "nothing here can be significant."
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
            f"{SIGNIFICANT}). Friedman's test of no differences: p {p_text(found.friedman)}.{few}",
            *(
                [f"Left out, since too few methods were run on all data sets: {absent}."]
                if absent
                else []
            ),
            "Methods that were not run on all of these data sets are left out. Unlike the pairs "
            "above, these tests are about data sets in general, of which these are a small sample.",
        ],
    )


def _drawing(found: Ranks) -> Drawing:
    rows, bars = -(-len(found.methods) // 2), len(found.alike)
    height = 0.3 + BAR * (bars + 1) + ROW * rows
    figure = canvas.new_figure("Mean ranks", canvas.head_height(()) + height + 0.02)
    top = canvas.head_height(())
    ax = canvas.add_axes(figure, left=MARGIN, right=MARGIN, bottom=0.02, top=top)
    draw_ranks(ax, found, height)
    listed = ", ".join(found.datasets)
    return Drawing("ranks", f"Critical-difference diagram over {listed}", figure)


def draw_ranks(ax: Axes, found: Ranks, height: float) -> None:
    """Draw the diagram.

    Args:
        ax: axes to draw on
        found: the ranks
        height: height of the axes in inches, the unit of the y axis
    """
    count, means = len(found.methods), found.means
    # The names take a part of the width on each side; the rest is the axis.
    side = canvas.width_of([_label(name, 10.0, left=True) for name in found.methods])
    inset = (count - 1) * side / (canvas.WIDTH - 2 * MARGIN - 2 * side)
    ax.set(xlim=(1 - inset, count + inset), ylim=(height, 0), yticks=[], xticks=[])
    ax.spines["bottom"].set_visible(False)
    axis = 0.24
    ax.plot([1, count], [axis, axis], color=INK, linewidth=1)
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [axis - 0.05, axis], color=INK, linewidth=1)
        if count <= 7 or rank in (1, count) or rank % 5 == 0:
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
        y, end = below + ROW * (row + 0.5), 1 if left else count
        ax.plot([mean, mean, end], [axis, y, y], color=colour(name), linewidth=1)
        ax.text(
            end, y, _label(name, mean, left=left), size=canvas.SMALL, color=INK, va="center",
            ha="right" if left else "left",
        )  # fmt: skip


def _label(name: str, mean: float, *, left: bool) -> str:
    label = canvas.short(names.label(name), LONGEST)
    return f"{label} {mean:.1f} " if left else f" {mean:.1f} {label}"


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
