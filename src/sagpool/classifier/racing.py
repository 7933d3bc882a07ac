"""Drops nets that are not worth training in all folds, judged by their first folds.

The estimate stays cross-fitted. Whether a candidate is hopeless in a fold depends only on
predictions for the graphs of that fold, and a candidate is dropped if it is hopeless in all first
folds. If all first folds but one call it hopeless, that one is predicted without the candidate, see
`left_out`. So no graph influences which candidates predict it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sagpool.classifier.calibration import fit_temperature, with_temperature
from sagpool.classifier.choice import WORTH
from sagpool.classifier.mixture import advantage, greedy_mixture, loss_per_graph
from sagpool.graphs.graphs import Task

LOOKED_AT = 2  # folds to judge by; with a single one, nothing would be left to judge that fold by
FEWEST_FOLDS = 4  # with fewer, too little is saved
WEIGHTS = (0.1, 0.25, 0.5, 1.0)  # weights of a net in the average with the other candidates


def hopeless(
    task: Task, outputs: Sequence[np.ndarray], others: Sequence[np.ndarray], truth: np.ndarray
) -> list[bool]:
    """Which nets neither win nor help the average of all others, on the same graphs.

    The best net joins the others before the next one is judged. So of two similar nets, one stays.

    Args:
        task: task of the model
        outputs: ``[graphs, outputs]`` of each net, for graphs that it did not see
        others: outputs of the other candidates, if there are any
        truth: ``[graphs]`` classes, or ``[graphs, tasks]``
    """
    losses = [float(np.nanmean(loss_per_graph(task, one, truth))) for one in outputs]
    known, found = list(others), [False] * len(outputs)
    for number in np.argsort(losses).tolist():
        if known and not _may_help(task, outputs[number], np.stack(known), truth):
            found[number] = True
        else:
            known.append(outputs[number])
    return found


def _may_help(task: Task, net: np.ndarray, others: np.ndarray, truth: np.ndarray) -> bool:
    """Whether averaging with this net could lower the loss enough, within a standard error."""
    best = np.tensordot(greedy_mixture(task, others, truth), others, 1)
    # Any net would help a mixture that is too certain, but a temperature does so as well.
    best = with_temperature(task, best, fit_temperature(task, best, truth))
    worth = WORTH * float(np.nanmean(loss_per_graph(task, best, truth)))
    for weight in WEIGHTS:
        gain, error = advantage(task, (1 - weight) * best + weight * net, best, truth)
        if gain + error > worth:
            return True
    return False


def left_out(hopeless_in: Sequence[bool]) -> tuple[int, ...]:
    """The folds to predict without a candidate, because all other first folds call it hopeless.

    Args:
        hopeless_in: the verdict of each of the first folds
    """
    folds = range(len(hopeless_in))
    return tuple(one for one in folds if all(hopeless_in[f] for f in folds if f != one))
