"""The bytes of the log that kernels read, and the places of records in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LogBytes(NamedTuple):
    """Bytes of one file of the log, or of a part of it: `data` (uint8), whose first byte is at log offset `base`.

    Nothing at or past place `limit` of `data`, the end of the file's bytes, is read.
    """

    data: NDArray[np.uint8]
    base: int
    limit: int

    @classmethod
    def whole(cls, data: NDArray[np.uint8], base: int) -> LogBytes:
        """All of these bytes."""
        return cls(data, base, len(data))


class RecordPlaces(NamedTuple):
    """Places of records: their log offsets (int64) and their sizes in bytes (int32)."""

    position: NDArray[np.int64]
    size: NDArray[np.int32]
