"""Typed decoders: a value from JSON or from a table as the type that a record declares."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import islice
from reprlib import Repr
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from sagpool.errors import SagpoolError

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

_INT64 = 2**63
_repr = Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 60
_repr.maxlevel = 2


class DecodingError(ValueError):
    """What is wrong with a value; `decoding` adds the file."""


def shorten(value: object) -> str:
    """The repr of a value, however large, shortened for a one-line message."""
    text = _repr.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextmanager
def decoding(sentence: Callable[[str], str]) -> Iterator[None]:
    """Raise any error as the sentence that this function makes from the reason."""
    try:
        yield
    except SagpoolError:
        raise
    except KeyError as error:
        reason = f"{shorten(error.args[0]) if error.args else 'a key'} is missing"
        raise SagpoolError(sentence(reason)) from None
    except RecursionError:
        raise SagpoolError(sentence("it is nested too deeply")) from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise SagpoolError(sentence(reason)) from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; Python limits its depth and the digits of a number."""
    try:
        return json.loads(text)
    except RecursionError:
        raise DecodingError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise DecodingError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise DecodingError(f"it is not valid JSON ({error.msg})") from None
    except (ValueError, TypeError):  # Python limits the digits of an integer
        raise DecodingError("it is not valid JSON") from None


def decode(kind: type[T], value: Any, what: str) -> T:
    """The value as this type, which is a class of records or any type of JSON.

    A mapping becomes a dataclass or a named tuple. Unknown keys are ignored: newer versions may
    have added them. A missing key has the default of its field.
    """
    decoded: T = decoder(kind)(value, what)  # type: ignore[arg-type]
    return decoded


@cache
def decoder(kind: Any) -> Decoder:
    """The function that decodes a type; annotations are read only once."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments)
    if origin is Literal:
        return _literal(arguments)
    if origin in (list, tuple):
        return _listed(origin, arguments)
    if origin in (dict, Mapping):
        return _mapping(arguments[1])
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind)
    raise TypeError(f"no decoder for {kind}")


def _fail(what: str, kind: str, value: Any) -> NoReturn:
    raise DecodingError(f"{what} must be {kind}, not {shorten(value)}")


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or not -_INT64 <= value < _INT64:
        _fail(what, "a whole number", value)
    return value


def _number(value: Any, what: str) -> float:
    if type(value) is float:
        return value
    if type(value) is not int or abs(value) >= 10**300:
        _fail(what, "a number", value)
    return value


def _text(value: Any, what: str) -> str:
    if type(value) is not str:
        _fail(what, "a text", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            _fail(what, "a text without half of a surrogate pair", value)
    return value


def _flag(value: Any, what: str) -> bool:
    if type(value) is not bool:
        _fail(what, "true or false", value)
    return value


def _nothing(value: Any, what: str) -> None:
    if value is not None:
        _fail(what, "empty", value)


def _array(value: Any, what: str) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        _fail(what, "an array", value)
    return value


_PLAIN: dict[Any, Decoder] = {
    int: _whole,
    float: _number,
    str: _text,
    bool: _flag,
    type(None): _nothing,
    np.ndarray: _array,
    Any: lambda value, what: value,
}


def _one_of(kinds: tuple[Any, ...]) -> Decoder:
    decoders = [decoder(kind) for kind in kinds if kind is not type(None)]
    optional = type(None) in kinds

    def decode_one(value: Any, what: str) -> Any:
        if value is None and optional:
            return None
        for attempt in decoders[:-1]:
            try:
                return attempt(value, what)
            except DecodingError:
                continue
        return decoders[-1](value, what)

    return decode_one


def _literal(known: tuple[Any, ...]) -> Decoder:
    def decode_literal(value: Any, what: str) -> Any:
        if not any(type(value) is type(one) and value == one for one in known):
            _fail(what, f"one of {', '.join(map(str, known))}", value)
        return value

    return decode_literal


def _listed(made: type, arguments: tuple[Any, ...]) -> Decoder:
    entry = decoder(arguments[0])

    def decode_list(value: Any, what: str) -> Any:
        if type(value) is not list:
            _fail(what, "a list", value)
        return made([entry(one, f"an entry of {what}") for one in value])

    return decode_list


def _mapping(kind: Any) -> Decoder:
    entry = decoder(kind)

    def decode_mapping(value: Any, what: str) -> dict[str, Any]:
        if type(value) is not dict:
            _fail(what, "a mapping", value)
        return {_text(key, f"a key of {what}"): entry(one, what) for key, one in value.items()}

    return decode_mapping


def _record(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        optional = {
            item.name
            for item in fields(kind)
            if item.default is not MISSING or item.default_factory is not MISSING
        }
        names = [item.name for item in fields(kind) if item.init]
    else:
        optional, names = set(kind._field_defaults), list(kind._fields)
    known = [(name, decoder(hints[name])) for name in names]

    def decode_record(value: Any, what: str) -> Any:
        if not isinstance(value, dict):
            _fail(what, "a mapping", value)
        values = {}
        for name, entry in known:
            if name in value:
                values[name] = entry(value[name], name)
            elif name not in optional:
                listed = ", ".join(map(str, islice(value, 5)))
                raise DecodingError(
                    f"{what} has no {name}, only {listed}" if listed else f"{what} has no {name}"
                )
        return kind(**values)

    return decode_record
