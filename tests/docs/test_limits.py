"""The table of limits has the values of the code, and a test for each; the limits that no other module tests."""

from __future__ import annotations

import errno
import os
import re
import resource
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.put import lines
from reput.connect.options import options
from reput.dispatch.sql import grammar
from reput.errors import ConfigError, DamagedStoreError
from reput.files import database
from reput.files.maps import MapCache
from reput.formats import paths
from reput.formats.config import consumer_offset
from reput.formats.java import fastjson
from reput.formats.log import body, properties, record
from reput.index import search
from reput.log.append import settings
from reput.log.read import maps
from reput.pipeline.spark import session
from reput.pipeline.split import plan
from reput.queue import batch, ext, file_kind, tail
from reput.store.disk import given_offsets
from reput.store.read import lookup, results
from support.opened import CONFIG, bodies, put

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tasks" / "limits.md").read_text("utf-8")
MIB = 1 << 20
VALUES = {
    "body of a message": (settings.DEFAULT_MAX_MESSAGE_SIZE, 4 * MIB),
    "properties of a message": (properties.MAX_PROPERTIES_SIZE, 32767),
    "name of a topic": (paths.MAX_TOPIC_BYTES, 255),
    "messages of a batch record": (record.MAX_BATCH_MESSAGES, 32767),
    "bytes of a pull": (results.MAX_PULL_BYTES, 128 * MIB),
    "messages without durable indexes (the tail)": (tail.TAIL_MAX_ENTRIES, 16_000_000),
    "blank entries of the tail, where a log jumps over numbers": (tail.Tail().most_entries, 32_000_000),
    "expansion of a compressed body": (body.MAX_DECODED_BODY_SIZE, 64 * MIB),
    "text of an SQL92 filter": (grammar.MAX_TEXT, 65536),
    "nesting of an SQL92 filter": (grammar.MAX_DEPTH, 100),
    "nesting of a broker's JSON": (fastjson._DEPTH_LIMIT, 32),
    "file of committed offsets": (consumer_offset.SIZE_LIMIT, 256 * MIB),
    "queues whose next offsets are kept in `reput/given-offsets`": (given_offsets.MOST_QUEUES, 100_000),
    "maps of queue files": (file_kind._MOST_MAPS, 8192),
    "maps of files of queues of batches": (batch._MOST_MAPS, 4096),
    "maps of ext files": (ext._MOST_MAPS, 1024),
    "maps of IndexFiles": (search._MOST_MAPS, 256),
    "maps of log files": (maps._MOST_MAPS, 64),
    "queue files that pulls keep mapped, the last one of each queue": (lookup.MOST_QUEUES, 16_384),
    "queue files that searches by time keep mapped": (lookup.MOST_SEEK_MAPS, 4096),
    "log files that pulls keep mapped": (maps._MOST_MAPS, 64),
    "cache of a RocksDB": (database.CACHE_BYTES, 64 * MIB),
    "line of `reput put`": (lines._LINE_MAX, 64 * MIB),
    "range of the log for one task": (plan.MAX_SPLIT_MB * MIB, 1024 * MIB),
    "memory of Spark's driver and executors": (int(session.DRIVER_MEMORY.removesuffix("m")) * MIB, 512 * MIB),
}
"""The limit of the code by its row, and the same number as the page has it."""
MAP_COUNT_MAX = 65_530
"""Linux's default of `vm.max_map_count`."""


def rows() -> Iterator[list[str]]:
    """The cells of each row of the table."""
    section = PAGE.partition("\n## All limits\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    for line in lines[1:]:
        if not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def number_of(text: str) -> int:
    """The number of a cell, in bytes if it has a unit."""
    digits = re.match(r"[\d,]+", text)
    assert digits, text
    return int(digits[0].replace(",", "")) * (MIB if "MiB" in text else 1)


def test_values_of_the_page() -> None:
    """Each row with a number has the code's own."""
    shown = {row[0]: number_of(row[1]) for row in rows() if row[1][:1].isdigit()}
    assert shown == {name: in_code for name, (in_code, _) in VALUES.items()}
    assert all(in_code == known for in_code, known in VALUES.values())


def test_each_limit_has_a_test() -> None:
    """The last cell of a row names a test that there is."""
    for row in rows():
        file, _, name = row[4].strip("`").partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE), row


def test_a_page_and_the_options_agree() -> None:
    """The largest bound for bodies that an option takes is above the default."""
    assert body.MAX_DECODED_BODY_SIZE <= options.MOST_DECODED_BODY_SIZE


@pytest.mark.parametrize("text", ["a = '" + "x" * grammar.MAX_TEXT + "'", "(" * 101 + "a IS NULL" + ")" * 101])
def test_filters_are_bounded(text: str) -> None:
    """A filter that is too long, or too deep, is refused before it is used."""
    with pytest.raises(ConfigError, match="SQL92"):
        reput.SqlFilter(text)
    reput.SqlFilter("(" * 90 + "a IS NULL" + ")" * 90)


def test_json_is_bounded(tmp_path: Path) -> None:
    """Deep JSON in a store is damage, and not the end of the process."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 1)
    (tmp_path / "s" / paths.CONFIG).mkdir(exist_ok=True)
    deep = '{"offsetTable":' + '{"a":' * 100_000
    (tmp_path / "s" / paths.CONFIG / "consumerOffset.json").write_text(deep)
    with (
        reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as store,
        pytest.raises(DamagedStoreError, match="damaged at byte"),
    ):
        store.query_offset("g", "t", 0)


def test_files_of_offsets_are_bounded(tmp_path: Path) -> None:
    """A file above the limit is damage: it is not read into memory."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 1)
    (tmp_path / "s" / paths.CONFIG).mkdir(exist_ok=True)
    with (tmp_path / "s" / paths.CONFIG / "consumerOffset.json").open("wb") as file:
        file.truncate(consumer_offset.SIZE_LIMIT + 1)
    with (
        reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as store,
        pytest.raises(DamagedStoreError, match=r"consumerOffset\.json"),
    ):
        store.query_offset("g", "t", 0)


def test_maps_are_bounded(tmp_path: Path) -> None:
    """A cache keeps its number of maps, drops the oldest, and a map that somebody holds stays as it is."""
    cache = MapCache(3)
    for number in range(10):
        (tmp_path / str(number)).write_bytes(bytes([number]) * 8)
    held = cache.open(0, str(tmp_path / "0"), 8)
    for number in range(1, 10):
        cache.open(number, str(tmp_path / str(number)), 8)
        assert sum(cache.get(key) is not None for key in range(10)) <= 3
    assert [key for key in range(10) if cache.get(key) is not None] == [7, 8, 9]
    assert bytes(held) == bytes(8)
    caches = sum(module._MOST_MAPS for module in (batch, ext, file_kind, maps, search))
    assert caches + lookup.MOST_QUEUES + lookup.MOST_SEEK_MAPS + maps._MOST_MAPS < MAP_COUNT_MAX


@pytest.mark.parametrize("by_time", [False, True], ids=["pulls", "searches"])
def test_maps_of_an_open_store_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_time: bool) -> None:
    """Pulls of many queues, and searches by time in them, keep no map of the log and of queue files for each queue.

    A bug once: each queue kept a log file mapped, and each search all queue files that it had looked at.
    """
    queues = 40
    config = replace(CONFIG, mapped_file_size_commit_log=1 << 14)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        for number in range(20 * queues):
            store.put_message(reput.Message("t", bytes(1000)), number % queues)
        store.reput(spark=False)
        logs = len(store.view.log.starts)
    for module, most in ((file_kind, 8), (maps, 4)):
        monkeypatch.setattr(module, "_MOST_MAPS", most)
    monkeypatch.setattr(lookup, "MOST_QUEUES", 48)
    monkeypatch.setattr(lookup, "MOST_SEEK_MAPS", 12)
    with reput.MessageStore.open(tmp_path / "s", config, read_only=True) as store:
        for round_ in range(3):
            for queue_id in range(queues):
                offset = (queue_id + 7 * round_) % 20
                # A message that is held keeps its map.
                (time_ms, *_) = [one.store_timestamp for one in store.get_message("t", queue_id, offset, 3)]
                if by_time:
                    store.offset_by_time("t", queue_id, time_ms)
        lines = Path("/proc/self/maps").read_text().splitlines()
        mapped = {part: sum(f"{tmp_path}/s/{part}" in line for line in lines) for part in ("commitlog", "consumequeue")}
    assert logs > 40
    assert mapped["commitlog"] <= 4 + 4
    assert mapped["consumequeue"] <= 8 + 48 + 12


@pytest.fixture
def few_files() -> Iterator[int]:
    """A soft limit of 100 files more than this process has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_open_files_are_as_many_as_the_system_allows(tmp_path: Path, few_files: int) -> None:
    """More queues than the soft limit has files are read: the process takes what the hard limit gives it.

    A bug once: with the usual limit of 1,024 files a reader failed at about the thousandth queue.
    """
    queues = 150
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        for queue_id in range(queues):
            put(store, 2, queue_id=queue_id)
    with reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as store:
        assert [len(bodies(store, "t", queue_id)) for queue_id in range(queues)] == [2] * queues
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > few_files


def test_a_hard_limit_of_open_files_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the hard limit the error names the limit and the remedy."""
    (tmp_path / "file").write_bytes(b"x")

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))
    cache, path = MapCache(3), str(tmp_path / "file")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(reput.ReputError, match="ulimit -n"):
            cache.open(0, path, 1)
