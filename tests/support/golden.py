"""Golden stores, written by Apache RocketMQ itself, and what it answered.

tests/golden/README.md describes the stores of its store code, tests/golden-5.5/README.md those of a whole broker.

store = golden.unpack("basic", tmp_path)      a copy of your own, to damage at will
store = golden.shared("basic")                one copy a test process, for reading only
for start, data in golden.log_files(store):   the CommitLog, file by file
for answer in golden.answers("basic"):        the answers, one JSON object each
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats import paths
from reput.formats.log.record import (
    FLAG_INNER_BATCH,
    MAGIC_V1,
    MAGIC_V2,
    SYS_FLAG_AT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from reput.formats.queue.consume_queue import ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SWITCH = "REPUT_GOLDEN"
SWITCH_55 = "REPUT_GOLDEN_55"
_TESTS = Path(__file__).parent.parent
_FOLDERS = {SWITCH: _TESTS / "golden", SWITCH_55: _TESTS / "golden-5.5"}

STORES = ("basic", "crash", "ext", "batch", "double", "rocksdb")
"""The stores that have a log; `expired-rebuilt` holds indexes only."""

STORES_55 = (
    "json",
    "config-v1",
    "config-v1-single",
    "config-v2",
    "config-v1-killed",
    "separate",
    "lmq",
    "lmq-rocksdb",
    "index-both",
    "index-rocksdb",
    "pending",
    "pending-rocksdb",
)
"""The stores of a whole broker 5.5.0, one for each switch."""

DAMAGED = {"torn": "crash", "flip": "crash", "noindexes": "crash", "expired": "basic", "expired-noindexes": "basic"}
"""The damaged copies that there are answers about, each with the store that it is a copy of."""

LOG_FILE_SIZE = 1 << 20
QUEUE_FILE_SIZE = 6000
QUEUE_FILE_ENTRIES = QUEUE_FILE_SIZE // ENTRY.size
BATCH_QUEUE_FILE_SIZE = 4600
INDEX_SLOTS = 500
INDEX_ITEMS = 2000
_STORE_TIME_AT = 56
_BODY_AT = 88
"""The begin of the body if both hosts are IPv4. A flag says of each that it is IPv6, which takes 12 bytes more."""
_IPV6_HOSTS = (0x10, 0x20)
_MAGICS = (MAGIC_V1.to_bytes(4, "big", signed=True), MAGIC_V2.to_bytes(4, "big", signed=True))

CONFIG = f"""\
mappedFileSizeCommitLog={LOG_FILE_SIZE}
mappedFileSizeConsumeQueue={QUEUE_FILE_SIZE}
mapperFileSizeBatchConsumeQueue={BATCH_QUEUE_FILE_SIZE}
maxHashSlotNum={INDEX_SLOTS}
maxIndexNum={INDEX_ITEMS}
"""
"""A broker.conf with the sizes that the golden stores were written with."""


_GIVEN = {switch: os.environ.get(switch) for switch in _FOLDERS}

# Taken once: a test may have another folder for temporary files, which goes with it.
_TEMPORARY = tempfile.gettempdir()


def use_given(given: bool) -> None:
    """Use the stores that the switches name, or those of the repository: here, and in processes that start here."""
    for switch, place in _GIVEN.items():
        if given and place is not None:
            os.environ[switch] = place
        else:
            os.environ.pop(switch, None)


def switch_of(name: str) -> str:
    """Return the switch that names the folder of a store: REPUT_GOLDEN_55 for those of a whole broker."""
    return SWITCH_55 if name in STORES_55 else SWITCH


def folder(name: str = "basic") -> Path:
    """Return the folder of a store's tarball: the switch's in tests that are marked golden, else the repository's."""
    switch = switch_of(name)
    return Path(os.environ.get(switch) or _FOLDERS[switch])


def unpack(name: str, target: Path) -> Path:
    """Unpack the store `name` below `target` and return its folder."""
    tarball = folder(name) / f"{name}.tar.gz"
    if not tarball.exists():
        raise FileNotFoundError(f"{tarball}: no golden store; {switch_of(name)} names another folder of such stores")
    with tarfile.open(tarball) as archive:
        archive.extractall(target, filter="data")
    return target / name


def damaged(name: str, target: Path) -> Path:
    """Return the store or damaged copy that the answers `name` are about."""
    store = unpack(DAMAGED.get(name, name), target)
    if name in DAMAGED:
        damage(store, name)
    return store


def damage(store: Path, name: str) -> None:
    """Damage a copy by the rule that tests/golden/README.md gives."""
    if name == "torn":
        last = records(store)[-1]
        write_at(store, last.offset + last.size // 2, bytes(last.size - last.size // 2))
    elif name == "flip":
        flip(store, records(store)[-50].offset + 100)
    if name.startswith("expired"):
        (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    if name.endswith("noindexes"):
        shutil.rmtree(store / paths.CONSUME_QUEUE)
        shutil.rmtree(store / paths.INDEX)


class Span(NamedTuple):
    """A record in the log: where it begins, how many bytes it has, where in the log its body is, when it was stored."""

    offset: int
    size: int
    body: range
    store_ms: int
    sys_flag: int

    @property
    def end(self) -> int:
        """Return the log offset at which the record ends."""
        return self.offset + self.size

    @property
    def is_queued(self) -> bool:
        """Return True if the record has an entry in a queue: no prepared or rolled back transaction has one."""
        return self.sys_flag & TRANSACTION_ROLLBACK not in {TRANSACTION_PREPARED, TRANSACTION_ROLLBACK}

    @property
    def is_batch(self) -> bool:
        """Return True if the record's entry is in a queue of batches."""
        return bool(self.sys_flag & FLAG_INNER_BATCH)


def records(store: Path) -> list[Span]:
    """Each record of a log that is not damaged."""
    found = []
    for start, data in log_files(store):
        position = 0
        while position < len(data) - 8:
            size, magic = int.from_bytes(data[position : position + 4], "big"), data[position + 4 : position + 8]
            if magic not in _MAGICS:
                break
            sys_flag = int.from_bytes(data[position + SYS_FLAG_AT : position + SYS_FLAG_AT + 4], "big")
            born, stored = (12 * bool(sys_flag & flag) for flag in _IPV6_HOSTS)
            time_at = position + _STORE_TIME_AT + born
            store_ms = int.from_bytes(data[time_at : time_at + 8], "big")
            body_at = position + _BODY_AT + born + stored
            length = int.from_bytes(data[body_at - 4 : body_at], "big")
            body = range(start + body_at, start + body_at + length)
            found.append(Span(start + position, size, body, store_ms, sys_flag))
            position += size
    return found


def with_body(found: Sequence[Span]) -> Span:
    """The first of these records that has a body."""
    return next(record for record in found if record.body)


def write_at(store: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of the log, in one of its files."""
    path, position = place(store, offset)
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def flip(store: Path, offset: int) -> None:
    """Change the byte at a log offset."""
    path, position = place(store, offset)
    write_at(store, offset, bytes([path.read_bytes()[position] ^ 0x55]))


def place(store: Path, offset: int) -> tuple[Path, int]:
    """The log file of an offset, and the position in it."""
    position = offset % LOG_FILE_SIZE
    return store / paths.COMMIT_LOG / paths.offset_name(offset - position), position


class Facts(NamedTuple):
    """A golden store in numbers: those that reports and tables repeat."""

    messages: int
    log_end: int
    """Return the log offset at which the last record ends."""
    queues: dict[tuple[str, int], tuple[int, int]]
    """Minimum and maximum offset of each topic and queue, as RocketMQ says."""
    index_files: int
    middle_ms: int
    """The store time of the middle one of the messages."""

    @property
    def topics(self) -> set[str]:
        """The topics that have queues."""
        return {topic for topic, _ in self.queues}

    @property
    def queue_entries(self) -> int:
        """Entries of all queues."""
        return sum(end - first for first, end in self.queues.values())

    def entries(self, topic: str, queue_id: int = 0) -> int:
        """Return the number of entries of a queue."""
        first, end = self.queues[topic, queue_id]
        return end - first


def facts(name: str) -> Facts:
    """Count what a golden store holds, from its files or from RocketMQ's answers, never with reput."""
    return _counted(folder(name), name)


@cache
def _counted(_of: Path, name: str) -> Facts:
    store = shared(name)
    queues = {tuple(line["queue"]): (line["min"], line["max"]) for line in answers(name) if "queue" in line}
    log_end = next(line["log"][1] for line in answers(name) if "log" in line)
    found = records(store)
    return Facts(len(found), log_end, queues, len(list(index_files(store))), found[len(found) // 2].store_ms)


def shared(name: str) -> Path:
    """One copy of the store `name` for this process, unpacked once: do not change it."""
    return _unpacked_once(folder(name), name)


@cache
def _unpacked_once(_of: Path, name: str) -> Path:
    target = Path(tempfile.mkdtemp(prefix="reput-golden-", dir=_TEMPORARY))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    return unpack(name, target)


def answers(name: str) -> Iterator[dict[str, Any]]:
    """Return RocketMQ's answers about the store (or damaged copy) `name`."""
    with gzip.open(folder(name) / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def log_files(store: Path) -> Iterator[tuple[int, bytes]]:
    """Start offset and bytes of each CommitLog file, in log order."""
    for path in sorted((store / paths.COMMIT_LOG).iterdir()):
        yield int(path.name), path.read_bytes()


def queue_files(store: Path) -> Iterator[tuple[str, int, int, bytes]]:
    """Topic, queue id, start offset and bytes of each ConsumeQueue file; RocksDB's files there are not."""
    yield from _queue_files(store / paths.CONSUME_QUEUE)


def batch_queue_files(store: Path) -> Iterator[tuple[str, int, int, bytes]]:
    """The same of the batch ConsumeQueues."""
    yield from _queue_files(store / paths.BATCH_CONSUME_QUEUE)


def _queue_files(folder: Path) -> Iterator[tuple[str, int, int, bytes]]:
    for topic in sorted(folder.iterdir()):
        for queue in sorted(topic.iterdir()) if topic.is_dir() else ():
            for path in sorted(queue.iterdir()):
                yield topic.name, int(queue.name), int(path.name), path.read_bytes()


def index_files(store: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each IndexFile, oldest first."""
    for path in sorted((store / paths.INDEX).iterdir()):
        yield path.name, path.read_bytes()
