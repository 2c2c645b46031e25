"""Settings come from the configuration, else from the store's files, else they are RocketMQ's defaults, and said so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.index import index_file
from reput.formats.queue import consume_queue
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = StoreConfig()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store without indexes."""
    log = LogBuilder(1 << 14)
    for number in range(40):
        log.message(keys=f"k{number}", tags="t")
    return stores.with_log(tmp_path, log)


def test_defaults(store: Path) -> None:
    """Every setting is RocketMQ's default, and listed as assumed, if nothing says otherwise."""
    reported = StoreOnDisk.find(store, NOTHING, Purpose.LOOK).settings
    assert reported.queue_file_size == consume_queue.DEFAULT_FILE_SIZE == 6_000_000
    assert (reported.index_slots, reported.index_items) == (index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS)
    assert (len(reported.delays_ms), reported.delays_ms[0], reported.delays_ms[-1]) == (18, 1000, 7_200_000)
    assert len(reported.assumed) == 4
    assert all("RocketMQ's default" in text for text in reported.assumed)


def test_configuration_comes_first(store: Path) -> None:
    """A setting of the configuration is not assumed, whatever the files have."""
    stores.rebuild(store)
    config = replace(stores.SMALL, mapped_file_size_consume_queue=95, max_index_num=99, message_delay_level="1s")
    reported = StoreOnDisk.find(store, config, Purpose.LOOK).settings
    assert (reported.queue_file_size, reported.index_slots, reported.index_items, reported.delays_ms) == (
        100,
        16,
        99,
        (1000,),
    )
    assert [text.split(" counts as ")[1].split(",")[0] for text in reported.assumed] == ["100"]


@pytest.mark.parametrize(("slots", "items"), [(16, 8), (1, 8), (7, 50), (500, 2000), (3, 2), (8, 3), (1000, 10)])
def test_files_tell(slots: int, items: int, store: Path) -> None:
    """The present files show the sizes with which they were made, full ones and others."""
    config = StoreConfig(mapped_file_size_consume_queue=140, max_hash_slot_num=slots, max_index_num=items)
    stores.rebuild(store, config)
    reported = StoreOnDisk.find(store, NOTHING, Purpose.LOOK).settings
    assert (reported.queue_file_size, reported.index_slots, reported.index_items) == (140, slots, items)


def test_most_queue_files_tell(store: Path) -> None:
    """A queue file of another length, or an empty one, is outvoted."""
    stores.rebuild(store)
    folder = store / paths.CONSUME_QUEUE / "topic" / "0"
    (folder / paths.offset_name(0)).write_bytes(bytes(60))
    (folder / paths.offset_name(800)).touch()
    assert StoreOnDisk.find(store, NOTHING, Purpose.LOOK).settings.queue_file_size == 200


@pytest.mark.parametrize("data", [b"", b"x" * 30, bytes(1000), b"\xff" * 1000, bytes(range(256)) * 4])
def test_hostile_index_files_tell_nothing(data: bytes, store: Path) -> None:
    """An IndexFile whose bytes are not one's shows no settings and does no harm."""
    (store / paths.INDEX).mkdir()
    (store / paths.INDEX / "20250101000000000").write_bytes(data)
    reported = StoreOnDisk.find(store, NOTHING, Purpose.LOOK).settings
    assert (reported.index_slots, reported.index_items) == (index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS)
    stores.rebuild(store)


def test_second_index_file_tells_where_the_first_is_broken(store: Path) -> None:
    """A broken IndexFile is passed over for the next."""
    stores.rebuild(store)
    first = min((store / paths.INDEX).iterdir())
    first.write_bytes(b"")
    reported = StoreOnDisk.find(store, NOTHING, Purpose.LOOK).settings
    assert (reported.index_slots, reported.index_items) == (16, 8)
