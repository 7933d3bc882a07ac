"""`Trace`: what a model did with one graph, in terms of the input nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.explain.numbers import PredictedNumbers
from sagpool.explain.parts import Reason, ReasonSource, ShownNet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


UNLIKE = "unlike the training data"


@dataclass(frozen=True, eq=False)
class Level:
    """The nodes that one pooling kept.

    With several masks: the nodes that any of them kept, with their largest factor.
    """

    kept: np.ndarray  # [kept] int64, nodes of the input graph in ascending order
    score: np.ndarray | None  # [kept] float64, factor of each node; None for methods without one
    masks: tuple[Level, ...] = ()  # what each of several masks kept

    @staticmethod
    def of_masks(masks: Sequence[Level]) -> Level:
        kept = np.unique(np.concatenate([mask.kept for mask in masks]))
        score = np.zeros(len(kept))
        for mask in masks:
            place = np.searchsorted(kept, mask.kept)
            found = np.zeros(len(kept)) if mask.score is None else mask.score
            score[place] = np.where(np.abs(found) > np.abs(score[place]), found, score[place])
        return Level(kept, score, tuple(masks))


@dataclass(frozen=True, eq=False)
class Trace:
    """What a model says about one graph, and why."""

    name: str  # of the data set
    number: int  # of the graph in the data set
    num_nodes: int
    edges: np.ndarray  # [edges, 2] int64, each undirected edge once, the lower node first
    node_labels: tuple[str, ...]  # one for each node, empty for a node without a label
    class_names: tuple[str, ...]  # 0 and 1 for one of several tasks; empty for a regression
    true_class: int | None  # if known
    probabilities: np.ndarray  # [classes] float64; empty for a regression
    ground_truth: np.ndarray | None  # int64, the nodes that decide the class, if known
    levels: tuple[Level, ...]  # one for each pooling; empty for models that keep no nodes
    title: str | None = None  # name of the graph, if it has one
    molecule: str | None = None  # MOL block with 2D coordinates whose atoms are the nodes
    predicted: int | None = None  # class; None for the most probable
    net: ShownNet | None = None  # whose levels these are; None for the whole model
    reasons: tuple[Reason, ...] = ()  # the largest amounts first
    reasons_of: ReasonSource | None = None  # whose reasons these are
    target: str | None = None  # that is explained; None for classes
    numbers: PredictedNumbers | None = None  # of a regression, in place of classes
    unlike: bool | None = None  # whether the graph is unlike the training data, if that is known

    @property
    def prediction(self) -> int:
        """The predicted class."""
        if self.numbers is not None:
            raise SagpoolError("A regression predicts no class; its numbers are in Trace.numbers.")
        return int(self.probabilities.argmax()) if self.predicted is None else self.predicted

    @property
    def confidence(self) -> float:
        """The probability of the predicted class."""
        return float(self.probabilities[self.prediction])

    @property
    def outputs(self) -> np.ndarray:
        """``[classes]`` probabilities, or ``[targets]`` numbers."""
        return self.probabilities if self.numbers is None else np.array(self.numbers.values)

    @property
    def net_outputs(self) -> np.ndarray:
        """The same, by the net whose levels these are."""
        return self.outputs if self.net is None else self.net.outputs

    @property
    def net_output(self) -> float:
        """Of this net, the probability of the predicted class, or the explained number."""
        place = self.prediction if self.numbers is None else self.numbers.place
        return float(self.net_outputs[place])

    @property
    def correct(self) -> bool | None:
        """Whether the prediction is right; None if the class is unknown."""
        return None if self.true_class is None else self.prediction == self.true_class

    @property
    def panels(self) -> list[tuple[str, Level]]:
        """What is drawn beside the input, with a title: each level, or each of its masks."""
        found = []
        for number, level in enumerate(self.levels, 1):
            of_masks = [(f"level {number}, mask {m}", one) for m, one in enumerate(level.masks, 1)]
            found += of_masks or [(f"level {number}", level)]
        return found

    @property
    def caption(self) -> str:
        parts = [f"{self.name} {self.number}" if self.title is None else self.title]
        warning = [UNLIKE] if self.unlike else []
        if self.numbers is not None:
            return " · ".join(parts + self.numbers.caption + warning)
        if self.true_class is not None:
            parts.append(f"{self.target or 'class'} {self.class_names[self.true_class]}")
        predicted = self.class_names[self.prediction]
        what = f"{self.target} " if self.target and self.true_class is None else ""
        parts.append(f"{what}predicted {predicted} ({100 * self.confidence:.0f} %)")
        return " · ".join(parts + warning)

    def to_json(self) -> dict[str, Any]:
        """All fields that are set as JSON values; `from_json` restores them exactly."""
        fields = asdict(self)
        for name in ("predicted", "net", "reasons", "reasons_of", "target", "numbers", "unlike"):
            # Traces of a single net do not have these fields, and run stores cannot hold them.
            if not fields[name] and fields[name] != 0:
                del fields[name]
        for level in fields["levels"]:
            if not level["masks"]:
                del level["masks"]
        return {name: _to_json(value) for name, value in fields.items()}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Trace:
        arrays: dict[str, Any] = {
            "edges": np.array(record["edges"], np.int64).reshape(-1, 2),
            "node_labels": tuple(record["node_labels"]),
            "class_names": tuple(record["class_names"]),
            "probabilities": np.array(record["probabilities"], np.float64),
            "ground_truth": _array(record["ground_truth"], np.int64),
            "levels": tuple(map(_level, record["levels"])),
        }
        if "net" in record:
            outputs = np.array(record["net"]["outputs"], np.float64)
            arrays["net"] = ShownNet(**record["net"] | {"outputs": outputs})
        if "numbers" in record:
            arrays["numbers"] = PredictedNumbers.from_json(record["numbers"])
        if "reasons_of" in record:
            arrays["reasons_of"] = ReasonSource(**record["reasons_of"])
            arrays["reasons"] = tuple(
                Reason(**reason | {"nodes": tuple(reason["nodes"])})
                for reason in record.get("reasons", ())
            )
        return Trace(**record | arrays)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw the input graph and each level beside it.

        Without levels, the nodes of the strongest reason are marked in the input graph.

        Args:
            ax: one axis for each panel, or a single one to be divided; None for a new figure
        """
        # Here, because matplotlib takes a second to import.
        from sagpool.explain.draw import draw, draw_panels

        return draw(self) if ax is None else draw_panels(self, ax)

    def _repr_html_(self) -> str:
        from sagpool.explain.display import trace_html

        return trace_html(self)

    def __repr__(self) -> str:
        kept = "".join(f" → {len(level.kept)}" for level in self.levels)
        return f"Trace({self.caption}: {self.num_nodes}{kept} nodes)"


def _level(record: dict[str, Any]) -> Level:
    kept, score = np.array(record["kept"], np.int64), _array(record["score"], np.float64)
    return Level(kept, score, tuple(map(_level, record.get("masks", ()))))


def _array(values: list[Any] | None, dtype: type) -> np.ndarray | None:
    return None if values is None else np.array(values, dtype)


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_to_json(one) for one in value]
    if isinstance(value, dict):
        return {name: _to_json(one) for name, one in value.items()}
    return value
