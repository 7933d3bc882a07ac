"""Where the time of the device went, for commands with ``--profile``."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sagpool.bench.records import DeviceTime, Invocation
from sagpool.report import canvas
from sagpool.report.colours import KINDS, MUTED
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, listing, numbers, words

STACK, GAP, RATE = 1.5, 0.12, 0.5  # inches
MINUTES = 600  # from this many seconds on, an axis shows minutes


def section(content: Content) -> Section:
    noted = [
        (one, content.profiles[one.id])
        for one in content.invocations
        if one.id in content.profiles and any(content.profiles[one.id].models)
    ]
    parts = []
    if noted:
        parts.append(Part(drawings=[_drawing(one, time) for one, time in noted]))
        parts += [Part(_heading(one), _table(one, time), folded=True) for one, time in noted]
    return Section(
        "profile",
        "Where the time went",
        parts,
        [
            "How the device spent its time while a command ran with --profile, from start to end. "
            "Where fleets overlap, steps count first. Steps: training. Evaluation: validation and "
            "final scores; if whole epochs are recorded, their validation counts "
            "as steps. Compiling: kernels. Recording: CUDA graphs. Waiting: none of these.",
            "Below: models · epochs per second.",
        ],
    )


def _heading(invocation: Invocation) -> str:
    return f"As a table: {_started(invocation)}"


def _started(invocation: Invocation) -> str:
    return invocation.started.replace("T", " ").removesuffix("+00:00")


def _drawing(invocation: Invocation, time: DeviceTime) -> Drawing:
    keys = [Patch(facecolor=KINDS[kind], label=kind) for kind, part in time.whole.items() if part]
    top = canvas.head_height(keys)
    title = f"{invocation.experiment}, {_started(invocation)}"
    figure = canvas.new_figure(title, top + STACK + GAP + RATE + canvas.BOTTOM, keys)
    bottom, left = canvas.BOTTOM, canvas.LEFT
    stack = canvas.add_axes(figure, left=left, bottom=bottom + RATE + GAP, top=top)
    rate = canvas.add_axes(figure, left=left, bottom=bottom, top=top + STACK + GAP)
    draw_time(stack, rate, time)
    return Drawing(f"profile-{invocation.id}", f"{time} {invocation.device}", figure)


def draw_time(stack: Axes, rate: Axes, time: DeviceTime) -> None:
    """Draw the kinds of time as a stack, and the models trained on the axes below."""
    minutes = time.wall_seconds >= MINUTES
    edges = np.linspace(0, time.wall_seconds / (60 if minutes else 1), len(time.models) + 1)
    below = np.zeros(len(time.models))
    for kind, fractions in time.fractions.items():
        above = below + 100 * np.array(fractions)
        stack.stairs(above, edges, baseline=below, fill=True, color=KINDS[kind], linewidth=0)
        below = above
    rates = np.array(time.models) * len(time.models) / time.wall_seconds
    rate.stairs(rates, edges, fill=True, color=MUTED, linewidth=0)
    for ax in (stack, rate):
        ax.set_xlim(0, edges[-1])
    stack.set_ylim(0, 100)
    stack.tick_params(axis="x", length=0, labelbottom=False)
    stack.set_yticks([0, 50, 100])
    rate.locator_params(axis="y", nbins=2)
    rate.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    canvas.label_y(stack, "% of the device")
    canvas.label_y(rate, "epochs/s")
    canvas.label_x(rate, "minutes" if minutes else "seconds")


def _table(invocation: Invocation, time: DeviceTime) -> Table:
    threads = f" × {time.threads} threads" if time.threads > 1 else ""
    trained = sum(time.models)
    return listing(
        f"profile-{invocation.id}",
        f"{invocation.device}: {time.wall_seconds:.1f} s{threads}, {trained:,} models · epochs.",
        [
            words("time for", list(time.seconds)),
            numbers("seconds", list(time.seconds.values()), ".1f"),
            numbers("percent", [100 * part for part in time.whole.values()], ".1f"),
        ],
        [
            {
                "invocation": invocation.id,
                "kind": kind,
                "seconds": seconds,
                "percent": 100 * time.whole[kind],
            }
            for kind, seconds in time.seconds.items()
        ],
    )
