"""The registry of methods: ``sagpool-h``, ``gpool-h``, ``sortpool-g``, ..."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import FunctionType, MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from sagpool.errors import MethodError, SagpoolError, first_line, is_out_of_memory, place
from sagpool.foreign.values import shorten
from sagpool.graphs.graphs import Task
from sagpool.models.plugins import load_installed_plugins
from sagpool.models.rescaled import Rescaled
from sagpool.models.source_version import Call, called_by_package, calls, source_version
from sagpool.nn.pool.selection import Ratio

Value = int | float | str | bool
_LARGEST = 2**53  # largest value of a setting; also refuses infinity and NaN
# Settings of every method built by `hierarchical` or `global_`.
ARCHITECTURE_SETTINGS: Mapping[str, Value] = MappingProxyType(
    {"conv": "gcn", "readout": "mean-max"}
)


@dataclass(frozen=True, eq=False)
class Shape:
    """Everything that decides the layers of a model.

    Args:
        in_channels: node features
        classes: number of classes, or of tasks
        hidden: size of the node representations
        ratio: ratio of each pooling in the hierarchical architecture
        k: nodes that the global architecture keeps; a number, or ``[members, 1]``
        max_nodes: nodes of the largest graph, on which the number of clusters depends
        mean_nodes: mean number of nodes of a graph, for the same purpose; by default ``max_nodes``
        dropout: rate in the MLP
        members: how many models train side by side
        settings: own settings of the method, by name; `build` adds the defaults
        task: what is learnt; a model for a ``regression`` returns values in the targets' units
    """

    in_channels: int
    classes: int
    hidden: int = 128
    ratio: Ratio = 0.5
    k: int | np.ndarray | None = None
    max_nodes: int | None = None
    dropout: float = 0.5
    members: int = 1
    settings: Mapping[str, Value] = field(default_factory=dict)
    task: Task = "classification"
    mean_nodes: float | None = None

    def __post_init__(self) -> None:
        if self.mean_nodes is None and self.max_nodes is not None:
            object.__setattr__(self, "mean_nodes", float(self.max_nodes))
        # Layers take an integer as a number of nodes, but the ratio 1 means all nodes.
        if isinstance(self.ratio, int):
            object.__setattr__(self, "ratio", float(self.ratio))


Build = Callable[[Shape], nn.Module]


@dataclass(frozen=True)
class Display:
    """How a method appears in reports; empty fields are derived from its name."""

    name: str = ""  # such as HubPool
    colour: str = ""  # such as #1f78c8

    def __post_init__(self) -> None:
        if self.colour and not re.fullmatch("#[0-9a-fA-F]{6}", self.colour):
            raise SagpoolError(f"A colour is written as #1f78c8, not {shorten(self.colour)}.")


@dataclass(frozen=True, eq=False)
class Method:
    """A registered method.

    Args:
        name: registered name
        build: makes a model of a given shape
        settings: all settings of the method beyond those of a `Training`, with their defaults
        version: version of its code; empty for methods of this package, whose results have a common
            version (`sagpool.fleet.NUMERICS`), unless the code of a single method has changed
        display: name and colour in reports
        origin: the call that registered it
        packaged: whether it belongs to this package
    """

    name: str
    build: Build
    settings: Mapping[str, Value]
    version: str
    display: Display = Display()
    origin: Call | None = None
    packaged: bool = False


_methods: dict[str, Method] = {}
_with_constants: set[tuple[Method, tuple[tuple[str, Value], ...]]] = set()


# A method's own setting must not have the name of a setting, or of a result, of all trainings.
RESERVED = frozenset(
    (
        *("method", "seed", "fold", "lr", "weight_decay", "hidden", "ratio", "dropout"),
        *("batch_size", "patience", "max_epochs", "folds", "validation", "method_settings"),
        *("method_version", "diverged", "best_epoch", "epochs", "train_loss", "train_accuracy"),
        *("validation_loss", "validation_accuracy", "test_loss", "test_accuracy", "confusion"),
        *("parameters", "seconds", "split", "order", "stopping", "selected"),
        *("class_weight", "schedule"),
    )
)


def register(
    name: str,
    *,
    settings: Mapping[str, Value] | None = None,
    without: Iterable[str] = (),
    version: str | None = None,
    display: Display = Display(),
) -> Callable[[Build], Build]:
    """Register a method: a function from a `Shape` to a model.

    A model is called with a `Batch` and optionally `Streams`, and returns an `Output`.

    Args:
        name: name of the method
        settings: its own settings with their defaults; `Shape.settings` has their values
        without: settings of the architecture that the method lacks, such as ``readout``
        version: version of its code, part of the key under which results are stored; change it
            whenever results or defaults change. By default a hash of the source files that define
            and register the method, and of the files that they import. The hash does not include
            data files and modules whose names are computed: methods that depend on these need a
            version
        display: name and colour in reports
    """
    known = {key: value for key, value in ARCHITECTURE_SETTINGS.items() if key not in without}
    own = settings or {}
    for key in own.keys() & RESERVED:
        raise SagpoolError(f"A method cannot have a setting named '{key}': all trainings have it.")

    def add(build: Build) -> Build:
        origin, packaged = next(iter(calls()), None), called_by_package()
        if name in _methods and not _is_run_again(_methods[name], build, origin):
            raise SagpoolError(f"There is a method named '{name}' already.")
        found = version
        if found is None:
            found = "" if packaged else source_version(name, build)
        _methods[name] = Method(name, build, {**known, **own}, found, display, origin, packaged)
        return build

    return add


def _is_run_again(known: Method, build: Build, origin: Call | None) -> bool:
    """Whether the code that registered a method runs again, such as a changed cell of a notebook.

    If it has not changed, another call in it registers another method. A name says little: that of
    every lambda is the same.
    """
    if known.packaged:
        return False
    one, other = known.origin, origin
    if one and other:
        if one.module != other.module:
            return False
        if one.code == other.code and one.position != other.position:
            return False
    return _definition(known.build) == _definition(build)


def _definition(build: Build) -> tuple[object, ...]:
    """Names of a function and of its code; `functools.wraps` copies only those of the function."""
    names = getattr(build, "__module__", None), getattr(build, "__qualname__", build)
    if isinstance(build, FunctionType):
        return build.__globals__.get("__name__"), build.__code__.co_qualname, *names
    return names


def methods() -> tuple[str, ...]:
    """The names of all registered methods."""
    _load_installed()
    return tuple(_methods)


def find_method(name: str) -> Method:
    if name not in methods():
        raise SagpoolError(
            f"Unknown method '{name}'; choose from {', '.join(_methods)}. "
            "A method of your own has to be loaded first: --plugin FILE."
        )
    return _methods[name]


def method_settings(name: str) -> dict[str, Value]:
    """A method's settings beyond those of a `Training`, with their defaults."""
    return dict(find_method(name).settings)


def method_version(name: str) -> str:
    """The version of a method's code; empty for most methods of this package."""
    return find_method(name).version


def changed_settings(name: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values that differ from the method's defaults, checked, sorted by name."""
    if not values:
        return {}
    defaults = find_method(name).settings
    changed = {}
    for key in sorted(values):
        if key not in defaults:
            raise SagpoolError(f"{name} has no setting '{key}'; {suggestion(key, defaults)}.")
        value = _as_type_of(defaults[key], values[key], key)
        if value != defaults[key]:
            changed[key] = value
    return changed


def build(name: str, shape: Shape) -> nn.Module:
    """A new model, with fresh weights."""
    method = find_method(name)
    given = changed_settings(name, shape.settings)
    settings = _Settings({**method.settings, **given})
    completed = replace(shape, settings=settings)
    model = _built(method, completed)
    ignored = given.keys() - settings.used
    if ignored:
        raise SagpoolError(f"{name} does not use the setting '{min(ignored)}'.")
    if shape.task == "regression":
        model = Rescaled(model, shape.classes, members=shape.members)
    _check_layers(name, model, shape.members)
    key = (method, tuple(given.items()))
    if key not in _with_constants and _constants(model):
        _check_constants(method, completed)
        _with_constants.add(key)
    return model


def build_for_weights(name: str, shape: Shape) -> nn.Module:
    """A model whose weights are loaded next, by assignment; draws no random numbers."""
    with torch.device("meta"):
        model = build(name, shape)
    if not _constants(model):
        return model
    # The weights do not have the constants.
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        return build(name, shape)


@contextmanager
def own_errors(name: str) -> Iterator[None]:
    """Turn other errors of a method from outside the package into a MethodError."""
    try:
        yield
    except SagpoolError:
        raise
    except Exception as error:
        if find_method(name).packaged or is_out_of_memory(error):
            raise
        raise MethodError(
            f"The method '{name}' failed ({first_line(error)}) in {place(error)}."
        ) from error


def _built(method: Method, shape: Shape) -> nn.Module:
    with own_errors(method.name):
        try:
            model = method.build(shape)
        except (RuntimeError, NotImplementedError) as error:
            if "meta tensor" not in str(error):
                raise
            # Models are also built on the meta device, as to count their parameters.
            raise SagpoolError(
                f"{method.name} reads numbers of a tensor while it is built; make that tensor with "
                'device="cpu".'
            ) from error
    if not isinstance(model, nn.Module):
        raise SagpoolError(
            f"The function of the method '{method.name}' must return a torch.nn.Module, not "
            f"{shorten(model)}."
        )
    return model


def _check_layers(name: str, model: nn.Module, members: int) -> None:
    """Refuse layers that would let one member of a fleet depend on another."""
    parameters = dict(model.named_parameters())
    for key in model.state_dict():
        if key not in parameters:
            raise SagpoolError(
                f"{name} has the buffer {key}, which a fleet cannot keep for each member. "
                "sagpool.nn.Norm normalises without one; a constant is a buffer with "
                "persistent=False."
            )
    for key, layer in model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise SagpoolError(
                f"{name} normalises over all members of a fleet in {key}; use sagpool.nn.Norm."
            )
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            raise SagpoolError(
                f"{name} draws random numbers in {key} that depend on the models that train "
                "beside it; use sagpool.nn.Dropout."
            )
    for key, parameter in parameters.items():
        if parameter.shape[:1] != (members,):
            raise SagpoolError(
                f"{name} has the parameter {key} of shape {tuple(parameter.shape)}; for a fleet of "
                f"{members} its first dimension must be {members}. sagpool.nn.Linear with "
                "members=shape.members is the replacement of torch.nn.Linear."
            )


def _constants(model: nn.Module) -> dict[str, Tensor]:
    """Tensors of a model that are not parameters: buffers, and plain attributes of its layers."""
    found = dict(model.named_buffers())
    for path, layer in model.named_modules():
        for name, value in vars(layer).items():
            if isinstance(value, Tensor):
                found[f"{path}.{name}".lstrip(".")] = value
    return found


def _check_constants(method: Method, shape: Shape) -> None:
    """Refuse those that are not the same in two models: they are not kept for each member."""
    # Whatever the device and the random numbers of the model that is being built.
    with _disable_current_modes(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
        first, second = (_constants(method.build(shape)) for _ in range(2))
    for key, value in first.items():
        other = second[key]
        if value.shape != other.shape or not torch.allclose(value, other, 0, 0, equal_nan=True):
            raise SagpoolError(
                f"{method.name} has the tensor {key}, which differs from model to model. A tensor "
                "that is not a parameter must be a constant, such as numbers of a torch.Generator "
                "with a fixed seed."
            )


def count_parameters(name: str, shape: Shape) -> int:
    """The number of trained parameters of one model; allocates none."""
    with torch.device("meta"):
        model = build(name, replace(shape, members=1))
    return sum(parameter.numel() for parameter in model.parameters())


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """``did you mean 'x'`` or ``choose from x, y``, to append to an error."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f"did you mean '{close[0]}'" if close else f"choose from {', '.join(known)}"


class _Settings(Mapping[str, Value]):
    """Records which settings are looked up, so that none is silently ignored."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values_by_name = values
        self.used: set[str] = set()

    def __getitem__(self, key: str) -> Value:
        self.used.add(key)
        return self.values_by_name[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def _as_type_of(default: Value, value: Value, name: str) -> Value:
    """The value in the type of the setting's default, so that equal settings are equal."""
    if isinstance(default, bool):
        known = {"true": True, "false": False, "1": True, "0": False}
        if str(value).lower() in known:
            return known[str(value).lower()]
    elif isinstance(default, str) and isinstance(value, str):
        return value
    elif isinstance(value, (int, float)) and abs(value) < _LARGEST:
        if isinstance(default, float):
            return float(value)
        if isinstance(default, int) and int(value) == value:
            return int(value)
    raise SagpoolError(f"{name} must be of type {type(default).__name__}, not {shorten(value)}.")


@cache
def _load_installed() -> None:
    load_installed_plugins()
