"""Arguments of the public calls: unknown names are refused, renamed ones still work, and times become milliseconds."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar

from reput.errors import ConfigError
from reput.formats.layout import INT64_MAX
from reput.nearest import near

_P = ParamSpec("_P")
_R = TypeVar("_R")

_US_PER_MS = 1000


class Renamed(NamedTuple):
    """The present name of an argument that had another name. `convert` makes the new value of the old one."""

    name: str
    convert: Callable[[Any], Any] = lambda value: value


def named_arguments(**renamed: str | Renamed) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate a function so that an unknown argument is a TypeError that names the arguments near it, or all.

    Args:
        renamed: The present name of each argument that had another name. The old name works with a DeprecationWarning.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        def name_of(args: Sequence[object]) -> str:
            # The class that a program uses, and not one of its bases.
            is_method = "self" in known[:1] and args
            return f"{type(args[0]).__name__}.{function.__name__}" if is_method else function.__qualname__

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for name in [name for name in kwargs if name not in known]:
                if name not in renamed:
                    names = [one for one in known if one not in ("cls", "self", *kwargs)]
                    raise TypeError(f"{name_of(args)}() has no argument {name!r}. {near(name, names)}")
                present = renamed[name]
                take_renamed(name_of(args), kwargs, name, Renamed(present) if isinstance(present, str) else present)
            return function(*args, **kwargs)

        return call

    return decorate


def take_renamed(function: str, given: dict[str, Any], old: str, present: Renamed, stacklevel: int = 3) -> None:
    """Replace the old name of an argument among the given ones, with a DeprecationWarning at `stacklevel`.

    Raises:
        TypeError: Both names are given.
    """
    if present.name in given:
        raise TypeError(f"{function}() got {present.name!r} and {old!r}, its old name: give {present.name!r}")
    warnings.warn(
        f"{function}(): the argument {old!r} is now {present.name!r}; the next version drops the old name",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
    given[present.name] = present.convert(given.pop(old))


def since_ms(since: datetime | int | None) -> int | None:
    """Return the first millisecond since 1970 that is not before a time; None if no time is given.

    Raises:
        ConfigError: It is neither a datetime nor milliseconds since 1970.
    """
    return max(0, ms_up(us_of(since))) if isinstance(since, datetime) else _whole_ms(since, "since")


def until_ms(until: datetime | int | None) -> int | None:
    """Return the last millisecond since 1970 that is not after a time; None if no time is given.

    Raises:
        ConfigError: It is neither a datetime nor milliseconds since 1970.
    """
    return max(0, ms_down(us_of(until))) if isinstance(until, datetime) else _whole_ms(until, "until")


def before(end: datetime | int | None) -> int | None:
    """Return the last millisecond before a time, to make `until` of an exclusive bound; at least 0.

    Raises:
        ConfigError: It is neither a datetime nor milliseconds since 1970.
    """
    last = ms_up(us_of(end)) if isinstance(end, datetime) else _whole_ms(end, "end_time")
    return None if last is None else max(0, last - 1)


def _whole_ms(given: Any, argument: str) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 0 <= given.__index__() <= INT64_MAX:
        raise ConfigError(f"{argument}={given!r:.80}: give a datetime, or milliseconds since 1970")
    return int(given.__index__())


def us_of(value: datetime) -> int:
    """Return microseconds since 1970, exactly; a datetime without a zone is local time."""
    # `timestamp()` is a float, which does not hold microseconds of our time exactly.
    return round(value.replace(microsecond=0).timestamp()) * 1_000_000 + value.microsecond


def ms_down(microseconds: int) -> int:
    """Return the last millisecond that is not after a time."""
    return microseconds // _US_PER_MS


def ms_up(microseconds: int) -> int:
    """Return the first millisecond that is not before a time."""
    return -(-microseconds // _US_PER_MS)
