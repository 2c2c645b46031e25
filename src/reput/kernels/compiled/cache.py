"""The cache of compiled kernels: what is in it, and whether it is of these sources. numba is not loaded for that.

numba checks only the file of a function itself when it decides whether cached code is fresh. Kernels call one another
across files, so any change of a source drops all cached code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

_COMPILED: Final = Path(__file__).parent
_KERNELS: Final = _COMPILED.parent
# Constants of the formats and of the tables that kernels are given are compiled in, so their sources count too.
_FORMATS: Final = _KERNELS.parent / "formats"
_SOURCES: Final = (_COMPILED, _COMPILED / "tools", _KERNELS, _KERNELS / "layouts")
_STAMP: Final = _COMPILED / "__pycache__" / "sources.sha256"
_NEEDED: Final = (
    "decode.decode_range",
    "pack.pack_entries",
    "select.select_entries",
    "backlog.take_chains",
    "encode.write_records",
    "place.place_record",
    "client_batch.split_batch",
    "lookup.find_key",
    "many.find_keys",
    "filter.join_codes",
)
"""Kernels that an open store needs, the last one of each step."""


def _digest() -> str:
    sources = sorted([*(path for folder in _SOURCES for path in folder.glob("*.py")), *_FORMATS.rglob("*.py")])
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


def are_cached() -> bool:
    """Return True if the cache has the kernels of an open store, so that to load them takes no compilation."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        # numba has a folder there for each of our folders.
        return all(any(Path(given).rglob(f"{name}-*.nbi")) for name in _NEEDED)
    folder = _COMPILED / "__pycache__"
    return all(any(folder.glob(f"{name}-*.nbi")) for name in _NEEDED) and _is_of_these_sources()


def _is_of_these_sources() -> bool:
    try:
        return _STAMP.read_text() == _digest()
    except OSError:
        return False


def drop_stale_code() -> None:
    """Remove cached code of other sources. It is called before the compiled kernels are loaded."""
    # A folder that cannot be written holds no cache of ours either.
    with contextlib.suppress(OSError):
        if _is_of_these_sources():
            return
        for cached in _COMPILED.rglob("*.nb[ic]"):
            cached.unlink(missing_ok=True)
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(_digest())
