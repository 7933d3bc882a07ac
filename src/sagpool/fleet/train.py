"""`train`: trains a list of trainings as fleets."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch

from sagpool.fleet.scheduler import Scheduler
from sagpool.fleet.state import MemberState
from sagpool.fleet.training import Outcome, Result, Training
from sagpool.fleet.work import Progress, Work
from sagpool.graphs import Graphs
from sagpool.ops.device import find_device


def train(
    graphs: Graphs,
    trainings: Sequence[Training],
    *,
    members: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    keep_weights: bool | Callable[[Training], bool] = False,
    keep_predictions: bool = False,
    on_result: Callable[[Result], None] = lambda result: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    checkpoint: Path | str | None = None,
    checkpoint_seconds: float = 60.0,
) -> list[Result]:
    """Train all models; models of the same shape train side by side in one fleet.

    Args:
        graphs: the data set, with classes or targets
        trainings: what to train
        members: most models of one shape that train side by side; by default as many as fit into
            memory. A continued run keeps its number
        device: where to train
        dtype: float32 or float64; torch.set_float32_matmul_precision sets the precision of float32
            matrix products on a GPU
        keep_weights: whether results contain the best weights, for all trainings or by training
        keep_predictions: whether results contain the outputs for test and validation graphs
        on_result: called with each result as soon as its training is done
        on_progress: called after each epoch of a fleet
        checkpoint: a file with the state of all fleets; continued if it exists, written from time
            to time, at the end, and on an interrupt or error
        checkpoint_seconds: time between two writes

    Returns:
        one result for each training, in the same order
    """
    outcomes = train_until(
        graphs,
        trainings,
        members=members,
        device=device,
        dtype=dtype,
        keep_weights=keep_weights,
        keep_predictions=keep_predictions,
        on_result=lambda outcome: on_result(_result(outcome)),
        on_progress=on_progress,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
    )
    return [_result(outcome) for outcome in outcomes]


def train_until(
    graphs: Graphs,
    trainings: Sequence[Training],
    *,
    until: int | None = None,
    begun: Mapping[Training, MemberState] = MappingProxyType({}),
    members: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    keep_weights: bool | Callable[[Training], bool] = False,
    keep_predictions: bool = False,
    on_result: Callable[[Outcome], None] = lambda outcome: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    checkpoint: Path | str | None = None,
    checkpoint_seconds: float = 60.0,
) -> list[Outcome]:
    """`train` that pauses trainings after ``until`` epochs, and continues those in ``begun``."""
    errors: list[Exception] = []

    def on_end(error: Exception | None) -> tuple[Work, ...]:
        errors.extend([error] if error is not None else [])
        return ()

    work = Work(
        graphs,
        trainings,
        dtype=dtype,
        members=members,
        keep_weights=keep_weights if callable(keep_weights) else lambda _: bool(keep_weights),
        keep_predictions=keep_predictions,
        until=until,
        begun=begun,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        on_result=on_result,
        on_progress=on_progress,
        on_end=on_end,
    )
    Scheduler(find_device(device), checkpoint_seconds).run([work])
    for error in errors:
        raise error
    return work.outcomes()


def _result(outcome: Outcome) -> Result:
    assert isinstance(outcome, Result)  # nothing pauses
    return outcome
