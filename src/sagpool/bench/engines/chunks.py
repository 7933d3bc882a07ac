"""Assigns trainings to workers: in chunks, which can be taken back and retried."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

ATTEMPTS = 3


@dataclass(frozen=True)
class Chunk:
    """Trainings of one job and one shape, by number, for one worker."""

    job: int
    numbers: tuple[int, ...]
    failures: int = 0  # number of workers that have failed with this chunk
    avoid: str = ""  # node of the last worker that failed


@dataclass(eq=False)
class _Assignment:
    chunk: Chunk
    unfinished: set[int]
    since: float
    accepted: bool = False  # until the worker has begun, a request to split would be lost


class Chunks:
    """All trainings of several jobs: waiting, assigned to a worker, or finished."""

    def __init__(self) -> None:
        self.queued: deque[tuple[int, deque[int]]] = deque()  # job and numbers of each group
        self.requeued: deque[Chunk] = deque()
        self.assigned: dict[object, _Assignment] = {}
        self.unfinished: dict[int, int] = {}  # number of trainings, by job
        self.size, self.left_of_size = 0, 0  # size of the next chunks, and how many chunks get it

    def add(self, job: int, groups: Iterable[Sequence[int]]) -> None:
        """Queue a job behind the others.

        Each group lists the numbers of trainings that can share a fleet.
        """
        added = [(job, deque(group)) for group in groups]
        self.queued.extend(added)
        self.unfinished[job] = sum(len(group) for _, group in added)
        self.left_of_size = 0  # there are more trainings to divide now

    def remove_ended(self) -> list[int]:
        """Forget jobs whose trainings are all finished, once their workers are idle."""
        busy = {assignment.chunk.job for assignment in self.assigned.values()}
        ended = [job for job, left in self.unfinished.items() if not left and job not in busy]
        for job in ended:
            del self.unfinished[job]
        return ended

    @property
    def waiting(self) -> int:
        """Number of trainings that no worker has."""
        requeued = sum(len(chunk.numbers) for chunk in self.requeued)
        return sum(len(group) for _, group in self.queued) + requeued

    def offer(
        self, worker: object, workers: int, now: float, node: str = "", nodes: Iterable[str] = ()
    ) -> Chunk | None:
        """Assign a chunk to an idle worker; None if no chunk suits it.

        Waiting trainings are divided equally among the workers, so that each fleet is as large as
        possible. Workers and trainings differ in speed; `straggler` finds work for idle workers.

        ``now`` is in seconds, ``node`` is the node of the worker and ``nodes`` are the nodes of all
        ``workers``: a failed chunk is first retried on another node.
        """
        other_nodes = any(other != node for other in nodes)
        for chunk in self.requeued:
            if not (chunk.avoid and chunk.avoid == node and other_nodes):
                self.requeued.remove(chunk)
                return self._assign(worker, chunk, now)
        if not self.queued:
            return None
        if not self.left_of_size:
            self.size, self.left_of_size = math.ceil(self.waiting / workers), workers
        self.left_of_size -= 1
        job, group = self.queued[0]
        numbers = tuple(group.popleft() for _ in range(min(self.size, len(group))))
        if not group:
            self.queued.popleft()
        return self._assign(worker, Chunk(job, numbers), now)

    def _assign(self, worker: object, chunk: Chunk, now: float) -> Chunk:
        self.assigned[worker] = _Assignment(chunk, set(chunk.numbers), now)
        return chunk

    def accept(self, worker: object, count: int) -> None:
        """The worker has begun the first trainings of its chunk; the others are queued again."""
        assignment = self.assigned[worker]
        assignment.accepted = True
        chunk = assignment.chunk
        rest = chunk.numbers[count:]
        assignment.chunk = replace(chunk, numbers=chunk.numbers[:count])
        assignment.unfinished.difference_update(rest)
        if not rest:
            return
        if chunk.failures:
            self.requeued.append(replace(chunk, numbers=rest))
        else:
            self.queued.appendleft((chunk.job, deque(rest)))

    def finish(self, worker: object, number: int) -> None:
        """A training is done."""
        assignment = self.assigned[worker]
        assignment.unfinished.remove(number)
        self.unfinished[assignment.chunk.job] -= 1

    def end(self, worker: object, parts: Sequence[tuple[int, ...]] = ()) -> None:
        """The worker is idle; the parts hold its unfinished trainings."""
        assignment = self.assigned.pop(worker)
        assert assignment.unfinished == {number for part in parts for number in part}
        self.requeued.extend(replace(assignment.chunk, numbers=part) for part in parts)

    def fail(self, worker: object, *, blame: bool, node: str = "") -> tuple[int, ...]:
        """The worker has failed; its unfinished trainings are queued again.

        With ``blame`` any of them may be the cause. After a first failure they are retried in
        smaller chunks, then one by one, so that no training is given up because of another one.
        Returns the trainings that have now failed `ATTEMPTS` times.
        """
        assignment = self.assigned.pop(worker)
        chunk = assignment.chunk
        left = tuple(number for number in chunk.numbers if number in assignment.unfinished)
        if not left:
            return ()
        if not blame:
            self.requeued.append(replace(chunk, numbers=left))
            return ()
        failures = chunk.failures + 1
        if failures == ATTEMPTS:
            self.unfinished[chunk.job] -= len(left)
            return left
        size = 1 if failures == ATTEMPTS - 1 else math.isqrt(len(left))
        for first in range(0, len(left), size):
            numbers = left[first : first + size]
            self.requeued.append(Chunk(chunk.job, numbers, failures, avoid=node))
        return ()

    def straggler(self, now: float, seconds: float) -> object | None:
        """The worker to split when no training waits: the one with most unfinished trainings.

        Considers only workers whose chunk has run for ``seconds``; each chunk is split only once.
        """
        if self.queued or self.requeued:
            return None
        slow = {
            worker: len(assignment.unfinished)
            for worker, assignment in self.assigned.items()
            if assignment.accepted
            and len(assignment.unfinished) > 1
            and now - assignment.since >= seconds
        }
        if not slow:
            return None
        worker = max(slow, key=slow.__getitem__)
        self.assigned[worker].since = math.inf
        return worker
