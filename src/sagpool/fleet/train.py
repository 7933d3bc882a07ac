"""`train`: a list of trainings, as fleets, from the first to the last."""

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
from sagpool.fleet.memory import MemoryShortageError, choose_fleet_size, is_out_of_memory
from sagpool.fleet.schedule import Slots, group_by_shape
from sagpool.fleet.training import Result, Training
from sagpool.graphs import Graphs
from sagpool.ops.device import find_device

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """How far a list of trainings is, told after each epoch."""

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
    """Train all of them; those of one shape side by side.

    Args:
        graphs: the data set, with classes
        trainings: what to train
        members: how many side by side at the most; by default as many as fit into memory. A run
            that is continued keeps the number it began with
        device: where to train
        dtype: float32 or float64; how exactly a GPU multiplies float32 numbers is torch's own
            setting, torch.set_float32_matmul_precision
        keep_weights: whether the results carry the best weights; or a function that says for
            which trainings they do
        on_result: called with each result as soon as there is one
        on_progress: called after each epoch
        checkpoint: a file from which to go on if it exists, and in which to keep the state of
            the running fleet, every so often, at an interrupt and at the end of each fleet
        checkpoint_seconds: how often

    Returns:
        one result for each training, in their order
    """
    _check(graphs, trainings, members, dtype)
    graphs = graphs.to(find_device(device))
    trainings = list(trainings)
    keeps = keep_weights if callable(keep_weights) else lambda training: bool(keep_weights)
    identity = identity_of(graphs, trainings, dtype, keeps)
    saved = Checkpoint(identity)
    if checkpoint is not None:
        checkpoint = Path(checkpoint)
        saved = Checkpoint.load(checkpoint, identity)
        saved.save(checkpoint)  # a file that cannot be written is better known now than later
    watch = _Watch(total=len(trainings), done=len(saved.results))
    with interrupt_held_back() as raise_if_interrupted:
        for group in group_by_shape(graphs, trainings):
            left = [number for number in group if number not in saved.results]
            if not left:
                continue
            slots = saved.slots
            if slots is not None and not slots.holds(left):
                slots = None
            wanted = members if slots is None else len(slots.running)
            room = choose_fleet_size(graphs, [trainings[n] for n in left], dtype, wanted)
            if slots is None:
                slots = Slots.fill(left, room.members)
            slots.release(~slots.active)  # a run that ended in the midst of a refill
            fleet = _seated(graphs, trainings, slots, dtype, saved.members, keeps, room.parts)
            saved_at = time.monotonic()
            try:
                while fleet.slots.active.any():
                    results = _epoch(fleet, watch, raise_if_interrupted)
                    saved.results.update(results)  # all, before anything else may fail
                    _or_shrink(fleet, fleet.refill)
                    for result in results.values():
                        watch.done += 1
                        on_result(result)
                    on_progress(watch.progress(int(fleet.slots.active.sum())))
                    if checkpoint and time.monotonic() - saved_at >= checkpoint_seconds:
                        _save(fleet, saved, checkpoint)
                        saved_at = time.monotonic()
            finally:
                # At the end of the fleet, and when something ends it before: Ctrl-C, or a mistake
                # in one of the callbacks.
                if checkpoint:
                    _save(fleet, saved, checkpoint)
    return [saved.results[number] for number in range(len(trainings))]


def _seated(graphs: Graphs, trainings: Sequence[Training], slots: Slots, *others: Any) -> Fleet:
    """A fleet, with as many of the slots as there is memory for."""
    while True:
        try:
            return Fleet(graphs, trainings, slots, *others)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        if len(slots.running) == 1:
            raise MemoryShortageError(graphs.device)
        slots.halve()


def _epoch(
    fleet: Fleet, watch: "_Watch", raise_if_interrupted: Callable[[], None]
) -> dict[int, Result]:
    """One epoch; a fleet that does not fit into memory does none, and shrinks."""
    running = int(fleet.slots.active.sum())
    results = _or_shrink(fleet, partial(fleet.epoch, raise_if_interrupted))
    if results is None:
        return {}
    watch.epochs += running
    return results


def _or_shrink(fleet: Fleet, action: Callable[[], T]) -> T | None:
    """What the action gives; or None, if there was not the memory for it and the fleet shrank."""
    try:
        return action()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Outside of the handler, which holds on to what it has to let go of.
    if fleet.graphs.device.type == "cuda":
        torch.cuda.empty_cache()
    _or_shrink(fleet, fleet.shrink)
    return None


def _save(fleet: Fleet, saved: Checkpoint, path: Path) -> None:
    running, done = fleet.slots.running, list(saved.results)
    saved.slots = replace(fleet.slots, running=np.where(np.isin(running, done), -1, running))
    saved.members = {n: member for n, member in fleet.members().items() if n not in saved.results}
    saved.save(path)


class _Watch:
    """Counts epochs and guesses how long the rest will take."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done, self.done_before = total, done, done
        self.epochs = 0
        self.start = time.monotonic()

    def progress(self, running: int) -> Progress:
        passed = max(time.monotonic() - self.start, 1e-9)
        finished = self.done - self.done_before
        eta = None
        if finished:
            eta = passed / finished * (self.total - self.done)
        return Progress(running, self.done, self.total, self.epochs, self.epochs / passed, eta)


def _check(
    graphs: Graphs, trainings: Sequence[Training], members: int | None, dtype: torch.dtype
) -> None:
    if graphs.y is None or graphs.num_classes < 2:
        raise SagpoolError(f"{graphs.name} has no two classes to tell apart.")
    if not isinstance(trainings, Sequence) or not all(isinstance(t, Training) for t in trainings):
        raise SagpoolError("What is to be trained must be a list of Training.")
    if not trainings:
        raise SagpoolError("There is nothing to train.")
    if members is not None and (not isinstance(members, int) or members < 1):
        raise SagpoolError(f"A fleet needs at least 1 member, not {members}.")
    if dtype not in (torch.float32, torch.float64):
        raise SagpoolError(f"Weights are float32 or float64, not {dtype}.")
