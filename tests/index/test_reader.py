"""Reading IndexFiles item by item and along a key's chain; counts, links and lengths that lie are reported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError
from reput.formats.index.index_file import HEADER_SIZE, SLOT, SLOT_SIZE, encode_header, items_at
from reput.formats.java.hashing import index_key_hash
from reput.index.files import IndexFileOnDisk, list_index_files
from reput.index.reader import IndexReader, open_index_files
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from support.records import Placed

SLOTS, ITEMS = 4, 30
CONFIG = StoreConfig(mapped_file_size_consume_queue=400, max_hash_slot_num=SLOTS, max_index_num=ITEMS)
LINK_AT = 16


@pytest.fixture
def made(tmp_path: Path) -> tuple[list[Placed], Path]:
    """A store of 40 messages with a key each, key 0 on every fifth: two IndexFiles, the first of which is full."""
    log = LogBuilder()
    placed = [log.message(keys=f"k{number if number % 5 else 0}") for number in range(40)]
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=CONFIG)
    return placed, store


def readers(store: Path, config: StoreConfig = CONFIG) -> list[IndexReader]:
    """Readers of the store's IndexFiles, oldest first."""
    return list(open_index_files(list_index_files(store / "index"), config))


def rewrite(reader: IndexReader, offset: int, data: bytes) -> None:
    """Put bytes into a file."""
    whole = bytearray(reader.file.path.read_bytes())
    whole[offset : offset + len(data)] = data
    reader.file.path.write_bytes(whole)


def test_items_in_order(made: tuple[list[Placed], Path]) -> None:
    """Items come from 1 on with their numbers, over all files one for each key in log order."""
    placed, store = made
    first, second = readers(store)
    assert (first.count, second.count) == (ITEMS - 1, 40 - ITEMS + 1)
    found = [*first.items(1, 1000), *second.items(0, 1000)]
    assert [item.physical_offset for item in found] == [one.offset for one in placed]
    assert [item.number for item in found] == [*range(1, ITEMS), *range(1, 40 - ITEMS + 2)]
    assert [item.number for item in first.items(5, 2)] == [5, 6]
    assert list(first.items(ITEMS, 5)) == list(first.items(3, 0)) == []


def test_a_keys_chain(made: tuple[list[Placed], Path]) -> None:
    """A key's chain has all its items, newest first, among those that share its slot."""
    placed, store = made
    key = b"topic#k0"
    for reader in readers(store):
        chain = list(reader.chain(key))
        own = [item.physical_offset for item in chain if item.key_hash == index_key_hash(key)]
        assert own == sorted(
            {one.offset for one in placed[::5]} & {item.physical_offset for item in chain}, reverse=True
        )
        assert {item.key_hash % SLOTS for item in chain} == {reader.slot_of(key)}
    assert sum(item.key_hash == index_key_hash(key) for reader in readers(store) for item in reader.chain(key)) == 8


@pytest.mark.parametrize("link", ["itself", "a newer item"])
def test_a_chain_that_runs_in_circles(made: tuple[list[Placed], Path], link: str) -> None:
    """A link that does not lead to an older item ends the walk with an error at that item."""
    _, store = made
    reader = readers(store)[0]
    newest, older = list(reader.chain(b"topic#k0"))[:2]
    to = older.number if link == "itself" else newest.number
    rewrite(reader, items_at(SLOTS, older.number) + LINK_AT, SLOT.struct.pack(to))
    chain = reader.chain(b"topic#k0")
    assert [next(chain).number, next(chain).number] == [newest.number, older.number]
    with pytest.raises(DamagedStoreError, match=f"item {older.number} links to item {to}, which is not older"):
        next(chain)


@pytest.mark.parametrize("slot", [0, -1, -(1 << 31), ITEMS, (1 << 31) - 1])
def test_a_slot_that_names_no_item(made: tuple[list[Placed], Path], slot: int) -> None:
    """A slot that is 0, below it or past the header's count is empty, as RocketMQ takes it."""
    _, store = made
    reader = readers(store)[0]
    rewrite(reader, HEADER_SIZE + reader.slot_of(b"topic#k0") * SLOT_SIZE, SLOT.struct.pack(slot))
    assert list(reader.chain(b"topic#k0")) == []


@pytest.mark.parametrize(("count", "items"), [(0, 0), (-5, 0), (ITEMS + 1, ITEMS - 1), ((1 << 31) - 1, ITEMS - 1)])
def test_a_count_that_cannot_be(made: tuple[list[Placed], Path], count: int, items: int) -> None:
    """A header's impossible count is reported, and never leads to bytes after the file's end."""
    _, store = made
    before = readers(store)[0]
    assert before.file.header is not None
    assert before.faults() is None
    rewrite(before, 0, encode_header(before.file.header._replace(index_count=count)))
    reader = readers(store)[0]
    assert f"item {count}" in str(reader.faults())
    assert (reader.count, len(list(reader.items(1, 1 << 31)))) == (items, items)


def test_a_file_cut_off_after_it_was_listed(made: tuple[list[Placed], Path]) -> None:
    """Items that a file has no more are not given, and a chain ends where its next item is gone."""
    _, store = made
    reader = readers(store)[0]
    os.truncate(reader.file.path, items_at(SLOTS, 4) + 3)
    assert [item.number for item in reader.items(1, 100)] == [1, 2, 3]
    assert list(reader.chain(b"topic#k0")) == []
    reader.file.path.unlink()
    assert list(reader.items(1, 100)) == list(reader.chain(b"topic#k0")) == []


def test_sizes_come_from_the_settings_or_the_files(made: tuple[list[Placed], Path]) -> None:
    """Without settings the files show their sizes, and settings that do not fit are reported with the file's length."""
    _, store = made
    assert [(one.slots, one.items_max) for one in readers(store, StoreConfig())] == [(SLOTS, ITEMS)] * 2
    with pytest.raises(DamagedStoreError, match=r"for 5 slots and 30 items.*--set maxHashSlotNum=N"):
        readers(store, StoreConfig(max_hash_slot_num=5, max_index_num=30))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file shorter than a header is damage; one of unknown sizes asks for them."""
    path = tmp_path / "20260101000000000"
    with pytest.raises(DamagedStoreError, match="39 bytes, shorter than a header"):
        list(open_index_files([IndexFileOnDisk(path, 39, None)], StoreConfig()))
    path.write_bytes(bytes(1000))
    with pytest.raises(ConfigError, match="1000 bytes do not show its sizes"):
        list(open_index_files(list_index_files(tmp_path), StoreConfig()))
