"""The compilation of kernels: cached on disk if possible, without the GIL, and never from stale sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from reput.kernels.compiled.cache import drop_stale_code

drop_stale_code()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, or take its code from the cache."""
    try:
        return numba.njit(function, cache=True, nogil=True)
    except RuntimeError:
        # No folder for the cache can be written: compile anew in each process, some seconds.
        return numba.njit(function, nogil=True)


INT, BYTES = numba.types.int64, numba.types.Bytes(numba.types.uint8, 1, "C")
"""The types of entry kernels' arguments: a number or an address, Python's bytes."""


def entry_kernel(*arguments: Any, returns: Any = INT) -> Callable[[Callable[..., Any]], Any]:
    """Compile, for these arguments alone, a kernel that Python calls often and that is done in a microsecond.

    It returns a number, or what `returns` says, and keeps the GIL. `entry_point` gives what to call.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit([returns(*arguments)], cache=True)(function)
        except RuntimeError:
            return numba.njit([returns(*arguments)])(function)

    return compiled


def entry_point(compiled: Any) -> Callable[..., Any]:
    """Return the machine code of an `entry_kernel` for Python; without numba's check of types, 0.08 us less."""
    (overload,) = compiled.overloads.values()
    return overload.entry_point  # type: ignore[no-any-return]
