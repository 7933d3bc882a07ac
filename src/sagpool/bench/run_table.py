"""Finished trainings as columns of numbers: a million take a few hundred megabytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np

from sagpool.bench.database import CHECKSUM, RUN_COLUMNS, check_row, readable_errors
from sagpool.bench.records import Run
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError
from sagpool.foreign.values import DecodingError, decode, parse_json

_GROUP = ("name", "fingerprint", "method", "settings", "precision", "numerics")
_INTEGERS = ("seed", "fold", "invocation", "diverged", "best_epoch", "epochs", "parameters")
_SCORES = (
    *("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"),
    *("test_loss", "test_accuracy", "seconds"),
)
_TEXTS = ("key", "finished")
MAIN_TEST = "main_test"  # column: the name of the first test of a fixed split, or empty
CHUNK = 500  # rows at a time: fewer than the garbage collector waits for
_NO_CURVE = np.zeros((3, 0), np.float32)


class Group(NamedTuple):
    """The common fields of runs with the same settings."""

    name: str
    fingerprint: str
    method: str
    settings: dict[str, Any]
    precision: str
    numerics: int


@dataclass(frozen=True, eq=False)
class RunTable(Sequence[Run]):
    """Runs of a store, ordered by seed and fold, without their curves and confusion matrices.

    A `Run` is made on access; `column` returns one field of all runs at once.
    """

    groups: Sequence[Group]
    columns: dict[str, np.ndarray]  # [rows of the store] each; ``group`` is an index
    rows: np.ndarray  # [runs], the rows of this table
    # [rows of the store] accuracies, by test.
    tests: dict[str, np.ndarray] = field(default_factory=dict)

    def column(self, name: str) -> np.ndarray:
        """A field of every run, ``[runs]``: numbers, or bytes for texts."""
        return self.columns[name][self.rows]

    @cached_property
    def by_group(self) -> list[tuple[Group, RunTable]]:
        """The runs of each group, in the order of their first runs."""
        number = self.column("group")
        order = np.argsort(number, kind="stable")
        found, starts = np.unique(number[order], return_index=True)
        parts = np.split(self.rows[order], starts[1:]) if len(found) else []
        first = np.argsort([order[start] for start in starts])
        return [(self.groups[found[i]], self._with_rows(parts[i])) for i in first]

    def test_accuracy(self) -> dict[str, np.ndarray]:
        """``[runs]`` accuracies in the tests of a fixed split, by name; without unused tests.

        The main test comes first. It is also the column ``test_accuracy``.
        """
        found = {name: accuracy[self.rows] for name, accuracy in self.tests.items()}
        main = self.column(MAIN_TEST)[:1].tolist()
        names = sorted(found, key=lambda name: name.encode() not in main)  # stable
        return {name: found[name] for name in names if not np.isnan(found[name]).all()}

    def before_seed(self, seed: int) -> RunTable:
        return self._with_rows(self.rows[self.column("seed") < seed])

    def of_groups(self, wanted: Callable[[Group], bool]) -> RunTable:
        numbers = [number for number, group in enumerate(self.groups) if wanted(group)]
        return self._with_rows(self.rows[np.isin(self.column("group"), numbers)])

    def of_invocation(self, number: int) -> RunTable:
        return self._with_rows(self.rows[self.column("invocation") == number])

    @property
    def last_finished(self) -> str | None:
        """When the last run ended; None without runs."""
        return np.sort(self.column("finished"))[-1].decode() if len(self) else None

    def with_keys(self, keys: Collection[str]) -> RunTable:
        wanted = np.array(sorted(key.encode() for key in keys))
        return self._with_rows(self.rows[np.isin(self.column("key"), wanted)])

    def _with_rows(self, rows: np.ndarray) -> RunTable:
        return RunTable(self.groups, self.columns, rows, self.tests)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, number: int) -> Run: ...

    @overload
    def __getitem__(self, number: slice) -> RunTable: ...

    def __getitem__(self, number: int | slice) -> Run | RunTable:
        if isinstance(number, slice):
            return self._with_rows(self.rows[number])
        row = self.rows[number]
        numbers: dict[str, Any] = {n: self.columns[n][row].item() for n in (*_INTEGERS, *_SCORES)}
        numbers["diverged"] = bool(numbers["diverged"])
        texts = {name: self.columns[name][row].decode() for name in _TEXTS}
        group = self.groups[self.columns["group"][row]]._asdict()
        return Run(**group, **numbers, **texts, confusion=[], curve=_NO_CURVE)


def column(runs: Sequence[Run], name: str) -> np.ndarray:
    """A field of every run, ``[runs]``."""
    if isinstance(runs, RunTable):
        return runs.column(name)
    return np.array([getattr(run, name) for run in runs])


def read_runs(store: Store, cells: Collection[tuple[str, str]] | None = None) -> RunTable:
    """The finished trainings of a store; raises an error if rows are damaged.

    Args:
        store: an open store
        cells: methods and fingerprints of data; by default all
    """
    groups: dict[tuple[Any, ...], int] = {}
    with readable_errors(store.path):
        try:
            parts = list(_parts(store, groups, cells))
            named = [Group(*key)._replace(settings=json.loads(key[3])) for key in groups]
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise SagpoolError(f"{store.path} has a row that cannot be read: {error}.") from None
    names = ("group", *_INTEGERS, *_SCORES, *_TEXTS)
    columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in names}
    rows = np.lexsort((columns["fold"], columns["seed"]))
    tests, columns[MAIN_TEST] = _tests(store, columns["key"])
    return RunTable(named, columns, rows, tests)


def _tests(store: Store, keys: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The accuracy of each run in each of the tests, NaN where it has none; and its main test."""
    scores = store.tests()
    names = dict.fromkeys(name for some in scores.values() for name in some)
    found = {name: np.full(len(keys), np.nan) for name in names}
    main = np.zeros(len(keys), f"S{max((len(name.encode()) for name in names), default=1)}")
    for row, key in enumerate(keys.tolist() if scores else ()):
        own = scores.get(key.decode(), {})
        main[row] = next(iter(own), "").encode()
        for name, score in own.items():
            found[name][row] = score.accuracy
    return found, main


def read_curves(store: Store, runs: Sequence[Run]) -> list[np.ndarray]:
    """The curve of each of these runs, ``[3, epochs]``, see `Run`."""
    sql, found = "SELECT curve FROM runs WHERE key = ?", []
    with readable_errors(store.path):
        for run in runs:
            (content,) = store.connection.execute(sql, (run.key,)).fetchone()
            try:
                found.append(np.frombuffer(content, "<f4").reshape(3, -1))
            except (ValueError, TypeError) as error:
                raise SagpoolError(
                    f"{store.path} has a row that cannot be read: {error}."
                ) from None
    return found


def read_confusions(store: Store, runs: Sequence[Run]) -> list[np.ndarray]:
    """``[classes, predicted classes]`` test graphs of each of these runs."""
    sql, found = "SELECT confusion FROM runs WHERE key = ?", []
    with readable_errors(store.path):
        for run in runs:
            (content,) = store.connection.execute(sql, (run.key,)).fetchone()
            try:
                rows = decode(list[list[int]], parse_json(content), "confusion")
                found.append(np.array(rows, np.int64).reshape(len(rows), len(rows)))
            except (DecodingError, ValueError) as error:
                raise SagpoolError(
                    f"{store.path} has a row that cannot be read: {error}."
                ) from None
    return found


def _parts(
    store: Store, groups: dict[tuple[Any, ...], int], cells: Collection[tuple[str, str]] | None
) -> Iterator[dict[str, np.ndarray]]:
    """The columns, some rows at a time; at least one part, which may be empty."""
    checksum = CHECKSUM if store.has_column("runs", CHECKSUM) else "NULL"
    sql, wanted = f"SELECT {', '.join(RUN_COLUMNS)}, {checksum} FROM runs", list[str]()
    if cells is not None:
        marks = ", ".join(["(?, ?)"] * len(cells))
        sql += f" WHERE (method, fingerprint) IN (VALUES {marks})" if cells else " WHERE 0"
        wanted = [name for cell in cells for name in cell]
    cursor = store.connection.execute(sql, wanted)
    while True:
        rows = list(islice(cursor, CHUNK))
        for row in rows:
            check_row(row[:-1], row[-1])
        columns = zip(*rows, strict=True) if rows else ((),) * (len(RUN_COLUMNS) + 1)
        values = dict(zip((*RUN_COLUMNS, CHECKSUM), columns, strict=True))
        keys = zip(*(values[name] for name in _GROUP), strict=True)
        part = {"group": np.array([groups.setdefault(key, len(groups)) for key in keys], np.int32)}
        part |= {name: np.array(values[name], np.int64) for name in _INTEGERS}
        # None, stored if a training has diverged, becomes NaN.
        part |= {name: np.array(values[name], np.float64) for name in _SCORES}
        for name in _TEXTS:
            part[name] = np.array([text.encode() for text in values[name]], np.bytes_)
        yield part
        if len(rows) < CHUNK:
            return
