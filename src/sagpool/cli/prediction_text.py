"""The prediction for one graph in words, with its doubts and its reasons."""

import numpy as np

from sagpool.classifier.model import Predictions, TrainedModel
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import SimpleModel
from sagpool.graphs import Graphs

MOST_REASONS = 3


def prediction_text(model: TrainedModel, found: Predictions) -> str:
    """The class of a single graph, how sure it is, and whether the graph is an unusual one."""
    best, names = int(found.predicted[0]), model.output_names
    text = f"{names[best]}, with a probability of {found.probabilities[0, best]:.2f}"
    if found.sets is not None and model.conformal is not None:
        possible = [name for name, one in zip(names, found.sets[0], strict=True) if one]
        text += f"; prediction set at {model.conformal.coverage:.0%}: {', '.join(possible)}"
    return f"{text}; {'unlike' if found.unlike[0] else 'like'} the training data"


def reasons(model: TrainedModel, graph: Graphs, output: int) -> list[str]:
    """What pushed the simple model with the largest weight, for and against a class.

    Without a simple model there are none.

    Args:
        model: of classes
        graph: a single one, as it was given to the model
        output: number of the class
    """
    simple = [
        (weight, part.model)
        for weight, part in zip(model.mixture, model.parts, strict=True)
        if isinstance(part, SimplePart) and isinstance(part.model, SimpleModel)
    ]
    if not simple:
        return []
    best = max(simple, key=lambda one: one[0])[1]
    fitted = model.vocabulary.fit(graph).graphs
    (found,) = best.contributions(fitted, np.array([output]), MOST_REASONS)
    pushes = [f"{one.name} ({one.amount:+.2f})" for one in found.top]
    return [f"Reasons of {best.name}, for (+) and against (-) it: {', '.join(pushes)}."]
