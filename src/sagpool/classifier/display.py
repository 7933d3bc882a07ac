"""Models and their estimates in a notebook, and as one line of text.

What a model folder says about itself may have been edited, so values of other kinds than ours are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sagpool.classifier.model import TrainedModel
from sagpool.html import Html, card, facts, note

if TYPE_CHECKING:
    from sagpool.classifier.estimate import Estimate
    from sagpool.classifier.fit import Fit

MOST_NAMES = 12
NOT_ESTIMATED = "The accuracy was not estimated."
NOT_BETTER = "Not shown to be better than always predicting the most frequent class."
# Entries of an estimate that are told together with another one.
_TOLD = ("ci95", "majority", "folds", "better_than_majority")


def model_text(model: TrainedModel) -> str:
    accuracy = _scores(_section(model, "estimate")).get("accuracy")
    estimated = "" if accuracy is None else f", estimated accuracy {accuracy}"
    return f"TrainedModel({model.method}: {_names(model)}{estimated})"


def model_html(model: TrainedModel) -> str:
    return _model_card("Trained model", model, {})


def fit_html(fit: Fit) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in fit.chosen.to_dict().items())
    chosen = {"candidates": str(len(fit.candidates)), "settings": settings}
    return _model_card("Fit", fit.model, chosen)


def estimate_html(estimate: Estimate) -> str:
    entries = estimate.to_json()
    return card("Estimate", facts(_scores(entries)), *_warning(entries))


def _model_card(title: str, model: TrainedModel, more: Mapping[str, str]) -> str:
    vocabulary, estimate = model.vocabulary, _section(model, "estimate")
    entries = {
        "method": model.method,
        "classes": _names(model),
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
    names = model.vocabulary.class_names
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _scores(estimate: Mapping[str, Any]) -> dict[str, str]:
    """Every score of an estimate; the accuracy with its interval."""
    shown = {}
    for name, value in estimate.items():
        if name not in _TOLD and isinstance(value, int | float):
            form = ".1%" if "accuracy" in name else ".3g"
            shown[name.replace("_", " ")] = format(value, form)
    match estimate:
        case {"accuracy": float(), "ci95": [float(low), float(high)]}:
            shown["accuracy"] += f" (95 % interval {low:.1%} to {high:.1%})"
    match estimate:
        case {"majority": float(fraction)}:
            shown["most frequent class"] = f"{fraction:.1%}"
    match estimate:
        case {"folds": int(folds)}:
            shown["estimated by"] = f"{folds}-fold cross-validation"
    return shown


def _warning(estimate: Mapping[str, Any]) -> list[Html]:
    return [] if estimate.get("better_than_majority", True) else [note(NOT_BETTER)]
