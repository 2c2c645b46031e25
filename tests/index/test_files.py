"""The list of IndexFiles, and the sizes that their bytes show."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.formats.index.index_file import (
    DEFAULT_ITEMS,
    DEFAULT_SLOTS,
    HEADER_SIZE,
    ITEM_SIZE,
    SLOT_SIZE,
    Header,
    encode_header,
    file_size,
    items_at,
)
from reput.index import files
from reput.index.files import found_slots_and_items, list_index_files, read_items, read_slots
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from reput.index.files import IndexFileOnDisk

NAME = "20260101000000000"


def an_index(folder: Path, slots: int, items: int, keys: int, *, blank: bool = False) -> list[IndexFileOnDisk]:
    """The IndexFiles of a rebuilt store with this number of keys; its first record may have none."""
    log = LogBuilder()
    if blank:
        log.message()
    for number in range(keys):
        log.message(keys=f"key{number}")
    store = stores.with_log(folder, log)
    config = StoreConfig(mapped_file_size_consume_queue=400, max_hash_slot_num=slots, max_index_num=items)
    reput.rebuild(store, spark=False, config=config)
    return list_index_files(store / "index")


def a_file(folder: Path, data: bytes, size: int | None = None) -> IndexFileOnDisk:
    """An IndexFile with these bytes, of that length."""
    (folder / NAME).write_bytes(data)
    if size is not None:
        os.truncate(folder / NAME, size)
    (file,) = list_index_files(folder)
    return file


def test_files_are_listed_by_name(tmp_path: Path) -> None:
    """Names of 17 digits are IndexFiles, in order; others are passed over, as RocketMQ does."""
    for name in ("20260101000000001", NAME, "2026010100000000", "x" * 17, NAME + ".bak"):
        (tmp_path / name).write_bytes(encode_header(Header(1, 2, 3, 4, 5, 6)))
    (tmp_path / "20260101000000002").mkdir()
    found = list_index_files(tmp_path)
    assert [file.path.name for file in found] == [NAME, "20260101000000001"]
    assert found[0].header == Header(1, 2, 3, 4, 5, 6)
    assert list_index_files(tmp_path / "missing") == []


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_a_file_without_a_header(tmp_path: Path, size: int) -> None:
    """A file shorter than a header has none, and shows nothing."""
    file = a_file(tmp_path, bytes(size))
    assert (file.header, file.size) == (None, size)
    assert found_slots_and_items(file) is None


def test_reads_end_with_the_file(tmp_path: Path) -> None:
    """Items and slots that a file is too short for are left out."""
    file = a_file(
        tmp_path, encode_header(Header(0, 0, 0, 0, 0, 9)) + bytes(3 * SLOT_SIZE) + b"\1" * (2 * ITEM_SIZE + 7)
    )
    assert items_at(3, 2) == HEADER_SIZE + 3 * SLOT_SIZE + 2 * ITEM_SIZE
    assert len(read_items(file.path, 3, 0, 100)) == 2
    assert len(read_items(file.path, 3, 5, 100)) == 0
    assert len(read_slots(file.path, 3)) == 3
    assert len(read_slots(file.path, 1000)) == (file.size - HEADER_SIZE) // SLOT_SIZE


@pytest.mark.parametrize("window", [1, 7, 1 << 18])
@pytest.mark.parametrize(
    ("slots", "items", "keys"), [(16, 8, 1), (16, 8, 7), (16, 9, 20), (1, 50, 30), (100, 400, 399), (5000, 7, 3)]
)
def test_bytes_tell_slots_and_items(
    tmp_path: Path, slots: int, items: int, keys: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that reput made shows its sizes, however many places are looked at once."""
    monkeypatch.setattr(files, "_WINDOW", window)
    for file in an_index(tmp_path, slots, items, keys, blank=True):
        assert file.header is not None
        if file.header.index_count > 1:
            assert found_slots_and_items(file) == (slots, items)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "crash"])
def test_rocketmqs_files_tell_their_sizes(name: str) -> None:
    """Each file of RocketMQ's shows its sizes, also one copied while it was being written."""
    for file in list_index_files(golden.shared(name) / "index"):
        assert found_slots_and_items(file) == (golden.INDEX_SLOTS, golden.INDEX_ITEMS)


def test_the_default_length_is_the_default_sizes(tmp_path: Path) -> None:
    """A file of RocketMQ's default length has the default sizes, whatever its bytes are."""
    file = a_file(tmp_path, b"\xff" * 100, file_size(DEFAULT_SLOTS, DEFAULT_ITEMS))
    assert found_slots_and_items(file) == (DEFAULT_SLOTS, DEFAULT_ITEMS)


def test_a_few_damaged_items_change_no_sizes(tmp_path: Path) -> None:
    """A damaged item among many leaves the sizes as plain as they were."""
    (file,) = an_index(tmp_path, 100, 400, 300)
    data = bytearray(file.path.read_bytes())
    at = items_at(100, 5)
    data[at : at + ITEM_SIZE] = b"\xff" * ITEM_SIZE
    file.path.write_bytes(data)
    assert found_slots_and_items(file) == (100, 400)


HOSTILE = {
    "zeros": Header(0, 0, 0, 0, 0, 1000),
    "no items": Header(0, 0, 0, 0, 0, 1),
    "a count below 0": Header(1, 1, 1, 1, 1, -(1 << 31)),
    "a count past the file": Header(1, 1, 1, 1, 1, (1 << 31) - 1),
    "an offset below 0": Header(1, 1, -1, -1, 1, 5),
    "the highest offset": Header(1, 1, (1 << 63) - 1, 1, 1, 5),
}


@pytest.mark.parametrize("fill", [0, 1, 0x7F, 0xFF])
@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_tell_nothing_or_what_fits(tmp_path: Path, header: Header, fill: int) -> None:
    """A file of any bytes shows no sizes, or sizes that fit its length."""
    file = a_file(tmp_path, encode_header(header) + bytes([fill]) * 40_003)
    reported = found_slots_and_items(file)
    assert reported is None or (reported[0] >= 1 and file.size - 4 < file_size(*reported) <= file.size)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A sparse file of hundreds of megabytes is looked through in windows."""
    file = a_file(tmp_path, encode_header(Header(1, 2, 3, 4, 5, 1000)), 300 << 20)
    tracemalloc.start()
    try:
        assert found_slots_and_items(file) is None
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
