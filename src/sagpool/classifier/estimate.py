"""How accurate a classifier is on new graphs, estimated from cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sagpool.classifier.model import trained_model
from sagpool.fleet import Result
from sagpool.fleet.schedule import split_of
from sagpool.graphs import Graphs
from sagpool.statistics import spread


@dataclass(frozen=True)
class Estimate:
    """Scores on held-out graphs, averaged over the folds of a cross-validation."""

    accuracy: float
    ci95: tuple[float, float]
    balanced_accuracy: float
    auroc: float | None  # None if no test fold has all classes
    majority: float  # accuracy of always predicting the most frequent class
    folds: int

    @property
    def better_than_majority(self) -> bool:
        """Whether the whole confidence interval lies above the baseline."""
        return self.ci95[0] > self.majority

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"better_than_majority": self.better_than_majority}

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import estimate_html

        return estimate_html(self)


def estimate(graphs: Graphs, results: Sequence[Result]) -> Estimate:
    """Test the models of one training per fold, none of which saw the test graphs of its fold."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    assert graphs.y is not None
    y = graphs.y.cpu().numpy()
    accuracy, balanced, auroc = [], [], list[float]()
    for result in results:
        test = split_of(graphs, result.training).test
        probabilities = np.full((len(test), graphs.num_classes), 1 / graphs.num_classes)
        if result.best_epoch:
            probabilities = trained_model(graphs, result).predict_proba(graphs[test]).probabilities
        predicted = probabilities.argmax(1)
        accuracy.append(float((predicted == y[test]).mean()))
        balanced.append(float(balanced_accuracy_score(y[test], predicted)))
        if len(np.unique(y[test])) == graphs.num_classes:
            score = probabilities[:, 1] if graphs.num_classes == 2 else probabilities
            auroc.append(float(roc_auc_score(y[test], score, multi_class="ovr")))
    over_folds = spread(np.array(accuracy), np.zeros(len(accuracy)), len(accuracy))
    assert over_folds.ci95 is not None
    low, high = wilson_interval(over_folds.mean, len(y))
    return Estimate(
        accuracy=over_folds.mean,
        # Folds with equal accuracies would give an interval of width 0, so take the wider one.
        ci95=(max(0.0, min(low, over_folds.ci95[0])), min(1.0, max(high, over_folds.ci95[1]))),
        balanced_accuracy=float(np.mean(balanced)),
        auroc=float(np.mean(auroc)) if auroc else None,
        majority=float(np.bincount(y).max() / len(y)),
        folds=len(results),
    )


def wilson_interval(fraction: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a fraction observed on ``count`` graphs."""
    z = 1.959964
    centre = (fraction + z**2 / (2 * count)) / (1 + z**2 / count)
    variance = fraction * (1 - fraction) / count + z**2 / (4 * count**2)
    half = z * np.sqrt(variance) / (1 + z**2 / count)
    return float(centre - half), float(centre + half)
