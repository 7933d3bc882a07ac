"""One training: its settings, and its result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.fleet.order import ORDERS
from sagpool.fleet.rates import SCHEDULES
from sagpool.fleet.state import MemberState
from sagpool.fleet.stopping import RULES
from sagpool.foreign.values import shorten
from sagpool.graphs import NO_TEST
from sagpool.graphs.splits import SPLITS
from sagpool.models import Value
from sagpool.models.registry import changed_settings, method_settings, suggestion
from sagpool.randomness import key_of

# Bump when the same `Training` gives other results: older rows then no longer count as its rows.
NUMERICS = 2

# Options of the protocol, with their values. The first is the default and no part of an identity:
# neither of a run key nor of a random stream.
PROTOCOL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"split": (*SPLITS, "given"), "order": ORDERS, "stopping": tuple(RULES)}
)
# The same holds for these options, which are not part of a protocol.
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {**PROTOCOL, "class_weight": ("none", "balanced"), "schedule": tuple(SCHEDULES)}
)

_LARGEST = 2**31 - 1
_LARGEST_SEED = 2**62  # the next seeds must also fit 64 bits

_PLAIN: dict[str, Callable[[Any], Any]] = {"str": str, "int": operator.index, "float": float}


@dataclass(frozen=True)
class Training:
    """Everything that decides a training on a given data set; the defaults are the authors'.

    Args:
        method: a registered name, such as ``sagpool-h``
        seed: decides the splits, the initial weights, the batch order and dropout
        fold: the fold that is the test part; `NO_TEST` for none
        lr: Adam's learning rate
        weight_decay: L2 penalty
        hidden: size of the node representations
        ratio: fraction of nodes that each pooling of the hierarchical architecture keeps
        dropout: rate in the MLP
        batch_size: graphs in a mini-batch
        patience: epochs without a lower validation loss after which to stop
        max_epochs: epochs after which to stop in any case
        folds: number of folds of the cross-validation
        validation: fraction of the training part; 0 is allowed only with `NO_TEST`, to train on all
            graphs
        split: ``stratified``, or ``contiguous`` slices of the shuffled graphs, see `split`; or
            ``fixed``, the split of the data set, which has a single fold; or ``given``, by
            `Graphs.fold`
        order: order of the training graphs: ``shuffled`` for each epoch, or ``fixed``, the first
            shuffle in all epochs
        stopping: by the validation ``loss``; or ``loss+norm``: adds to it the norm of the weights,
            times the weight decay, accepts equal values as an improvement, and has one more epoch
            of patience; or by a metric of the validation part: ``accuracy``,
            ``balanced_accuracy``, ``roc_auc``, ``f1`` or ``mcc``, or of a regression ``rmse``,
            ``mae`` or ``r2``
        class_weight: ``none``; or ``balanced``: the loss of a graph is divided by the frequency of
            its class in the training part
        schedule: schedule of the learning rate: ``constant``; ``cosine``, down to 0 at max_epochs;
            or ``step``, halved every 50 epochs
        method_settings: settings of the method itself, a mapping or pairs; those that differ
            from its defaults are stored, sorted by name
    """

    method: str
    seed: int = 0
    fold: int = 0
    lr: float = 5e-4
    weight_decay: float = 1e-4
    hidden: int = 128
    ratio: float = 0.5
    dropout: float = 0.5
    batch_size: int = 128
    patience: int = 50
    max_epochs: int = 100_000
    folds: int = 10
    validation: float = 0.1
    split: str = "stratified"
    order: str = "shuffled"
    stopping: str = "loss"
    class_weight: str = "none"
    schedule: str = "constant"
    method_settings: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        changed = changed_settings(self.method, dict(self.method_settings))
        object.__setattr__(self, "method_settings", tuple(changed.items()))
        for name in changed.keys() & {item.name for item in fields(self)}:
            raise SagpoolError(f"Every training has a '{name}'; {self.method} needs another name.")
        # Equal trainings draw equal random numbers, so 1 and np.float64(1) become 1.0.
        for item in fields(self)[:-1]:
            value = getattr(self, item.name)
            try:
                object.__setattr__(self, item.name, _PLAIN[str(item.type)](value))
            except (TypeError, ValueError, OverflowError):
                raise SagpoolError(
                    f"{item.name} must be {item.type}, not {shorten(value)}."
                ) from None
        if self.split == "fixed":
            object.__setattr__(self, "folds", 1)
        for name, low in (
            ("hidden", 2), ("batch_size", 1), ("patience", 1), ("max_epochs", 1),
            ("folds", 1 if self.split == "fixed" else 2),
        ):  # fmt: skip
            if getattr(self, name) < low:
                raise SagpoolError(f"{name} must be at least {low}, not {getattr(self, name)}.")
            if getattr(self, name) > _LARGEST:
                raise SagpoolError(
                    f"{name} must be at most {_LARGEST}, not {shorten(getattr(self, name))}."
                )
        for name in ("seed", "fold"):
            if abs(getattr(self, name)) > _LARGEST_SEED:
                raise SagpoolError(f"{name} has too many digits: {shorten(getattr(self, name))}.")
        for name in ("lr", "weight_decay", "ratio", "dropout"):
            if not math.isfinite(getattr(self, name)):
                raise SagpoolError(f"{name} must be a finite number, not {getattr(self, name)}.")
        if not (self.lr > 0 and self.weight_decay >= 0):
            raise SagpoolError(
                f"lr must be above 0 and weight_decay at least 0: {self.lr}, {self.weight_decay}."
            )
        if not (0 < self.validation < 1 or (self.validation == 0 and self.fold == NO_TEST)):
            raise SagpoolError(f"validation must be in (0, 1), not {self.validation}.")
        for name, known in OPTIONS.items():
            if (value := getattr(self, name)) not in known:
                raise SagpoolError(f"{name} must be one of {', '.join(known)}, not '{value}'.")

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Training:
        """The inverse of `to_dict`; missing settings have their defaults."""
        own = {item.name for item in fields(Training)[:-1]}
        extra = {name: value for name, value in values.items() if name not in own}
        for name in extra.keys() - method_settings(values["method"]).keys() if extra else ():
            known = [*own, *method_settings(values["method"])]
            raise SagpoolError(f"'{name}' is not a setting; {suggestion(name, known)}.")
        given = {name: value for name, value in values.items() if name in own}
        return Training(**given, method_settings=tuple(extra.items()))

    def repeated(self, seed: int, fold: int) -> Training:
        """The same training with another seed and fold, both at least 0.

        Its other settings are not checked again: a search may repeat a million trainings.
        """
        other = object.__new__(Training)
        other.__dict__.update(self.__dict__, seed=seed, fold=fold)
        return other

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, without defaults of the protocol and of the method."""
        own = {name: value for name, value in vars(self).items() if name != "method_settings"}
        for name, (default, *_) in OPTIONS.items():
            if own[name] == default:
                del own[name]
        return own | dict(self.method_settings)

    def stream(self, purpose: str, data: str) -> int:
        """The key of this training's random numbers for one purpose, as a signed 64-bit number."""
        return int(key_of(purpose, data, *self.to_dict().items()).astype(np.int64))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Curve:
    """Losses and accuracy after each epoch."""

    train_loss: np.ndarray  # [epochs] mean over the epoch's batches, dropout active
    # [epochs] the value that early stopping lowers; of a metric see `as_loss`
    validation_loss: np.ndarray
    validation_accuracy: np.ndarray  # [epochs]

    @staticmethod
    def of(epochs: Sequence[tuple[float, float, float]]) -> Curve:
        """From the three values of each epoch."""
        return Curve(*np.array(epochs, np.float64).reshape(-1, 3).T.copy())


@dataclass(frozen=True, eq=False)
class Score:
    """Loss and accuracy of the best weights on one part of the data.

    The accuracy of several tasks is the fraction of measured targets that are right; a regression
    has no accuracy (NaN).
    """

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of a training. Scores are those of the weights of the best epoch."""

    training: Training
    diverged: bool
    best_epoch: int  # counted from 1; 0 if no epoch had a finite validation loss
    epochs: int
    train: Score
    validation: Score
    test: Score
    # [classes, classes] test graphs, by class (row) and prediction; empty without classes
    confusion: np.ndarray
    curve: Curve
    parameters: int
    seconds: float  # wall-clock time, divided among the members that trained together
    weights: dict[str, Tensor] | None = field(default=None, repr=False)
    # Scores in further tests of a fixed split, by name.
    more_tests: Mapping[str, Score] = field(default_factory=dict)
    # [test graphs, outputs] log-probabilities of classes, logits of tasks, or values
    predictions: np.ndarray | None = field(default=None, repr=False)
    # [validation graphs, outputs] likewise
    validation_predictions: np.ndarray | None = field(default=None, repr=False)

    def row(self) -> dict[str, Any]:
        """The result as plain numbers, without the curve and the weights."""
        return {
            **self.training.to_dict(),
            "diverged": self.diverged,
            "best_epoch": self.best_epoch,
            "epochs": self.epochs,
            **{
                f"{part}_{what}": getattr(getattr(self, part), what)
                for part in ("train", "validation", "test")
                for what in ("loss", "accuracy")
            },
            "confusion": self.confusion.tolist(),
            "parameters": self.parameters,
            "seconds": self.seconds,
            **({"more_tests": more} if (more := self._more_tests()) else {}),
        }

    def _more_tests(self) -> dict[str, dict[str, float]]:
        return {name: dict(vars(score)) for name, score in self.more_tests.items()}


@dataclass(frozen=True, eq=False)
class Paused:
    """A training that has reached the epoch at which it pauses, and can be resumed."""

    training: Training
    curve: Curve
    state: MemberState = field(repr=False)

    @staticmethod
    def of(training: Training, state: MemberState) -> Paused:
        return Paused(training, Curve.of(state.curve), state)


Outcome = Result | Paused
