"""reput's own files. They are in one folder, `<store>/reput/`, which RocketMQ ignores.

    watermarks          one page, mapped by writer, pipeline and readers: see the table
    frontier            how far the indexes are complete and durable; JSON, replaced whole by rename
    lock                held (flock, exclusive) by the one reput process that changes the store
    follower            held (flock, exclusive) by the one process that follows the log
    fence               held (flock, shared) by every task while it writes, by the next owner exclusively
    intent              the swap in progress; JSON, replaced whole by rename; see below
    rocksdb-log/        RocksDB's own text logs, if the queues are in RocksDB
    follow-checkpoint/  Spark's own files about the streaming query; reput does not trust them
    expiry.conf         settings of deletion with which reput made the store, as in broker.conf; without it an open
                        store deletes no log file unless a call or its configuration asks
    deleted             the queues that `reput delete` deleted; JSON, replaced whole by rename; see below
    given-offsets       the next offset of each queue; see reput.formats.own.given_offsets
    sinks/ID/           a Spark sink: its ledger (JSON, replaced whole by rename) and staged messages (Arrow streams);
                        see reput.connect.sink.ledger
    cut-OFFSET/         a store: the log's files from that of a log offset on, as they were before a cut there that
                        removed good records
    staging-EPOCH/      what a job builds; the next owner removes it if the job died
    aside-EPOCH/        what a swap has moved aside; removed once the swap is complete

An intent names its epoch and the parts that change, each relative to the store:

    consumequeue, consumequeue/TOPIC    the queues, all or those of a topic
    batchconsumequeue, consumequeue_ext the same of these
    index, rocksdbstore                 the indexes by key
    rocksdbstore.damaged-N              a damaged one that is kept
    checkpoint, reput/frontier          the files

Part P goes live by two renames: P to `aside-EPOCH/P`, then `staging-EPOCH/P` to P. Staging is complete and synced
before the intent is written, so the next owner that finds an intent finishes it.

The frontier file's keys:

    version, store_id, epoch    the store's id is 16 bytes, in hex
    queue_offset, index_offset  log offsets below which the queues, and the IndexFiles, are complete and durable
    index_file, index_count     the last IndexFile, and the next item number in it, as in its header
    queue_fingerprint, index_fingerprint
                                offset, size, crc and store_timestamp of the last record below each offset

The file `deleted` has the keys `version` and `queues`, a list of objects:

    topic, queue_id             the queue
    offset                      its messages below this log offset are deleted
    done                        false while the deletion is in progress: the next owner finishes it

A rebuild leaves these messages out, and `check` does not ask for them, as long as the store has no such queue.

A ledger's keys:

    query                       the streaming query's id, if its checkpoint has it, or a batch write's writeId
    batch, state                number of the last batch, begun or done
    files                       while it is begun: the staged files that hold the batch, in order
    offset                      while it is begun: the log's end when it began
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.index.index_file import is_index_name
from reput.formats.layout import Field, Layout
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_bytes, stored_text

WATERMARKS = Layout(
    "watermarks",
    "reput; little-endian, so that each field is one atomic 8-byte store through an int64 view",
    [
        Field("magic", "q", "0x31307475706572 ('reput01')"),
        Field("store_id_high", "q", "upper half of the store's random id"),
        Field("store_id_low", "q", "lower half of it"),
        Field("epoch", "q", "raised by every job and every recovery; a job of an older epoch must not write"),
        Field("wrote_offset", "q", "log offset up to which records are written"),
        Field("flushed_offset", "q", "log offset up to which the log is synced"),
        Field("confirmed_offset", "q", "log offset up to which readers may look"),
        Field("frontier_offset", "q", "visible frontier: log offset up to which the indexes may be read"),
        Field("generation", "q", "raised after index files were replaced or removed; readers then open them again"),
        Field("writer", "q", "process id of the program that has the store open to put messages, 0 for none"),
        Field("wanted_until_ms", "q", "a program waits to write until then: who catches up lets go of the store"),
        Field(
            "holder",
            "q",
            "what the holder of reput/lock does: 0 a job, 1 follows the log, 2 puts messages, 3 serves clients, "
            "4 could not sync what it has put",
        ),
        Field("follower", "q", "process id of the program that holds reput/follower to follow the log, 0 for none"),
        Field("swaps", "q", "raised before the first rename of a swap and after the last one"),
    ],
    byte_order="<",
)
WATERMARKS_MAGIC = int.from_bytes(b"reput01\0", "little")
WATERMARKS_FILE_SIZE = 4096
assert WATERMARKS.size == 112
HOLDER_JOB, HOLDER_FOLLOWER, HOLDER_WRITER, HOLDER_SERVER, HOLDER_FAILED = range(5)
"""Values of the watermark `holder`. A job may replace indexes, the others only append to them.

After a failed sync of the log a later one may say that nothing is wrong, also in another process, though the system has
dropped what it could not write. So the writer, follower or job that learns it leaves HOLDER_FAILED, until the next
owner has written that again; a writer that finds it there takes no more puts.
"""

LAYOUTS = (WATERMARKS,)

WATERMARKS_NAME = "watermarks"
FRONTIER_NAME = "frontier"
LOCK_NAME = "lock"
FENCE_NAME = "fence"
FOLLOWER_NAME = "follower"
FOLLOW_CHECKPOINT_NAME = "follow-checkpoint"
ROCKSDB_LOGS = "rocksdb-log"
INTENT_NAME = "intent"
EXPIRY_NAME = "expiry.conf"
DELETED_NAME = "deleted"
GIVEN_OFFSETS_NAME = "given-offsets"
SINKS_NAME = "sinks"
STAGED_NAME = "staged"
FILE_NAMES = (
    *(WATERMARKS_NAME, FRONTIER_NAME, LOCK_NAME, FENCE_NAME, FOLLOWER_NAME, INTENT_NAME, EXPIRY_NAME, DELETED_NAME),
    GIVEN_OFFSETS_NAME,
)
"""Our files that lie in the folder itself."""
FRONTIER_PART = f"{paths.REPUT}/{FRONTIER_NAME}"
GIVEN_OFFSETS_PART = f"{paths.REPUT}/{GIVEN_OFFSETS_NAME}"
FORMAT_VERSION = 1
_MAX_JSON = 64 << 20
_REMEDY = "If no later version of reput wrote it, remove it and run `reput rebuild`, which builds all anew from the log"


def staging_name(epoch: int) -> str:
    """Return the folder in which the job of this epoch builds."""
    return f"staging-{epoch}"


def aside_name(epoch: int) -> str:
    """Return the folder into which the swap of this epoch moves what it replaces."""
    return f"aside-{epoch}"


def cut_name(offset: int, number: int) -> str:
    """Return the folder that keeps the log's last files before a cut at a log offset; `number`: after earlier ones."""
    return f"cut-{offset}" + (f"-{number + 1}" if number else "")


def is_cut_name(name: str) -> bool:
    """Return True for a name that `cut_name` returns."""
    kind, _, numbers = name.partition("-")
    return kind == "cut" and all(map(str.isdecimal, numbers.split("-")))


class Intent(NamedTuple):
    """A swap in progress: its epoch and the parts that change, relative to the store."""

    epoch: int
    parts: tuple[str, ...]


_QUEUE_FOLDERS = (paths.CONSUME_QUEUE, paths.BATCH_CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT)


DAMAGED_INDEX_DATABASE = f"{paths.INDEX_DATABASE}.damaged-"
"""The folder of an index database that could not be read, and a number: a rebuild keeps it beside the new one."""


def is_swap_part(part: str) -> bool:
    """Return True if an intent may name `part`: nothing outside the store, only indexes and the checkpoint."""
    if part in (*_QUEUE_FOLDERS, paths.INDEX, paths.INDEX_DATABASE, paths.CHECKPOINT, FRONTIER_PART):
        return True
    if (number := part.removeprefix(DAMAGED_INDEX_DATABASE)) != part:
        return number.isascii() and number.isdecimal()
    folder, separator, topic = part.partition("/")
    # JSON can hold half a character, which no file name can.
    name = topic.encode("utf-8", "surrogatepass")
    return folder in _QUEUE_FOLDERS and bool(separator) and paths.is_topic_folder_name(name)


def encode_intent(intent: Intent) -> bytes:
    """Return the intent file's bytes."""
    return _encode({"version": FORMAT_VERSION, "epoch": intent.epoch, "parts": list(intent.parts)})


def decode_intent(data: bytes, where: str) -> Intent:
    """Return the intent in a file's bytes.

    Raises:
        DamagedStoreError: it is no intent, or names something that a swap never touches.
    """
    value = _decode(data, where)
    epoch, parts = value.get("epoch"), value.get("parts")
    if not isinstance(epoch, int) or epoch < 0 or not isinstance(parts, list):
        raise DamagedStoreError(f"{where}: this is not a swap intent. Remove it if reput did not write it")
    for part in parts:
        if not isinstance(part, str) or not is_swap_part(part):
            raise DamagedStoreError(f"{where}: the intent names {part!r}, which no swap touches; do not use this store")
    return Intent(epoch, tuple(parts))


class Deleted(NamedTuple):
    """A queue that was deleted: its messages below log offset `offset`. `done`: nothing is left to do."""

    key: QueueKey
    offset: int
    done: bool


def encode_deleted(queues: Iterable[Deleted]) -> bytes:
    """Return the bytes of the file `deleted`."""
    values = [
        {
            "topic": stored_text(one.key.topic),
            "queue_id": one.key.queue_id,
            "offset": one.offset,
            "done": one.done,
        }
        for one in queues
    ]
    return json.dumps({"version": FORMAT_VERSION, "queues": values}, indent=1).encode() + b"\n"


def decode_deleted(data: bytes, where: str) -> tuple[Deleted, ...]:
    """Return the queues in the bytes of a file `deleted`.

    Raises:
        DamagedStoreError: it is no such file, or names a queue that cannot be one.
    """
    remedy = (
        "Remove this file, and the store can be read and written again. The next rebuild then brings back the queues "
        "that it named; `reput delete` deletes them again"
    )
    try:
        value = json.loads(data)
        version = value["version"]
        found = tuple(_deleted(one) for one in value["queues"] if version == FORMAT_VERSION)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise DamagedStoreError(f"{where}: this is not a list of deleted queues ({error!s:.80}). {remedy}") from error
    if version != FORMAT_VERSION:
        raise DamagedStoreError(f"{where}: not a file that this version of reput wrote. {remedy}")
    for one in found:
        if not paths.is_topic_folder_name(one.key.topic) or one.key.queue_id < 0 or one.offset < 0:
            raise DamagedStoreError(f"{where}: names {one.key}, which is not a queue. {remedy}")
    return found


def _deleted(value: dict[str, Any]) -> Deleted:
    topic, queue_id, offset, done = value["topic"], value["queue_id"], value["offset"], value["done"]
    if not isinstance(topic, str) or type(queue_id) is not int or type(offset) is not int or type(done) is not bool:
        raise ValueError(f"{value!r}"[:200])
    return Deleted(QueueKey(stored_bytes(topic), queue_id), offset, done)


class Fingerprint(NamedTuple):
    """A record that is known again: log offset and size in bytes, CRC-32 of its bytes, store time in ms."""

    offset: int
    size: int
    crc: int
    store_timestamp: int

    @classmethod
    def of(cls, offset: int, record: bytes | memoryview, store_timestamp: int) -> Fingerprint:
        """Return the fingerprint of a record at a log offset."""
        return cls(offset, len(record), zlib.crc32(record), store_timestamp)

    def is_of(self, record: bytes | memoryview) -> bool:
        """Return True for the bytes of the record."""
        return zlib.crc32(record) == self.crc

    @classmethod
    def from_json(cls, value: Any) -> Fingerprint | None:
        """Return the fingerprint in a value of an own file; None of `null`.

        Raises:
            LookupError, TypeError, ValueError: The value is not a fingerprint.
        """
        if value is None:
            return None
        found = cls(**{name: value[name] for name in cls._fields})
        if any(type(number) is not int for number in found) or min(found.offset, found.size) < 0:
            raise ValueError(f"{value!r:.80} is no record")
        return found

    def to_json(self) -> dict[str, int]:
        """Return the value that an own file has of it."""
        return self._asdict()


class Frontier(NamedTuple):
    """The frontiers of the durable indexes; offsets in bytes of the log."""

    store_id: str
    epoch: int = 0
    queue_offset: int = 0
    queue_fingerprint: Fingerprint | None = None
    index_offset: int = 0
    index_fingerprint: Fingerprint | None = None
    index_file: str = ""
    index_count: int = 0


def encode_frontier(frontier: Frontier) -> bytes:
    """Return the frontier file's bytes."""
    value = frontier._asdict()
    for name in _FINGERPRINTS:
        value[name] = value[name].to_json() if value[name] else None
    return _encode({"version": FORMAT_VERSION, **value})


_FINGERPRINTS = ("queue_fingerprint", "index_fingerprint")


def decode_frontier(data: bytes, where: str) -> Frontier:
    """Return the frontier in a file's bytes.

    Raises:
        DamagedStoreError: it is no frontier.
    """
    value = _decode(data, where)
    try:
        frontier = Frontier(
            store_id=str(value["store_id"]),
            epoch=int(value["epoch"]),
            queue_offset=int(value["queue_offset"]),
            queue_fingerprint=Fingerprint.from_json(value["queue_fingerprint"]),
            index_offset=int(value["index_offset"]),
            index_fingerprint=Fingerprint.from_json(value["index_fingerprint"]),
            index_file=str(value["index_file"]),
            index_count=int(value["index_count"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedStoreError(f"{where}: not a frontier ({error}). Remove it and run `reput rebuild`") from error
    if min(frontier.queue_offset, frontier.index_offset, frontier.index_count) < 0:
        raise DamagedStoreError(f"{where}: a negative offset. Remove it and run `reput rebuild`")
    if frontier.index_file and not is_index_name(frontier.index_file):
        raise DamagedStoreError(
            f"{where}: {frontier.index_file!r} is not the name of an IndexFile. Remove it and run `reput rebuild`"
        )
    return frontier


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def _decode(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(data) if len(data) <= _MAX_JSON else None
    except (ValueError, RecursionError) as error:
        raise DamagedStoreError(f"{where}: not JSON ({error}). {_REMEDY}") from error
    if not isinstance(value, dict) or value.get("version") != FORMAT_VERSION:
        raise DamagedStoreError(f"{where}: not a file that this version of reput wrote. {_REMEDY}")
    return value
