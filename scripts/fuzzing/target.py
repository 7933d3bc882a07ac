"""The interface of a target of the fuzzer."""

from pathlib import Path
from random import Random
from typing import Protocol


class WrongError(Exception):
    """An input was accepted with a wrong result, or a valid input was refused."""


class Target(Protocol):
    """A kind of input. It is made once in each process, in an empty folder."""

    def __init__(self, folder: Path) -> None: ...

    def run(self, random: Random) -> None:
        """Make an input and give it to the package.

        Returns if the input was accepted and the result is right. A `SagpoolError` is a refusal.
        """


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WrongError(otherwise)
