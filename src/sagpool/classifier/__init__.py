"""Models for your own graphs: training, saved models and predictions.

The scikit-learn estimators are in `sagpool.classifier.estimator`, which imports scikit-learn.
"""

from sagpool.classifier.estimate import Estimate
from sagpool.classifier.fit import Fit, fit
from sagpool.classifier.leaderboard import Row
from sagpool.classifier.model import Predictions, TrainedModel, trained_model
from sagpool.classifier.progress import FitProgress

__all__ = [
    "Estimate",
    "Fit",
    "FitProgress",
    "Predictions",
    "Row",
    "TrainedModel",
    "fit",
    "trained_model",
]
