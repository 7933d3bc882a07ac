"""Names and formats of scores."""

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "area under the ROC curve",
    "pr_auc": "area under the precision-recall curve",
    "mcc": "Matthews' correlation coefficient",
    "f1": "F1",
    "log_loss": "log loss",
    "ece": "calibration error",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
    "spearman": "Spearman's correlation",
}
# By task: the name of what covers the truth (sets, intervals), and of its measured size.
COVERING = {
    "classification": ("prediction sets", "mean size"),
    "multitask": ("prediction sets", "mean size"),
    "regression": ("prediction intervals", "mean width"),
}
_PERCENT = ("accuracy", "balanced_accuracy")


def score_text(name: str, value: float) -> str:
    """A score in the usual number of digits."""
    return f"{value:.1%}" if name in _PERCENT else f"{value:.3f}"
