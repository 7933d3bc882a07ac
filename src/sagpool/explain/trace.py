"""`Trace`: what a model did with one graph, told in the nodes of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Level:
    """What one pooling left of the graph."""

    kept: np.ndarray  # [kept] int64, nodes of the input graph, ascending
    score: np.ndarray | None  # [kept] float64, what each was multiplied with; None: nothing


@dataclass(frozen=True, eq=False)
class Trace:
    """One forward pass over one graph.

    Args:
        name: of the data set
        number: of the graph in it
        num_nodes: of the graph
        edges: ``[edges, 2]`` int64, each pair of neighbours once, the lower node first
        node_labels: one text for each node, empty for a node without a label
        class_names: what each class stands for
        true_class: where it is known
        probabilities: ``[classes]`` float64
        ground_truth: int64, the nodes that decide the class, where that is known
        levels: one for each pooling; none for methods that do not keep nodes
        title: by which the owner knows the graph, if it has a name of its own
        molecule: a MOL block with flat coordinates whose atoms are the nodes, if it is a molecule
    """

    name: str
    number: int
    num_nodes: int
    edges: np.ndarray
    node_labels: tuple[str, ...]
    class_names: tuple[str, ...]
    true_class: int | None
    probabilities: np.ndarray
    ground_truth: np.ndarray | None
    levels: tuple[Level, ...]
    title: str | None = None
    molecule: str | None = None

    @property
    def prediction(self) -> int:
        """The most probable class."""
        return int(self.probabilities.argmax())

    @property
    def confidence(self) -> float:
        """The probability of the predicted class."""
        return float(self.probabilities[self.prediction])

    @property
    def correct(self) -> bool | None:
        """Whether the prediction is right; None if the class is not known."""
        return None if self.true_class is None else self.prediction == self.true_class

    @property
    def caption(self) -> str:
        parts = [f"{self.name} {self.number}" if self.title is None else self.title]
        if self.true_class is not None:
            parts.append(f"class {self.class_names[self.true_class]}")
        predicted = self.class_names[self.prediction]
        parts.append(f"predicted {predicted} ({100 * self.confidence:.0f} %)")
        return " · ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The trace in lists, texts and numbers, from which `from_json` makes the same again."""
        return {
            "name": self.name,
            "number": self.number,
            "num_nodes": self.num_nodes,
            "edges": self.edges.tolist(),
            "node_labels": list(self.node_labels),
            "class_names": list(self.class_names),
            "true_class": self.true_class,
            "probabilities": self.probabilities.tolist(),
            "ground_truth": None if self.ground_truth is None else self.ground_truth.tolist(),
            "levels": [
                {
                    "kept": level.kept.tolist(),
                    "score": None if level.score is None else level.score.tolist(),
                }
                for level in self.levels
            ],
            "title": self.title,
            "molecule": self.molecule,
        }

    @staticmethod
    def from_json(record: dict[str, Any]) -> Trace:
        truth = record["ground_truth"]
        return Trace(
            name=record["name"],
            number=record["number"],
            num_nodes=record["num_nodes"],
            edges=np.array(record["edges"], np.int64).reshape(-1, 2),
            node_labels=tuple(record["node_labels"]),
            class_names=tuple(record["class_names"]),
            true_class=record["true_class"],
            probabilities=np.array(record["probabilities"], np.float64),
            ground_truth=None if truth is None else np.array(truth, np.int64),
            levels=tuple(
                Level(
                    kept=np.array(level["kept"], np.int64),
                    score=None if level["score"] is None else np.array(level["score"], np.float64),
                )
                for level in record["levels"]
            ),
            title=record.get("title"),
            molecule=record.get("molecule"),
        )

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Figure:
        """The picture of `sagpool.explain.draw.draw`, or its panels on axes of one's own.

        Args:
            ax: a single one is divided among the panels
        """
        # Matplotlib takes a second to import, which only those who want pictures should wait.
        from sagpool.explain.draw import draw, draw_panels

        return draw(self) if ax is None else draw_panels(self, ax)

    def _repr_html_(self) -> str:
        from sagpool.explain.draw import svg

        return svg(self)
