"""Models and their estimates in a notebook, and as one line of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sagpool.classifier.model import TrainedModel
from sagpool.html import Html, card, facts, note

if TYPE_CHECKING:
    from sagpool.classifier.estimate import Estimate
    from sagpool.classifier.fit import Fit

MOST_NAMES = 12
NOT_BETTER = "Not shown to be better than always predicting the most frequent class."
# Entries of an estimate that are part of another one's text, or of no interest by themselves.
_TOLD = ("ci95", "majority", "folds", "better_than_majority")


def model_text(model: TrainedModel) -> str:
    about = model.about.get("estimate") or {}
    accuracy = about.get("accuracy")
    estimated = "" if accuracy is None else f", estimated accuracy {accuracy:.1%}"
    return f"TrainedModel({model.method}: {_names(model)}{estimated})"


def model_html(model: TrainedModel) -> str:
    return _model_card("Trained model", model, {})


def fit_html(fit: Fit) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in fit.chosen.to_dict().items())
    return _model_card(
        "Fit", fit.model, {"candidates": str(len(fit.candidates)), "settings": settings}
    )


def estimate_html(estimate: Estimate) -> str:
    entries = estimate.to_json()
    return card("Estimate", facts(_scores(entries)), *_warning(entries))


def _model_card(title: str, model: TrainedModel, more: Mapping[str, str]) -> str:
    vocabulary, estimate = model.vocabulary, model.about.get("estimate") or {}
    data: Mapping[str, Any] = model.about.get("data") or {}
    entries = {
        "method": model.method,
        "classes": _names(model),
        "node features": f"{vocabulary.num_features} from {vocabulary.feature_kind}",
    }
    if "name" in data:
        graphs = f", {data['graphs']:,} graphs" if "graphs" in data else ""
        entries["trained on"] = f"{data['name']}{graphs}"
    warning = _warning(estimate) if estimate else [note("The accuracy was not estimated.")]
    return card(title, facts(entries | _scores(estimate) | dict(more)), *warning)


def _names(model: TrainedModel) -> str:
    names = model.vocabulary.class_names
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _scores(estimate: Mapping[str, Any]) -> dict[str, str]:
    """Every score of an estimate; the accuracy with its interval and its baseline."""
    shown = {}
    for name, value in estimate.items():
        if name in _TOLD or not isinstance(value, int | float):
            continue
        shown[name.replace("_", " ")] = f"{value:.1%}" if "accuracy" in name else f"{value:.3g}"
    if "accuracy" in shown and estimate.get("ci95"):
        low, high = estimate["ci95"]
        shown["accuracy"] += f" (95 % interval {low:.1%} to {high:.1%})"
    if estimate.get("majority") is not None:
        shown["most frequent class"] = f"{estimate['majority']:.1%}"
    if "folds" in estimate:
        shown["estimated by"] = f"{estimate['folds']}-fold cross-validation"
    return shown


def _warning(estimate: Mapping[str, Any]) -> list[Html]:
    return [] if estimate.get("better_than_majority", True) else [note(NOT_BETTER)]
