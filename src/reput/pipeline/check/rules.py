"""The rules of `check`: each kind of finding, with its possible severities and its meaning.

`CheckReport` takes findings of these rules alone. docs/findings.md is made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

SETTING, DAMAGE, LEFTOVER, NOTE = "setting", "damage", "leftover", "note"
_BY_CLOSE = (DAMAGE, LEFTOVER)
"""The severities of what a crash may leave: damage in a store that was closed cleanly."""


class Group(StrEnum):
    """The part of a store that a rule is about."""

    SETTINGS = "Settings"
    LOG = "Log"
    QUEUES = "Queues"
    EXT = "ConsumeQueueExt"
    INDEX_FILES = "IndexFiles"
    INDEX_DATABASE = "Index in RocksDB"
    METADATA = "Topics, groups and offsets"
    FILES = "Other files"


class CheckRule(NamedTuple):
    """A kind of finding: its name, the part of the store, the severities that it may have, and a sentence for users.

    `lacks_record`: an index refers to a record that the log does not have.
    """

    name: str
    group: Group
    severities: tuple[str, ...]
    meaning: str
    lacks_record: bool = False

    @property
    def may_be_of_crash(self) -> bool:
        """Return True if a crash may leave it."""
        return self.severities == _BY_CLOSE


_SETTINGS = (
    CheckRule("setting-contradicted", Group.SETTINGS, (SETTING,), "a given setting contradicts the files of the store"),
)
_LOG = (
    CheckRule("log-path-missing", Group.LOG, (DAMAGE,), "a folder that the setting names for the log is not there"),
    CheckRule(
        "log-file", Group.LOG, (DAMAGE,), "a file of the log has a wrong size, or one is missing between two others"
    ),
    CheckRule(
        "log-record",
        Group.LOG,
        (DAMAGE,),
        "bytes of the log are no record, and a record follows them, or the store shows that there was one",
    ),
    CheckRule("log-torn-tail", Group.LOG, _BY_CLOSE, "bytes after the last record are no record"),
    CheckRule("log-empty-file", Group.LOG, (LEFTOVER,), "the last file of the log is empty, and RocketMQ removes it"),
    CheckRule("log-times", Group.LOG, (NOTE,), "the store times of records run backwards"),
    CheckRule(
        "log-torn-properties",
        Group.LOG,
        (NOTE,),
        "the properties of the last record end with zeros: a crash may have taken its tags and keys",
    ),
    CheckRule(
        "log-preallocated",
        Group.LOG,
        (NOTE,),
        "the last file of the log was made ahead and has no record, and RocketMQ removes it",
    ),
    CheckRule(
        "log-kept", Group.LOG, (NOTE,), "a folder `reput/cut-OFFSET` keeps good records that a cut of the log removed"
    ),
)
_QUEUES = (
    CheckRule(
        "queue-folder-missing", Group.QUEUES, (DAMAGE,), "the log has records, and the store has no queues at all"
    ),
    CheckRule(
        "queue-missing", Group.QUEUES, _BY_CLOSE, "the log has records of a queue, and nothing of the queue is there"
    ),
    CheckRule("queue-out-of-date", Group.QUEUES, _BY_CLOSE, "a queue ends before its last record"),
    CheckRule(
        "queue-entry-missing", Group.QUEUES, (DAMAGE,), "records have no entry, and a later record of the queue has"
    ),
    CheckRule("queue-entry-wrong", Group.QUEUES, (DAMAGE,), "entries are not what their records give"),
    CheckRule(
        "queue-entry-without-record",
        Group.QUEUES,
        (DAMAGE,),
        "entries point to places of the log where their queue has no record",
        lacks_record=True,
    ),
    CheckRule(
        "queue-entry-past-end",
        Group.QUEUES,
        _BY_CLOSE,
        "entries come after the queue's last record; a crash leaves those that point past the log's end",
        lacks_record=True,
    ),
    CheckRule(
        "queue-end-wrong",
        Group.QUEUES,
        (DAMAGE,),
        "the bounds of a queue in RocksDB are not what its records give",
    ),
    CheckRule(
        "queue-file-size", Group.QUEUES, (DAMAGE,), "a queue file has a wrong size, so RocketMQ does not load it"
    ),
    CheckRule("queue-file-missing", Group.QUEUES, (DAMAGE,), "a queue file is missing between two others"),
    CheckRule(
        "queue-empty-file", Group.QUEUES, (LEFTOVER,), "the last file of a queue is empty, and RocketMQ removes it"
    ),
    CheckRule(
        "queue-type", Group.QUEUES, (DAMAGE,), "the broker's topics and the folders disagree about a topic's type"
    ),
    CheckRule(
        "queue-offsets", Group.QUEUES, (NOTE,), "the numbers of a queue's records repeat, restart, or leave some out"
    ),
    CheckRule(
        "batch-without-entry",
        Group.QUEUES,
        (NOTE,),
        "batches have no entry, since their INNER_NUM or INNER_BASE is impossible",
    ),
    CheckRule(
        "queue-not-used",
        Group.QUEUES,
        (NOTE,),
        "the settings place queues elsewhere, and no broker with them reads these",
    ),
    CheckRule(
        "queue-of-deleted-topic",
        Group.QUEUES,
        (NOTE,),
        "a queue lacks entries, and the store shows that its topic was deleted",
    ),
    CheckRule(
        "queue-of-expired-lite-topic",
        Group.QUEUES,
        (NOTE,),
        "a queue lacks entries, and its lite topic has expired",
    ),
    CheckRule(
        "queue-deleted", Group.QUEUES, (NOTE,), "`reput delete` removed queues whose messages are still in the log"
    ),
    CheckRule("queue-deletion-begun", Group.QUEUES, (LEFTOVER,), "`reput delete` broke off in the middle"),
    CheckRule("rocksdb-unreadable", Group.QUEUES, (DAMAGE,), "RocksDB cannot read the database of queues"),
    CheckRule("database-in-part", Group.QUEUES, (DAMAGE,), "the database of queues was copied in part"),
    CheckRule(
        "two-databases",
        Group.QUEUES,
        (DAMAGE,),
        "a database of queues is outside the folder that the settings name, alone or as a second one",
    ),
    CheckRule(
        "restart-point-missing",
        Group.QUEUES,
        (NOTE,),
        "the database of queues does not say how far it is complete, so RocketMQ goes through the whole log",
    ),
    CheckRule(
        "restart-point-past-end",
        Group.QUEUES,
        _BY_CLOSE,
        "the database of queues says that it is complete past the log's end",
        lacks_record=True,
    ),
)
_EXT = (
    CheckRule("ext-file-size", Group.EXT, (DAMAGE,), "a file of units has a wrong size"),
    CheckRule("ext-address", Group.EXT, (DAMAGE,), "the addresses of entries lead to no unit"),
    CheckRule("ext-missing", Group.EXT, (DAMAGE,), "entries have no address, although their units exist"),
    CheckRule("ext-store-time", Group.EXT, (DAMAGE,), "units have another store time than their records"),
    CheckRule("ext-order", Group.EXT, (DAMAGE,), "units begin before the end of the unit before them"),
    CheckRule(
        "ext-bitmap-missing",
        Group.EXT,
        (DAMAGE,),
        "bitmaps lack the bits of a registered filter that matches, so its group does not get the message",
    ),
    CheckRule(
        "ext-bitmap-stray",
        Group.EXT,
        (NOTE,),
        "bitmaps have bits that no registered filter gives: those of an earlier filter, or damage",
    ),
    CheckRule("ext-orphans", Group.EXT, (LEFTOVER,), "no entry leads to the units at these places"),
    CheckRule(
        "ext-without-unit", Group.EXT, (NOTE,), "entries have no address and no unit, as while ext was turned off"
    ),
)
_INDEX_FILES = (
    CheckRule("index-folder-missing", Group.INDEX_FILES, (DAMAGE,), "the log has keys, and the store has no IndexFile"),
    CheckRule("index-out-of-date", Group.INDEX_FILES, _BY_CLOSE, "the IndexFiles end before the last record with keys"),
    CheckRule("index-file-size", Group.INDEX_FILES, (DAMAGE,), "an IndexFile has a wrong size"),
    CheckRule("index-file-short", Group.INDEX_FILES, (DAMAGE,), "an IndexFile ends before its last item"),
    CheckRule(
        "index-header",
        Group.INDEX_FILES,
        _BY_CLOSE,
        "the header of an IndexFile is not what its items give; a crash leaves one that is all zeros",
    ),
    CheckRule("index-slot", Group.INDEX_FILES, (DAMAGE,), "slots do not name their newest item"),
    CheckRule("index-slot-ahead", Group.INDEX_FILES, _BY_CLOSE, "slots name items above the header's count"),
    CheckRule("index-chain", Group.INDEX_FILES, (DAMAGE,), "items link to the wrong item before them"),
    CheckRule("index-order", Group.INDEX_FILES, (DAMAGE,), "the log offsets of items run backwards"),
    CheckRule(
        "index-item-missing", Group.INDEX_FILES, (DAMAGE,), "keys have no item, and those of later messages have"
    ),
    CheckRule(
        "index-item-without-record",
        Group.INDEX_FILES,
        (DAMAGE,),
        "no record gives the hash and the log offset of an item",
        lacks_record=True,
    ),
    CheckRule(
        "index-item-past-end",
        Group.INDEX_FILES,
        _BY_CLOSE,
        "items point past the log's end",
        lacks_record=True,
    ),
    CheckRule(
        "index-item-time", Group.INDEX_FILES, (DAMAGE,), "items have time differences that their records do not give"
    ),
    CheckRule(
        "index-repeated", Group.INDEX_FILES, (NOTE,), "items repeat other items, as RocketMQ makes them after a crash"
    ),
    CheckRule("index-without-tags", Group.INDEX_FILES, (NOTE,), "tags have no items, as before RocketMQ 5.4.0"),
)
_INDEX_DATABASE = (
    CheckRule(
        "index-database-folder-missing",
        Group.INDEX_DATABASE,
        (DAMAGE,),
        "`indexRocksDBEnable=true`, and no message is in the database",
    ),
    CheckRule("index-database-damaged", Group.INDEX_DATABASE, (DAMAGE,), "RocksDB cannot read the database"),
    CheckRule("index-database-out-of-date", Group.INDEX_DATABASE, _BY_CLOSE, "the database ends before the log"),
    CheckRule(
        "index-database-begins-late",
        Group.INDEX_DATABASE,
        (DAMAGE, NOTE),
        "the broker turned the database on later: damage if the database answers, a note if IndexFiles do",
    ),
    CheckRule(
        "index-key-missing",
        Group.INDEX_DATABASE,
        (DAMAGE,),
        "keys are missing in the middle: if RocketMQ fails to write some, it only logs that",
    ),
    CheckRule("index-key-wrong", Group.INDEX_DATABASE, (DAMAGE,), "the database has entries that no record gives"),
    CheckRule(
        "index-mark-wrong",
        Group.INDEX_DATABASE,
        _BY_CLOSE,
        "a mark, which says how far the database goes, is no number, or is above the log's end",
    ),
    CheckRule(
        "index-key-past-end",
        Group.INDEX_DATABASE,
        _BY_CLOSE,
        "the database has entries of records past the log's end",
        lacks_record=True,
    ),
)
_METADATA = (
    CheckRule(
        "metadata-damaged",
        Group.METADATA,
        (DAMAGE,),
        "the file or database of a table that counts cannot be read",
    ),
    CheckRule(
        "metadata-value-wrong",
        Group.METADATA,
        (DAMAGE,),
        "a database has values that are not RocketMQ's; a broker skips them, or does not start",
    ),
    CheckRule(
        "metadata-newer",
        Group.METADATA,
        (NOTE, DAMAGE),
        "a newer broker or a newer RocksDB wrote a database: a note if only keys beside those of RocketMQ 5.5 are left "
        "out, which may have later values; damage if it cannot be read at all",
    ),
    CheckRule(
        "metadata-from-backup",
        Group.METADATA,
        (LEFTOVER,),
        "a JSON file is empty, cut or missing, as after a kill, and its `.bak` counts",
    ),
)
_FILES = (
    CheckRule("not-a-folder", Group.FILES, (DAMAGE,), "a file is where a folder belongs"),
    CheckRule("not-a-file", Group.FILES, (DAMAGE,), "a folder is where a file belongs"),
    CheckRule("stray-file", Group.FILES, (NOTE,), "files among the log, queues and IndexFiles are not RocketMQ's"),
    CheckRule(
        "own-file-damaged",
        Group.FILES,
        (DAMAGE,),
        "a file in the folder `reput` cannot be read, so commands that need it fail",
    ),
    CheckRule("checkpoint-cut", Group.FILES, (DAMAGE,), "the file `checkpoint` is too short"),
    CheckRule(
        "checkpoint-missing", Group.FILES, (NOTE,), "the file `checkpoint` is missing, and RocketMQ makes a new one"
    ),
    CheckRule(
        "checkpoint-out-of-date",
        Group.FILES,
        (NOTE,),
        "`checkpoint` is older than the newest IndexFile: RocketMQ destroys that file at its start, and indexes again",
    ),
)
RULES: Mapping[str, CheckRule] = {
    one.name: one
    for one in (
        *_SETTINGS,
        *_LOG,
        *_QUEUES,
        *_EXT,
        *_INDEX_FILES,
        *_INDEX_DATABASE,
        *_METADATA,
        *_FILES,
    )
}
"""Every rule by its name, in the order of docs/findings.md."""
