"""Tables, plots and the HTML page of a run store."""

from sagpool.report.write import write_report

__all__ = ["write_report"]
