"""The stores that are damaged: those that RocketMQ wrote, and one of reput's whose properties have CRCs, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.config import StoreConfig
from support import golden

if TYPE_CHECKING:
    from pathlib import Path

OURS = "ours"
OURS_CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=64,
    enabled_append_prop_crc=True,
    force_verify_prop_crc=True,
)
_MESSAGES = 150


class Subject(NamedTuple):
    """A store to damage: its folder, its configuration (None: its files decide), and the slots of its IndexFiles."""

    path: Path
    config: StoreConfig | None
    slots: int


CONTENTS = {
    "basic": "RocketMQ's queue files and IndexFiles",
    "crash": "the same after a kill: `abort` is there, and the checkpoint is older than the log",
    "ext": "RocketMQ's queue files with ext units",
    "batch": "RocketMQ's queue files, and queues of batches",
    "double": "each queue in files and in RocksDB",
    "rocksdb": "RocketMQ's queues in RocksDB",
    "json": "a broker's configuration in JSON, compressed bodies, halves of transactions",
    "config-v1": "topics, groups and offsets in three databases, each with a write-ahead log",
    "config-v1-single": "the same in one database",
    "config-v2": "the same in one database of version 2",
    "config-v1-killed": "three databases that a killed broker left",
    "separate": "queues in `consumequeue_rocksdb`",
    "lmq": "light queues, and the offsets of their groups",
    "lmq-rocksdb": "light queues in RocksDB alone, others in files, too",
    "index-both": "IndexFiles, and the index database",
    "index-rocksdb": "the index database alone",
    "pending": "timers, delayed messages and halves of transactions that wait",
    "pending-rocksdb": "the same in databases",
    OURS: "queue files and IndexFiles by reput, properties with a CRC, committed offsets, a deleted topic",
}
"""The stores of the page, and what each has: every golden store that has a log, and one of reput's."""
NAMES = tuple(CONTENTS)


def subject(name: str, folder: Path) -> Subject:
    """Make a store of this name below a folder."""
    if name != OURS:
        return Subject(golden.unpack(name, folder), None, golden.INDEX_SLOTS)
    path = folder / "ours"
    with reput.MessageStore.open(path, OURS_CONFIG, create=True) as store:
        for number in range(_MESSAGES):
            body = b"%d " % number * (number % 7 + 1)
            message = reput.Message("abc"[number % 3], body, tags=f"t{number % 4}", keys=f"k{number % 10}", flag=number)
            assert store.put_message(message, number % 2).status is reput.PutStatus.PUT_OK
        for queue_id in range(2):
            store.commit_offset("readers", "a", queue_id, 5 + queue_id)
        store.progress.persist()
        store.commit_offset("readers", "b", 1, 3)
    with reput.MessageStore.open(path, OURS_CONFIG) as store:
        store.delete_topic("c")
    return Subject(path, OURS_CONFIG, OURS_CONFIG.max_hash_slot_num)
