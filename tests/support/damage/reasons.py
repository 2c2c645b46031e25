"""The reasons why the damage of a field may be harmless, or is returned as stored."""

from __future__ import annotations

from support.damage import places

_UNUSED = "no reader looks there"
_ALONE = "no other place has this value; `enabledAppendPropCRC=true` and `forceVerifyPropCRC=true` find it"
_OF_PREPARED = (
    "a prepared message: no queue has an entry for it, and items of the index have no queue id; a look-up by its "
    "key, whose place alone is asked here, returns it with the changed one"
)
_AFTER_CRASH = "counts only after a crash, and not if reput's frontier says more"
_NOT_OURS = "reput does not read this file"
_CURRENT = "counts only while a program writes the store"

_OF_FIELD: dict[tuple[str, str], str] = {
    (places.INDEX, "item 0, which is not used"): _UNUSED,
    (places.WATERMARKS, "epoch"): "each owner raises it, whatever it is",
    (places.CHECKPOINT, "the file is cut"): _AFTER_CRASH,
    (places.LOG, "the file is cut"): "only zeros after the log's end are gone",
    (places.QUEUE, "the file is cut"): "only zeros after the last entry are gone",
    (places.BATCHES, "the file is cut"): "only zeros after the last entry are gone",
    (places.EXT, "the file is cut"): "only zeros after the last unit are gone",
    (places.UNIT, "bitmap"): "only pulls with a registered SQL92 filter use it, and this store has none",
    ("RocksDB log", "the file is cut"): (
        "a write-ahead log that is cut is one that a crash has torn: its last changes, of topics or groups that no "
        "answer here needs, are gone"
    ),
    ("RocksDB table", "blocks"): "a block whose keys no question needed",
    ("RocksDB table", "footer"): "bytes between the handles and the version are padding",
    (places.RECORD, "queue_id"): _OF_PREPARED,
    (places.BATCH, "compacted_offset"): "compaction uses it, and reput does not",
    (places.BATCH, "reserved"): _UNUSED,
    (places.BLANK, "size"): "the file's length says the same",
}
_OF_KIND = {
    places.CHECKPOINT: _AFTER_CRASH,
    places.WATERMARKS: _CURRENT,
    places.RECORD: _ALONE,
    "config/consumerOffset.json": "it has no checksum; a changed number is another one, and some names are for brokers",
    "config/lmqConsumerOffset.json": "it has no checksum; a changed number is another one",
    "config/delayOffset.json": "it has no checksum; another number is another place in the queue of a delay level",
    "config/topics.json": "it has no checksum; reads use names and types of topics, and `reput serve` the rest",
    "config/timercheck": "it has no checksum; another time or place within the bounds is another state of the timers",
    "config/consumerOrderInfo.json": "messages that are held in order: `reput serve` alone asks for them",
    "config/consumerFilter.json": "only pulls with a registered SQL92 filter use it, and this store has none",
    "config/transactionMetrics": _NOT_OURS,
    "config/timermetrics": _NOT_OURS,
    "timerwheel": "a slot in which no timer waits",
    "timerlog": "a unit of a timer that has been delivered",
    "RocksDB OPTIONS": "reput opens a database with options of its own, and nobody reads these",
    "RocksDB IDENTITY": "the database's id, which RocksDB does not compare with anything when it opens the database",
    "lock": "the lock on the file counts, not its bytes",
    "abort": "the file itself says that the store was not closed, whatever its bytes are",
    "abort.bak": _NOT_OURS,
    "compaction/position-checkpoint": _NOT_OURS,
}


def reason(kind: str, field: str) -> str:
    """Return the reason, "" if there is none."""
    if field == places.UNUSED:
        return _UNUSED
    if (kind, field) in _OF_FIELD:
        return _OF_FIELD[kind, field]
    if kind.endswith(".bak"):
        return "the file itself is good, so its backup does not count"
    return _OF_KIND.get(kind.partition("/0")[0], "")


_ENTRIES = (
    "entries have no checksum: one may lead to another message of the queue, which says its own offset, or read as "
    "empty, which hides it and may hide all after it"
)
_OF_READ = {
    places.LOG: "no CRC covers the properties and most fields of the head; " + _ALONE.partition("; ")[2],
    places.QUEUE: _ENTRIES,
    places.BATCHES: _ENTRIES,
    places.EXT: "units have no checksum: another tags code shows or hides a message from a pull by tags",
    "config/consumerOffset.json": "it has no checksum: read as its backup, it has the offsets of the save before",
    places.INDEX: "items have no checksum: a look-up may miss messages; those that it returns have the key",
}


def reason_of_read(kind: str) -> str:
    """Return the reason why a wrong sector of a kind of file may give another answer, "" if there is none."""
    return _OF_READ.get(kind, "")
