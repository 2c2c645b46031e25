"""Transactions without an end whose half messages the column family `trans` of a database refers to."""

from __future__ import annotations

from collections.abc import Iterator

from reput.files.database import Family
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import properties as props
from reput.formats.paths import INDEX_DATABASE
from reput.formats.pending.transaction_database import LAST_OFFSET_KEY, HalfEntry, decode_half_entry, decode_last_offset
from reput.formats.stored_text import shown_text
from reput.formats.topics.system_topics import DATABASE_HALF_TOPIC, DATABASE_OP_TOPIC
from reput.store.pending.half_row import PendingTransaction, half_row
from reput.store.pending.verify import Verified, properties_of, verify, verify_queued
from reput.store.read.queue_walk import QueuedMessage, walk_queue
from reput.store.read.view import StoreView


def database_halves(view: StoreView, family: Family, damage: list[str]) -> Iterator[PendingTransaction]:
    """Yield the half messages without an end, by log offset.

    A broker that was killed may not have taken in the last messages of the log. It does so when it starts
    (`TransMessageRocksDBStore.buildTransIndex`), and so they count here: halves after the database's last one, and ends
    from there on. Memory holds the offsets of these ends.
    """
    last = decode_last_offset(family.get(LAST_OFFSET_KEY))
    ended = {
        offset
        for found in _after(view, DATABASE_OP_TOPIC, last)
        if (offset := parse_whole(properties_of(found).get(props.TRANS_OFFSET), 64)) is not None
    }
    for key, value in family.walk():
        if key == LAST_OFFSET_KEY:
            continue
        entry = decode_half_entry(key, value)
        if entry is None:
            damage.append(f"{family.place}: trans key {key[:40].hex()}: not a half message; RocketMQ skips it")
        elif entry.physical_offset not in ended:
            yield _row(view, entry)
    for found in _after(view, DATABASE_HALF_TOPIC, last):
        if found.physical_offset > last and found.physical_offset not in ended:
            verified = verify_queued(view, found, DATABASE_HALF_TOPIC)
            yield half_row(verified, found.physical_offset, found.size, INDEX_DATABASE)._replace(
                half_offset=found.queue_offset
            )


def _after(view: StoreView, topic: str, last: int) -> Iterator[QueuedMessage]:
    return (found for found in walk_queue(view, topic, 0, 0) if found.physical_offset >= last)


def _row(view: StoreView, entry: HalfEntry) -> PendingTransaction:
    verified = _compared(verify(view, entry.physical_offset, entry.size, (DATABASE_HALF_TOPIC,)), entry)
    row = half_row(verified, entry.physical_offset, entry.size, INDEX_DATABASE)
    record = verified.record
    return row._replace(
        topic=shown_text(entry.topic),
        unique_key=shown_text(entry.unique_key),
        check_times=entry.check_times,
        half_offset=record.queue_offset if verified.is_verified and record is not None else None,
    )


def _compared(verified: Verified, entry: HalfEntry) -> Verified:
    if not verified.is_verified:
        return verified
    names = tuple(verified.properties.get(name) for name in (props.REAL_TOPIC, props.TRANSACTION_ID))
    if names == (entry.topic, entry.unique_key):
        return verified
    return verified.another(
        f"the half message at log offset {entry.physical_offset} is of transaction "
        f"{verified.text(props.TRANSACTION_ID)} in topic {verified.real_topic}"
    )
