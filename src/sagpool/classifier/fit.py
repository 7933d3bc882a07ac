"""`fit`: choose, estimate and train a classifier for a collection of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sagpool.classifier.estimate import Estimate, estimate
from sagpool.classifier.model import TrainedModel, trained_model
from sagpool.errors import SagpoolError
from sagpool.fleet import Progress, Result, Training, train
from sagpool.graphs import NO_TEST, Graphs

# In the paper the global architecture is better on data sets of small graphs (NCI1, NCI109,
# FRANKENSTEIN: up to 30 nodes on average), and the hierarchical one on those of larger graphs.
SMALL_GRAPHS = 35
METHODS = ("sagpool-h", "sagpool-g")
GRID = {"lr": (5e-3, 1e-3), "hidden": (32, 128)}
QUICK = {"lr": 1e-3, "hidden": 64}
MAX_EPOCHS = 1000
STARTS = 5  # initialisations of the final training


@dataclass(frozen=True, eq=False)
class Fit:
    """A model trained on all graphs, its estimated accuracy, and how it was chosen."""

    model: TrainedModel
    estimate: Estimate
    chosen: Training
    candidates: tuple[Training, ...]

    def __repr__(self) -> str:
        return f"Fit({self.model!r}, candidates: {len(self.candidates)})"

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import fit_html

        return fit_html(self)


def candidates_for(
    graphs: Graphs, *, method: str | None, settings: Mapping[str, Any], search: bool, **common: Any
) -> list[Training]:
    """The trainings to choose from: a small grid, or a single one without a search."""
    fixed = {"max_epochs": MAX_EPOCHS, **common}
    if not search:
        small = graphs.node_counts.mean() < SMALL_GRAPHS
        chosen = method or ("sagpool-g" if small else "sagpool-h")
        return [Training.from_dict({"method": chosen, **fixed, **QUICK, **settings})]
    grid = [
        Training.from_dict({"method": name, **fixed, "lr": lr, "hidden": hidden, **settings})
        for name in ([method] if method else METHODS)
        for lr in GRID["lr"]
        for hidden in GRID["hidden"]
    ]
    return list(dict.fromkeys(grid))


def fit(
    graphs: Graphs,
    *,
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    search: bool = True,
    folds: int = 10,
    seed: int = 0,
    device: torch.device | str = "cpu",
    members: int | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    checkpoint: Path | None = None,
) -> Fit:
    """Choose a method and settings, estimate the accuracy, and train on all graphs.

    The estimate comes from nested cross-validation: in each fold, the candidate is chosen by its
    validation results, without the test graphs. The final model is trained on all graphs, for the
    median number of epochs to the best one over the folds, from a few initialisations, of which
    the one with the lowest loss is kept.

    Args:
        graphs: with classes
        method: a registered name; None to choose one
        settings: settings of the trainings that are not to be searched
        search: whether to search; otherwise a single candidate is estimated and trained
        folds: of the cross-validation; at most the number of graphs of the rarest class
        seed: of everything random
        device: where to train
        members: models trained side by side; None for as many as fit
        on_progress: called after each epoch
        checkpoint: a file to resume from, as in `sagpool.fleet.train`
    """
    folds = _possible_folds(graphs, folds)
    candidates = candidates_for(
        graphs, method=method, settings=settings or {}, search=search, seed=seed, folds=folds
    )
    options: dict[str, Any] = {"device": device, "members": members, "on_progress": on_progress}
    in_folds = [replace(one, fold=fold) for one in candidates for fold in range(folds)]
    results = train(graphs, in_folds, keep_weights=True, checkpoint=checkpoint, **options)
    by_candidate = [results[i * folds : (i + 1) * folds] for i in range(len(candidates))]
    best_of_fold = [max(fold, key=_validation) for fold in zip(*by_candidate, strict=True)]
    estimated = estimate(graphs, best_of_fold)
    means = [np.mean([_validation(r) for r in row], 0).tolist() for row in by_candidate]
    best = means.index(max(means))
    epochs = max(1, int(np.median([result.best_epoch for result in by_candidate[best]])))
    final = replace(
        candidates[best], fold=NO_TEST, validation=0, max_epochs=epochs, patience=epochs
    )
    # Initial weights can be unlucky, and without held-out graphs nothing else would show it.
    starts = [replace(final, seed=seed + start) for start in range(STARTS)]
    results = train(graphs, starts, keep_weights=True, **options)
    result = min(results, key=lambda one: np.nan_to_num(one.train.loss, nan=np.inf))
    model = trained_model(graphs, result, estimate=estimated.to_json(), epochs=epochs)
    return Fit(model, estimated, candidates[best], tuple(candidates))


def _validation(result: Result) -> tuple[float, float]:
    """A sort key: higher is better, and a diverged training is the worst."""
    score = result.validation
    if np.isnan(score.accuracy):
        return 0.0, -np.inf
    return score.accuracy, -score.loss


def _possible_folds(graphs: Graphs, folds: int) -> int:
    if graphs.y is None or graphs.num_classes < 2:
        raise SagpoolError(f"{graphs.name} needs at least two classes.")
    rarest = int(np.bincount(graphs.y.cpu().numpy(), minlength=graphs.num_classes).min())
    if rarest < 2:
        raise SagpoolError(
            f"{graphs.name} has a class with a single graph; each class needs at least 2."
        )
    return min(folds, rarest)
