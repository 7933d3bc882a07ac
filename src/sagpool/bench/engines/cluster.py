"""The Ray cluster: coming in, and how much room there is."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sagpool.errors import SagpoolError

INSTALL = "--engine ray needs Ray; install it with: pip install 'sagpool[ray]'"

KNOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Needs:
    """What one worker takes of a machine.

    On a CPU a worker has one thread: a fleet's threads wait for each other after each epoch, and
    workers do not.
    """

    device: str
    cpus: int = 1
    gpus: int = 0


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Be part of a cluster: the one at the address, or one of this machine alone, made for now.

    A process that is part of one already stays in it.
    """
    # A bench tells nobody about itself.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would hide the GPUs from workers that asked for none, with a warning that it will not.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise SagpoolError(INSTALL) from None
    if ray.is_initialized():
        yield
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    if where not in ("local", "auto"):
        _knock(where)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if where == "local":
        options["include_dashboard"] = False
    try:
        ray.init(where, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, ImportError) as error:
        ray.shutdown()
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SagpoolError(f"The Ray cluster at '{where}' cannot be used: {first}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Tell at once that nobody is there; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise SagpoolError(f"--address is auto, HOST:PORT or ray://HOST:PORT, not '{address}'.")
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SagpoolError(f"There is no Ray cluster at '{address}': {reason}.") from None


def choose_needs(device: str, nodes: Sequence[Mapping[str, Any]]) -> Needs:
    """What a worker on that device needs; ``auto`` means the GPUs, if there are any."""
    cpu, gpu = Needs("cpu"), Needs("cuda", gpus=1)
    if device not in ("auto", "cpu", "cuda"):
        raise SagpoolError(f"With --engine ray, --device is auto, cpu or cuda, not '{device}'.")
    wants_gpu = device == "cuda" or (device == "auto" and slots(nodes, gpu) > 0)
    needs = gpu if wants_gpu else cpu
    if not slots(nodes, needs):
        raise SagpoolError(f"The Ray cluster has no {'GPU' if needs.gpus else 'CPU'} to train on.")
    return needs


def alive(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [node for node in nodes if node["Alive"]]


def slots(nodes: Sequence[Mapping[str, Any]], needs: Needs) -> int:
    """How many workers there is room for, with nobody else there."""
    return sum(
        min(
            int(node["Resources"].get(kind, 0) // count)
            for kind, count in (("CPU", needs.cpus), ("GPU", needs.gpus))
            if count
        )
        for node in alive(nodes)
    )


def describe(nodes: Sequence[Mapping[str, Any]], needs: Needs) -> str:
    """The cluster, for people."""
    count, here = slots(nodes, needs), [n for n in alive(nodes) if slots([n], needs)]
    start = "accelerator_type:"
    kinds = sorted({k.removeprefix(start) for n in here for k in n["Resources"] if start in k})
    what = f"GPU{'s' * (count != 1)}" if needs.gpus else f"CPU{'s' * (count != 1)}"
    names = f" ({', '.join(kinds)})" if needs.gpus and kinds else ""
    machines = "1 machine" if len(here) == 1 else f"{len(here)} machines"
    return f"Ray: {count} {what}{names} of {machines}"
