"""A running fleet on disk: arrays and JSON in one ``.npz`` file, without pickles."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.schedule import Slots
from sagpool.fleet.state import TENSORS, MemberState
from sagpool.fleet.training import Curve, Outcome, Paused, Result, Score, Training
from sagpool.graphs import Graphs
from sagpool.graphs.cache import replacing
from sagpool.models import method_version

FORMAT = 4
_NUMBERS = ("steps", "best_loss", "best_epoch", "epoch", "seconds")

# What NumPy, zipfile and `Checkpoint.load` raise for a damaged file.
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
_INSTEAD = "name another file, or remove it."


@dataclass(eq=False)
class Checkpoint:
    """The state of a list of trainings at the end of an epoch; numbers stand for trainings.

    Args:
        identity: of the data, the trainings and the precision, see `identity_of`
        results: of the trainings that are done or paused
        fleets: their slots and queues, with every training that is not done; empty before the
            trainings were divided into fleets
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
            number: {name: getattr(member, name) for name in _NUMBERS}
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
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                np.savez(file, **arrays)
        except OSError as error:
            raise SagpoolError(f"The checkpoint {path} cannot be written: {error}.") from None

    @staticmethod
    def load(path: Path, identity: str) -> Checkpoint | None:
        """Read the file, if there is one."""
        with _reading(path):
            try:
                stream = path.open("rb")
            except FileNotFoundError:
                return None
            with stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = _meta(path, arrays["meta"])
            if meta["identity"] != identity:
                raise SagpoolError(f"The checkpoint {path} belongs to other trainings; {_INSTEAD}")
            fleets = [
                Slots(np.array(fleet["running"], np.int64), deque(fleet["waiting"]))
                for fleet in meta["fleets"]
            ]
            begun, done = meta["members"], meta["results"]
            epochs = arrays["epochs"]
            if len(epochs) != len(begun) + len(done) or epochs.sum() != arrays["curves"].shape[1]:
                raise ValueError("its curves do not match its trainings")
            curves = iter(np.split(arrays["curves"], np.cumsum(epochs)[:-1], axis=1))
            rows = []
            if begun:
                ends = np.cumsum(len(TENSORS) * arrays["numbers"])[:-1]
                rows = [row.reshape(len(TENSORS), -1) for row in np.split(arrays["tensors"], ends)]
            members = {
                int(n): MemberState(
                    **dict(zip(TENSORS, torch.from_numpy(tensors), strict=True)),
                    **numbers,
                    curve=[(float(a), float(b), float(c)) for a, b, c in next(curves).T],
                )
                for (n, numbers), tensors in zip(begun.items(), rows, strict=True)
            }
            results: dict[int, Outcome] = {
                int(n): _result(n, row, next(curves), arrays) for n, row in done.items()
            }
            trainings = trainings_of(identity) if meta["paused"] else []
            for number in meta["paused"]:
                results[number] = Paused.of(trainings[number], members.pop(number))
            return Checkpoint(identity, results, fleets, members)


def identity_in(path: Path) -> str:
    """The identity of the checkpoint in a file; reads nothing else."""
    with _reading(path), path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        return str(_meta(path, file["meta"])["identity"])


def _meta(path: Path, array: np.ndarray) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(array.tobytes())
    if meta["format"] != FORMAT:
        raise SagpoolError(f"The checkpoint {path} is of another version of sagpool; {_INSTEAD}")
    return meta


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise errors in reading the file as sentences."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise SagpoolError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
    except SagpoolError:
        raise
    except _DAMAGED as error:
        raise SagpoolError(f"The checkpoint {path} is damaged ({error}); remove it.") from None


def _result(
    number: str, row: dict[str, Any], curve: np.ndarray, arrays: dict[str, np.ndarray]
) -> Result:
    prefix = f"{number}.weights."
    weights = {
        name.removeprefix(prefix): torch.from_numpy(values)
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
    plain = ("diverged", "best_epoch", "epochs", "parameters", "seconds")
    values: dict[str, Any] = {name: row.pop(name) for name in plain}
    for part in ("train", "validation", "test"):
        values[part] = Score(row.pop(f"{part}_loss"), row.pop(f"{part}_accuracy"))
    return Result(
        confusion=np.array(row.pop("confusion"), np.int64),
        training=Training.from_dict(row),
        curve=Curve(*np.ascontiguousarray(curve)),
        weights=weights or None,
        **values,
    )


def identity_of(
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keep_weights: Callable[[Training], bool],
    until: int | None = None,
) -> str:
    """Everything that must be the same when a checkpoint is continued, as a string."""
    settings = [training.to_dict() for training in trainings]
    with_weights = [number for number, one in enumerate(trainings) if keep_weights(one)]
    precision = f"{dtype}, {torch.get_float32_matmul_precision()}"
    versions = {one.method: version for one in trainings if (version := method_version(one.method))}
    return json.dumps([graphs.fingerprint(), settings, precision, with_weights, until, versions])


def trainings_of(identity: str) -> list[Training]:
    """The trainings of an identity."""
    return [Training.from_dict(settings) for settings in json.loads(identity)[1]]
