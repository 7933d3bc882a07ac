"""The values of protocol settings in words, for the captions of tables."""

from typing import Any

from sagpool.fleet.validation_metrics import METRICS, REGRESSION_METRICS

_WORDS = {
    ("split", "contiguous"): "folds are contiguous slices of the shuffled graphs, not stratified",
    ("split", "stratified"): "folds are stratified",
    ("split", "fixed"): "the split is the one that the data set has",
    ("order", "fixed"): "training batches are the same in all epochs",
    ("order", "shuffled"): "training graphs are shuffled in every epoch",
    ("stopping", "loss+norm"): "early stopping looks at the validation loss plus the weight decay "
    "times the norm of the weights",
    ("stopping", "loss"): "early stopping looks at the validation loss",
}
_WORDS |= {
    ("stopping", name): f"early stopping looks at the validation {name.replace('_', ' ')}"
    for name in (*METRICS, *REGRESSION_METRICS)
}
_NUMBERS = {
    "folds": "{} folds",
    "validation": "{:g} of the training part for validation",
    "patience": "a patience of {} epochs",
    "max_epochs": "at most {:,} epochs",
}


def in_words(name: str, value: Any) -> str:
    """The value of a setting in words: ``a patience of 7 epochs``."""
    if name in _NUMBERS:
        return _NUMBERS[name].format(value)
    return _WORDS.get((name, value), f"{name} {value}")
