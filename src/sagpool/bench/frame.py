"""Finished trainings, and their curves, as tables."""

import logging
import math
from pathlib import Path
from typing import Any

from sagpool.bench.plan import METHOD_VERSION
from sagpool.bench.records import Invocation, Run
from sagpool.bench.run_table import read_curves, read_runs
from sagpool.bench.store import Store
from sagpool.errors import SagpoolError
from sagpool.fleet.stopping import RULES
from sagpool.fleet.training import OPTIONS
from sagpool.fleet.validation_metrics import as_loss
from sagpool.models import method_settings, method_version, methods

log = logging.getLogger("sagpool")

# In the order of the curves in the store.
CURVE = ("train_loss", "validation_loss", "validation_accuracy")


def rows(store: str | Path, *, metrics: bool = False, frame: bool = True) -> Any:
    """All finished trainings of a run store, one row each, with a column for every setting.

    A store leaves out settings of a method that have their defaults. For a method from a plugin the
    defaults are known while it is loaded (`sagpool.models.load_plugin`) and unchanged; otherwise
    the columns are empty, and a warning names the method.

    Trainings on a fixed split have a loss and an accuracy of each test, such as ``large accuracy``.
    ``commit`` and ``kernels`` tell which code made a row; "unknown" in older stores.
    `curves` has the curves, and `Store.runs` the confusion matrices.

    Args:
        store: the file
        metrics: whether to add columns with further scores from the stored predictions, such as
            ``test_roc_auc`` and ``validation_f1``. Scores of several tasks are means over them;
            the accuracies of a row remain the fractions of all measured targets
        frame: whether to return a `pandas.DataFrame`; otherwise a list of dictionaries
    """
    with Store.reading(Path(store)) as opened:
        kinds = {key: data.feature_kind for key, data in opened.data().items()}
        commands = {one.id: one for one in opened.invocations()}
        tests = opened.tests()
        found = [
            _row(run, kinds.get(run.fingerprint, ""), commands[run.invocation])
            | {
                f"{name} {part}": score
                for name, scores in tests.get(run.key, {}).items()
                for part, score in vars(scores).items()
            }
            for run in read_runs(opened)
        ]
        more = dict(opened.predictions()) if metrics else {}
    for row in found if metrics else ():
        if (predicted := more.get(row["key"])) is not None:
            for part in ("validation", "test"):
                scores = {f"{part}_{name}": v for name, v in predicted.scores(part).items()}
                row |= {name: v for name, v in scores.items() if name not in row}
    _warn_of_defaults(found)
    return _frame(found) if frame else found


def curves(store: str | Path, *, frame: bool = True) -> Any:
    """The learning curves of all finished trainings of a run store, one row for each epoch.

    The columns ``key``, ``name``, ``method``, ``seed`` and ``fold`` are those of `rows`. The train
    loss is a mean over an epoch, with dropout and auxiliary losses. The curves of trainings that
    stop by a metric have it, such as ``validation_roc_auc``, in place of the validation loss, which
    is NaN. With ``stopping=loss+norm`` the validation loss includes the norm.

    Args:
        store: the file
        frame: whether to return a `pandas.DataFrame`; otherwise a list of dictionaries
    """
    found = []
    with Store.reading(Path(store)) as opened:
        runs = read_runs(opened)
        for number, run in enumerate(runs):
            (curve,) = read_curves(opened, runs[number : number + 1])
            same = {name: getattr(run, name) for name in ("key", "name", "method", "seed", "fold")}
            for epoch, values in enumerate(curve.T.tolist(), 1):
                found.append(same | {"epoch": epoch} | _validated(run, values))
    return _frame(found) if frame else found


def _validated(run: Run, values: list[float]) -> dict[str, float]:
    """The values of an epoch; a store has a metric as the loss that stopping lowers."""
    named = dict(zip(CURVE, values, strict=True))
    if metric := RULES[run.settings.get("stopping", "loss")].metric:
        loss, named["validation_loss"] = named["validation_loss"], math.nan
        named[f"validation_{metric}"] = as_loss(metric, loss) if math.isfinite(loss) else math.nan
    return named


def _frame(found: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise SagpoolError(
            "A data frame needs pandas; install it with: pip install pandas"
        ) from None
    return pandas.DataFrame(found)


def _warn_of_defaults(found: list[dict[str, Any]]) -> None:
    """Name the methods whose defaults are unknown here, so that columns have gaps."""
    versions = {(row["method"], row[METHOD_VERSION]) for row in found if METHOD_VERSION in row}
    for method, version in sorted(versions):
        if method not in methods():
            log.warning(
                "%s is not loaded, so its settings are missing where they have their defaults; "
                "call load_plugin before rows.", method,
            )  # fmt: skip
        elif method_version(method) != version:
            log.warning(
                "Of version %s of %s, settings are missing where they have their defaults: it is "
                "not the version that is loaded.", version, method,
            )  # fmt: skip


def _row(run: Run, feature_kind: str, made_by: Invocation) -> dict[str, Any]:
    values = {k: v for k, v in vars(run).items() if k not in ("settings", "confusion", "curve")}
    values["feature_kind"] = feature_kind
    values |= {"commit": made_by.commit, "kernels": made_by.kernels}
    # A store leaves out defaults of options and of a method's own settings. The defaults of
    # another version of a method are unknown here.
    settings = {name: default for name, (default, *_) in OPTIONS.items()} | run.settings
    if run.method in methods() and method_version(run.method) == settings.get(METHOD_VERSION, ""):
        settings = method_settings(run.method) | settings
    # A method may have a setting with the name of another column.
    return values | {f"setting_{k}" if k in values else k: v for k, v in settings.items()}
