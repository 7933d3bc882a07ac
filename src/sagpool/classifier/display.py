"""Models and their estimates in a notebook, and as one line of text.

The description in a model folder may have been edited, so values of unexpected types are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sagpool.classifier.estimate import estimated
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.score_names import NAMES, score_text
from sagpool.html import Html, card, facts, note

if TYPE_CHECKING:
    from sagpool.classifier.estimate import Estimate
    from sagpool.classifier.fit import Fit

MOST_NAMES = 12
NOT_ESTIMATED = "The accuracy was not estimated."
NOT_BETTER = "Not shown to be better than always predicting the most frequent class."


def model_text(model: TrainedModel) -> str:
    shown = next(iter(_scores(_section(model, "estimate")).items()), None)
    estimated = "" if shown is None else f", estimated {shown[0]} {shown[1]}"
    return f"TrainedModel({model.name}: {_names(model)}{estimated})"


def model_html(model: TrainedModel) -> str:
    return _model_card("Trained model", model, {})


def fit_html(fit: Fit) -> str:
    weights = ", ".join(f"{row.name} {row.weight:.2f}" for row in fit.leaderboard)
    return _model_card("Fit", fit.model, {"candidates, with their weights": weights})


def estimate_html(estimate: Estimate) -> str:
    entries = estimate.to_json()
    return card("Estimate", facts(_scores(entries)), *_warning(entries))


def _model_card(title: str, model: TrainedModel, more: Mapping[str, str]) -> str:
    vocabulary, estimate = model.vocabulary, _section(model, "estimate")
    entries = {
        "model": model.name,
        "classes" if model.task == "classification" else "targets": _names(model),
        "node features": f"{vocabulary.num_features} from {vocabulary.feature_kind}",
    }
    match _section(model, "data"):
        case {"name": str(name), "graphs": int(graphs)}:
            entries["trained on"] = f"{name}, {graphs:,} graphs"
    shown = facts(entries | _scores(estimate) | dict(more))
    return card(title, shown, *(_warning(estimate) if estimate else [note(NOT_ESTIMATED)]))


def _section(model: TrainedModel, name: str) -> Mapping[str, Any]:
    section = model.about.get(name)
    return section if isinstance(section, dict) else {}


def _names(model: TrainedModel) -> str:
    names = model.output_names
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _scores(estimate: Mapping[str, Any]) -> dict[str, str]:
    """Every score of an estimate, with its interval."""
    shown = {}
    scores = estimate.get("scores")
    for name, score in (scores if isinstance(scores, dict) else {}).items():
        match score:
            case {"value": float(value)} if name in NAMES:
                shown[NAMES[name]] = score_text(name, value)
        match score:
            case {"value": float(), "ci95": [float(low), float(high)]} if name in NAMES:
                interval = f"{score_text(name, low)} to {score_text(name, high)}"
                shown[NAMES[name]] += f" (95 % interval {interval})"
    match estimate:
        case {"majority": float(fraction)}:
            shown["most frequent class"] = f"{fraction:.1%}"
    match estimate:
        case {"folds": int(), "graphs": int()}:
            shown["estimated"] = estimated(estimate)
    return shown


def _warning(estimate: Mapping[str, Any]) -> list[Html]:
    return [note(NOT_BETTER)] if estimate.get("better_than_majority") is False else []
