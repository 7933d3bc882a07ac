"""Classifiers for your own graphs: training, saved models and predictions.

The scikit-learn estimators are in `sagpool.classifier.estimator`, which imports scikit-learn.
"""

from sagpool.classifier.estimate import Estimate
from sagpool.classifier.fit import Fit, fit
from sagpool.classifier.model import Predictions, TrainedModel, trained_model

__all__ = ["Estimate", "Fit", "Predictions", "TrainedModel", "fit", "trained_model"]
