"""The prediction for one graph in words, with its uncertainty and its reasons."""

from sagpool.classifier.model import Predictions, TrainedModel
from sagpool.explain import Trace

MOST_REASONS = 3


def prediction_text(model: TrainedModel, found: Predictions) -> str:
    """The class of a single graph, its probability, and whether the graph is unusual."""
    best, names = int(found.predicted[0]), model.output_names
    text = f"{names[best]}, with a probability of {found.probabilities[0, best]:.2f}"
    if found.sets is not None and model.conformal is not None:
        possible = [name for name, one in zip(names, found.sets[0], strict=True) if one]
        text += f"; prediction set at {model.conformal.coverage:.0%}: {', '.join(possible)}"
    return f"{text}; {'unlike' if found.unlike[0] else 'like'} the training data"


def reasons_text(trace: Trace) -> list[str]:
    """The strongest reasons for and against the prediction; empty without reasons."""
    if trace.reasons_of is None:
        return []
    pushes = [f"{one.name} ({one.amount:+.2f})" for one in trace.reasons[:MOST_REASONS]]
    return [f"Reasons of {trace.reasons_of.name}, for (+) and against (-) it: {', '.join(pushes)}."]
