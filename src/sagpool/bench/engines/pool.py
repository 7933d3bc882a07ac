"""The workers of a Ray cluster, as the driver sees them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from sagpool.bench.engines.cluster import Needs
from sagpool.bench.engines.worker import Hello, Worker, build
from sagpool.errors import SagpoolError

STARTS = 5  # workers that may die in a row before one has said hello


@dataclass(eq=False)
class Remote:
    """One worker. It is idle when no answer of it is awaited.

    Args:
        actor: its handle
        asked: the method whose answer is awaited
        answer: a reference to that
        node: id of its machine, once it has said hello
    """

    actor: Any
    asked: str = ""
    answer: Any = None
    node: str = ""

    def ask(self, method: str, *arguments: object) -> None:
        self.asked, self.answer = method, getattr(self.actor, method).remote(*arguments)


@dataclass(frozen=True, eq=False)
class Answer:
    """Of a worker, or what came instead of it."""

    worker: Remote
    asked: str
    value: Any = None
    error: str = ""
    died: bool = False


class Pool:
    """As many workers as there is room and work for; those that die are replaced.

    Args:
        needs: what each of them takes
        train: what each of them calls
    """

    def __init__(self, needs: Needs, train: Callable[..., object]) -> None:
        self.needs, self.train = needs, train
        self.workers: list[Remote] = []
        self.dead_starts = 0
        # One call to wait in, one to be told something meanwhile.
        self.make = ray.remote(
            num_cpus=needs.cpus, num_gpus=needs.gpus, max_concurrency=2, max_restarts=0
        )(Worker)

    def fill(self, wanted: int, room: int) -> None:
        """Start what is missing; each says hello when it is there.

        Args:
            wanted: how many workers there should be
            room: how many there can be, with the machines of today
        """
        starting = [worker for worker in self.workers if not worker.node]
        for worker in starting[: max(0, len(self.workers) - room)]:
            self.drop(worker)  # its machine went away before it was there
        for _ in range(wanted - len(self.workers)):
            worker = Remote(self.make.remote(self.needs.device, self.needs.cpus, self.train))
            worker.ask("hello")
            self.workers.append(worker)

    @property
    def idle(self) -> list[Remote]:
        return [worker for worker in self.workers if not worker.asked]

    @property
    def places(self) -> set[str]:
        """Where those are that have said hello."""
        return {worker.node for worker in self.workers if worker.node}

    def answers(self, seconds: float) -> Iterator[Answer]:
        """Those that have come, after waiting for the first of them."""
        asked = {worker.answer: worker for worker in self.workers if worker.asked}
        if not asked:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(asked), num_returns=1, timeout=seconds, fetch_local=False)
        if ready:  # and all others that are there as well
            ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=0, fetch_local=False)
        for reference in ready:
            answer = self._read(asked[reference])
            if answer.asked == "hello":
                self._welcome(answer)
            else:
                yield answer

    def drop(self, worker: Remote) -> None:
        """Do without a worker, whatever it does."""
        ray.kill(worker.actor)
        self.workers.remove(worker)

    def _read(self, worker: Remote) -> Answer:
        asked, worker.asked = worker.asked, ""
        try:
            return Answer(worker, asked, ray.get(worker.answer))
        except RayTaskError as error:
            return Answer(worker, asked, error=f"{type(error.cause).__name__}: {error.cause}")
        except RayError as error:
            self.drop(worker)
            return Answer(worker, asked, error=_reason(error), died=True)

    def _welcome(self, answer: Answer) -> None:
        if answer.died:
            self.dead_starts += 1
            if self.dead_starts == STARTS:
                raise SagpoolError(f"No worker can be started in the cluster: {answer.error}")
            return
        if answer.error:
            raise SagpoolError(f"A worker of the cluster does not start: {answer.error}")
        hello: Hello = answer.value
        for name, here in build().items():
            if hello.build[name] != here:
                raise SagpoolError(
                    f"A machine of the cluster has {name} {hello.build[name]}, this one {here}; "
                    "install the same on all."
                )
        answer.worker.node, self.dead_starts = hello.node, 0


def _reason(error: RayError) -> str:
    """Why a worker died, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, RayActorError):
        for sign in ("The actor died", "The actor is dead", "The actor is temporarily"):
            text = text[max(0, text.find(sign)) :]
    return f"The worker died: {text[:300]}"
