"""Validation results, ranked by a value other than the accuracy."""

from collections.abc import Sequence

from sagpool.bench.predictions import LOWER_IS_BETTER
from sagpool.bench.records import Validation
from sagpool.bench.selection import BY_ACCURACY
from sagpool.bench.store import Store


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
        return [one._replace(value=-one.loss) for one in seen]
    known = {key: found.scores("validation") for key, found in store.predictions(keys)}
    sign = -1 if metric in LOWER_IS_BETTER else 1
    return [
        one._replace(value=sign * known[key][metric] if key in known else float("nan"))
        for key, one in zip(keys, seen, strict=True)
    ]
