"""An estimate for future graphs: a model trained on the earlier graphs predicts the latest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sagpool.classifier.estimate import estimate, held_out_predictions
from sagpool.classifier.out_of_fold import truth_of
from sagpool.classifier.progress import FitProgress
from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs
from sagpool.graphs.splits import latest

if TYPE_CHECKING:
    from sagpool.classifier.fit import Fit

LATER = 0.2  # fraction of the graphs that is held out, as nearly as their times allow
MOST = 0.5  # if more were held out, the estimate would be about a different model


def _held_out(graphs: Graphs) -> np.ndarray:
    """``[graphs]`` bool: the held-out graphs; an error if they cannot be scored."""
    assert graphs.time is not None
    if graphs.group is not None:
        raise SagpoolError(f"{graphs.name} has both groups and times; a fit can use one of them.")
    try:
        later = latest(graphs.time.cpu(), LATER)
    except SagpoolError as error:
        raise SagpoolError(f"{graphs.name} cannot be split by time: {error}") from None
    if later.mean() > MOST:
        raise SagpoolError(
            f"{graphs.name} cannot be split by time: {int(later.sum())} of its {len(graphs)} "
            "graphs have the latest time."
        )
    if graphs.targets is not None and graphs.targets[later].isnan().all():
        raise SagpoolError(f"Nothing was measured for the latest graphs of {graphs.name}.")
    return later


class FitGraphs(Protocol):
    """`sagpool.classifier.fit` with most of its options bound."""

    def __call__(self, graphs: Graphs, **options: Any) -> Fit: ...


def fit_by_time(
    graphs: Graphs,
    fit: FitGraphs,
    *,
    seed: int,
    minutes: float | None,
    on_progress: Callable[[FitProgress], None],
    checkpoint: Callable[[str], Path] | None,
) -> Fit:
    """Fit a model to the earlier graphs, estimate its scores on the latest, and fit one to all.

    All choices for the estimate (candidates, their weights, calibration, prediction sets) depend
    only on the earlier graphs. The model for all graphs is chosen again.
    """
    later = _held_out(graphs)
    timeless = replace(graphs, time=None)

    def fit_part(name: str, part: Graphs, done: float, **options: Any) -> Fit:
        def told(progress: FitProgress) -> None:
            stage, fraction = f"{progress.stage} ({name} graphs)", done + progress.fraction / 2
            # The time of the second part is unknown during the first one.
            on_progress(FitProgress(stage, fraction, progress.seconds_left if done else None))

        return fit(
            part,
            minutes=None if minutes is None else minutes / 2,
            on_progress=told,
            checkpoint=None
            if checkpoint is None
            else lambda method: checkpoint(f"{name}-{method}"),
            **options,
        )

    # Ctrl-C during this part ends the fit: there is no model of all graphs yet.
    earlier = timeless[np.flatnonzero(~later)]
    earlier = replace(earlier, name=f"{graphs.name} (earlier graphs)")
    before = fit_part("earlier", earlier, 0.0, keep_on_interrupt=False)
    numbers = np.flatnonzero(later)
    new = timeless[numbers]
    found, conformal = before.model.predict_proba(new), before.model.conformal
    assert conformal is not None
    truth = truth_of(new)
    predictions = held_out_predictions(
        new.task, found.probabilities, found.predicted, conformal, truth
    )
    whole = fit_part("all", timeless, 0.5)
    of_later = estimate(
        new.task,
        predictions,
        truth,
        folds=whole.estimate.folds,
        coverage=before.estimate.coverage.promised,
        target_names=new.target_names,
        seed=seed,
        trained_on=len(earlier),
        frequent=int(np.bincount(earlier.y.cpu()).argmax()) if earlier.y is not None else None,
    )
    about = {**whole.model.about, "estimate": of_later.to_json()}
    return replace(
        whole,
        model=replace(whole.model, about=about),
        estimate=of_later,
        held_out=numbers,
        fold=np.zeros(len(numbers), np.int64),
        out_of_fold=predictions,
        interrupted=before.interrupted or whole.interrupted,
    )
