"""Which trainings are where: cut into chunks, given out, taken back, tried again."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

TRIES = 3


@dataclass(frozen=True)
class Chunk:
    """Trainings of one shape, by number, for one worker.

    Args:
        numbers: of the trainings
        state: of a fleet that was stopped, for those of them that have begun
        strikes: how often all of them were with a worker that failed
        avoid: where that was last
    """

    numbers: tuple[int, ...]
    state: bytes | None = None
    strikes: int = 0
    avoid: str = ""


@dataclass(eq=False)
class _Given:
    chunk: Chunk
    left: set[int]
    since: float


class Chunks:
    """All trainings of a job, from the first to the last.

    Args:
        groups: numbers of those that can be stacked
    """

    def __init__(self, groups: Iterable[Sequence[int]]) -> None:
        self.fresh = deque(deque(group) for group in groups)
        self.again: deque[Chunk] = deque()
        self.given: dict[object, _Given] = {}
        self.unfinished = sum(map(len, self.fresh))
        self.share, self.shares = 0, 0  # how large, and how many of them are still to be had

    @property
    def waiting(self) -> int:
        """Trainings that nobody has."""
        return sum(map(len, self.fresh)) + sum(len(chunk.numbers) for chunk in self.again)

    def offer(
        self, worker: object, workers: int, now: float, place: str = "", places: Iterable[str] = ()
    ) -> Chunk | None:
        """Work for an idle worker, if there is any for it.

        That is an equal share of what waits, so each worker's fleet is as large as can be. Workers
        are not equally fast, nor trainings equally long, but whoever ends first gets a part of what
        the others have: see `straggler`.

        Args:
            worker: who asks
            workers: how many there are
            now: in seconds
            place: where the worker is
            places: where all of them are; what failed at one is tried elsewhere first
        """
        elsewhere = any(other != place for other in places)
        for chunk in self.again:
            if not (chunk.avoid and chunk.avoid == place and elsewhere):
                self.again.remove(chunk)
                return self._give(worker, chunk, now)
        if not self.fresh:
            return None
        if not self.shares:
            self.share, self.shares = math.ceil(self.waiting / workers), workers
        self.shares -= 1
        group = self.fresh[0]
        numbers = tuple(group.popleft() for _ in range(min(self.share, len(group))))
        if not group:
            self.fresh.popleft()
        return self._give(worker, Chunk(numbers), now)

    def _give(self, worker: object, chunk: Chunk, now: float) -> Chunk:
        self.given[worker] = _Given(chunk, set(chunk.numbers), now)
        return chunk

    def take(self, worker: object, count: int) -> None:
        """The worker takes the first trainings of its chunk alone; the others wait again."""
        given = self.given[worker]
        rest = given.chunk.numbers[count:]
        given.chunk = replace(given.chunk, numbers=given.chunk.numbers[:count])
        given.left.difference_update(rest)
        if not rest:
            return
        if given.chunk.strikes:
            self.again.append(replace(given.chunk, numbers=rest))
        else:
            self.fresh.appendleft(deque(rest))

    def finish(self, worker: object, number: int) -> None:
        """A training is done."""
        self.given[worker].left.remove(number)
        self.unfinished -= 1

    def end(self, worker: object, pieces: Iterable[Chunk] = ()) -> None:
        """The worker is idle; what it had left is in the pieces."""
        given = self.given.pop(worker)
        pieces = [replace(p, strikes=given.chunk.strikes, avoid=given.chunk.avoid) for p in pieces]
        assert given.left == {number for piece in pieces for number in piece.numbers}
        self.again.extend(pieces)

    def fail(self, worker: object, *, blame: bool, place: str = "") -> tuple[int, ...]:
        """The worker is gone, or has failed; what it had left is for others.

        One of its trainings may be the cause. Who fails for the first time is tried again with
        fewer others, then alone: so nobody is given up for what somebody else has done.

        Args:
            worker: who failed
            blame: whether it may have been because of a training
            place: where the worker was

        Returns:
            those that have failed `TRIES` times
        """
        given = self.given.pop(worker)
        left = tuple(number for number in given.chunk.numbers if number in given.left)
        if not left:
            return ()
        if not blame:
            self.again.append(Chunk(left, strikes=given.chunk.strikes, avoid=given.chunk.avoid))
            return ()
        strikes = given.chunk.strikes + 1
        if strikes == TRIES:
            self.unfinished -= len(left)
            return left
        size = 1 if strikes == TRIES - 1 else math.isqrt(len(left))
        for first in range(0, len(left), size):
            self.again.append(Chunk(left[first : first + size], strikes=strikes, avoid=place))
        return ()

    def straggler(self, now: float, seconds: float) -> object | None:
        """With nothing left to give out: who has most left, of those that take their time.

        Nobody is named twice for one chunk.

        Args:
            now: in seconds
            seconds: that a chunk is left in peace
        """
        if self.fresh or self.again:
            return None
        slow = {
            worker: len(given.left)
            for worker, given in self.given.items()
            if len(given.left) > 1 and now - given.since >= seconds
        }
        if not slow:
            return None
        worker = max(slow, key=slow.__getitem__)
        self.given[worker].since = math.inf
        return worker
