"""Connects to a Ray cluster, and counts how many workers it can run."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sagpool.errors import SagpoolError
from sagpool.termination import raise_terminated

CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class WorkerResources:
    """Resources that one worker occupies.

    On a CPU that is one thread: threads of a fleet wait for each other each epoch, workers never.
    """

    device: str
    cpus: int = 1
    gpus: int = 0


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to the cluster at the address, or start one on this machine for the duration.

    A process that is already connected stays connected.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Otherwise Ray warns that it will stop hiding GPUs from workers that requested none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise SagpoolError(
            "The engine 'ray' needs Ray; install it with: pip install 'sagpool[ray]'"
        ) from None
    if ray.is_initialized():
        yield
        return
    target = address or os.environ.get("RAY_ADDRESS") or "local"
    if target not in ("local", "auto"):
        _check_reachable(target)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if target == "local":
        options["include_dashboard"] = False
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(target, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, ImportError) as error:
        ray.shutdown()
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SagpoolError(f"Cannot use the Ray cluster at '{target}': {first}") from None
    if on_sigterm is raise_terminated:  # Ray's own handler would end the process at once
        signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Fail at once if nothing listens at the address; Ray itself retries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise SagpoolError(
            f"The address must be auto, HOST:PORT or ray://HOST:PORT, not '{address}'."
        )
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SagpoolError(f"There is no Ray cluster at '{address}': {reason}.") from None


def choose_resources(device: str, nodes: Sequence[Mapping[str, Any]]) -> WorkerResources:
    """Resources that a worker on that device needs; ``auto`` means GPUs if the cluster has any."""
    cpu, gpu = WorkerResources("cpu"), WorkerResources("cuda", gpus=1)
    if device not in ("auto", "cpu", "cuda"):
        raise SagpoolError(f"With Ray, the device must be auto, cpu or cuda, not '{device}'.")
    use_gpu = device == "cuda" or (device == "auto" and slots(nodes, gpu) > 0)
    chosen = gpu if use_gpu else cpu
    if not slots(nodes, chosen):
        raise SagpoolError(f"The Ray cluster has no {'GPU' if use_gpu else 'CPU'} to train on.")
    return chosen


def alive(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [node for node in nodes if node["Alive"]]


def slots(nodes: Sequence[Mapping[str, Any]], resources: WorkerResources) -> int:
    """Number of workers that fit if nothing else runs in the cluster."""
    return sum(
        min(
            int(node["Resources"].get(kind, 0) // count)
            for kind, count in (("CPU", resources.cpus), ("GPU", resources.gpus))
            if count
        )
        for node in alive(nodes)
    )


def describe(nodes: Sequence[Mapping[str, Any]], resources: WorkerResources) -> str:
    """A readable description of the cluster."""
    count, used = slots(nodes, resources), [n for n in alive(nodes) if slots([n], resources)]
    start = "accelerator_type:"
    kinds = sorted({k.removeprefix(start) for n in used for k in n["Resources"] if start in k})
    processors = f"{'GPU' if resources.gpus else 'CPU'}{'s' * (count != 1)}"
    names = f" ({', '.join(kinds)})" if resources.gpus and kinds else ""
    machines = "1 machine" if len(used) == 1 else f"{len(used)} machines"
    return f"Ray: {count} {processors}{names} on {machines}"
