"""Limits on what is read from outside, so that a small file cannot fill the memory.

Every limit can be raised by an environment variable, which the error names.
"""

import os
from typing import NamedTuple

from sagpool.errors import SagpoolError


class Limit(NamedTuple):
    """The largest number of something that is read."""

    variable: str  # environment variable that changes the limit
    default: int
    what: str  # what is counted, in the plural

    @property
    def most(self) -> int:
        given = os.environ.get(self.variable)
        if not given:
            return self.default
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise SagpoolError(f"{self.variable} must be a whole number, not {given[:60]!r}.")
        return int(given)

    def check(self, number: int, place: str) -> None:
        """Raise an error that names the place if the number exceeds the limit."""
        if number > self.most:
            raise SagpoolError(f"{self.sentence(number, place)}.")

    def sentence(self, number: int, place: str) -> str:
        shown = f"{number:,}" if number < 10**18 else "over 10^18"
        return (
            f"{place} has {shown} {self.what}; at most {self.most:,} are read "
            f"({self.variable} raises this limit)"
        )


NODES = Limit("SAGPOOL_MAX_NODES", 1_000_000, "nodes in a graph that gives only their number")
# Files do not list bare nodes, so a few bytes can stand for any number of them.
BARE_NODES = Limit("SAGPOOL_MAX_BARE_NODES", 4_000_000, "nodes without label, features and edge")
LABELS = Limit("SAGPOOL_MAX_LABELS", 65_536, "different node labels")
CLASSES = Limit("SAGPOOL_MAX_CLASSES", 1_000, "classes")
DENSE = Limit("SAGPOOL_MAX_DENSE", 2**25, "one-hot numbers")
LINE = Limit("SAGPOOL_MAX_LINE", 16 * 2**20, "characters in a line")
SMILES = Limit("SAGPOOL_MAX_SMILES", 10_000, "characters in a SMILES")

UNPACKED = Limit("SAGPOOL_MAX_UNPACKED", 8 * 2**30, "bytes when it is unpacked")
RATIO = Limit("SAGPOOL_MAX_RATIO", 25, "times its size when it is unpacked")
ANY_RATIO = 16 * 2**20  # bytes up to which the ratio does not matter

TRAININGS = Limit("SAGPOOL_MAX_TRAININGS", 100_000, "trainings of one method")
CANDIDATES = Limit("SAGPOOL_MAX_CANDIDATES", 10_000, "candidates in its grid")
EXPERIMENT = Limit("SAGPOOL_MAX_EXPERIMENT", 2**20, "bytes")
ENTRIES = Limit("SAGPOOL_MAX_ENTRIES", 100_000, "entries, with its aliases written out")
DEPTH = Limit("SAGPOOL_MAX_DEPTH", 50, "levels of nesting")
CONFIG = Limit("SAGPOOL_MAX_CONFIG", 2**26, "bytes")
CELL = Limit("SAGPOOL_MAX_CELL", 2**26, "bytes in one cell of a table")
