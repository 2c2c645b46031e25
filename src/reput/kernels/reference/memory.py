"""Numbers at addresses, as the records and columns of a call have them. See `reput.kernels.compiled.tools.memory`."""

from __future__ import annotations

import ctypes

from reput.formats.layout import WORD_SIZE


def word_address(record: int, place: int) -> int:
    """Return the address of a field of a record, by the number of its word, or of value `place` of an int64 array."""
    return record + WORD_SIZE * place


def word(record: int, place: int) -> int:
    """Return a field of a record, by the number of its word, or number `place` of the int64 values at an address."""
    return int(ctypes.c_int64.from_address(word_address(record, place)).value)


def set_word(record: int, place: int, value: int) -> None:
    """Set a field of a record, by the number of its word, or number `place` of the int64 values at an address."""
    ctypes.c_int64.from_address(word_address(record, place)).value = value


def int32_at(address: int, row: int) -> int:
    """Return number `row` of the int32 values at an address."""
    return int(ctypes.c_int32.from_address(address + 4 * row).value)


def set_int32(address: int, row: int, value: int) -> None:
    """Set number `row` of the int32 values at an address."""
    ctypes.c_int32.from_address(address + 4 * row).value = value
