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


def folder() -> Path:
    """The folder of the tarballs: REPUT_GOLDEN, else tests/golden."""
    return Path(os.environ.get(SWITCH) or DEFAULT_FOLDER)


def unpack(name: str, target: Path) -> Path:
    """Unpack the store `name` below `target` and return its folder."""
    tarball = folder() / f"{name}.tar.gz"
    if not tarball.exists():
        raise FileNotFoundError(f"{tarball}: no golden store; {SWITCH} names another folder of such stores")
    with tarfile.open(tarball) as archive:
        archive.extractall(target, filter="data")
    return target / name


@cache
def shared(name: str) -> Path:
    """One copy of the store `name` for this process, unpacked once: do not change it."""
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
