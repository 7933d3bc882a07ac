"""Out-of-fold predictions of every candidate, as far as the time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sagpool.classifier.candidates import Candidate, NetCandidate, SimpleCandidate
from sagpool.classifier.model import BATCH_SIZE, net_part
from sagpool.classifier.parts import NetPart
from sagpool.classifier.simple import fit_simple
from sagpool.fleet import Progress, Result, Training, train
from sagpool.graphs import Graphs

NETS = 5  # times the work of a simple candidate, for the progress


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is."""

    stage: str  # what is being done
    fraction: float  # of all work
    seconds_left: float | None  # None as long as nothing is known


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate with its predictions for all graphs, each by a model that did not see it."""

    candidate: Candidate
    outputs: np.ndarray  # [graphs, outputs]
    seconds: float
    nets: tuple[NetPart, ...] = ()  # of the folds, the lowest validation loss first


class OutOfTimeError(Exception):
    """Raised inside a training to end it."""


@dataclass(eq=False)
class Trials:
    """The candidates that were tried so far, on the same folds.

    Args:
        graphs: with classes or targets
        fold: ``[graphs]`` the fold in which each graph is held out
        seed: of everything random
        device: where nets are trained
        members: nets that train side by side; None for as many as fit
        deadline: of `time.monotonic`, after which no candidate is begun and no net goes on
        on_progress: called from time to time
        checkpoint: gives the file from which the trainings of a method go on
    """

    graphs: Graphs
    fold: np.ndarray
    seed: int = 0
    device: torch.device | str = "cpu"
    members: int | None = None
    deadline: float = float("inf")
    on_progress: Callable[[FitProgress], None] = lambda progress: None
    checkpoint: Callable[[str], Path] | None = None
    done: list[Tried] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # names of candidates that diverged
    unfinished: list[str] = field(default_factory=list)  # names of those out of time

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Try all candidates; the simple ones first, then the nets, method after method."""
        simple = [one for one in candidates if isinstance(one, SimpleCandidate)]
        nets: dict[str, list[NetCandidate]] = {}
        for one in candidates:
            if isinstance(one, NetCandidate):
                nets.setdefault(one.training.method, []).append(one)
        total = len(simple) + NETS * sum(map(len, nets.values()))
        clock = _Clock(total, self.on_progress)
        for candidate in simple:
            if self._late():
                self.unfinished.append(candidate.name)
                continue
            self.done.append(self._try_simple(candidate, clock))
        for method, of_method in nets.items():
            if self._late():
                self.unfinished += [one.name for one in of_method]
            else:
                self._try_nets(method, of_method, clock)

    def _late(self) -> bool:
        # Without a first result there would be nothing to return.
        return bool(self.done) and time.monotonic() > self.deadline

    def _try_simple(self, candidate: SimpleCandidate, clock: _Clock) -> Tried:
        start = time.monotonic()
        folds = np.unique(self.fold)
        outputs: np.ndarray | None = None
        for number, one in enumerate(folds):
            clock.tell(candidate.name, number / len(folds))
            test = np.flatnonzero(self.fold == one)
            model = fit_simple(
                candidate.name,
                self.graphs,
                np.flatnonzero(self.fold != one),
                self.seed,
            )
            found = model.predict(self.graphs[test])
            outputs = np.empty((len(self.graphs), found.shape[1])) if outputs is None else outputs
            outputs[test] = found
        assert outputs is not None
        clock.finish(1)
        return Tried(candidate, outputs, time.monotonic() - start)

    def _try_nets(self, method: str, candidates: Sequence[NetCandidate], clock: _Clock) -> None:
        folds = int(self.fold.max()) + 1
        graphs = replace(self.graphs, fold=torch.from_numpy(self.fold).to(self.graphs.device))
        results: dict[Training, Result] = {}

        def told(progress: Progress) -> None:
            clock.tell(method, progress.done / progress.total, len(candidates))
            if self._late():
                raise OutOfTimeError

        trainings = [_in_fold(one, fold) for one in candidates for fold in range(folds)]
        options: dict[str, Any] = {"device": self.device, "members": self.members}
        try:
            every = train(
                graphs,
                trainings,
                keep_weights=True,
                on_result=lambda result: results.update({result.training: result}),
                on_progress=told,
                checkpoint=None if self.checkpoint is None else self.checkpoint(method),
                **options,
            )
            # Also those that an earlier run had finished, and its checkpoint has.
            results |= {result.training: result for result in every}
        except OutOfTimeError:
            pass
        finally:
            # Also what was done before an interrupt counts.
            for one in candidates:
                of_folds = [results.get(_in_fold(one, fold)) for fold in range(folds)]
                finished = [result for result in of_folds if result is not None]
                if len(finished) < folds:
                    self.unfinished.append(one.name)
                elif not any(result.best_epoch for result in finished):
                    self.failed.append(one.name)
                else:
                    self.done.append(self._tried(one, graphs, finished))
            clock.finish(NETS * len(candidates))

    def _tried(self, candidate: NetCandidate, graphs: Graphs, results: Sequence[Result]) -> Tried:
        outputs: np.ndarray | None = None
        nets = []
        for fold, result in enumerate(results):
            if not result.best_epoch:
                continue
            part = replace(net_part(graphs, result), name=candidate.name)
            test = np.flatnonzero(self.fold == fold)
            found = part.outputs(batch_size=BATCH_SIZE)(graphs[test])
            if outputs is None:
                outputs = np.broadcast_to(prior(graphs), (len(graphs), found.shape[1])).copy()
            outputs[test] = found
            nets.append((result.validation.loss, fold, part))
        assert outputs is not None
        ordered = tuple(part for *_, part in sorted(nets, key=lambda one: one[:2]))
        return Tried(candidate, outputs, sum(result.seconds for result in results), ordered)


def prior(graphs: Graphs) -> np.ndarray:
    """``[outputs]`` what is predicted without looking at the graph, for a net that diverged."""
    if graphs.task != "classification":
        assert graphs.targets is not None
        return np.nanmean(graphs.targets.cpu().numpy(), axis=0)
    assert graphs.y is not None
    counts = np.bincount(graphs.y.cpu().numpy(), minlength=graphs.num_classes)
    return np.asarray(counts / counts.sum())


def _in_fold(candidate: NetCandidate, fold: int) -> Training:
    return replace(candidate.training, fold=fold, split="given")


class _Clock:
    """Fractions of all work, and the time that is left."""

    def __init__(self, total: float, on_progress: Callable[[FitProgress], None]) -> None:
        self.total, self.on_progress = total, on_progress
        self.start, self.done = time.monotonic(), 0.0

    def finish(self, work: float) -> None:
        self.done += work

    def tell(self, stage: str, fraction: float, nets: int = 0) -> None:
        """``fraction`` of a simple candidate, or of so many nets that train together."""
        at = min(1.0, (self.done + fraction * (NETS * nets or 1)) / self.total)
        left = (time.monotonic() - self.start) * (1 - at) / at if at > 0 else None
        self.on_progress(FitProgress(stage, at, left))
