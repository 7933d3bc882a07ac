"""Validation results, ranked by a value other than the accuracy."""

import logging
import math
from collections.abc import Sequence

from sagpool.bench.predictions import LOWER_IS_BETTER, Predicted
from sagpool.bench.records import Validation
from sagpool.bench.selection import BY_ACCURACY
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.defined_metrics import undefined_on, what_is_lacking
from sagpool.graphs import Graphs

log = logging.getLogger("sagpool")


def ranked_by(
    metric: str, store: Store, keys: Sequence[str], seen: Sequence[Validation], *, early: bool
) -> list[Validation]:
    """The results of trainings, each with its value of a metric.

    Args:
        metric: ``accuracy``, ``loss``, or one that follows from predictions
        store: has the predictions of ended trainings
        keys: keys of the trainings
        seen: their results, in the same order
        early: whether the trainings are unfinished, so that only their curves are known; these hold
            the loss, or the negative of the metric, that decides when trainings stop
    """
    if metric == BY_ACCURACY:
        return list(seen)
    if metric == "loss" or early:
        return [one._replace(value=_or_failed(-one.loss)) for one in seen]
    known = {key: _value(metric, found) for key, found in store.predictions(keys)}
    return [
        one._replace(value=known.get(key, -math.inf)) for key, one in zip(keys, seen, strict=True)
    ]


def check_defined(
    metric: str, graphs: Graphs, trainings: Sequence[Training], *, per_fold: bool
) -> None:
    """Refuse a metric that cannot choose settings; warn if it can use some of the splits only.

    Args:
        metric: as in `ranked_by`, but not the accuracy
        graphs: the data set
        trainings: a candidate of the search, with each of its seeds and folds
        per_fold: whether settings are chosen for each of them
    """
    if metric == "loss":
        return
    undefined = undefined_on(graphs, metric, trainings)
    if not undefined:
        return
    lacking, left = what_is_lacking(metric, undefined), len(trainings) - len(undefined)
    if per_fold or not left:
        each = " per fold" if per_fold else ""
        raise SagpoolError(
            f"Settings for {graphs.name} cannot be selected{each} by {metric}: {lacking}. Choose "
            "another --select-by, or other splits."
        )
    log.warning(
        "Settings for %s are selected by the %s of %d of %d folds: %s.",
        *(graphs.name, metric, left, len(trainings), lacking),
    )


def _value(metric: str, predicted: Predicted) -> float:
    if not predicted.is_defined(metric, "validation"):
        return math.nan
    value = predicted.scores("validation")[metric]
    return _or_failed(-value if metric in LOWER_IS_BETTER else value)


def _or_failed(value: float) -> float:
    return value if math.isfinite(value) else -math.inf
