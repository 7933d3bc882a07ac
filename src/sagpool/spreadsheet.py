"""Texts of the user in CSV files, which may be opened with spreadsheets."""

from contextlib import suppress


def as_text(value: str) -> str:
    """The text, with an apostrophe in front if a spreadsheet would read it as a formula."""
    if len(value) < 2 or value[0] not in "=+-@\t\r":
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"
