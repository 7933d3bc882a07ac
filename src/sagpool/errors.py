"""The exception that the package raises for wrong input."""


class SagpoolError(ValueError):
    """Wrong input: one sentence that names the file, line, graph or option."""
