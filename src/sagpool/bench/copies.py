"""Which invocations of two run stores are the same one, because a store was copied."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

INVOCATION = ("started", "command", "experiment", "device", "versions")
# Unlike the key, the time and duration of a training differ between any two invocations.
_TRAININGS = {
    "runs": "key, finished, seconds",
    "failures": "key, finished, reason",
    "paused": "key, finished, length(curve)",
}


class Content(NamedTuple):
    """An invocation with what it left in a store."""

    columns: tuple[Any, ...]  # as in `INVOCATION`
    trainings: frozenset[tuple[Any, ...]]
    profile: str | None


def read_invocations(connection: sqlite3.Connection) -> dict[int, Content]:
    """All invocations of a store, by number."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    trainings = defaultdict[int, set[tuple[Any, ...]]](set)
    for table, columns in _TRAININGS.items():
        if table in tables:  # older stores lack some
            for number, *row in connection.execute(f"SELECT invocation, {columns} FROM {table}"):
                trainings[number].add(tuple(row))
    profiles: dict[int, str] = {}
    if "profiles" in tables:
        profiles = dict(connection.execute("SELECT invocation, time FROM profiles"))
    sql = f"SELECT id, {', '.join(INVOCATION)} FROM invocations ORDER BY id"
    return {
        number: Content(tuple(row), frozenset(trainings[number]), profiles.get(number))
        for number, *row in connection.execute(sql)
    }


def find_copy(wanted: Content, among: Mapping[int, Content]) -> int | None:
    """The number of the invocation that is this one; None if it is another one.

    The second of the start and the text of the command may be equal for commands that ran at the
    same time, so copies also have a training in common, or one of them has none and neither has a
    profile of its own. One store may have been copied while the command was running.
    """
    shared = {
        number: len(one.trainings & wanted.trainings)
        for number, one in among.items()
        if one.columns == wanted.columns and _may_be_same(one, wanted)
    }
    return max(shared, key=lambda number: shared[number], default=None)


def _may_be_same(one: Content, other: Content) -> bool:
    if one.trainings and other.trainings:
        return bool(one.trainings & other.trainings)
    return one.profile == other.profile
