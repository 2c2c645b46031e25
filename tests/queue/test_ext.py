"""Ext files: where units go, and how they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.consume_queue_ext import END_ROOM, FILE_END, MIN_ADDRESS, Unit, address_of
from reput.queue.ext import ExtReader, found_ext_file_size, place_units
from reput.queue.files import list_queues
from support.encoders import encode_ext_unit

if TYPE_CHECKING:
    from pathlib import Path

KEY = QueueKey("订单".encode(), 3)
SIZE = 200


def place_as_rocketmq(begin: int, size: int, count: int, file_size: int) -> tuple[list[int], int, tuple[int, ...]]:
    """The places that ConsumeQueueExt.put takes, one after the other."""
    found, ends, at = [], [], begin
    for _ in range(count):
        if size > file_size - at % file_size - END_ROOM:
            ends.append(at)
            at = at // file_size * file_size + file_size
        found.append(at)
        at += size
    return found, at, tuple(ends)


@given(st.integers(0, 20), st.integers(20, 100), st.integers(0, 50), st.integers(104, 400), st.integers(0, 3))
def test_places(units: int, size: int, count: int, file_size: int, files: int) -> None:
    """Units go where RocketMQ puts them: END_ROOM bytes stay free after each, and none crosses a file's end."""
    begin = place_as_rocketmq(files * file_size, 20, units, file_size)[1]
    placed = place_units(begin, size, count, file_size)
    assert (placed.offsets.tolist(), placed.next, placed.ends) == place_as_rocketmq(begin, size, count, file_size)


def test_no_room() -> None:
    """A unit that no file has room for is refused."""
    with pytest.raises(ValueError, match="no room"):
        place_units(0, 197, 1, SIZE)


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, list[tuple[int, Unit]]]:
    """Ext files of one queue, and the units in them by their offsets."""
    units = [Unit(n, 1000 + n, bytes([n]) * (n % 3)) for n in range(20)]
    files: dict[int, bytearray] = {}
    at, placed = 0, []
    for unit in units:
        if unit.size > SIZE - at % SIZE - END_ROOM:
            files[at // SIZE][at % SIZE : at % SIZE + 2] = FILE_END
            at = at // SIZE * SIZE + SIZE
        data = files.setdefault(at // SIZE, bytearray(SIZE))
        data[at % SIZE : at % SIZE + unit.size] = encode_ext_unit(unit)
        placed.append((at, unit))
        at += unit.size
    target = tmp_path / "订单" / "3"
    target.mkdir(parents=True)
    for number, data in files.items():
        (target / offset_name(number * SIZE)).write_bytes(data)
    return tmp_path, placed


def test_units_are_found(folder: tuple[Path, list[tuple[int, Unit]]]) -> None:
    """One by one, many at once and in order the same units are found; what is no address leads nowhere."""
    root, placed = folder
    reader = ExtReader(root, SIZE)
    for offset, unit in placed:
        assert reader.unit(KEY, address_of(offset)) == unit
    none = [0, 5, MIN_ADDRESS + 3, MIN_ADDRESS + (1 << 40), MIN_ADDRESS + SIZE - 1, -(1 << 31) - 1]
    addresses = np.array([address_of(offset) for offset, _ in placed] + none, dtype=np.int64)
    units = reader.units(KEY, addresses)
    assert units.found.tolist() == [True] * len(placed) + [False] * len(none)
    assert units.tags_code[: len(placed)].tolist() == [unit.tags_code for _, unit in placed]
    assert units.store_timestamp[: len(placed)].tolist() == [unit.store_timestamp for _, unit in placed]
    assert units.size[: len(placed)].tolist() == [unit.size for _, unit in placed]
    assert [reader.unit(KEY, address) for address in none] == [None] * len(none)
    assert reader.unit(QueueKey(b"other", 0), address_of(0)) is None


def test_file_size(folder: tuple[Path, list[tuple[int, Unit]]]) -> None:
    """The files show their own size."""
    (queue,) = list_queues(folder[0])
    assert found_ext_file_size([queue]) == SIZE
    assert found_ext_file_size([]) is None
