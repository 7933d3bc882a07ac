"""Out-of-fold predictions of every candidate, as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from sagpool.classifier.candidates import Candidate, NetCandidate, SimpleCandidate
from sagpool.classifier.model import BATCH_SIZE, net_part
from sagpool.classifier.parts import NetPart
from sagpool.classifier.progress import Clock, FitProgress
from sagpool.classifier.racing import FEWEST_FOLDS, LOOKED_AT, hopeless, left_out
from sagpool.classifier.simple import fit_simple
from sagpool.fleet import Progress, Result, Training, train
from sagpool.graphs import Graphs


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate with its predictions for all graphs, each by a model that did not see it."""

    candidate: Candidate
    outputs: np.ndarray  # [graphs, outputs]; NaN in folds in which a dropped net was not tried
    seconds: float
    nets: tuple[NetPart, ...] = ()  # nets of the folds, the lowest validation loss first
    left_out: tuple[int, ...] = ()  # folds that are predicted without it, see `racing`


class OutOfTimeError(Exception):
    """Raised inside a training to end it."""


@dataclass(eq=False)
class Trials:
    """The candidates that were tried so far, on the same folds.

    Args:
        graphs: graphs with classes or targets
        fold: ``[graphs]`` the fold in which each graph is held out
        seed: seed of everything random
        device: where nets are trained
        members: nets that train side by side; None for as many as fit
        deadline: value of `time.monotonic` after which no candidate is begun and nets stop
        on_progress: called from time to time
        checkpoint: returns the file to resume the trainings of a method from
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
    unfinished: list[str] = field(default_factory=list)  # names of candidates that ran out of time
    # Candidates that were hopeless in their first folds.
    dropped: list[Tried] = field(default_factory=list)

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Try all candidates; the simple ones first, then the nets, method after method."""
        simple = [one for one in candidates if isinstance(one, SimpleCandidate)]
        nets: dict[str, list[NetCandidate]] = {}
        for one in candidates:
            if isinstance(one, NetCandidate):
                nets.setdefault(one.training.method, []).append(one)
        clock = Clock(len(simple), sum(map(len, nets.values())), self.on_progress)
        for candidate in simple:
            if self._out_of_time():
                self.unfinished.append(candidate.name)
                continue
            self.done.append(self._try_simple(candidate, clock))
        for method, of_method in nets.items():
            if self._out_of_time():
                self.unfinished += [one.name for one in of_method]
            else:
                self._try_nets(method, of_method, clock)

    def _out_of_time(self) -> bool:
        # At least one candidate must finish, so that there is a result.
        return bool(self.done) and time.monotonic() > self.deadline

    def _try_simple(self, candidate: SimpleCandidate, clock: Clock) -> Tried:
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
        clock.finish()
        return Tried(candidate, outputs, time.monotonic() - start)

    def _try_nets(self, method: str, candidates: Sequence[NetCandidate], clock: Clock) -> None:
        folds = range(int(self.fold.max()) + 1)
        graphs = replace(self.graphs, fold=torch.from_numpy(self.fold).to(self.graphs.device))
        results: dict[Training, Result] = {}
        # Whether a candidate is hopeless, for each of the first folds.
        verdicts: dict[str, list[bool]] = {}

        def train_in(name: str, of: Sequence[NetCandidate], some: Sequence[int]) -> None:
            def told(progress: Progress) -> None:
                epochs = progress.epochs / sum(one.max_epochs for one in trainings)
                done = before + max(progress.done, len(trainings) * epochs)
                clock.tell(method, done / (len(candidates) * len(folds)), len(candidates))
                if self._out_of_time():
                    raise OutOfTimeError

            before = len(results)
            trainings = [_in_fold(one, fold) for one in of for fold in some]
            every = train(
                graphs,
                trainings,
                device=self.device,
                members=self.members,
                keep_weights=True,
                on_result=lambda result: results.update({result.training: result}),
                on_progress=told,
                checkpoint=None if self.checkpoint is None else self.checkpoint(name),
            )
            # Includes trainings that an earlier run finished, from its checkpoint.
            results.update({result.training: result for result in every})

        try:
            if self._can_race(candidates, len(folds)):
                train_in(f"{method}-first", candidates, folds[:LOOKED_AT])
                verdicts = self._judge(graphs, candidates, results)
                going_on = [one for one in candidates if not all(verdicts[one.name])]
                if going_on:
                    train_in(method, going_on, folds[LOOKED_AT:])
            else:
                train_in(method, candidates, folds)
        except OutOfTimeError:
            pass
        finally:
            # Results from before an interrupt count as well.
            for one in candidates:
                of_folds = [results.get(_in_fold(one, fold)) for fold in folds]
                self._file_candidate(one, graphs, of_folds, verdicts.get(one.name, []))
            clock.finish(len(candidates))

    def _can_race(self, candidates: Sequence[NetCandidate], folds: int) -> bool:
        """Whether nets must prove useful in their first folds before they train in the others.

        False on a GPU, where all folds side by side take hardly longer than two.
        """
        compared = len(self.done) + len(candidates) > 1
        return compared and folds >= FEWEST_FOLDS and torch.device(self.device).type == "cpu"

    def _judge(
        self,
        graphs: Graphs,
        candidates: Sequence[NetCandidate],
        results: dict[Training, Result],
    ) -> dict[str, list[bool]]:
        """For each candidate, whether it is hopeless in each of the first folds."""
        truth = truth_of(graphs)
        verdicts: dict[str, list[bool]] = {one.name: [] for one in candidates}
        for fold in range(LOOKED_AT):
            here = np.flatnonzero(self.fold == fold)
            found = [
                self._tried(one, graphs, {fold: results[_in_fold(one, fold)]}).outputs[here]
                for one in candidates
            ]
            others = [one.outputs[here] for one in self.done]
            for one, verdict in zip(
                candidates, hopeless(graphs.task, found, others, truth[here]), strict=True
            ):
                verdicts[one.name].append(verdict)
        return verdicts

    def _file_candidate(
        self,
        candidate: NetCandidate,
        graphs: Graphs,
        of_folds: Sequence[Result | None],
        verdict: Sequence[bool],
    ) -> None:
        """Add a candidate to the done, dropped, failed or unfinished ones."""
        results = {fold: one for fold, one in enumerate(of_folds) if one is not None}
        dropped = bool(verdict) and all(verdict)
        if len(results) < len(of_folds) and not dropped:
            self.unfinished.append(candidate.name)
        elif not any(one.best_epoch for one in results.values()):
            self.failed.append(candidate.name)
        else:
            tried = self._tried(candidate, graphs, results)
            kind = self.dropped if dropped else self.done
            kind.append(replace(tried, left_out=left_out(verdict)))

    def _tried(self, candidate: NetCandidate, graphs: Graphs, results: dict[int, Result]) -> Tried:
        """A candidate with its results by fold; a diverged net predicts the `prior`."""
        guess = prior(graphs)
        outputs = np.full((len(graphs), len(guess)), np.nan)
        nets = []
        for fold, result in results.items():
            test = np.flatnonzero(self.fold == fold)
            outputs[test] = guess
            if result.best_epoch:
                part = replace(net_part(graphs, result), name=candidate.name)
                outputs[test] = part.outputs(batch_size=BATCH_SIZE)(graphs[test])
                nets.append((result.validation.loss, fold, part))
        ordered = tuple(part for *_, part in sorted(nets, key=lambda one: one[:2]))
        seconds = sum(result.seconds for result in results.values())
        return Tried(candidate, outputs, seconds, ordered)


def truth_of(graphs: Graphs) -> np.ndarray:
    """``[graphs]`` classes, or ``[graphs, tasks]`` float64 targets with NaN where not measured."""
    known = graphs.y if graphs.task == "classification" else graphs.targets
    assert known is not None
    found = known.cpu().numpy()
    return found if graphs.task == "classification" else found.astype(np.float64)


def prior(graphs: Graphs) -> np.ndarray:
    """``[outputs]`` the constant prediction, for a net that diverged."""
    if graphs.task != "classification":
        assert graphs.targets is not None
        return np.nanmean(graphs.targets.cpu().numpy(), axis=0)
    assert graphs.y is not None
    counts = np.bincount(graphs.y.cpu().numpy(), minlength=graphs.num_classes)
    return np.asarray(counts / counts.sum())


def _in_fold(candidate: NetCandidate, fold: int) -> Training:
    return replace(candidate.training, fold=fold, split="given")
