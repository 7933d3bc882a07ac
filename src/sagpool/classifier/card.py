"""The model card: a description of the model, its training data and its quality."""

import html
import re
from typing import Any

from sagpool.classifier.estimate import estimated
from sagpool.classifier.leaderboard import candidate_label
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.score_names import COVERING, NAMES, score_text

_EXAMPLE = """```
sagpool predict FOLDER graphs.jsonl
```

```python
from sagpool import TrainedModel, load

model = TrainedModel.from_pretrained("FOLDER")
graphs = load("graphs.jsonl", model.vocabulary.features)
found = model.predict_proba(graphs)  # found.probabilities, found.sets, found.unlike
```"""

_KINDS = {"classification": "classifier", "multitask": "classifier", "regression": "regression"}


def model_card(model: TrainedModel) -> str:
    """The text of the model's README.md."""
    about = model.about
    data: dict[str, Any] = about.get("data", {})
    vocabulary = model.vocabulary
    outputs = ", ".join(map(_text, model.output_names))
    source = _text(data.get("name", "unnamed data"))
    lines = [
        "---",
        "library_name: sagpool",
        "tags: [graph-classification, graph-neural-network, graph-pooling]",
        "---",
        f"# Graph {_KINDS[model.task]}: {outputs}",
        f"{_text(model.name)}, trained with [sagpool] on {source}.",
        "",
        "## Scores" if model.task == "regression" else "## Accuracy",
        *_estimate(about.get("estimate")),
        "",
        *_leaderboard(about.get("leaderboard")),
        "## Data",
        *(f"- {name.replace('_', ' ')}: {_text(value)}" for name, value in data.items()),
        f"- node features: {vocabulary.feature_kind}, {vocabulary.num_features} columns",
        f"- {'classes' if model.task == 'classification' else 'targets'}: {outputs}",
        "",
        "## Settings",
        *(f"- {_text(name)}: {_text(value)}" for name, value in about.get("settings", {}).items()),
        "",
        "## Use",
        _EXAMPLE,
        "",
        "## Versions",
        ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items()),
        "",
        "[sagpool]: https://pypi.org/project/sagpool",
    ]
    return "\n".join(lines) + "\n"


def _estimate(estimate: dict[str, Any] | None) -> list[str]:
    if not estimate:
        return ["The accuracy was not estimated."]
    lines = [
        f"Estimated {estimated(estimate)}, with 95 % intervals; no model had seen the graphs that "
        "it predicts:",
        "",
    ]
    for name, score in estimate.get("scores", {}).items():
        if score["value"] is not None:
            lines.append(f"- {NAMES.get(name, name)} {_score(name, score)}")
    if estimate.get("majority") is not None:
        lines.append(f"- always predicting the most frequent class: {estimate['majority']:.1%}")
    if coverage := estimate.get("coverage"):
        sets, extent = COVERING.get(estimate.get("task", ""), COVERING["classification"])
        size = coverage["size"]
        lines.append(
            f"- {sets}: {coverage['promised']:.0%} promised, {coverage['measured']:.1%} "
            f"contain the truth{'' if size is None else f', {extent} {size:.3g}'}"
        )
    if estimate.get("better_than_majority") is False:
        lines += ["", "**Not shown to be better than always predicting the most frequent class.**"]
    if curve := estimate.get("calibration"):
        lines += ["", "| predicted probability | observed | graphs |", "|---:|---:|---:|"]
        lines += [
            f"| {b['probability']:.3f} | {b['fraction']:.3f} | {b['graphs']} |" for b in curve
        ]
    return lines


def _score(name: str, score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    interval = "" if low is None else f" ({score_text(name, low)} to {score_text(name, high)})"
    return score_text(name, score["value"]) + interval


def _leaderboard(rows: list[dict[str, Any]] | None) -> list[str]:
    if not rows:
        return []
    labels = [_text(candidate_label(row["name"], row.get("dropped_after"))) for row in rows]
    return [
        "## Candidates",
        "On held-out graphs; a weight of 0 means that the model does without it.",
        "",
        "| candidate | score | loss | weight | seconds |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {label} | {row['score']:.4f} | {row['loss']:.4f} ± {row['error']:.4f} "
            f"| {row['weight']:.2f} | {row['seconds']:.1f} |"
            for label, row in zip(labels, rows, strict=True)
        ),
        "",
    ]


def _text(value: Any) -> str:
    """The value as one line of text, with Markdown and HTML escaped."""
    if isinstance(value, float):
        return f"{value:.4g}"
    escaped = html.escape(" ".join(str(value).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", escaped)
