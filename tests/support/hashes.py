"""The compiled hash of a stretch of an array, as tests call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reput.kernels.compiled.tools.hashing import java_hash_at
from reput.kernels.layouts.vectors import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def java_hash(buffer: NDArray[Any], begin: int, end: int, seed: int) -> int:
    """Return the hash of the string in `buffer[begin:end]`; `seed` is the hash of the text before it."""
    address = address_of(buffer)
    return int(java_hash_at(address + begin, address + end, np.int64(seed)))
