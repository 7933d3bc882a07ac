"""On which validation parts a metric can compare networks."""

from collections.abc import Sequence

from sagpool.errors import SagpoolError
from sagpool.fleet.evaluate import Truth
from sagpool.fleet.metrics import NEEDS, is_defined
from sagpool.fleet.schedule import split_of
from sagpool.fleet.stopping import RULES
from sagpool.fleet.training import Training
from sagpool.graphs import NO_TEST, Graphs

MOST_NAMED = 8  # most folds that a sentence names


def undefined_on(graphs: Graphs, metric: str, trainings: Sequence[Training]) -> list[Training]:
    """The trainings on whose validation part the metric is not defined, one for each fold."""
    truth, outputs = Truth.of(graphs), graphs.num_outputs
    parts = {(o.seed, o.fold, o.split, o.folds, o.validation): o for o in trainings}
    return [
        one
        for one in parts.values()
        if not is_defined(
            metric, truth.task, truth.known[split_of(graphs, one).validation], outputs
        )
    ]


def check_stopping(graphs: Graphs, trainings: Sequence[Training]) -> None:
    """Refuse trainings that stop by a metric that has no epoch better than the first."""
    for stopping in dict.fromkeys(one.stopping for one in trainings):
        metric = RULES[stopping].metric
        asked = [one for one in trainings if metric and one.stopping == stopping]
        if undefined := undefined_on(graphs, metric, asked):
            raise SagpoolError(
                f"Trainings on {graphs.name} cannot stop by {metric}: "
                f"{what_is_lacking(metric, undefined)}. Choose another rule for stopping, or "
                "other splits."
            )


def what_is_lacking(metric: str, undefined: Sequence[Training]) -> str:
    """Why the metric is not defined on the validation parts of these trainings."""
    needs, first = NEEDS.get(metric, "measured targets"), undefined[0]
    if first.split == "fixed" or first.fold == NO_TEST:
        return f"it needs {needs}, which the validation part lacks"
    if len(undefined) == 1:
        where = f"part of fold {first.fold} (seed {first.seed}) lacks"
    elif len({one.seed for one in undefined}) == 1 and len(undefined) <= MOST_NAMED:
        *folds, last = sorted({one.fold for one in undefined})
        where = f"parts of folds {', '.join(map(str, folds))} and {last} (seed {first.seed}) lack"
    else:
        where = f"parts of {len(undefined)} folds (such as {first.fold} of seed {first.seed}) lack"
    return f"it needs {needs}, which the validation {where}"
