"""Golden stores, written by Apache RocketMQ itself, and what it answered; see tests/golden/README.md.

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
from typing import TYPE_CHECKING, Any

from reput.formats import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH = "REPUT_GOLDEN"
DEFAULT_FOLDER = Path(__file__).parent.parent / "golden"

STORES = ("basic", "crash", "ext", "batch", "double", "rocksdb")
"""The stores that have a log; `expired-rebuilt` holds indexes only."""

DAMAGED = {"torn": "crash", "flip": "crash", "noindexes": "crash", "expired": "basic", "expired-noindexes": "basic"}
"""The damaged copies that there are answers about, each with the store that it is a copy of."""

LOG_FILE_SIZE = 1 << 20
QUEUE_FILE_SIZE = 6000
BATCH_QUEUE_FILE_SIZE = 4600
INDEX_SLOTS = 500
INDEX_ITEMS = 2000

CONFIG = f"""\
mappedFileSizeCommitLog={LOG_FILE_SIZE}
mappedFileSizeConsumeQueue={QUEUE_FILE_SIZE}
mapperFileSizeBatchConsumeQueue={BATCH_QUEUE_FILE_SIZE}
maxHashSlotNum={INDEX_SLOTS}
maxIndexNum={INDEX_ITEMS}
"""
"""A broker.conf with the sizes that the golden stores were written with."""


_GIVEN = os.environ.get(SWITCH)


def use_given(given: bool) -> None:
    """Use the stores that REPUT_GOLDEN names, or those of the repository: here, and in processes that start here."""
    if given and _GIVEN is not None:
        os.environ[SWITCH] = _GIVEN
    else:
        os.environ.pop(SWITCH, None)


def folder() -> Path:
    """The folder of the tarballs: REPUT_GOLDEN in tests that are marked golden, else tests/golden."""
    return Path(os.environ.get(SWITCH) or DEFAULT_FOLDER)


def unpack(name: str, target: Path) -> Path:
    """Unpack the store `name` below `target` and return its folder."""
    tarball = folder() / f"{name}.tar.gz"
    if not tarball.exists():
        raise FileNotFoundError(f"{tarball}: no golden store; {SWITCH} names another folder of such stores")
    with tarfile.open(tarball) as archive:
        archive.extractall(target, filter="data")
    return target / name


def damaged(name: str, target: Path) -> Path:
    """The store, or damaged copy, behind the answers `name`."""
    store = unpack(DAMAGED.get(name, name), target)
    if name in DAMAGED:
        damage(store, name)
    return store


def damage(store: Path, name: str) -> None:
    """Damage a copy by the rule that tests/golden/README.md gives."""
    if name == "torn":
        path, position, size = last_records(store, 1)[0]
        data = bytearray(path.read_bytes())
        data[position + size // 2 : position + size] = bytes(size - size // 2)
        path.write_bytes(data)
    elif name == "flip":
        path, position, _ = last_records(store, 50)[0]
        data = bytearray(path.read_bytes())
        data[position + 100] ^= 0x55
        path.write_bytes(data)
    if name.startswith("expired"):
        (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    if name.endswith("noindexes"):
        shutil.rmtree(store / paths.CONSUME_QUEUE)
        shutil.rmtree(store / paths.INDEX)


def last_records(store: Path, count: int) -> list[tuple[Path, int, int]]:
    """File, position and size of the last records of a log."""
    found = []
    for start, data in log_files(store):
        position = 0
        while position < len(data) - 8:
            size, magic = int.from_bytes(data[position : position + 4]), data[position + 4 : position + 8]
            if magic not in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"):
                break
            found.append((store / paths.COMMIT_LOG / f"{start:020d}", position, size))
            position += size
    return found[-count:]


def shared(name: str) -> Path:
    """One copy of the store `name` for this process, unpacked once: do not change it."""
    return _unpacked_once(folder(), name)


@cache
def _unpacked_once(_of: Path, name: str) -> Path:
    target = Path(tempfile.mkdtemp(prefix="reput-golden-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    return unpack(name, target)


def answers(name: str) -> Iterator[dict[str, Any]]:
    """What RocketMQ answered about the store (or damaged copy) `name`."""
    with gzip.open(folder() / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
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
