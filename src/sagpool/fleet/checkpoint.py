"""A running fleet on disk: arrays and JSON in one ``.npz`` file, without pickles."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.schedule import Slots
from sagpool.fleet.state import TENSORS, MemberState
from sagpool.fleet.training import Curve, Outcome, Paused, Result, Score, Training
from sagpool.foreign.archives import read_arrays
from sagpool.foreign.values import DecodingError, decode, decoding, parse_json
from sagpool.graphs import Graphs
from sagpool.graphs.cache import replacing
from sagpool.models import method_version

FORMAT = 4
_PREDICTIONS = ("predictions", "validation_predictions")  # fields of a `Result`
_INSTEAD = "name another file, or remove it."


class _Member(NamedTuple):
    """The plain fields of a `MemberState`."""

    steps: int
    best_loss: float
    best_epoch: int
    epoch: int
    seconds: float


class _Fleet(NamedTuple):
    running: list[int]
    waiting: list[int]


class _Row(NamedTuple):
    """The fields of `Result.row` that are not settings of the training."""

    diverged: bool
    best_epoch: int
    epochs: int
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    test_loss: float
    test_accuracy: float
    confusion: list[list[int]]
    parameters: int
    seconds: float
    more_tests: dict[str, dict[str, float]]


class _Meta(NamedTuple):
    format: int
    identity: str
    fleets: list[_Fleet]
    members: dict[str, _Member]
    results: dict[str, dict[str, Any]]
    paused: list[int]


@dataclass(eq=False)
class Checkpoint:
    """The state of a list of trainings at the end of an epoch; numbers stand for trainings.

    Args:
        identity: string for the data, the trainings and the precision, see `identity_of`
        results: results of the trainings that are done or paused
        fleets: slots and queues of the fleets, with every training that is not done; empty before
            the trainings were divided into fleets
        members: the trainings that have begun and are not done
    """

    identity: str
    results: dict[int, Outcome] = field(default_factory=dict)
    fleets: list[Slots] = field(default_factory=list)
    members: dict[int, MemberState] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file; replaces the old one when the new one is complete."""
        arrays: dict[str, Any] = {}
        meta: dict[str, Any] = {"format": FORMAT, "identity": self.identity}
        meta["fleets"] = [
            {"running": slots.running.tolist(), "waiting": list(slots.waiting)}
            for slots in self.fleets
        ]
        paused = {n: one.state for n, one in self.results.items() if isinstance(one, Paused)}
        members = self.members | paused
        meta["members"] = {
            number: {name: getattr(member, name) for name in _Member._fields}
            for number, member in members.items()
        }
        done = {n: result for n, result in self.results.items() if isinstance(result, Result)}
        meta["results"] = {number: result.row() for number, result in done.items()}
        meta["paused"] = [number for number in self.results if number not in done]
        curves = [np.array(m.curve, np.float64).reshape(-1, 3).T for m in members.values()]
        curves += [np.stack(list(vars(r.curve).values())) for r in done.values()]
        # A few large arrays: thousands of small ones would be slow to write.
        arrays["curves"] = np.concatenate([np.zeros((3, 0)), *curves], axis=1)
        arrays["epochs"] = np.array([curve.shape[1] for curve in curves], np.int64)
        if members:
            tensors = [getattr(m, name) for m in members.values() for name in TENSORS]
            arrays["tensors"] = torch.cat(tensors).numpy()
            arrays["numbers"] = np.array([len(m.weights) for m in members.values()])
        for number, result in done.items():
            for name, weights in (result.weights or {}).items():
                arrays[f"{number}.weights.{name}"] = weights.numpy()
            for name in _PREDICTIONS:
                if (outputs := getattr(result, name)) is not None:
                    arrays[f"{number}.{name}"] = outputs
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                np.savez(file, **arrays)
        except OSError as error:
            raise SagpoolError(f"The checkpoint {path} cannot be written: {error}.") from None

    @staticmethod
    def load(path: Path, identity: str) -> Checkpoint | None:
        """Read the file; None if there is none."""
        with _reading(path):
            try:
                with path.open("rb") as stream:
                    arrays = read_arrays(stream)
            except FileNotFoundError:
                return None
            meta = _meta(path, arrays)
            if meta.identity != identity:
                raise SagpoolError(f"The checkpoint {path} belongs to other trainings; {_INSTEAD}")
            return _checkpoint(meta, arrays)


def identity_in(path: Path) -> str:
    """The identity of the checkpoint in a file; reads no other array."""
    with _reading(path), path.open("rb") as stream:
        return _meta(path, read_arrays(stream, only="meta")).identity


def _meta(path: Path, arrays: dict[str, np.ndarray]) -> _Meta:
    described = parse_json(arrays["meta"].tobytes())
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise SagpoolError(f"The checkpoint {path} is of another version of sagpool; {_INSTEAD}")
    return decode(_Meta, described, "its description")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise errors in reading the file as a `SagpoolError` with a sentence."""
    try:
        with decoding(lambda reason: f"The checkpoint {path} is damaged ({reason}); remove it."):
            yield
    except OSError as error:
        raise SagpoolError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
    except MemoryError:
        raise SagpoolError(f"The checkpoint {path} does not fit into memory.") from None


def _checkpoint(meta: _Meta, arrays: dict[str, np.ndarray]) -> Checkpoint:
    trainings = trainings_of(meta.identity)
    begun = {_number(name, trainings): member for name, member in meta.members.items()}
    done = {_number(name, trainings): row for name, row in meta.results.items()}
    curves = iter(_curves(arrays, len(begun) + len(done)))
    tensors = _tensors(arrays, len(begun)) if begun else []
    members = {
        number: MemberState(
            **dict(zip(TENSORS, rows, strict=True)),
            **plain._asdict(),
            curve=[(float(a), float(b), float(c)) for a, b, c in next(curves).T],
        )
        for (number, plain), rows in zip(begun.items(), tensors, strict=True)
    }
    results: dict[int, Outcome] = {
        number: _result(number, row, trainings[number], next(curves), arrays)
        for number, row in done.items()
    }
    for number in meta.paused:
        if number not in members:
            raise DecodingError(f"the paused training {number} is missing")
        results[number] = Paused.of(trainings[number], members.pop(number))
    fleets = [
        Slots(np.array(fleet.running, np.int64), deque(fleet.waiting)) for fleet in meta.fleets
    ]
    for fleet in meta.fleets:
        if not all(-1 <= number < len(trainings) for number in (*fleet.running, *fleet.waiting)):
            raise DecodingError("a fleet has a training that is not among those of the checkpoint")
    return Checkpoint(meta.identity, results, fleets, members)


def _number(name: str, trainings: Sequence[Training]) -> int:
    if not name.isdecimal() or not name.isascii() or len(name) > 9 or int(name) >= len(trainings):
        raise DecodingError(f"there is no training number {name[:20]!r}")
    return int(name)


def _curves(arrays: dict[str, np.ndarray], trainings: int) -> list[np.ndarray]:
    epochs, curves = arrays["epochs"], arrays["curves"]
    if (
        epochs.shape != (trainings,)
        or epochs.dtype.kind != "i"
        or (trainings and epochs.min() < 0)
        or curves.ndim != 2
        or curves.shape != (3, sum(epochs.tolist()))
    ):
        raise DecodingError("its curves do not match its trainings")
    return np.split(curves.astype(np.float64, copy=False), np.cumsum(epochs)[:-1], axis=1)


def _tensors(arrays: dict[str, np.ndarray], members: int) -> list[torch.Tensor]:
    """``[TENSORS, numbers]`` for each member."""
    numbers, flat = arrays["numbers"], arrays["tensors"]
    if (
        numbers.shape != (members,)
        or numbers.dtype.kind != "i"
        or numbers.min() < 0
        or flat.dtype not in (np.float32, np.float64)
        or flat.shape != (len(TENSORS) * sum(numbers.tolist()),)
    ):
        raise DecodingError("its weights do not match its trainings")
    ends = np.cumsum(len(TENSORS) * numbers)[:-1]
    return [torch.from_numpy(row.reshape(len(TENSORS), -1)) for row in np.split(flat, ends)]


def _result(
    number: int,
    row: dict[str, Any],
    training: Training,
    curve: np.ndarray,
    arrays: dict[str, np.ndarray],
) -> Result:
    prefix = f"{number}.weights."
    weights = {
        name.removeprefix(prefix): torch.from_numpy(values)
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
    found = decode(_Row, {"more_tests": {}, **row}, f"the result of training {number}")
    settings = {name: value for name, value in row.items() if name not in _Row._fields}
    if Training.from_dict(settings) != training:
        raise DecodingError(f"the result {number} belongs to another training")
    # Empty if there are no classes.
    confusion = np.array(found.confusion or np.zeros((0, 0)), np.int64)
    if confusion.ndim != 2 or confusion.shape[0] != confusion.shape[1]:
        raise DecodingError(f"the confusion of training {number} is not square")
    return Result(
        training=training,
        diverged=found.diverged,
        best_epoch=found.best_epoch,
        epochs=found.epochs,
        train=Score(found.train_loss, found.train_accuracy),
        validation=Score(found.validation_loss, found.validation_accuracy),
        test=Score(found.test_loss, found.test_accuracy),
        confusion=confusion,
        curve=Curve(*np.ascontiguousarray(curve)),
        parameters=found.parameters,
        seconds=found.seconds,
        weights=weights or None,
        **{name: arrays.get(f"{number}.{name}") for name in _PREDICTIONS},
        more_tests={
            name: Score(score["loss"], score["accuracy"])
            for name, score in found.more_tests.items()
        },
    )


def identity_of(
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keep_weights: Callable[[Training], bool],
    until: int | None = None,
    *,
    keep_predictions: bool = False,
) -> str:
    """Everything that must be the same when a checkpoint is continued, as a string."""
    settings = [training.to_dict() for training in trainings]
    with_weights = [number for number, one in enumerate(trainings) if keep_weights(one)]
    precision = f"{dtype}, {torch.get_float32_matmul_precision()}"
    versions = {one.method: version for one in trainings if (version := method_version(one.method))}
    more = ["predictions"] if keep_predictions else []
    return json.dumps(
        [graphs.fingerprint(), settings, precision, with_weights, until, versions, *more]
    )


def trainings_of(identity: str) -> list[Training]:
    """The trainings that an identity was made from."""
    with decoding(lambda reason: f"The trainings of a checkpoint cannot be read: {reason}."):
        return [Training.from_dict(settings) for settings in parse_json(identity)[1]]
