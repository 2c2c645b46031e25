"""Ext units of queues that are not consecutive, and of queues whose first messages have expired."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.write.expired import delete_expired_indexes
from support import stores
from support.checked import assert_sound
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXT = replace(stores.SMALL, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=130)
"""Six units an ext file of 130 bytes: (130 - 4) / 20."""
STEPS = {
    "straight": list(range(40)),
    "gap": [*range(12), *range(30, 45)],
    "repeat": [*range(12), 8, 9, 10, 11, *range(12, 30)],
    "restart": [*range(25), *range(14)],
    "above 0": list(range(100, 130)),
    "restart, then a gap": [*range(25), *range(5), *range(9, 20)],
}


@pytest.fixture(params=STEPS)
def log(request: pytest.FixtureRequest) -> LogBuilder:
    """A log in which a queue's offsets are these, beside a consecutive queue."""
    log = LogBuilder(4096)
    for number, offset in enumerate(STEPS[request.param]):
        log.message("odd", queue_offset=offset, tags=f"t{number}")
        log.message("straight", tags="paid")
    return log


def ext_files(store: Path) -> dict[str, bytes]:
    """The ext files of a store."""
    folder = store / paths.CONSUME_QUEUE_EXT
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tagged(store: Path, topic: str) -> Iterator[tuple[int, str]]:
    """Queue offset and tag of each message that a pull by its own tag gives."""
    with reput.MessageStore.open(store, EXT, read_only=True) as opened:
        for info in opened.queues(topic):
            offset = info.min_offset
            while offset < info.max_offset:
                result = opened.get_message(topic, info.queue_id, offset, 1000)
                for message in result:
                    assert message.tags is not None
                    found = opened.get_message(topic, info.queue_id, message.queue_offset, 1, message.tags)
                    assert [one.queue_offset for one in found] == [message.queue_offset]
                    yield message.queue_offset, message.tags
                offset = result.next_offset


def assert_no_orphans(store: Path) -> None:
    """Nothing is wrong, and no unit lies where no entry leads to."""
    report = reput.check(store, spark=False, config=EXT)
    assert not [finding for finding in report.findings if finding.rule.startswith("ext")]


def test_rebuilt(log: LogBuilder, tmp_path: Path) -> None:
    """However a queue's offsets run, each entry has its unit, and pulls by tag find each message."""
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, EXT)
    assert_sound(store, EXT)
    assert_no_orphans(store)
    assert {tag for _, tag in tagged(store, "straight")} == {"paid"}
    assert len(list(tagged(store, "odd"))) > 10


def test_caught_up_in_two(log: LogBuilder, tmp_path: Path) -> None:
    """Caught up at two places of the log the ext files are those of a rebuild."""
    whole, half = stores.with_log(tmp_path / "whole", log), tmp_path / "half" / "store"
    stores.rebuild(whole, EXT)
    middle = log.placed[len(log.placed) // 2].offset
    for start, data in log.files():
        path = half / paths.COMMIT_LOG / paths.offset_name(start)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[: max(0, middle - start)].ljust(len(data), b"\0"))
    for _ in range(2):
        with reput.MessageStore.open(half, EXT, create=True) as opened:
            opened.reput(spark=False)
        for start, data in log.files():
            (half / paths.COMMIT_LOG / paths.offset_name(start)).write_bytes(data)
    assert_sound(half, EXT)
    assert_no_orphans(half)
    assert ext_files(half) == ext_files(whole)


def test_expired(tmp_path: Path) -> None:
    """With queue files that have expired go the ext files before the first entry that is left, and no other."""
    log = LogBuilder(4096)
    for _ in range(60):
        log.message("t", tags="paid")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, EXT)
    before = sorted(ext_files(store))
    first = min((store / paths.COMMIT_LOG).iterdir())
    first.unlink()
    found = StoreOnDisk.find(store, EXT, Purpose.WRITE)
    gone = delete_expired_indexes(found.layout, found.kinds, int(first.name) + 4096)
    ext_gone = [path for path in gone if paths.CONSUME_QUEUE_EXT in path]
    assert ext_gone
    assert len(ext_files(store)) == len(before) - len(ext_gone)
    assert_sound(store, EXT)
    assert len(list(tagged(store, "t"))) == 60 - sum(placed.offset < 4096 for placed in log.placed)
