"""The page of `sagpool explain`, on which many graphs are searched and looked at."""

from sagpool.report.explorer.page import write_explorer

__all__ = ["write_explorer"]
