"""How a search may choose settings."""

from enum import StrEnum

# Key in the settings of a cell that says how; absent if chosen over the folds.
SELECTED = "selected"
BY_TEST = "by test accuracy"
OPTIMISTIC = (
    "Settings chosen by test accuracy: these figures are optimistic, since the graphs that they "
    "are measured on chose the settings. They are no estimate for new graphs, and not comparable "
    "with figures whose settings were chosen by validation."
)


# Default of the validation result by which a search ranks candidates.
BY_ACCURACY = "accuracy"


class Select(StrEnum):
    """The results by which settings are chosen; see `run_experiment`."""

    OVER_FOLDS = "over-folds"
    PER_FOLD = "per-fold"
    TEST = "test"  # only in an experiment whose file says so
