"""What a search may know about paused and ended trainings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sagpool.bench.records import Validation
from sagpool.bench.tables import Tables
from sagpool.foreign.values import decode


class SeenTrainings(Tables):
    """Trainings of a run store, by their keys."""

    def reached(self, keys: Iterable[str] | None = None) -> dict[str, float]:
        """How many epochs of these trainings are known; infinite if a training has ended.

        Unknown trainings are left out. Without keys, returns all known trainings.
        """
        known: dict[str, float] = {}
        if self._has("paused"):
            # Three numbers of four bytes for each epoch.
            for key, epochs in self._of_keys("SELECT key, length(curve) / 12 FROM paused", keys):
                with self._decoding():
                    known[decode(str, key, "key")] = decode(int, epochs, "curve")
        return known | {key: float("inf") for (key,) in self._of_keys("SELECT key FROM runs", keys)}

    def validation(self, keys: Iterable[str], until: int | None = None) -> list[Validation]:
        """The validation results after ``until`` epochs, or at the end of each training.

        In the order of the keys; NaN for failed trainings.
        """
        return [self._validation(key, until) for key in keys]

    def tested(self, keys: Iterable[str]) -> list[Validation]:
        """Test results in place of `validation`, for a search that chooses by them."""
        sql, keys, found = "SELECT test_accuracy, test_loss FROM runs WHERE key = ?", list(keys), []
        for key, seen in zip(keys, self.validation(keys), strict=True):
            scores = next(iter(self._read(sql, (key,))), (None, None))
            accuracy, loss = (self._score(score) for score in scores)
            found.append(seen._replace(accuracy=accuracy, loss=loss))
        return found

    def _validation(self, key: str, until: int | None) -> Validation:
        if until is not None:
            seen = self._paused(key)
            if seen is not None and seen.shape[1] >= until:
                return Validation.seen(seen[1:, :until], ended=False)
        sql = "SELECT validation_accuracy, validation_loss, curve FROM runs WHERE key = ?"
        for accuracy, loss, content in self._read(sql, (key,)):
            curve = self._curve(content)[1:]
            if until is not None:
                return Validation.seen(curve[:, :until], ended=curve.shape[1] <= until)
            scores = (self._score(accuracy), self._score(loss))
            return Validation(*scores, curve.shape[1], True, curve)
        return Validation.seen(np.zeros((2, 0), np.float32), ended=True)

    def epochs(self, keys: Iterable[str]) -> list[int | None]:
        """The epochs of trainings that have ended; None for the others."""
        sql = "SELECT epochs FROM runs WHERE key = ?"
        found = [next((row[0] for row in self._read(sql, (key,))), None) for key in keys]
        with self._decoding():
            return decode(list[int | None], found, "epochs")

    def _paused(self, key: str) -> np.ndarray | None:
        if not self._has("paused"):
            return None
        rows = self._read("SELECT curve FROM paused WHERE key = ?", (key,))
        return self._curve(rows[0][0]) if rows else None

    def test_accuracy(self, keys: Iterable[str]) -> list[float]:
        """Test accuracies of stored runs that have one."""
        sql = "SELECT test_accuracy FROM runs WHERE key = ? AND test_accuracy NOT NULL"
        return [self._score(row[0]) for key in keys for row in self._read(sql, (key,))]
