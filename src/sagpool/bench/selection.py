"""How a search may choose settings."""

from enum import StrEnum

SELECTED = "selected"  # how, among the settings of a cell; absent if chosen over the folds
BY_TEST = "by test accuracy"
OPTIMISTIC = (
    "Settings chosen by test accuracy: these figures are optimistic, since the graphs that they "
    "are measured on chose the settings. They are no estimate for new graphs, and not comparable "
    "with figures whose settings were chosen by validation."
)


# By which validation result a search ranks candidates, unless told otherwise.
BY_ACCURACY = "accuracy"


class Select(StrEnum):
    """By which results the settings are chosen; see `run_experiment`."""

    OVER_FOLDS = "over-folds"
    PER_FOLD = "per-fold"
    TEST = "test"  # only in an experiment whose file says so
