"""The one exception type that the package raises for a mistake its user can mend."""


class SagpoolError(ValueError):
    """A wrong input: one sentence that names the file, line, graph or option."""
