"""Output of ``sagpool train`` about a fit, besides the model."""

import csv
import io
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sagpool.classifier import Fit
from sagpool.classifier.estimate import estimated
from sagpool.classifier.folder import files_of
from sagpool.classifier.leaderboard import SCORE, Row
from sagpool.classifier.score_names import COVERING, NAMES, score_text
from sagpool.graphs import Graphs
from sagpool.report.training_page import training_page
from sagpool.spreadsheet import as_text


def fit_json(fitted: Fit) -> dict[str, Any]:
    """The results for machines."""
    return {
        "model": fitted.model.name,
        "mixture": list(fitted.model.mixture),
        "interrupted": fitted.interrupted,
        "settings": fitted.model.about["settings"],
        "leaderboard": fitted.model.about["leaderboard"],
        "estimate": fitted.estimate.to_json(),
    }


def model_files(graphs: Graphs, fitted: Fit, source: str) -> dict[str, bytes]:
    """The files of a model folder, with the report and the out-of-fold predictions.

    Args:
        graphs: the training graphs
        fitted: the model
        source: where the graphs come from, for the model card
    """
    model = replace(fitted.model, about={**fitted.model.about, "source": source})
    return {
        **files_of(model),
        "out-of-fold.csv": out_of_fold_csv(graphs, fitted).encode(),
        "report.html": training_page(graphs, fitted).encode(),
    }


def short_lines(fitted: Fit, output: Path) -> list[str]:
    """Candidates, choice and main score of a classification."""
    accuracy, low, high = fitted.estimate.scores["accuracy"]
    return [
        *_candidates(fitted),
        "",
        *verdict(fitted),
        f"Estimated accuracy on new graphs: {accuracy:.1%} (95 % interval {low:.1%} to "
        f"{high:.1%}; always the most frequent class: {fitted.estimate.majority:.1%}).",
        f"The model is in {output}; open {output / 'report.html'} for calibration and coverage.",
    ]


def fit_lines(fitted: Fit, output: Path, *, explained: bool) -> list[str]:
    """The results for people.

    Args:
        fitted: the model
        output: its folder
        explained: whether `sagpool explain` has anything to draw
    """
    folder = shlex.quote(str(output))
    return [
        *_candidates(fitted),
        "",
        *verdict(fitted),
        "",
        *_estimate(fitted),
        "",
        f"The model, trained on all graphs, is in {output}, with report.html and the predictions "
        "for held-out graphs in out-of-fold.csv.",
        "Next:",
        f"  sagpool predict {folder} DATA",
        *([f"  sagpool explain {folder} DATA -o pictures"] if explained else []),
    ]


def _candidates(fitted: Fit) -> list[str]:
    estimate, rows = fitted.estimate, fitted.leaderboard
    score = SCORE[estimate.task]
    width = max(len(row.label) for row in rows)
    whole = "" if estimate.trained_on is None else " of all graphs"
    title = f"Candidates, on held-out graphs of {estimate.folds} folds{whole}:"
    header = f"  {'':{width}}  {_short(score):>8}  {'loss':>15}  {'weight':>6}  {'time':>7}"
    return [
        title,
        header,
        *(
            f"  {row.label:{width}}  {score_text(score, row.score):>8}  "
            f"{f'{row.loss:.4f} ± {row.error:.4f}':>15}  {row.weight or 0:6.2f}  "
            f"{row.seconds:5.0f} s"
            for row in rows
        ),
    ]


def verdict(fitted: Fit) -> list[str]:
    """The model that won, and its advantage."""
    rows = fitted.leaderboard
    simple = [row for row in rows if row.kind == "simple"]
    nets = [row for row in rows if row.kind == "net"]
    lines = [f"Model: {fitted.model.name}."]
    if fitted.interrupted:
        lines.append("It was stopped early: not all candidates were tried.")
    if fitted.model.net is None and nets:
        lines.append(f"No graph net improved it by more than the noise; {_gap(nets[0])}.")
    elif simple and fitted.model.net is not None:
        lines.append(f"Compared with the best simple model: {_gap(simple[0])}.")
    return lines


def _gap(row: Row) -> str:
    if row.behind <= row.behind_error:
        compared = "not worse than that of the model by more than the noise"
    else:
        compared = f"{row.behind:.4f} ± {row.behind_error:.4f} worse than that of the model"
    return f"the loss of {row.name} is {compared}"


def _estimate(fitted: Fit) -> list[str]:
    estimate = fitted.estimate
    lines = [f"Estimated {estimated(estimate.to_json())}, with 95 % intervals:"]
    for name, score in estimate.scores.items():
        if np.isnan(score.value):
            continue
        interval = ""
        if not np.isnan(score.low):
            interval = f"   {score_text(name, score.low)} to {score_text(name, score.high)}"
        lines.append(f"  {NAMES[name]:38s} {score_text(name, score.value):>6}{interval}")
    if estimate.majority is not None:
        lines.append(f"  {'most frequent class, always predicted':38s} {estimate.majority:6.1%}")
    coverage = estimate.coverage
    sets, extent = COVERING[estimate.task]
    size = "" if np.isnan(coverage.size) else f", {extent} {coverage.size:.3g}"
    lines.append(
        f"  {f'{sets} contain the truth':38s} {coverage.measured:6.1%}   promised "
        f"{coverage.promised:.0%}{size}"
    )
    if estimate.better_than_majority is False:
        lines += [
            "",
            "Warning: the model is not shown to be better than always predicting the most "
            "frequent class.",
        ]
    return lines


def out_of_fold_csv(graphs: Graphs, fitted: Fit) -> str:
    """One row for each held-out graph: its truth, and its out-of-fold predictions."""
    found, names = fitted.out_of_fold, fitted.model.output_names
    graphs = graphs[fitted.held_out]
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    ids = fitted.held_out + 1 if graphs.ids is None else graphs.ids
    columns: dict[str, Any] = {"id": map(as_text, map(str, ids))}
    if fitted.estimate.trained_on is None:
        columns["fold"] = fitted.fold.tolist()
    if graphs.task == "classification":
        assert graphs.y is not None
        classes = [as_text(name) for name in names]
        columns["truth"] = [classes[number] for number in graphs.y.tolist()]
        columns["predicted"] = [classes[number] for number in found.predicted.tolist()]
        for name, column in zip(names, found.outputs.T, strict=True):
            columns[f"p_{name}"] = [f"{value:.6g}" for value in column.tolist()]
    else:
        assert graphs.targets is not None
        for place, name in enumerate(names):
            truth = graphs.targets[:, place].tolist()
            columns[f"truth_{name}"] = ["" if np.isnan(one) else f"{one:g}" for one in truth]
            title = f"p_{name}" if graphs.task == "multitask" else f"predicted_{name}"
            columns[title] = [f"{value:.6g}" for value in found.outputs[:, place].tolist()]
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def _short(score: str) -> str:
    return {"roc_auc": "ROC-AUC", "rmse": "RMSE"}.get(score, score)
