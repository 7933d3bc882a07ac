"""The run store: one SQLite file with one row per finished training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sagpool.bench.database import (
    CHECKSUM,
    RUN_COLUMNS,
    check_row,
    open_to_read,
    open_to_write,
    readable_errors,
    row_checksum,
)
from sagpool.bench.engines.engine import FailedTraining, Outcome
from sagpool.bench.learnt_ratios import LearntRatio
from sagpool.bench.lock import writer_lock
from sagpool.bench.plan import settings_of
from sagpool.bench.predictions import Predicted, decode_predicted
from sagpool.bench.records import DeviceTime, Failure, Invocation, Run, Trained
from sagpool.bench.seen_trainings import SeenTrainings
from sagpool.bench.stored_cells import StoredCells, settings_text
from sagpool.bench.stored_traces import read_traces
from sagpool.errors import SagpoolError
from sagpool.explain import Trace
from sagpool.fleet import NUMERICS, Curve, Paused, Score
from sagpool.foreign.values import decode, parse_json
from sagpool.graphs import Graphs, Statistics


class Store(SeenTrainings, StoredCells):
    """An open run store; see `writing` and `reading`."""

    @staticmethod
    @contextmanager
    def writing(path: Path) -> Iterator[Store]:
        """Open the store as its only writer, and create it if it does not exist."""
        if path.is_symlink():
            path = path.resolve()  # a store has one lock, however it is named
        with writer_lock(path), open_to_write(path) as connection:
            yield Store(path, connection)

    @staticmethod
    @contextmanager
    def reading(path: Path) -> Iterator[Store]:
        """Open an existing store; another process may be writing it."""
        if not path.is_file():
            raise SagpoolError(f"There is no run store at {path}.")
        with open_to_read(path) as connection:
            yield Store(path, connection)

    def begin(self, command: str, experiment: str, device: str, versions: dict[str, str]) -> int:
        """Record the start of an invocation; returns its number."""
        values = [None, _now(), command, experiment, device, json.dumps(versions)]
        return int(self._insert("", "invocations", values).lastrowid or 0)

    def add_data(self, graphs: Graphs, fingerprint: str) -> None:
        statistics = json.dumps(vars(graphs.statistics()))
        self._insert("OR IGNORE", "data", [fingerprint, statistics])

    def add(
        self,
        key: str,
        name: str,
        fingerprint: str,
        result: Outcome,
        precision: str,
        invocation: int,
        traces: Iterable[Trace] = (),
        tests: Mapping[str, Score] = MappingProxyType({}),
        predicted: Predicted | None = None,
    ) -> None:
        """Add a training that has ended (unless stored already), paused or failed.

        ``tests`` are the scores in all tests of a fixed split, by name.
        """
        training = result.training
        values = [
            *(key, name, fingerprint, training.method, settings_text(settings_of(training))),
            *(training.seed, training.fold, precision, NUMERICS, invocation, _now()),
        ]
        if isinstance(result, FailedTraining):
            self._insert("OR REPLACE", "failures", [*values, result.reason])
            return
        curve = _stacked(result.curve)
        if isinstance(result, Paused):
            # Keep the paused curve, by which a search has decided; a repeated training may round
            # differently.
            if (seen := self._paused(key)) is not None:
                curve = np.concatenate([seen, curve[:, seen.shape[1] :]], 1)
            self._insert("OR REPLACE", "paused", [*values, curve.tobytes()])
            return
        parts = (result.train, result.validation, result.test)
        scores = [score for part in parts for score in (part.loss, part.accuracy)]
        values += [
            *(int(result.diverged), result.best_epoch, result.epochs),
            *(float(value) if np.isfinite(value) else None for value in scores),
            json.dumps(result.confusion.tolist()),
            *(result.parameters, float(result.seconds), curve.tobytes()),
            _traces_text(traces),
        ]
        row = dict(zip(RUN_COLUMNS, values, strict=True)) | {CHECKSUM: row_checksum(values)}
        with self._all_or_nothing():
            written = self._insert("OR IGNORE", f"runs ({', '.join(row)})", list(row.values()))
            for test, score in tests.items() if written.rowcount else ():
                found = [score.loss, score.accuracy]
                kept = [float(value) if np.isfinite(value) else None for value in found]
                self._insert("", "tests", [key, test, *kept])
            if written.rowcount and predicted is not None:
                self._insert("", "predictions", [key, *predicted.to_row()])

    def keys(self) -> set[str]:
        return {key for (key,) in self._read("SELECT key FROM runs")}

    def trained(self) -> list[Trained]:
        """The trainings of all invocations."""
        columns = ", ".join(Trained._fields[:-1])
        sql = f"SELECT {columns}, max(finished) AS finished FROM runs GROUP BY {columns}"
        rows = self._named(sql)
        with self._decoding():
            decoded = [{**row, "settings": parse_json(row["settings"])} for row in rows]
            return decode(list[Trained], decoded, "the runs")

    def runs(self) -> list[Run]:
        """All finished trainings."""
        runs = []
        for row in self._named("SELECT * FROM runs ORDER BY seed, fold"):
            with self._decoding():
                check_row([row[name] for name in RUN_COLUMNS], row.get(CHECKSUM))
                row["settings"] = parse_json(row["settings"])
                row["confusion"] = parse_json(row["confusion"])
                row["diverged"] = bool(row["diverged"])
                row["curve"] = self._curve(row["curve"])
                for name, value in row.items():
                    row[name] = float("nan") if value is None else value
                runs.append(decode(Run, row, "a run"))
        return runs

    def predictions(self, keys: Iterable[str] | None = None) -> Iterator[tuple[str, Predicted]]:
        """The predictions of these runs, by default of all that have any, with their keys."""
        if self._has("predictions"):
            for key, *row in self._of_keys("SELECT * FROM predictions", keys):
                with self._decoding():
                    yield decode(str, key, "key"), decode_predicted(row)

    def tests(self) -> dict[str, dict[str, Score]]:
        """Scores in all tests of runs on a fixed split, by the key of the run, then by name."""
        found: dict[str, dict[str, Score]] = {}
        if self._has("tests"):
            sql = "SELECT key, name, loss, accuracy FROM tests ORDER BY rowid"
            for key, name, *scores in self._read(sql):
                with self._decoding():
                    test = decode(str, name, "the name of a test")
                    loss, accuracy = (self._score(score) for score in scores)
                    found.setdefault(decode(str, key, "key"), {})[test] = Score(loss, accuracy)
        return found

    def failures(self) -> list[Failure]:
        """Trainings that failed and have not been finished since."""
        if not self._has("failures"):
            return []
        sql = "SELECT * FROM failures WHERE key NOT IN (SELECT key FROM runs) ORDER BY seed, fold"
        rows = self._named(sql)
        with self._decoding():
            decoded = [{**row, "settings": parse_json(row["settings"])} for row in rows]
            return decode(list[Failure], decoded, "the failures")

    def traces(self, key: str) -> list[Trace]:
        """The traces of a run; few runs have any."""
        rows = self._read("SELECT traces FROM runs WHERE key = ? AND traces NOT NULL", (key,))
        with self._decoding():
            return [trace for (text,) in rows for trace in read_traces(parse_json(text))]

    def add_traces(self, key: str, traces: Iterable[Trace]) -> None:
        """Add the traces of a run that was stored without them."""
        columns = ", ".join(RUN_COLUMNS)
        for row in self._read(f"SELECT {columns} FROM runs WHERE key = ?", (key,)):
            values = [*row[:-1], _traces_text(traces)]
            changed = [values[-1], row_checksum(values), key]
            with readable_errors(self.path):
                self.connection.execute(
                    "UPDATE runs SET traces = ?, checksum = ? WHERE key = ?", changed
                )

    def add_ratios(self, key: str, ratios: Iterable[LearntRatio]) -> None:
        for one in ratios:
            self._insert("OR REPLACE", "learnt_ratios", [key, *one])

    def ratios(self, key: str) -> list[LearntRatio]:
        """The learnt ratios of a run; few runs have any."""
        if not self._has("learnt_ratios"):
            return []
        columns = ", ".join(LearntRatio._fields)
        sql = f"SELECT {columns} FROM learnt_ratios WHERE key = ? ORDER BY rowid"
        rows = [dict(zip(LearntRatio._fields, row, strict=True)) for row in self._read(sql, (key,))]
        with self._decoding():
            return decode(list[LearntRatio], rows, "the learnt ratios")

    def invocations(self) -> list[Invocation]:
        """All invocations, in the order of time; in a merged store the numbers have another."""
        rows = self._named("SELECT * FROM invocations ORDER BY started, id")
        with self._decoding():
            decoded = [{**row, "versions": parse_json(row["versions"])} for row in rows]
            return decode(list[Invocation], decoded, "the invocations")

    def add_profile(self, invocation: int, time: DeviceTime) -> None:
        self._insert("OR REPLACE", "profiles", [invocation, json.dumps(vars(time))])

    def profiles(self) -> dict[int, DeviceTime]:
        """Device times by invocation, if known."""
        rows = self._read("SELECT invocation, time FROM profiles") if self._has("profiles") else []
        with self._decoding():
            return {
                decode(int, number, "invocation"): decode(DeviceTime, parse_json(text), "a profile")
                for number, text in rows
            }

    def data(self) -> dict[str, Statistics]:
        """Statistics of each data set, by fingerprint."""
        rows = self._read("SELECT fingerprint, statistics FROM data")
        with self._decoding():
            return {
                decode(str, key, "fingerprint"): decode(Statistics, parse_json(text), "statistics")
                for key, text in rows
            }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _traces_text(traces: Iterable[Trace]) -> str | None:
    shown = [trace.to_json() for trace in traces]
    return json.dumps(shown) if shown else None


def _stacked(curve: Curve) -> np.ndarray:
    """The curve as stored, ``[3, epochs]``."""
    return np.stack(list(vars(curve).values())).astype("<f4")
