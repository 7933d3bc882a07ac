"""The page of `sagpool train`: scores on held-out graphs, calibration and coverage."""

import numpy as np
from matplotlib.axes import Axes

from sagpool.classifier import Fit
from sagpool.classifier.leaderboard import SCORE
from sagpool.classifier.score_names import COVERING, NAMES, score_text
from sagpool.explain.draw import INK
from sagpool.fleet.metrics import Bin
from sagpool.graphs import Graphs
from sagpool.report import canvas
from sagpool.report.colours import FAINT, MUTED
from sagpool.report.page import template
from sagpool.report.picture import Drawing, render_all

HEIGHT = 2.6  # inches
POINTS = 2000  # most points of a scatter plot
DOTS = "#1f78c8"


def training_page(graphs: Graphs, fitted: Fit) -> str:
    """The page, a single self-contained HTML file."""
    estimate = fitted.estimate
    pictures = render_all(_drawings(graphs, fitted))
    score = SCORE[estimate.task]
    return template("training.html").render(
        data=graphs.name,
        fitted=fitted,
        estimate=estimate,
        names=NAMES,
        text=score_text,
        score=score,
        outputs=fitted.model.output_names,
        pictures=[(drawing, picture.inline) for drawing, picture in pictures.items()],
        known=[(name, one) for name, one in estimate.scores.items() if not np.isnan(one.value)],
        has_interval={name: not np.isnan(one.low) for name, one in estimate.scores.items()},
        covering=COVERING[estimate.task],
        size=None if np.isnan(estimate.coverage.size) else estimate.coverage.size,
    )


def _drawings(graphs: Graphs, fitted: Fit) -> list[Drawing]:
    estimate = fitted.estimate
    if estimate.task != "regression":
        figure, axes = canvas.new_panel("Calibration", HEIGHT)
        draw_calibration(axes, estimate.calibration)
        caption = "Graphs in ten groups of equal size, by predicted probability"
        return [Drawing("calibration", caption, figure)]
    assert graphs.targets is not None
    drawings = []
    for place, name in enumerate(graphs.target_names):
        truth = graphs.targets[fitted.held_out, place].cpu().numpy()
        if np.isnan(truth).all():
            continue
        figure, axes = canvas.new_panel(name, HEIGHT)
        draw_predictions(axes, truth, fitted.out_of_fold.outputs[:, place])
        drawings.append(Drawing(f"predicted-{place}", "Held-out graphs", figure))
    return drawings


def draw_calibration(axes: Axes, curve: list[Bin]) -> None:
    """Draw observed frequencies against predicted probabilities."""
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
    axes.plot(
        [one.probability for one in curve],
        [one.fraction for one in curve],
        color=DOTS, marker="o", markersize=4, linewidth=1,
    )  # fmt: skip
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    _label(axes, "predicted probability", "observed frequency")


def draw_predictions(axes: Axes, truth: np.ndarray, predicted: np.ndarray) -> None:
    """Draw predicted against measured values."""
    known = np.flatnonzero(~np.isnan(truth))
    shown = known[:: max(1, len(known) // POINTS)]
    ends = [
        min(truth[known].min(), predicted[known].min()),
        max(truth[known].max(), predicted[known].max()),
    ]
    axes.plot(ends, ends, color=FAINT, linewidth=1)
    axes.plot(truth[shown], predicted[shown], color=DOTS, marker="o", linestyle="", markersize=2)
    _label(axes, "measured", "predicted")


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, color=MUTED, size=canvas.SMALL)
    axes.set_ylabel(y, color=MUTED, size=canvas.SMALL)
    axes.tick_params(labelsize=canvas.SMALL, colors=INK)
