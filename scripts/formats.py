#!/usr/bin/env python
"""Writes docs/formats.md from the same lists of fields from which the code reads and writes.

    python scripts/formats.py

A table says what a layout can say, prose the rest. A test compares docs/formats.md with this.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from reput.formats import checkpoint, paths
from reput.formats.config import consumer_filter, consumer_offset, delay_offset, metadata_v1, metadata_v2
from reput.formats.database import rocksdb_table
from reput.formats.index import index_database, index_file
from reput.formats.log import client_batch, properties, record, unique_key
from reput.formats.log.record import Verdict
from reput.formats.pending import (
    order_info,
    pop_database,
    pop_state,
    timer_checkpoint,
    timer_database,
    timer_log,
    timer_wheel,
    transaction_database,
    transactions,
)
from reput.formats.queue import batch_consume_queue, consume_queue, consume_queue_ext
from reput.formats.queue import rocksdb_consume_queue as rocksdb
from reput.formats.topics import system_topics
from reput.formats.wire import recall_handle, remoting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reput.formats.layout import Layout

COMMAND = "python scripts/formats.py"
FILE = Path(__file__).resolve().parents[1] / "docs" / "formats.md"

SYS_FLAG_BITS: tuple[tuple[int, int, str], ...] = (
    (record.FLAG_COMPRESSED, record.FLAG_COMPRESSED, "the body is compressed"),
    (record.FLAG_MULTI_TAGS, record.FLAG_MULTI_TAGS, "several tags; makes no difference to any index"),
    (record.TRANSACTION_MASK, 0, "a plain message: queue entry and index items"),
    (record.TRANSACTION_MASK, record.TRANSACTION_PREPARED, "prepared: index items, no queue entry"),
    (record.TRANSACTION_MASK, record.TRANSACTION_COMMIT, "committed: queue entry and index items"),
    (record.TRANSACTION_MASK, record.TRANSACTION_ROLLBACK, "rolled back: neither"),
    (record.FLAG_BORN_HOST_V6, record.FLAG_BORN_HOST_V6, "the born host takes 20 bytes instead of 8"),
    (record.FLAG_STORE_HOST_V6, record.FLAG_STORE_HOST_V6, "the store host takes 20 bytes instead of 8"),
    (record.FLAG_NEED_UNWRAP, record.FLAG_NEED_UNWRAP, "a client's batch inside one record"),
    (record.FLAG_INNER_BATCH, record.FLAG_INNER_BATCH, "inner batch: INNER_NUM messages, one queue entry"),
    *(
        (record.COMPRESSION_MASK, bits, f"a compressed body is {name}")
        for bits, name in record.COMPRESSION_NAMES.items()
    ),
)
"""Mask, value of the masked bits, and what it means."""

PROPERTY_NAMES: tuple[tuple[bytes, str], ...] = (
    (properties.UNIQUE_KEY, "the client's id of the message; its first index item"),
    (properties.KEYS, "keys, separated by spaces; an index item each"),
    (properties.TAGS, "the tag; its hash is the queue entry's tags code"),
    (properties.DELAY, "delay level, 1 and up; makes the tags code a delivery time"),
    (properties.WAIT, '"false": a put does not wait for the flush'),
    (properties.INNER_NUM, "messages in an inner batch"),
    (properties.INNER_BASE, "queue offset of an inner batch's first message"),
    (properties.INNER_MULTI_DISPATCH, "further queues that get an entry (light message queues)"),
    (properties.INNER_MULTI_QUEUE_OFFSET, "the queue offsets there"),
    (properties.REAL_TOPIC, "the topic of a message that waits in a topic of the broker's"),
    (properties.REAL_QUEUE_ID, "the queue there"),
    (properties.TIMER_OUT_MS, "when a timer message is due (ms)"),
    (properties.TIMER_DELETE_KEY, "the unique key of the timer message that this one marks as deleted"),
    (properties.TIMER_ROLL_TIMES, "how often the timer wheel has put a message back to its queue"),
    (properties.TIMER_ROLL_LABEL, "`R`: the timers in RocksDB have put it back"),
    (properties.PRODUCER_GROUP, "the producer group of a transaction"),
    (properties.TRANSACTION_ID, "the id of a transaction: its message's unique key"),
    (properties.CHECK_TIMES, "how often the broker has asked the producer about it"),
    (properties.PREPARED_QUEUE_OFFSET, "the queue offset at which a half message was first, if it was put again"),
    (properties.TRANS_OFFSET, "log offset of the half message in RocksDB that this message ends"),
    (properties.CRC32, "CRC of the whole record, see below"),
)

FILE_NAMES: tuple[tuple[str, str], ...] = (
    (f"{paths.COMMIT_LOG}/{paths.offset_name(0)}", "the log; the name is the file's start offset, 20 digits"),
    (
        f"{paths.CONSUME_QUEUE}/TOPIC/QUEUE/{paths.offset_name(0)}",
        "entries of one queue; the name is a byte offset in the queue, 20 digits",
    ),
    (
        f"{paths.CONSUME_QUEUE}/{rocksdb.FOLDER_SIGNS[0]}",
        "the folder is a RocksDB, which holds the entries of all queues; perhaps consumequeue_rocksdb instead",
    ),
    (
        f"{paths.INDEX}/20261121023731573",
        "index by key; the name is the local time of creation, yyyyMMddHHmmssSSS",
    ),
    (
        f"{paths.INDEX_DATABASE}/",
        "a RocksDB: the index by key, if indexRocksDBEnable is on, and pending timers and transactions",
    ),
    (paths.CHECKPOINT, "what is known to be on disk"),
    (paths.ABORT, "there while a broker runs, so after a crash too"),
    (paths.LOCK, "locked (POSIX record lock on byte 0) by the broker that runs"),
    (f"{paths.CONFIG}/*.json", "topics, subscription groups, consumer offsets, delay offsets"),
    (
        ", ".join(
            f"{paths.CONFIG}/{name}"
            for name in (metadata_v1.TOPICS.folder, metadata_v1.GROUPS.folder, metadata_v1.OFFSETS.folder)
        ),
        "the same in a RocksDB each; the JSON files are out of date then",
    ),
    (f"{paths.CONFIG}/{metadata_v1.SINGLE_FOLDER}", "the same in one RocksDB"),
    (f"{paths.CONFIG}/{metadata_v2.FOLDER}", "the same in one RocksDB of version 2"),
    (
        f"{paths.CONSUME_QUEUE_EXT}/TOPIC/QUEUE/{paths.offset_name(0)}",
        "units of one queue; the name is a byte offset in these files, 20 digits",
    ),
    (
        f"{paths.BATCH_CONSUME_QUEUE}/TOPIC/QUEUE/{paths.offset_name(0)}",
        "the same of a queue of batches (`queue.type` BatchCQ)",
    ),
    (f"{paths.REPUT}/", "reput's own files, which RocketMQ ignores"),
)


def formats_document() -> str:
    """Return the text of docs/formats.md."""
    return "\n\n".join(part.strip("\n") for part in _parts()) + "\n"


def _parts() -> Iterator[str]:
    yield _text(f"""
        # Formats

        Made by `{COMMAND}` from the lists of fields in `src/reput/formats/`; a test holds this file equal
        to them.

        All integers are big-endian and signed, two's complement, unless a table says otherwise. Offsets and
        sizes are bytes, times are milliseconds since 1970 (UTC). "Physical offset" means a byte offset in
        the CommitLog, "queue offset" a message's number in its queue.
    """)
    yield "## Files of a store"
    yield _table(("Path", "What it is"), ((f"`{path}`", meaning) for path, meaning in FILE_NAMES))
    yield _text(f"""
        Files of the log and of queues have one size each (by default 1 GiB and
        {consume_queue.DEFAULT_FILE_SIZE:,} bytes) and are made at full size, filled with zeros. A file's
        name says where it begins, so the first file of a log or queue may begin above 0: earlier messages
        have expired. A queue's folder is its id in decimal, without leading zeros; a topic's folder is
        the topic. A topic of more than {paths.MAX_TOPIC_BYTES} bytes, with `/` or a zero byte in it, named
        `.` or `..`, or not UTF-8, cannot be a folder and is never believed.
    """)
    yield from _record()
    yield from _consume_queue()
    yield from _consume_queue_ext()
    yield from _batch_consume_queue()
    yield from _rocksdb()
    yield from _rocksdb_table()
    yield from _index_file()
    yield from _index_database()
    yield from _checkpoint()
    yield from _consumer_offset()
    yield from _metadata()
    yield from _consumer_filter()
    yield from _pending()
    yield from _own()
    yield from _remoting()


def _record() -> Iterator[str]:
    yield "## CommitLog"
    yield "### Message record"
    yield f"Source: `{record.HEAD.source}`, `CommitLog.checkMessageAndReturnSize`."
    yield _table(("Offset", "Size", "Name", "Meaning"), _record_rows())
    yield _text(f"""
        After `born_timestamp` offsets depend on the lengths before them. The shortest record, with
        two IPv4 hosts and without body, topic and properties, has {record.MIN_RECORD_SIZE} bytes.

        A record has version 2 (magic 0x{record.MAGIC_V2 & 0xFFFFFFFF:X}) when its topic has more than
        {record.V2_TOPIC_LENGTH_ABOVE} UTF-16 units, else version 1 (0x{record.MAGIC_V1 & 0xFFFFFFFF:X}).

        A message's offset id is its store host (address and port) and physical offset in upper-case hex.
    """)
    yield "### Host with an IPv4 address"
    yield _layout(record.HOST_V4)
    yield "### Host with an IPv6 address"
    yield _layout(record.HOST_V6)
    yield "### sysFlag"
    bits = ((f"0x{mask:X}", f"0x{value:X}", meaning) for mask, value, meaning in SYS_FLAG_BITS)
    yield _table(("Bits", "Value", "Meaning"), bits)
    yield "### Properties"
    yield _text(f"""
        `name 0x{properties.NAME_VALUE_SEPARATOR:02X} value 0x{properties.PROPERTY_SEPARATOR:02X}`,
        repeated; names and values are UTF-8. The last separator is written and may be missing when read. A
        piece without name, without value or without 0x01 is skipped; the first 0x01 of a piece separates;
        of a repeated name the later value wins. At most {properties.MAX_PROPERTIES_SIZE:,} bytes in all.
        The names that indexes are made from, or that reput must know:
    """)
    yield _table(("Name", "Meaning"), ((f"`{name.decode()}`", meaning) for name, meaning in PROPERTY_NAMES))
    yield "### CRCs"
    yield _text(f"""
        `body_crc` is the CRC-32 (polynomial of zlib) of the body as stored, the highest bit cleared.
        RocketMQ checks it only where there is a body.

        With `enabledAppendPropCRC` the last property is `{properties.CRC32.decode()}`:
        {record.CRC_PROPERTY_SIZE} bytes of name, 0x01, ten digits and 0x02. The digits are the CRC in
        decimal, the least significant digit first, filled with `0` on the right. It covers all bytes of the
        record before the property, highest bit cleared. The {record.CRC_PROPERTY_SIZE} bytes count in
        `properties_length` and `total_size`; properties that did not end with 0x02 get one before it.
        With `forceVerifyPropCRC` it is checked instead of `body_crc`, and a record without it is bad.
    """)
    yield "### Blank record"
    yield _layout(record.BLANK)
    yield _text(f"""
        A record never crosses a file's end, and {record.BLANK_SIZE} bytes are always left after it: a record
        that does not fit begins the next file. The blank record then fills this file; the bytes after its
        {record.BLANK_SIZE} mean nothing. A record that leaves exactly {record.BLANK_SIZE} bytes is followed
        by a blank record of {record.BLANK_SIZE}.
    """)
    yield "### What counts as a record"
    yield _text("""
        Every length is compared with the record's end, and the record's end with the file's, before a byte
        after it is read. RocketMQ does not make the further checks. A record must name its own place: bytes of
        an earlier life of the file, and most bodies that imitate a record, pass every other check. Its
        queue id must not be negative, its queue offset must be one that a log of this length can reach, and
        its topic must be a folder's name. These are the verdicts about a place:
    """)
    yield _table(("Verdict", "What is there"), ((v.name, v.meaning) for v in Verdict))
    yield _text(f"""
        A queue offset may be at most physical offset / {record.MIN_RECORD_SIZE} +
        {record.QUEUE_OFFSET_SLACK:,}, in a queue of batches {record.MAX_BATCH_MESSAGES:,} times the quotient more.
    """)


def _record_rows() -> Iterator[Sequence[str]]:
    head = [offset for offset, _, _, _ in record.HEAD.rows()] + [str(record.HEAD_SIZE)]
    for number, (name, size, meaning) in enumerate(record.RECORD_PARTS):
        yield head[number] if number < len(head) else "", size, f"`{name}`", meaning


def _consume_queue() -> Iterator[str]:
    yield "## ConsumeQueue"
    yield _layout(consume_queue.ENTRY)
    yield _text(f"""
        Entry n of a queue, its message with queue offset n, is at byte n * {consume_queue.ENTRY_SIZE}
        of the queue. The configured file size is rounded up to whole entries. Only plain and committed
        messages have an entry. An entry is valid when `physical_offset` is not negative and `size` is above
        0; the first that is not ends the queue.

        `tags_code` is Java's `String.hashCode` of the TAGS property (over UTF-16 units, a malformed byte
        sequence replaced by U+FFFD as the JDK's decoder does it), sign-extended; 0 without tags. In topic
        `{system_topics.SCHEDULE_TOPIC}` a message with DELAY n above 0 has its delivery time there: store
        time plus the delay of level n, or of the highest level where n is above it.

        Pre-blank: an entry with physical offset 0, size 0x{consume_queue.PRE_BLANK_SIZE:X} and tags code 0
        fills the first file of a queue up to its first message, where that one is not the file's first
        entry. It counts as valid. reput puts it in the place of a gap in queue offsets too, since a hole of
        zeros would end the queue.

        A queue that ends with numbers without messages (they have expired, or lie in a gap of the log) has
        size {consume_queue.LAST_BLANK_SIZE} in the last of its pre-blanks. RocketMQ takes the last entry's
        physical offset + size for the place up to which the queue is built. After a pre-blank of the
        usual size it would give no entry to any message in the log's first 2 GiB.
    """)


def _consume_queue_ext() -> Iterator[str]:
    yield "## ConsumeQueueExt"
    yield _layout(consume_queue_ext.UNIT)
    yield _text(f"""
        With `enableConsumeQueueExt` each message of a queue has a unit: this head, then the bitmap. Files
        have {consume_queue_ext.DEFAULT_FILE_SIZE:,} bytes by default. A unit has at most
        {consume_queue_ext.MAX_UNIT_SIZE:,} bytes and lies within one file, with {consume_queue_ext.END_ROOM}
        bytes left after it. If the next one does not fit, the two bytes -1 follow, and it is the first
        of the next file. The queue entry's `tags_code` is then the unit's address, its byte offset in
        these files plus -2^63; a tags code is an address where it is at most {consume_queue_ext.MAX_ADDRESS}.

        The bitmap says which consumers' SQL92 filters the message matches, if `enableCalcFilterBitMap`
        is on and its topic has a filter in config/{consumer_filter.FILE_NAME}: bit i is bit i % 8, from the
        lowest, of byte i / 8. A filter has `bitPos` of `bitNum` bits. The lower 64 bits of murmur3 (128 bits) of
        the group, `#` and the topic give two 32-bit halves h1 and h2. Bit n, from 1 on, is h1 + n * h2 (as an
        int, negated bit by bit where it is negative) modulo `bitNum`.
    """)


def _pending() -> Iterator[str]:
    yield "## Pending work"
    yield _text("""
        Timer messages wait in queue 0 of the topic rmq_sys_wheel_timer until the timer wheel, or RocksDB, has taken
        them in. Half messages of transactions wait in a topic of their own, the checkpoints of pop consumers in the
        topics rmq_sys_REVIVE_LOG_*.
    """)
    yield "### timerwheel"
    yield _body_of(timer_wheel.__doc__)
    yield _layout(timer_wheel.SLOT)
    yield "### timerlog"
    yield _body_of(timer_log.__doc__)
    yield _layout(timer_log.UNIT)
    yield _layout(timer_log.BLANK_UNIT)
    yield "### config/timercheck"
    yield _body_of(timer_checkpoint.__doc__)
    yield _layout(timer_checkpoint.TIMER_CHECKPOINT)
    yield f"The file has {timer_checkpoint.TIMER_CHECKPOINT_FILE_SIZE} bytes; the rest is zero."
    yield "### Timers in RocksDB"
    yield _body_of(timer_database.__doc__)
    yield _table(("Size", "Name", "Meaning"), timer_database.TIMER_KEY_PARTS)
    yield _layout(timer_database.TIMER_VALUE)
    yield f"### config/{delay_offset.FILE_NAME}"
    yield _body_of(delay_offset.__doc__)
    yield "### Half messages of transactions"
    yield _body_of(transactions.__doc__)
    yield "### Half messages in RocksDB"
    yield _body_of(transaction_database.__doc__)
    yield _table(("Size", "Name", "Meaning"), transaction_database.HALF_KEY_PARTS)
    yield _layout(transaction_database.HALF_VALUE)
    yield "### Checkpoints of pop"
    yield _body_of(pop_state.__doc__)
    yield "### Pop in RocksDB"
    yield _body_of(pop_database.__doc__)
    yield _table(("Size", "Name", "Meaning"), pop_database.POP_KEY_PARTS)
    yield f"### config/{order_info.FILE_NAME}"
    yield _body_of(order_info.__doc__)


def _body_of(docstring: str | None) -> str:
    """Return a module's docstring without its first line."""
    return _text((docstring or "").partition("\n\n")[2])


def _consumer_filter() -> Iterator[str]:
    yield f"## config/{consumer_filter.FILE_NAME}"
    yield _text((consumer_filter.__doc__ or "").partition("\n\n")[2])


def _batch_consume_queue() -> Iterator[str]:
    yield "## Batch ConsumeQueue"
    yield _layout(batch_consume_queue.BATCH_ENTRY)
    yield _text(f"""
        The queues of topics whose `queue.type` is BatchCQ. Entries are in log order, one for
        each record, so entry n has nothing to do with queue offset n: the entry of a message is the last one whose
        `base_offset` is not above its queue offset. A file begins at a multiple of the file size (by default
        {batch_consume_queue.DEFAULT_FILE_SIZE:,} bytes). An entry is valid when its physical offset and base offset
        are not negative and its size and messages are above 0; the first that is not ends the queue. There are no
        pre-blank entries.

        A record with `{properties.INNER_NUM.decode()}` and `{properties.INNER_BASE.decode()}` holds that number of
        messages, from that queue offset on. Inner batches have both (sysFlag 0x{record.FLAG_INNER_BATCH:X}).
        The broker writes `{properties.INNER_BASE.decode()}` when it gives the batch its queue offsets. Any
        other record of such a queue is one message, at its own queue offset.
    """)


def _rocksdb() -> Iterator[str]:
    yield "## RocksDB ConsumeQueue"
    yield _text(rocksdb.__doc__ or "")
    for title, key_parts in (
        ("Key of an entry", rocksdb.ENTRY_KEY_PARTS),
        ("Key of a queue's max or min", rocksdb.OFFSET_KEY_PARTS),
    ):
        yield f"### {title}"
        yield _table(
            ("Size", "Name", "Meaning"),
            ((size, f"`{name}`" if name else "", meaning) for size, name, meaning in key_parts),
        )
    for layout in (rocksdb.VALUE, rocksdb.OFFSET_VALUE, rocksdb.RESTART_VALUE):
        yield f"### {layout.title}"
        yield _layout(layout)
    yield _text("""
        The database is the folder consumequeue itself, or consumequeue_rocksdb
        (useSeparateStorePathForRocksdbCQ); with double write the topics' folders are beside
        its files. RocketMQ writes it without a log of its own (WAL) and flushes both families at once, so
        after a crash they agree with one another, and what is missing is in the CommitLog from the restart
        point on. Its tables have format version 5 at most: RocketMQ's RocksDB takes a newer one for damage.

        A number without a message, in a gap of queue offsets, has a pre-blank entry here too, with the
        store time of the next message. Before a queue's first message there is nothing: `min` says
        where it begins.
    """)


def _rocksdb_table() -> Iterator[str]:
    yield "## Table of RocksDB"
    yield _text(rocksdb_table.__doc__ or "")
    yield "### Properties of a table"
    rows = ((f"`{name}`", value, meaning) for name, value, meaning in rocksdb_table.PROPERTIES)
    yield _table(("Name", "Value", "Meaning"), rows)
    yield _text(f"""
        A data block ends where it has {rocksdb_table.BLOCK_SIZE:,} bytes, or more than
        {rocksdb_table.BLOCK_FULL_FROM:,} and the next entry would bring it over that by RocksDB's estimate. A restart
        comes with every {rocksdb_table.RESTART_INTERVAL}th entry, in the index with every one. The checksum is the low
        half of XXH64 (kind {rocksdb_table.CHECKSUM_XXHASH64}) with seed 0.

        A block that is compressed by LZ4 (kind {rocksdb_table.LZ4} in its trailer, 0 for none) is a varint with its
        size, and an LZ4 block without a frame. It is compressed only where that saves more than an eighth.
    """)


def _index_file() -> Iterator[str]:
    yield "## IndexFile"
    yield _text(f"""
        A header, the hash slots, then the items: {index_file.HEADER_SIZE} + {index_file.SLOT_SIZE} * slots
        + {index_file.ITEM_SIZE} * items bytes, by default {index_file.DEFAULT_SLOTS:,} slots and
        {index_file.DEFAULT_ITEMS:,} items.
    """)
    yield "### Header"
    yield _layout(index_file.HEADER)
    yield "### Slot"
    yield _layout(index_file.SLOT)
    yield "### Item"
    yield _layout(index_file.ITEM)
    yield _text(f"""
        Which items a message has, in this order: its UNIQ_KEY, each of its KEYS, and, from RocketMQ 5.4.0
        on, its TAGS. Rolled-back messages have none, prepared ones have them. The text that is hashed is
        the topic, `#` and the key; for tags the topic, `#{index_file.TAG_KEY_PREFIX.decode()}` and the
        whole TAGS property. The hash is the absolute value of Java's `String.hashCode`, and 0 for -2^31.

        Chains: items are numbered from 1, so item 0 stays zero and a file takes one item less than it has
        room for. The item goes to slot `key_hash` modulo the number of slots: `previous_item` takes the
        number that the slot held, and the slot takes the item's. So a chain leads from the newest item to
        the oldest. `hash_slot_count` counts the slots that are not 0.

        Times: `time_diff_s` is whole seconds from the header's `begin_timestamp`, never negative and at
        most 2^31 - 1; 0 while `begin_timestamp` is not above 0. A new file begins with the end time and end
        offset of the file before it, so its item 1 is measured against those; then item 1's own time and
        offset become the header's begin.

        A file that is full is followed by another one, even in the middle of a message's items.
    """)


def _index_database() -> Iterator[str]:
    yield "## Index in RocksDB"
    yield _text(index_database.__doc__ or "")
    yield "### Key of an index entry"
    yield _table(
        ("Size", "Name", "Meaning"),
        ((size, f"`{name}`" if name else "", meaning) for size, name, meaning in index_database.ENTRY_KEY_PARTS),
    )
    for layout in (index_database.VALUE, index_database.MARK):
        yield f"### {layout.title}"
        yield _layout(layout)
    yield _text("""
        Which entries a message has, in this order: each of its KEYS once, its whole TAGS property, its
        UNIQ_KEY. Malformed UTF-8 is written as Java writes it, U+FFFD for each malformed sequence.

        RocketMQ looks for a key among the keys, and among the unique keys if there is none. It goes
        through the hours from the first to the last, and takes the first entries that it finds. It answers for at
        most maxRocksDBIndexQueryDays days. When log files expire, it removes the entries of one week of hours before
        them.
    """)


def _checkpoint() -> Iterator[str]:
    yield "## checkpoint"
    yield _layout(checkpoint.CHECKPOINT)
    yield _text(f"""
        The file has {checkpoint.CHECKPOINT_FILE_SIZE} bytes; the rest is zero. Versions of RocketMQ before
        5.5 write fewer of the fields.

        After a crash (`abort` is there) RocketMQ destroys every IndexFile whose end time is later than
        `index_msg_timestamp`. It scans the log from the last file whose first record lies at or before
        `logics_physical_offset` and was stored at or before `logics_msg_timestamp`. In versions before 5.5 that
        record was stored at least 3 seconds before the smaller of the first two times. reput writes a checkpoint
        only once the log and then the indexes up to the last record are durable.
    """)


def _consumer_offset() -> Iterator[str]:
    yield f"## config/{consumer_offset.FILE_NAME}"
    yield _text((consumer_offset.__doc__ or "").partition("\n\n")[2])


def _metadata() -> Iterator[str]:
    yield "## Metadata in RocksDB, version 1"
    yield _text((metadata_v1.__doc__ or "").partition("\n\n")[2])
    yield "## Metadata in RocksDB, version 2"
    yield _text((metadata_v2.__doc__ or "").partition("\n\n")[2])
    for layout in (metadata_v2.KEY_START, metadata_v2.VERSION_VALUE):
        yield f"### {layout.title}"
        yield _layout(layout)


def _own() -> Iterator[str]:
    from reput.formats.own import files as own
    from reput.formats.own import given_offsets, part_file

    yield "## reput's own files"
    yield _text(own.__doc__ or "")
    for layout in own.LAYOUTS:
        yield f"### {layout.title}"
        yield _layout(layout)
    yield "### Given offsets"
    yield _text(given_offsets.__doc__ or "")
    yield "### Parts"
    yield _text(part_file.__doc__ or "")
    for layout in part_file.LAYOUTS:
        yield f"#### {layout.title.capitalize()}"
        yield _layout(layout)


def _remoting() -> Iterator[str]:
    yield "## Remoting protocol"
    yield _text((remoting.__doc__ or "").partition("\n\n")[2])
    for layout in remoting.LAYOUTS:
        yield f"### {layout.title}"
        yield _layout(layout)
    yield "### Batch of a client"
    yield _text(client_batch.__doc__ or "")
    yield _layout(client_batch.HEAD)
    yield _text(unique_key.__doc__ or "")
    yield _layout(unique_key.UNIQUE_KEY)
    yield "### Recall handle"
    yield _text(recall_handle.__doc__ or "")


def _layout(layout: Layout) -> str:
    order = "" if layout.byte_order == ">" else " Little-endian."
    rows = ((offset, size, f"`{name}`", meaning) for offset, size, name, meaning in layout.rows())
    table = _table(("Offset", "Size", "Name", "Meaning"), rows)
    return f"{_sentences(f'{layout.size} bytes.{order} Source: {layout.source}.')}\n\n{table}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


_BETWEEN_SENTENCES = re.compile(r"(?<=[.?!]) (?=\S)")


def _text(text: str) -> str:
    """Return the paragraphs of a docstring or a literal, a sentence a line; indented lines stay as they are."""
    first, _, rest = text.partition("\n")
    paragraphs = (dedent(rest) if not first.strip() else f"{first}\n{dedent(rest)}").strip("\n").split("\n\n")
    return "\n\n".join(part if part.startswith("    ") else _sentences(part) for part in paragraphs)


def _sentences(paragraph: str) -> str:
    return _BETWEEN_SENTENCES.sub("\n", " ".join(paragraph.split("\n")))


if __name__ == "__main__":
    FILE.write_text(formats_document(), encoding="utf-8")
