"""Test scores other than the accuracy: ROC-AUC, F1 and others, or the errors of a regression."""

from typing import Any

from sagpool.bench.predictions import METRICS
from sagpool.bench.scores import MOST_RUNS
from sagpool.bench.summary import Summary
from sagpool.fleet.validation_metrics import REGRESSION_METRICS
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.sections.cells import left_out_notes
from sagpool.report.table import Cell, Table, file_name, listing, method, numbers, text, words

TITLES = {
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC-AUC",
    "f1": "F1",
    "mcc": "MCC",
    "log_loss": "log loss ↓",
    "rmse": "RMSE ↓",
    "mae": "MAE ↓",
    "r2": "R²",
}
CLASSES = (
    "With two classes, F1 and ROC-AUC refer to the second class; with more, they are means over "
    "the classes, each against all others. The probabilities are not calibrated, so the log loss "
    "also shows how confident a model is when it is wrong."
)


def section(content: Content) -> Section:
    parts, many = [], False
    for group in (content.groups[0], *content.regressions):
        scored = [s for s in group.cells if content.scores[s.runs[0].key].runs]
        many |= any(len(s.runs) > MOST_RUNS for s in scored)
        several = group in content.regressions and len(content.regressions) > 1
        chosen = (str(group.chosen),) if several else ()
        for dataset in dict.fromkeys(s.cell.dataset for s in scored):
            here = [s for s in scored if s.cell.dataset == dataset]
            heading = "; ".join((content.label(dataset), *chosen, *group.differences))
            number = content.regressions.index(group) if group in content.regressions else 0
            name = file_name(f"scores-{dataset}") + (f"-{number + 1}" if number else "")
            parts.append(Part(heading, _table(content, name, heading, here)))
    intro = [
        "From the predictions for the test graphs of every training: mean ± standard deviation "
        "over the seeds. Higher is better, except in columns with ↓.",
        *([CLASSES] if content.shown else left_out_notes(content)),
        *([f"At most {MOST_RUNS} trainings of each method are used."] * many),
    ]
    title = "Other scores" if content.shown else "Errors"
    return Section("scores", title, parts, intro if parts else [])


def _table(content: Content, name: str, heading: str, summaries: list[Summary]) -> Table:
    """Methods are rows, scores are columns."""
    scores = [content.scores[s.runs[0].key] for s in summaries]
    there = {score for one in scores for score in one.scores}
    shown = [one for one in (*METRICS[1:], *REGRESSION_METRICS) if one in there]
    columns = [
        numbers(TITLES[score], [_shown(one.scores, score) for one in scores]) for score in shown
    ]
    records: list[dict[str, Any]] = []
    for summary, one in zip(summaries, scores, strict=True):
        for score, found in one.scores.items():
            low, high = found.ci95 or (None, None)
            records.append(
                {
                    "dataset": summary.cell.dataset,
                    "method": summary.method,
                    "score": score,
                    "mean": found.mean,
                    "std_seeds": found.std_seeds,
                    "ci95_low": low,
                    "ci95_high": high,
                    "runs": one.runs,
                }
            )
    return listing(
        name,
        f"{heading}: scores of the test graphs, mean ± standard deviation over the seeds.",
        [
            words("method", [method(s.method) for s in summaries]),
            *columns,
            numbers("trainings", [one.runs for one in scores], "d"),
        ],
        records,
    )


def _shown(scores: dict[str, Any], name: str) -> Cell:
    if name not in scores:
        return text("")
    found = scores[name]
    spread = "" if found.std_seeds is None else f" ± {found.std_seeds:.3f}"
    return text(f"{found.mean:.3f}{spread}".replace("-", "−"))
