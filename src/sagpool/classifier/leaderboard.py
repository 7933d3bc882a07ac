"""Out-of-fold results of the candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sagpool.classifier.candidates import NetCandidate
from sagpool.classifier.choice import Choice
from sagpool.classifier.mixture import advantage, loss_per_graph
from sagpool.classifier.model import decide
from sagpool.classifier.out_of_fold import Trials
from sagpool.classifier.racing import LOOKED_AT
from sagpool.fleet.metrics import scores
from sagpool.graphs.graphs import Task

# The score that people compare, by task; models are chosen by their loss.
SCORE = {"classification": "accuracy", "multitask": "roc_auc", "regression": "rmse"}


@dataclass(frozen=True)
class Row:
    """A candidate with its score on held-out graphs.

    Args:
        name: name of the candidate
        kind: ``net`` or ``simple``
        score: accuracy, mean ROC-AUC or RMSE
        loss: log loss, or squared error in units of the variance; decides which candidates are
            chosen
        error: standard error of the loss
        behind: its loss minus that of the model
        behind_error: standard error of ``behind``, from paired graphs
        weight: weight in the model; 0 if it is not a part
        seconds: time of all folds together
        dropped_after: number of folds after which a net was dropped; its scores are for these
            folds only. None for a candidate that was tried in all folds
    """

    name: str
    kind: str
    score: float
    loss: float
    error: float
    behind: float
    behind_error: float
    weight: float
    seconds: float
    dropped_after: int | None = None

    @property
    def label(self) -> str:
        """The name and, for a dropped candidate, the number of folds it was tried in."""
        return candidate_label(self.name, self.dropped_after)


def candidate_label(name: str, dropped_after: int | None) -> str:
    return name if dropped_after is None else f"{name} (dropped after {dropped_after} folds)"


def leaderboard(
    task: Task, trials: Trials, choice: Choice, made: np.ndarray, truth: np.ndarray
) -> tuple[Row, ...]:
    """A row for each candidate that was tried, the lowest loss first.

    Args:
        task: task of the model
        trials: the candidates
        choice: the model
        made: ``[graphs, outputs]`` cross-fitted predictions of the model
        truth: ``[graphs]`` or ``[graphs, tasks]``
    """
    rows, weights = [], choice.mixture.tolist()
    tried = [(one, weight, None) for one, weight in zip(trials.done, weights, strict=True)]
    dropped = [(one, 0.0, LOOKED_AT) for one in trials.dropped]
    for one, weight, dropped_after in [*tried, *dropped]:
        here = ~np.isnan(one.outputs).any(1)
        outputs, known = one.outputs[here], truth[here]
        losses = loss_per_graph(task, outputs, known)
        losses = losses[~np.isnan(losses)]
        behind, behind_error = advantage(task, made[here], outputs, known)
        found = scores(task, known, outputs, decide(task, outputs, None))
        rows.append(
            Row(
                name=one.candidate.name,
                kind="net" if isinstance(one.candidate, NetCandidate) else "simple",
                score=found[SCORE[task]],
                loss=float(losses.mean()),
                error=float(losses.std(ddof=1) / np.sqrt(len(losses))),
                behind=behind,
                behind_error=behind_error,
                weight=weight,
                seconds=one.seconds,
                dropped_after=dropped_after,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.loss))
