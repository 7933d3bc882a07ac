"""`fit`: from graphs to a model, with an honest estimate of how well it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sagpool.bench.run import versions
from sagpool.bench.statistics import spread
from sagpool.classifier.model import TrainedModel
from sagpool.errors import SagpoolError
from sagpool.fleet import Progress, Result, Training, train
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import NO_TEST, Graphs
from sagpool.graphs.vocabulary import Vocabulary

# The paper finds the global architecture better on data sets of small graphs (NCI1, NCI109,
# FRANKENSTEIN: up to 30 nodes on the average) and the hierarchical one on those of larger ones.
SMALL_GRAPHS = 35
METHODS = ("sagpool-h", "sagpool-g")
GRID = {"lr": (5e-3, 1e-3), "hidden": (32, 128)}
QUICK = {"lr": 1e-3, "hidden": 64}
MAX_EPOCHS = 1000
STARTS = 5  # of the final training


@dataclass(frozen=True)
class Estimate:
    """How well a model does on graphs that it has not seen, from cross-validation."""

    accuracy: float
    ci95: tuple[float, float]
    balanced_accuracy: float
    auroc: float | None  # None where a held-out part lacks a class
    majority: float  # accuracy of always saying the most frequent class
    folds: int

    @property
    def better_than_majority(self) -> bool:
        """Whether the whole interval lies above the baseline."""
        return self.ci95[0] > self.majority

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"better_than_majority": self.better_than_majority}


@dataclass(frozen=True, eq=False)
class Fit:
    model: TrainedModel
    estimate: Estimate
    chosen: Training
    candidates: tuple[Training, ...]


def candidates_for(
    graphs: Graphs, *, method: str | None, settings: Mapping[str, Any], search: bool, **common: Any
) -> list[Training]:
    """What to choose from: a small grid, or one candidate without a search."""
    fixed = {"max_epochs": MAX_EPOCHS, **common}
    if not search:
        small = graphs.node_counts.mean() < SMALL_GRAPHS
        chosen = method or ("sagpool-g" if small else "sagpool-h")
        return [Training(chosen, **{**fixed, **QUICK, **settings})]
    found = [
        Training(name, **{**fixed, "lr": lr, "hidden": hidden, **settings})
        for name in ([method] if method else METHODS)
        for lr in GRID["lr"]
        for hidden in GRID["hidden"]
    ]
    return list(dict.fromkeys(found))


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
    """Choose a method and settings, estimate how well that does, and train on all graphs.

    The estimate is that of a nested cross-validation: for each held-out part, the candidate is
    chosen by the validation results of the trainings that do not see this part. The model itself
    is trained on all graphs, for as many epochs as its like took to their best one, from a few
    starts of which the best is kept.

    Args:
        graphs: with classes
        method: a registered name; by default chosen
        settings: of the trainings, where they are not to be chosen
        search: whether to choose; without it, one candidate is estimated and trained
        folds: of the cross-validation; fewer where a class has fewer graphs
        seed: of everything random
        device: where to train
        members: how many models side by side; by default what fits
        on_progress: called after each epoch
        checkpoint: a file from which to go on, as in `sagpool.fleet.train`
    """
    folds = _possible_folds(graphs, folds)
    candidates = candidates_for(
        graphs, method=method, settings=settings or {}, search=search, seed=seed, folds=folds
    )
    options = {"device": device, "members": members, "on_progress": on_progress}
    trainings = [replace(one, fold=fold) for one in candidates for fold in range(folds)]
    results = train(graphs, trainings, keep_weights=True, checkpoint=checkpoint, **options)  # type: ignore[arg-type]
    table = [results[i * folds : (i + 1) * folds] for i in range(len(candidates))]
    picked = [max((row[fold] for row in table), key=_validation) for fold in range(folds)]
    estimate = _estimate(graphs, picked)
    best = max(
        range(len(candidates)),
        key=lambda i: np.mean([_validation(r) for r in table[i]], 0).tolist(),
    )
    chosen = candidates[best]
    epochs = max(1, int(np.median([result.best_epoch for result in table[best]])))
    final = replace(chosen, fold=NO_TEST, validation=0, max_epochs=epochs, patience=epochs)
    # Initial weights may be unlucky, and nothing is held out here that would tell: so several
    # start, and the one that fits best stays.
    starts = [replace(final, seed=seed + start) for start in range(STARTS)]
    results = train(graphs, starts, keep_weights=True, **options)  # type: ignore[arg-type]
    result = min(results, key=lambda one: np.nan_to_num(one.train.loss, nan=np.inf))
    model = trained_model(graphs, result, estimate=estimate.to_json(), epochs=epochs)
    return Fit(model, estimate, chosen, tuple(candidates))


def trained_model(graphs: Graphs, result: Result, **about: Any) -> TrainedModel:
    """The model of a training whose weights were kept."""
    if result.weights is None or not result.best_epoch:
        raise SagpoolError("The training diverged; take a lower learning rate.")
    settings = {
        name: value
        for name, value in vars(result.training).items()
        if name not in ("method", "fold", "folds", "validation", "patience", "max_epochs")
    }
    return TrainedModel(
        result.training.method,
        shape_of(graphs, result.training),
        Vocabulary.of(graphs),
        result.weights,
        {
            "data": vars(graphs.statistics()),
            "settings": settings,
            "versions": versions(),
            **about,
        },
    )


def _validation(result: Result) -> tuple[float, float]:
    """Higher is better; a training that came to nothing is worst."""
    score = result.validation
    if np.isnan(score.accuracy):
        return 0.0, -np.inf
    return score.accuracy, -score.loss


def _estimate(graphs: Graphs, picked: Sequence[Result]) -> Estimate:
    """Of models that were chosen without the graphs they are tested on here."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    assert graphs.y is not None
    y = graphs.y.cpu().numpy()
    accuracy, balanced, auroc = [], [], list[float]()
    for result in picked:
        test = split_of(graphs, result.training).test
        share = np.full((len(test), graphs.num_classes), 1 / graphs.num_classes)
        if result.best_epoch:
            share = trained_model(graphs, result).predict_proba(graphs[test]).probabilities
        said = share.argmax(1)
        accuracy.append(float((said == y[test]).mean()))
        balanced.append(float(balanced_accuracy_score(y[test], said)))
        if len(np.unique(y[test])) == graphs.num_classes:
            score = share[:, 1] if graphs.num_classes == 2 else share
            auroc.append(float(roc_auc_score(y[test], score, multi_class="ovr")))
    found = spread(np.array(accuracy), np.zeros(len(accuracy)), len(accuracy))
    assert found.ci95 is not None
    low, high = _wilson(found.mean, len(y))
    return Estimate(
        accuracy=found.mean,
        # Parts that agree by chance must not look like certainty.
        ci95=(max(0.0, min(low, found.ci95[0])), min(1.0, max(high, found.ci95[1]))),
        balanced_accuracy=float(np.mean(balanced)),
        auroc=float(np.mean(auroc)) if auroc else None,
        majority=float(np.bincount(y).max() / len(y)),
        folds=len(picked),
    )


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many graphs."""
    z = 1.959964
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    variance = share * (1 - share) / count + z**2 / (4 * count**2)
    half = z * np.sqrt(variance) / (1 + z**2 / count)
    return float(centre - half), float(centre + half)


def _possible_folds(graphs: Graphs, folds: int) -> int:
    if graphs.y is None or graphs.num_classes < 2:
        raise SagpoolError(f"{graphs.name} has no two classes to tell apart.")
    rarest = int(np.bincount(graphs.y.cpu().numpy(), minlength=graphs.num_classes).min())
    if rarest < 2:
        raise SagpoolError(f"{graphs.name} has a class with a single graph; it takes at least 2.")
    return min(folds, rarest)
