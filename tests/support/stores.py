"""Stores on disk: rebuilt in a loop, looked at whole, and compared.

store = with_log(tmp_path, log)             a store that has nothing but the builder's log
report = rebuild(store)                     in this process, without Spark
entries(store, "topic", 2)                  what a reader of that queue finds, from its first file on
before = digest(store); ...; assert digest(store) == before
twin = copy(store, tmp_path / "twin")       holes stay holes: a log file of 1 GB costs what was written to it
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.index import index_file
from reput.formats.java.hashing import java_string_hash_utf8
from reput.formats.log.properties import TAGS, decode_properties
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import ENTRY_SIZE, decode_entry
from support import databases, golden
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.formats.log.record import Record
    from reput.formats.queue.consume_queue import Entry
    from reput.pipeline.build.rebuild_report import RebuildReport
    from support.records import LogBuilder

_PAGE = 4096
_QUEUE_FOLDERS = (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT, paths.BATCH_CONSUME_QUEUE)

SMALL = StoreConfig(
    mapped_file_size_consume_queue=200,
    mapper_file_size_batch_consume_queue=92,
    max_hash_slot_num=16,
    max_index_num=8,
)
"""Ten entries a queue file, two batches, seven items an IndexFile: a few messages are enough to cross every border."""

GOLDEN = StoreConfig(
    mapped_file_size_commit_log=golden.LOG_FILE_SIZE,
    mapped_file_size_consume_queue=golden.QUEUE_FILE_SIZE,
    max_hash_slot_num=golden.INDEX_SLOTS,
    max_index_num=golden.INDEX_ITEMS,
)


def with_log(folder: Path, log: LogBuilder, *, preallocated: bool = False) -> Path:
    """A store below `folder` that has the log and nothing else."""
    return log.write(folder / "store", preallocated=preallocated)


def rebuild(store: Path, config: StoreConfig | None = SMALL, **options: Any) -> RebuildReport:
    """Rebuild in this process; a store that was rebuilt whole from an undamaged log is sound afterwards."""
    report = reput.rebuild(store, spark=False, config=config, **options)
    whole = len(report.built) == 2 and not options.get("topics") and not options.get("skip_topics")
    damaged = report.torn_tail_offset is not None or options.get("salvage") or not options.get("verify_crc", True)
    if whole and not damaged:
        assert_sound(store, config)
    return report


def forget_given_offsets(store: Path) -> None:
    """Remove what reput has kept of the queues' ends, as if RocketMQ had built them."""
    (store / own.GIVEN_OFFSETS_PART).unlink()


def copy(source: Path | str, target: Path | str, **options: Any) -> Path:
    """Copy a folder as `shutil.copytree` does, but keep the holes of its files."""
    return Path(shutil.copytree(source, target, copy_function=_copy_file, **options))


def _copy_file(source: str, target: str) -> None:
    """Copy the data of a file, its length and its times."""
    with Path(source).open("rb") as read, Path(target).open("wb") as written:
        for begin, end in _spans_of_data(read.fileno()):
            written.seek(begin)
            written.write(os.pread(read.fileno(), end - begin, begin))
        written.truncate(os.fstat(read.fileno()).st_size)
    shutil.copystat(source, target)


class Found(NamedTuple):
    """One name below a store: its kind or size, its bytes' hash, and its inode."""

    size: int
    content: str
    inode: int


def digest(store: Path, *, inodes: bool = False) -> dict[str, Found]:
    """Everything below a store but reput's own folder and RocketMQ's lock file, which every owner makes."""
    found = {}
    for path in sorted(store.rglob("*")):
        inside = path.relative_to(store)
        if inside.parts[0] == paths.REPUT or str(inside) == paths.LOCK:
            continue
        if path.is_dir():
            found[str(inside)] = Found(-1, "folder", 0)
            continue
        stat = path.stat()
        found[str(inside)] = Found(stat.st_size, _hash(path), stat.st_ino if inodes else 0)
    return found


def _hash(path: Path) -> str:
    """A hash of all pages but those of zeros: an IndexFile of RocketMQ's size is 400 MB of holes."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        for begin, end in _spans_of_data(file.fileno()):
            file.seek(begin)
            for place in range(begin, end, _PAGE):
                page = file.read(min(_PAGE, end - place))
                if page.strip(b"\0"):
                    hashed.update(place.to_bytes(8, "big") + page)
    return hashed.hexdigest()


def _spans_of_data(file: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of an open file that have data, between its holes."""
    end, size = 0, os.fstat(file).st_size
    while end < size:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                # A hole up to its end.
                return
            raise
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def indexes(store: Path) -> dict[str, bytes]:
    """The bytes of all queue files by path, of the IndexFiles by number, and of the checkpoint."""
    found = {f"{topic}/{queue}/{start}": data for topic, queue, start, data in queue_files(store)}
    found |= {f"index {n}": data for n, (_, data) in enumerate(index_files(store))}
    checkpoint = store / paths.CHECKPOINT
    found["checkpoint"] = checkpoint.read_bytes() if checkpoint.exists() else b""
    return found


def built(store: Path) -> dict[str, bytes]:
    """Everything that is built from the log: queue and ext files by path, IndexFiles by number, keys of RocksDB."""
    found = {f"index {number}": data for number, (_, data) in enumerate(index_files(store))}
    for folder in _QUEUE_FOLDERS:
        # Files that lie in consumequeue itself are RocksDB's.
        files = [path for path in (store / folder).glob("*/*/*") if path.is_file()]
        found |= {str(path.relative_to(store)): path.read_bytes() for path in files}
    if databases.rocksdb(store).is_present():
        for family, values in databases.content(store).items():
            found |= {f"{family} {key!r}": value for key, value in values.items()}
    return found


def assert_as_rebuilt(store: Path, folder: Path, config: StoreConfig | None = SMALL) -> None:
    """Fail unless a store is sound, no job left a file, and a rebuild of its log alone builds the same.

    `folder` is where the copy that is rebuilt lies for a while.
    """
    assert_sound(store, config)
    assert leftovers(store) == []
    twin = copy(store, folder)
    for name in (*_QUEUE_FOLDERS, paths.INDEX, paths.REPUT):
        shutil.rmtree(twin / name, ignore_errors=True)
    rebuild(twin, config)
    found, wanted = built(store), built(twin)
    assert sorted(found) == sorted(wanted)
    assert [name for name in found if found[name] != wanted[name]] == []
    shutil.rmtree(twin)


def queue_files(store: Path) -> list[tuple[str, int, int, bytes]]:
    """The queue files of a store, of either type, none where the folder is missing."""
    found = list(golden.queue_files(store)) if (store / paths.CONSUME_QUEUE).exists() else []
    return found + (list(golden.batch_queue_files(store)) if (store / paths.BATCH_CONSUME_QUEUE).exists() else [])


def index_files(store: Path) -> list[tuple[str, bytes]]:
    """The IndexFiles of a store, none where the folder is missing."""
    return list(golden.index_files(store)) if (store / paths.INDEX).exists() else []


def headers(store: Path) -> list[index_file.Header]:
    """The headers of the IndexFiles, oldest first."""
    return [index_file.decode_header(data) for _, data in index_files(store)]


def entries(store: Path, topic: str = "topic", queue_id: int = 0) -> tuple[int, list[Entry]]:
    """The queue offset of a queue's first file, and its valid entries from there on (pre-blanks among them)."""
    files = sorted((store / paths.CONSUME_QUEUE / topic / str(queue_id)).iterdir())
    data = b"".join(path.read_bytes() for path in files)
    found = [decode_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)]
    end = next((n for n, entry in enumerate(found) if not entry.is_valid), len(found))
    assert not any(data[end * ENTRY_SIZE :]), "the queue has bytes after its end"
    return int(files[0].name) // ENTRY_SIZE, found[:end]


def positions(store: Path, topic: str = "topic", queue_id: int = 0) -> list[int | None]:
    """Return the log offsets of a queue's entries, None for a pre-blank; the queue starts at 0."""
    first, found = entries(store, topic, queue_id)
    assert first == 0
    return [None if entry.is_pre_blank else entry.physical_offset for entry in found]


def tags_code(record: Record) -> int:
    """The tags code of a message that is not delayed."""
    tags = decode_properties(record.properties).get(TAGS)
    return java_string_hash_utf8(tags) if tags else 0


def leftovers(store: Path) -> list[str]:
    """List the names in reput's folder that no finished or failed job may leave there."""
    folder = store / paths.REPUT
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return [
        name for name in names if name.startswith(("staging-", "aside-")) or name.endswith(".tmp") or name == "intent"
    ]
