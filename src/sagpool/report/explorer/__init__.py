"""The page of `sagpool explain`, on which many graphs can be searched and viewed."""

from sagpool.report.explorer.page import write_explorer

__all__ = ["write_explorer"]
