"""Addresses of arrays, which kernels are called with."""

from __future__ import annotations

import numpy as np
import pytest

from reput.kernels.layouts.vectors import address_of

WHOLE = np.arange(12, dtype=np.int64)


@pytest.mark.parametrize(
    "array",
    [
        WHOLE,
        WHOLE[3:],
        WHOLE[::2],
        WHOLE.reshape(3, 4).T,
        np.frombuffer(b"read only", dtype=np.uint8),
        np.empty(0, dtype=np.int64),
        np.zeros(2, dtype=[("number", ">i8")]),
    ],
    ids=["whole", "part", "steps", "transposed", "read only", "empty", "fields"],
)
def test_the_address_is_numpys(array: np.ndarray) -> None:  # type: ignore[type-arg]
    """Any array has the address that numpy names, and can be given away afterwards."""
    assert address_of(array) == array.__array_interface__["data"][0]


def test_no_buffer_is_held() -> None:
    """A buffer whose address was asked for can be resized."""
    memory = bytearray(8)
    assert address_of(np.frombuffer(memory, dtype=np.uint8)) > 0
    memory.extend(b"more")
