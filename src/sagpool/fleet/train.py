"""`train`: trains a list of trainings as fleets."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.interrupt import interrupt_held_back
from sagpool.fleet.memory import MemoryShortageError, choose_fleet_size, out_of_memory_suppressed
from sagpool.fleet.schedule import Slots, group_by_shape
from sagpool.fleet.training import Result, Training
from sagpool.graphs import Graphs
from sagpool.ops.device import find_device

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """How far a list of trainings is, reported after each epoch."""

    running: int
    done: int
    total: int
    epochs: int  # of all members together, since the start
    epochs_per_second: float  # models · epochs
    eta_seconds: float | None  # None until the first training is done


def train(
    graphs: Graphs,
    trainings: Sequence[Training],
    *,
    members: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    keep_weights: bool | Callable[[Training], bool] = False,
    on_result: Callable[[Result], None] = lambda result: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    checkpoint: Path | str | None = None,
    checkpoint_seconds: float = 60.0,
) -> list[Result]:
    """Train all models; those of the same shape train side by side in one fleet.

    Args:
        graphs: the data set, with classes
        trainings: what to train
        members: most models of a fleet; by default as many as fit into memory. A run that is
            continued has as many as before
        device: where to train
        dtype: float32 or float64; torch.set_float32_matmul_precision sets the precision of float32
            matrix products on a GPU
        keep_weights: whether results contain the best weights, for all trainings or by training
        on_result: called with each result as soon as its training is done
        on_progress: called after each epoch
        checkpoint: a file with the state of the running fleet; continued if it exists, written
            from time to time, when a fleet ends, and on an interrupt or error
        checkpoint_seconds: time between two writes

    Returns:
        one result for each training, in the same order
    """
    _check(trainings, members, dtype)
    graphs = graphs.to(find_device(device))
    trainings = list(trainings)
    groups = group_by_shape(graphs, trainings)
    wants_weights = keep_weights if callable(keep_weights) else lambda training: bool(keep_weights)
    identity = identity_of(graphs, trainings, dtype, wants_weights)
    saved = Checkpoint(identity)
    if checkpoint is not None:
        checkpoint = Path(checkpoint)
        saved = Checkpoint.load(checkpoint, identity)
        saved.save(checkpoint)  # fails now rather than later if the file cannot be written
    watch = _Watch(total=len(trainings), done=len(saved.results))
    with interrupt_held_back() as raise_if_interrupted:
        for group in groups:
            left = [number for number in group if number not in saved.results]
            if not left:
                continue
            slots = saved.slots
            if slots is not None and not slots.holds(left):
                slots = None
            wanted = members if slots is None else len(slots.running)
            size = choose_fleet_size(graphs, [trainings[n] for n in left], dtype, wanted)
            if slots is None:
                slots = Slots.fill(left, size.members)
            slots.release(~slots.active)  # in case the saved run ended during a refill
            fleet = _build_fleet(
                graphs, trainings, slots, dtype, saved.members, wants_weights, size.parts
            )
            saved_at = time.monotonic()
            try:
                while fleet.slots.active.any():
                    running = int(fleet.slots.active.sum())
                    results = _run_or_shrink(fleet, partial(fleet.epoch, raise_if_interrupted))
                    if results is not None:
                        watch.epochs += running
                        saved.results.update(results)  # all, before anything else may fail
                    _run_or_shrink(fleet, fleet.refill)
                    for result in (results or {}).values():
                        watch.done += 1
                        on_result(result)
                    on_progress(watch.progress(int(fleet.slots.active.sum())))
                    if checkpoint and time.monotonic() - saved_at >= checkpoint_seconds:
                        _save(fleet, saved, checkpoint)
                        saved_at = time.monotonic()
            finally:
                # At the end of the fleet, and on Ctrl-C or an error in a callback.
                if checkpoint:
                    _save(fleet, saved, checkpoint)
    return [saved.results[number] for number in range(len(trainings))]


def _build_fleet(graphs: Graphs, trainings: Sequence[Training], slots: Slots, *args: Any) -> Fleet:
    """A fleet with as many of the slots as fit into memory."""
    while True:
        with out_of_memory_suppressed():
            return Fleet(graphs, trainings, slots, *args)
        if len(slots.running) == 1:
            raise MemoryShortageError(graphs.device)
        slots.halve()


def _run_or_shrink(fleet: Fleet, action: Callable[[], T]) -> T | None:
    """The result of the action; None if memory ran out, and then the fleet is smaller."""
    with out_of_memory_suppressed():
        return action()
    if fleet.graphs.device.type == "cuda":
        torch.cuda.empty_cache()
    _run_or_shrink(fleet, fleet.shrink)
    return None


def _save(fleet: Fleet, saved: Checkpoint, path: Path) -> None:
    running, done = fleet.slots.running, list(saved.results)
    saved.slots = replace(fleet.slots, running=np.where(np.isin(running, done), -1, running))
    saved.members = {n: member for n, member in fleet.members().items() if n not in saved.results}
    saved.save(path)


class _Watch:
    """Counts epochs and estimates the remaining time."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done, self.done_before = total, done, done
        self.epochs = 0
        self.start = time.monotonic()

    def progress(self, running: int) -> Progress:
        passed = max(time.monotonic() - self.start, 1e-9)
        finished = self.done - self.done_before
        eta = passed / finished * (self.total - self.done) if finished else None
        return Progress(running, self.done, self.total, self.epochs, self.epochs / passed, eta)


def _check(trainings: Sequence[Training], members: int | None, dtype: torch.dtype) -> None:
    if not isinstance(trainings, Sequence) or not all(isinstance(t, Training) for t in trainings):
        raise SagpoolError("The trainings must be a list of Training.")
    if not trainings:
        raise SagpoolError("There is nothing to train.")
    if members is not None and (not isinstance(members, int) or members < 1):
        raise SagpoolError(f"A fleet needs at least 1 member, not {members}.")
    if dtype not in (torch.float32, torch.float64):
        raise SagpoolError(f"Weights are float32 or float64, not {dtype}.")
