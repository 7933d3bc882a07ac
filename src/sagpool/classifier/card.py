"""The model card: what a model is, what it was trained on, and how accurate it is."""

import html
import re
from typing import Any

from sagpool.classifier.model import TrainedModel

_EXAMPLE = """```
sagpool predict FOLDER graphs.jsonl
```

```python
from sagpool import TrainedModel, load

model = TrainedModel.from_pretrained("FOLDER")
graphs = load("graphs.jsonl", model.vocabulary.features)
found = model.predict_proba(graphs)  # .probabilities, .sets, .unlike
```"""


def model_card(model: TrainedModel) -> str:
    """The text of the model's README.md."""
    about = model.about
    data: dict[str, Any] = about.get("data", {})
    vocabulary = model.vocabulary
    classes = ", ".join(map(_text, vocabulary.class_names))
    lines = [
        "---",
        "library_name: sagpool",
        "tags: [graph-classification, graph-neural-network, graph-pooling]",
        "---",
        f"# Graph classifier: {classes}",
        f"{model.name}, trained with [sagpool] on {_text(data.get('name', 'unnamed data'))}.",
        "",
        "## Accuracy",
        *_estimate(about.get("estimate")),
        "",
        "## Data",
        *(f"- {name.replace('_', ' ')}: {_text(value)}" for name, value in data.items()),
        f"- node features: {vocabulary.feature_kind}, {vocabulary.num_features} columns",
        f"- classes: {classes}",
        "",
        "## Settings",
        *(f"- {name}: {_text(value)}" for name, value in about.get("settings", {}).items()),
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
    low, high = estimate.get("ci95") or (None, None)
    interval = f" (95 % interval {low:.1%} to {high:.1%})" if low is not None else ""
    lines = [
        f"Estimated by {estimate['folds']}-fold cross-validation, on graphs held out of training:",
        "",
        f"- accuracy {estimate['accuracy']:.1%}{interval}; always predicting the most frequent "
        f"class: {estimate['majority']:.1%}",
        f"- balanced accuracy {estimate['balanced_accuracy']:.1%}",
    ]
    if estimate.get("auroc") is not None:
        lines.append(f"- area under the ROC curve {estimate['auroc']:.3f}")
    if not estimate.get("better_than_majority", True):
        lines += ["", "**Not shown to be better than always predicting the most frequent class.**"]
    return lines


def _text(value: Any) -> str:
    """As text, not as Markdown or HTML; on one line."""
    if isinstance(value, float):
        return f"{value:.4g}"
    escaped = html.escape(" ".join(str(value).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", escaped)
