"""The times at which graphs were made, from a table: numbers or dates."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.values import shorten


def ranks_of_times(texts: Sequence[str], places: Sequence[str]) -> np.ndarray:
    """``[texts]`` int64 ranks from 0: later times have higher ranks, equal times the same.

    Args:
        texts: all numbers (such as years), or all dates of ISO 8601 (2024-05-31, 2024-05, with or
            without a time of day; UTC if there is no zone)
        places: where each text was read, for messages
    """
    values = np.array([_number(text) for text in texts])
    unknown = np.isnan(values)
    if unknown.all():
        values = np.array(
            [_seconds(text, place) for text, place in zip(texts, places, strict=True)]
        )
    elif unknown.any():
        first = int(unknown.argmax())
        other = int(unknown.argmin())
        raise SagpoolError(
            f"{places[first]}: the time {_quoted(texts[first])} is not a number, but "
            f"{_quoted(texts[other])} ({places[other]}) is one."
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _number(text: str) -> float:
    """The number, or NaN if the text is not a number."""
    try:
        value = float(text)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def _seconds(text: str, place: str) -> float:
    # A month counts as its first day.
    whole = f"{text}-01" if len(text) == len("2024-05") and text[4:5] == "-" else text
    try:
        moment = datetime.fromisoformat(whole)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise SagpoolError(
            f"{place}: the time {_quoted(text)} is neither a number nor a date such as 2024-05-31."
        ) from None


def _quoted(text: str) -> str:
    return shorten(text) if text else "(an empty cell)"
