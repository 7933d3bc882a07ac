"""`fit`: choose, estimate and train a model for a collection of graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sagpool.classifier.by_time import fit_by_time
from sagpool.classifier.candidates import Candidate, NetCandidate, Only, candidates_for
from sagpool.classifier.choice import Choice, Rules, choose
from sagpool.classifier.conformal import COVERAGE, Conformal
from sagpool.classifier.estimate import Estimate, OutOfFoldPredictions, cross_fit, estimate
from sagpool.classifier.folds import fold_of_each, folds_for
from sagpool.classifier.leaderboard import Row, leaderboard
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.novelty import Novelty
from sagpool.classifier.out_of_fold import Trials, Tried, truth_of
from sagpool.classifier.parts import NetPart, Part, SimplePart
from sagpool.classifier.progress import FitProgress
from sagpool.classifier.saved_parts import versions_of
from sagpool.classifier.simple import fit_simple
from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.ops.device import find_device

MOST_NUMBERS = 2**25  # weights of all members of a part: 128 MiB


@dataclass(frozen=True, eq=False)
class Fit:
    """A model trained on all graphs, its estimated scores, and how it was chosen.

    Args:
        model: the model, to save and to predict with
        estimate: its estimated scores on new graphs
        leaderboard: a row for each candidate, the best first
        held_out: numbers of the graphs that the estimate is about, ascending: all graphs, or the
            latest
        fold: fold in which each held-out graph was held out
        out_of_fold: predictions for the held-out graphs, by models that did not see them
        interrupted: whether candidates were not tried, because of Ctrl-C or for lack of time
    """

    model: TrainedModel
    estimate: Estimate
    leaderboard: tuple[Row, ...]
    held_out: np.ndarray
    fold: np.ndarray
    out_of_fold: OutOfFoldPredictions
    interrupted: bool

    def __repr__(self) -> str:
        return f"Fit({self.model!r}, candidates: {len(self.leaderboard)})"

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import fit_html

        return fit_html(self)


def fit(
    graphs: Graphs,
    *,
    candidates: Sequence[Candidate] | None = None,
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    search: bool = True,
    only: Only | None = None,
    folds: int | None = None,
    seed: int = 0,
    minutes: float | None = None,
    coverage: float = COVERAGE,
    class_weight: Literal["balanced"] | None = None,
    device: torch.device | str = "cpu",
    members: int | None = None,
    on_progress: Callable[[FitProgress], None] = lambda progress: None,
    checkpoint: Callable[[str], Path] | None = None,
    keep_on_interrupt: bool = False,
) -> Fit:
    """Choose among graph nets and simple models, estimate the scores, and train on all graphs.

    Every candidate predicts each graph by models that did not see it (nets stop early on a part of
    their training graphs). A weighted average of the best candidates is selected on these
    predictions; a simple model alone is kept if the average is not better by more than a standard
    error. On a CPU, a net that does not help in the first two folds is dropped, see
    `sagpool.classifier.racing`. The estimate is cross-fitted, see `sagpool.classifier.estimate`.

    In the final model, simple models are fitted to all graphs, and nets are the ensemble of the
    nets of all folds.

    If it is known when the graphs were made (``graphs.time``), a model of the earlier graphs is
    scored on the latest fifth, and the final model is chosen and fitted again on all of them.

    Args:
        graphs: graphs with classes or targets
        candidates: the candidates; by default `candidates_for` with the next four arguments
        method: a registered name, the only one to try
        settings: settings of the nets that are not searched
        search: whether nets have a grid of settings
        only: only nets, or only simple models
        folds: number of folds of the cross-validation; by default 10, or fewer for large data
        seed: seed of everything random
        minutes: time after which no candidate is begun and unfinished nets are dropped; at least
            one candidate is finished
        coverage: promised coverage of the prediction sets
        class_weight: ``balanced`` optimises the balanced accuracy, by a threshold (or factors of
            the classes) chosen out of fold; the probabilities stay calibrated
        device: where to train
        members: nets trained side by side; None for as many as fit
        on_progress: called from time to time
        checkpoint: returns a file for the trainings of a method, to resume them from, as in
            `sagpool.fleet.train`
        keep_on_interrupt: whether Ctrl-C, once there is a result, ends only the search and not the
            fit; a second Ctrl-C ends the fit
    """
    if not 0 < coverage < 1:
        raise SagpoolError(f"coverage must be between 0 and 1, not {coverage}.")
    device = find_device(device)  # fail early, before hours of work
    if graphs.time is not None:
        same = partial(
            fit, candidates=candidates, method=method, settings=settings, search=search, only=only,
            folds=folds, seed=seed, coverage=coverage, class_weight=class_weight, device=device,
            members=members, keep_on_interrupt=keep_on_interrupt,
        )  # fmt: skip
        return fit_by_time(
            graphs, same, seed=seed, minutes=minutes, on_progress=on_progress,
            checkpoint=checkpoint,
        )  # fmt: skip
    folds = folds_for(graphs, folds)
    if candidates is None:
        candidates = candidates_for(
            graphs, method=method, settings=settings, search=search, only=only, seed=seed,
            folds=folds,
        )  # fmt: skip
    trials = Trials(
        graphs,
        fold_of_each(graphs, folds, seed),
        seed=seed,
        device=device,
        members=members,
        deadline=float("inf") if minutes is None else time.monotonic() + 60 * minutes,
        on_progress=on_progress,
        checkpoint=checkpoint,
    )
    interrupted = False
    try:
        trials.run(candidates)
    except KeyboardInterrupt:
        if not (keep_on_interrupt and trials.done):
            raise
        interrupted = True
    if not trials.done:
        raise SagpoolError("The training diverged; try a lower learning rate.")
    on_progress(FitProgress("final model", 1.0, None))
    rules = Rules(
        graphs.task,
        np.array([not isinstance(one.candidate, NetCandidate) for one in trials.done]),
        coverage,
        balanced=class_weight == "balanced",
    )
    return _finish(trials, rules, folds, interrupted=interrupted or bool(trials.unfinished))


def _finish(trials: Trials, rules: Rules, folds: int, *, interrupted: bool) -> Fit:
    graphs = trials.graphs
    truth = truth_of(graphs)
    outputs = np.stack([one.outputs for one in trials.done])
    choice = choose(rules, outputs, truth)
    left_out = [one.left_out for one in trials.done]
    predictions = cross_fit(rules, outputs, truth, trials.fold, left_out)
    # The choice is a little overfitted to its own graphs; cross-fitted predictions are not.
    conformal = Conformal.of(graphs.task, predictions.outputs, truth, rules.coverage)
    choice = replace(choice, conformal=conformal)
    estimated = estimate(
        graphs.task,
        predictions,
        truth,
        folds=folds,
        coverage=rules.coverage,
        group=None if graphs.group is None else graphs.group.cpu().numpy(),
        target_names=graphs.target_names,
        seed=trials.seed,
    )
    rows = leaderboard(graphs.task, trials, choice, predictions.outputs, truth)
    model = _model(trials, choice, estimated, rows)
    held_out = np.arange(len(graphs))
    return Fit(model, estimated, rows, held_out, trials.fold, predictions, interrupted)


def _model(
    trials: Trials, choice: Choice, estimated: Estimate, rows: Sequence[Row]
) -> TrainedModel:
    graphs = trials.graphs
    chosen = [number for number in np.argsort(-choice.mixture) if choice.mixture[number] > 0]
    parts = tuple(_part(trials, trials.done[number]) for number in chosen)
    weights = [round(float(choice.mixture[number]), 6) for number in chosen]
    weights[0] = round(1 - sum(weights[1:]), 6)
    return TrainedModel(
        vocabulary=Vocabulary.of(graphs),
        parts=parts,
        mixture=tuple(weights),
        temperature=choice.temperature,
        decision=choice.decision,
        conformal=choice.conformal,
        novelty=Novelty.of(graphs, trials.seed),
        about={
            "data": vars(graphs.statistics()),
            "settings": _settings([trials.done[number] for number in chosen]),
            "estimate": estimated.to_json(),
            "leaderboard": [asdict(row) for row in rows],
            "versions": versions_of(parts),
        },
    )


def _part(trials: Trials, tried: Tried) -> Part:
    if not isinstance(tried.candidate, NetCandidate):
        every = np.arange(len(trials.graphs))
        return SimplePart(fit_simple(tried.candidate.name, trials.graphs, every, trials.seed))
    first = tried.nets[0]
    # Some methods have layers whose sizes depend on the training graphs.
    same_shapes = [net for net in tried.nets if _weight_shapes(net) == _weight_shapes(first)]
    numbers = sum(tensor.numel() for tensor in first.weights.values())
    return NetPart.stack(same_shapes[: max(1, MOST_NUMBERS // numbers)])


def _weight_shapes(net: NetPart) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in net.weights.values()]


def _settings(tried: Sequence[Tried]) -> dict[str, Any]:
    """Settings of the nets of the model, by name of the candidate."""
    return {
        one.candidate.name: {
            name: value
            for name, value in one.candidate.training.to_dict().items()
            if name not in ("fold", "split")
        }
        for one in tried
        if isinstance(one.candidate, NetCandidate)
    }
