"""What tasks are given and give back, as JSON values: small tuples of numbers, names and sets. No pickle, no eval."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """A JSON value; equal ones, and only those, come of equal values of one type.

    Raises:
        TypeError: there is something in it that has no such form.
    """
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, tuple | list):
        return [to_json(one) for one in value]
    if isinstance(value, frozenset | set):
        return sorted((to_json(one) for one in value), key=json.dumps)
    if isinstance(value, Mapping):
        return sorted(([to_json(key), to_json(one)] for key, one in value.items()), key=json.dumps)
    if is_dataclass(value):
        return [to_json(getattr(value, field.name)) for field in fields(value)]
    raise TypeError(f"{type(value).__name__} has no form as JSON")


def from_json(value: Any, kind: type[T]) -> T:
    """The value of type `kind`, a NamedTuple or a dataclass, that `to_json` made this of.

    Raises:
        ValueError, TypeError: it is none.
    """
    found: T = _read(value, kind)
    return found


def digest(*values: Any) -> str:
    """A short name for some values: 32 hex digits."""
    return blake2b(json.dumps(to_json(values)).encode(), digest_size=16).hexdigest()


def _read(value: Any, kind: Any) -> Any:  # noqa: PLR0911 - one line a type
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (some,) = [one for one in inner if one is not type(None)]
        return None if value is None else _read(value, some)
    if origin is dict:
        return {_read(key, inner[0]): _read(one, inner[1]) for key, one in map(_list, _list(value))}
    if origin is list:
        return [_read(one, inner[0]) for one in _list(value)]
    if origin is tuple:
        return tuple(_read(one, inner[0]) for one in _list(value))
    if origin is frozenset:
        return frozenset(_read(one, inner[0]) for one in _list(value))
    if kind is bytes:
        return bytes.fromhex(value)
    if issubclass(kind, Enum):
        return kind(value)
    if hasattr(kind, "_fields") or is_dataclass(kind):
        hints = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else [field.name for field in fields(kind)]
        return kind(**{name: _read(one, hints[name]) for name, one in zip(names, _list(value), strict=True)})
    if kind not in (int, str, bool, float) or type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value
