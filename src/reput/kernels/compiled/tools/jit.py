"""The compilation of kernels: cached on disk if possible, without the GIL, and never from stale sources.

numba checks only the file of a function itself when it decides whether cached code is fresh. Kernels call one another
across files, so any change here drops all their cached code.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_KERNELS = Path(__file__).parents[2]
_COMPILED = _KERNELS / "compiled"
_SOURCES = (_COMPILED, _COMPILED / "tools", _KERNELS, _KERNELS / "layouts", _KERNELS.parent / "formats")
_STAMP = _COMPILED / "__pycache__" / "sources.sha256"


def _digest() -> str:
    # Constants of the formats and of the tables that kernels are given are compiled in, so their sources count too.
    sources = sorted(path for folder in _SOURCES for path in folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


def _drop_stale_code() -> None:
    digest = _digest()
    # A folder that cannot be written holds no cache of ours either.
    with contextlib.suppress(OSError):
        if _STAMP.exists() and _STAMP.read_text() == digest:
            return
        for cached in _COMPILED.rglob("*.nb[ic]"):
            cached.unlink(missing_ok=True)
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(digest)


_drop_stale_code()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, or take its code from the cache."""
    try:
        return numba.njit(function, cache=True, nogil=True)
    except RuntimeError:
        # No folder for the cache can be written: compile anew in each process, some seconds.
        return numba.njit(function, nogil=True)


INT, BYTES = numba.types.int64, numba.types.Bytes(numba.types.uint8, 1, "C")
"""The types of entry kernels' arguments: a number or an address, Python's bytes."""


def entry_kernel(*arguments: Any, result: Any = INT) -> Callable[[Callable[..., Any]], Any]:
    """Compile, for these arguments alone, a kernel that Python calls often and that is done in a microsecond.

    It keeps the GIL. `entry_point` gives what to call.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit([result(*arguments)], cache=True)(function)
        except RuntimeError:
            return numba.njit([result(*arguments)])(function)

    return compiled


def entry_point(compiled: Any) -> Callable[..., Any]:
    """Return the machine code of an `entry_kernel` for Python; without numba's check of types, 0.08 us less."""
    (overload,) = compiled.overloads.values()
    return overload.entry_point  # type: ignore[no-any-return]
