"""Exhibits about the index by key: lost files, wrong headers, chains that turn back, keys of one hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats import paths
from reput.formats.index.index_file import HEADER, ITEM, ITEM_SIZE, decode_header, items_at
from support import golden, stores
from support.museum.made import FILE_SIZE, built, crashed, golden_store, orders
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _files(store: Path) -> list[Path]:
    return sorted((store / paths.INDEX).iterdir())


def last_file_destroyed(folder: Path) -> None:
    """Remove the newest IndexFile, as RocketMQ does after a crash."""
    store = golden_store(folder, "crash")
    _files(store)[-1].unlink()


def last_file_not_flushed(folder: Path) -> None:
    """Lose the pages of the newest IndexFile: it has its length, and zeros."""
    store = golden_store(folder, "basic")
    last = _files(store)[-1]
    last.write_bytes(bytes(last.stat().st_size))


def end_time_is_begin_time(folder: Path) -> None:
    """Write the begin time of an IndexFile where its end time belongs; its messages span six minutes."""
    log = LogBuilder(FILE_SIZE, tick_ms=60_000)
    for number in range(20):
        log.message("orders", keys="k", body=b"%d" % number)
    store = built(folder, log)
    path = _files(store)[1]
    data = bytearray(path.read_bytes())
    header = decode_header(data)
    HEADER.struct.pack_into(data, 0, *header._replace(end_timestamp=header.begin_timestamp))
    path.write_bytes(data)


def chain_turns_back(folder: Path) -> None:
    """Let every item of an IndexFile link to itself."""
    store = golden_store(folder, "basic")
    path = _files(store)[-1]
    data = bytearray(path.read_bytes())
    first = items_at(golden.INDEX_SLOTS)
    for number in range(1, decode_header(data).index_count):
        at = first + number * ITEM_SIZE
        key_hash, physical_offset, time_diff_s, _ = ITEM.struct.unpack_from(data, at)
        ITEM.struct.pack_into(data, at, key_hash, physical_offset, time_diff_s, number)
    path.write_bytes(data)


def keys_of_one_hash(folder: Path) -> None:
    """Store a message AaTopic/Aa and a message BBTopic/BB: the four texts make keys of one hash."""
    log = LogBuilder(FILE_SIZE)
    log.message("AaTopic", keys="Aa", body=b"of AaTopic")
    log.message("BBTopic", keys="BB", body=b"of BBTopic")
    built(folder, log)


def within_a_second(folder: Path) -> None:
    """Store five messages with one key in one second."""
    log = LogBuilder(FILE_SIZE, tick_ms=200)
    for number in range(5):
        log.message("orders", keys="k", body=b"%d" % number)
    built(folder, log)


def index_of_another_log(folder: Path) -> None:
    """Begin a new log beside the index of the old one, which ends far above the new log's end."""
    old, new = LogBuilder(FILE_SIZE), LogBuilder(FILE_SIZE)
    orders(old, 100)
    store = built(folder, old)
    for path in (store / paths.COMMIT_LOG).iterdir():
        path.unlink()
    orders(new, 10)
    new.write(store)
    stores.rebuild(store, only="queue")
    crashed(store)


EXHIBITS: dict[str, Callable[[Path], object]] = {
    "8007": last_file_destroyed,
    "4463": last_file_not_flushed,
    "10656": end_time_is_begin_time,
    "2144": chain_turns_back,
    "3613": keys_of_one_hash,
    "5174": within_a_second,
    "8041": index_of_another_log,
}
