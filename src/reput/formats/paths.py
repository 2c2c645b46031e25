"""The names of a store's files and folders; no other module knows them.

    commitlog/00000000000000000000            start offset of the file, 20 digits
    consumequeue/TOPIC/QUEUE/0000...          byte offset in the queue, 20 digits
    consumequeue  consumequeue_rocksdb        the files of a RocksDB of queues, in one of these
    consumequeue_ext/TOPIC/QUEUE/0000...      byte offset in the queue's units, 20 digits
    index/20261121023731573                   local time of creation, 17 digits
    rocksdbstore/                             a RocksDB: the index by key, pending timers and transactions
    checkpoint  abort  lock  config/*.json
    reput/...                                 our own files, see `reput.formats.own.files`

Source: `StorePathConfigHelper`, `UtilAll.offset2FileName`, `MessageRocksDBStorage`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from reput.formats.layout import INT32_MAX, INT64_MAX

COMMIT_LOG = "commitlog"
CONSUME_QUEUE = "consumequeue"
SEPARATE_QUEUE_FOLDER = "consumequeue_rocksdb"
CONSUME_QUEUE_EXT = "consumequeue_ext"
BATCH_CONSUME_QUEUE = "batchconsumequeue"
QUEUE_FOLDERS = (CONSUME_QUEUE, SEPARATE_QUEUE_FOLDER, CONSUME_QUEUE_EXT, BATCH_CONSUME_QUEUE)
"""The folders of queues of every kind, and of their ext units."""
INDEX = "index"
INDEX_DATABASE = "rocksdbstore"
CHECKPOINT = "checkpoint"
ABORT = "abort"
LOCK = "lock"
CONFIG = "config"
REPUT = "reput"

MULTI_PATH_SEPARATOR = ","
LOG_LINKS_PREFIX = "reput-log-"
"""The beginning of the name of a folder in TMPDIR with links to the files of a log over several paths."""
MAX_TOPIC_BYTES = 255
"""The longest name of a folder in today's file systems."""
MAX_QUEUE_ID = INT32_MAX

_NAMES_KEPT = 1024
_OFFSET_NAME = re.compile(r"[0-9]{20}")
_QUEUE_NAME = re.compile(r"0|[1-9][0-9]{0,9}")


def offset_name(offset: int) -> str:
    """Return the file name of the file that starts at `offset` bytes."""
    return f"{offset:020d}"


def parse_offset_name(name: str) -> int | None:
    """Return the start offset in a file's name; None if RocketMQ would not have written such a name."""
    if not _OFFSET_NAME.fullmatch(name):
        return None
    offset = int(name)
    return offset if offset <= INT64_MAX else None


def parse_queue_name(name: str) -> int | None:
    """Return the queue id in a folder's name; None if it is no queue's folder."""
    if not _QUEUE_NAME.fullmatch(name):
        return None
    queue_id = int(name)
    return queue_id if queue_id <= MAX_QUEUE_ID else None


def is_topic_folder_name(topic: bytes) -> bool:
    """Return True if `topic` can be a folder's name inside the store: valid UTF-8, no separator, not a dot name."""
    return 0 < len(topic) <= MAX_TOPIC_BYTES and _is_folder_name(topic)


@lru_cache(_NAMES_KEPT)
def _is_folder_name(topic: bytes) -> bool:
    """Return the same for a topic that is short enough to be cached; consecutive records share a few."""
    if topic in (b".", b"..") or b"/" in topic or b"\0" in topic:
        return False
    try:
        topic.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
