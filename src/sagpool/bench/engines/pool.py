"""The workers of a Ray cluster, on the side of the driver."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from sagpool.bench.engines.cluster import WorkerResources
from sagpool.bench.engines.worker import Worker, WorkerInfo, library_versions
from sagpool.errors import SagpoolError
from sagpool.models import loaded_plugins

FAILED_STARTS = 5  # most workers that may die in a row before one has started


@dataclass(eq=False)
class RemoteWorker:
    """One worker. It is idle when no call is pending."""

    actor: Any  # its Ray handle
    pending: str = ""  # name of the method that was called; empty if idle
    answer: Any = None  # reference to the result of that call
    node: str = ""  # id of its machine, once it has started
    # Versions of the methods that it knows, by name.
    methods: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, *arguments: object) -> None:
        self.pending, self.answer = method, getattr(self.actor, method).remote(*arguments)


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of a call, or the error that it ended with."""

    worker: RemoteWorker
    called: str
    value: Any = None
    error: str = ""
    died: bool = False


class WorkerPool:
    """As many workers as fit and have work; dead workers are replaced."""

    def __init__(self, resources: WorkerResources, train: Callable[..., object]) -> None:
        self.resources, self.train = resources, train
        self.workers: list[RemoteWorker] = []
        self.failed_starts = 0
        # Two calls at a time: one waits in `poll`, the other is `split`.
        self.make = ray.remote(
            num_cpus=resources.cpus, num_gpus=resources.gpus, max_concurrency=2, max_restarts=0
        )(Worker)

    def fill(self, wanted: int, capacity: int) -> None:
        """Start missing workers; ``capacity`` workers fit into the cluster now."""
        starting = [worker for worker in self.workers if not worker.node]
        for worker in starting[: max(0, len(self.workers) - capacity)]:
            self.drop(worker)  # its machine left before it had started
        for _ in range(wanted - len(self.workers)):
            worker = RemoteWorker(
                self.make.remote(self.resources.device, self.resources.cpus, self.train)
            )
            worker.call("start", loaded_plugins())
            self.workers.append(worker)

    @property
    def idle(self) -> list[RemoteWorker]:
        return [worker for worker in self.workers if not worker.pending]

    @property
    def nodes(self) -> set[str]:
        """Machines with a worker that has started."""
        return {worker.node for worker in self.workers if worker.node}

    def answers(self, seconds: float) -> Iterator[Answer]:
        """Wait up to ``seconds`` for an answer; yields all answers that have arrived."""
        waiting = {worker.answer: worker for worker in self.workers if worker.pending}
        if not waiting:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=seconds, fetch_local=False)
        if ready:  # take all others that have arrived
            ready, _ = ray.wait(
                list(waiting), num_returns=len(waiting), timeout=0, fetch_local=False
            )
        for reference in ready:
            answer = self._read(waiting[reference])
            if answer.called == "start":
                self._add_started(answer)
            else:
                yield answer

    def drop(self, worker: RemoteWorker) -> None:
        """Kill a worker, even if it is busy."""
        ray.kill(worker.actor)
        self.workers.remove(worker)

    def _read(self, worker: RemoteWorker) -> Answer:
        called, worker.pending = worker.pending, ""
        try:
            return Answer(worker, called, ray.get(worker.answer))
        except RayTaskError as error:
            cause = error.cause
            name = "" if isinstance(cause, SagpoolError) else f"{type(cause).__name__}: "
            return Answer(worker, called, error=f"{name}{cause}")
        except RayError as error:
            self.drop(worker)
            return Answer(worker, called, error=_reason(error), died=True)

    def _add_started(self, answer: Answer) -> None:
        if answer.died:
            self.failed_starts += 1
            if self.failed_starts == FAILED_STARTS:
                raise SagpoolError(f"No worker can be started in the cluster: {answer.error}")
            return
        if answer.error:
            raise SagpoolError(f"A worker of the cluster cannot start: {answer.error}")
        info: WorkerInfo = answer.value
        for name, version in library_versions().items():
            if info.libraries[name] != version:
                raise SagpoolError(
                    f"A machine of the cluster has {name} {info.libraries[name]}, this one "
                    f"{version}; install the same version on all machines."
                )
        answer.worker.node, answer.worker.methods = info.node, info.methods
        self.failed_starts = 0


def _reason(error: RayError) -> str:
    """The reason why a worker died, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, RayActorError):
        for start in ("The actor died", "The actor is dead", "The actor is temporarily"):
            text = text[max(0, text.find(start)) :]
    return f"The worker died: {text[:300]}"
