"""The decoders that are fuzzed, each with a law: it returns a value or a documented error.

A value that can be written is the same when it is read again. A decoder of the log is compared with its compiled twin.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reput.client.routes import parse_route
from reput.config import StoreConfig, parse_delay_levels, parse_properties
from reput.connect.export import decode_plan
from reput.connect.export_range import decode_marker
from reput.connect.sink.ledger import decode_ledger
from reput.connect.sink.untrusted_arrow import read_stream
from reput.dispatch import sql
from reput.errors import ConfigError, DamagedStoreError
from reput.formats.checkpoint import decode_checkpoint
from reput.formats.config import (
    consumer_filter,
    consumer_offset,
    data_version,
    delay_offset,
    metadata_v1,
    metadata_v2,
    request_modes,
)
from reput.formats.database import rocksdb_manifest
from reput.formats.index import index_database, index_file
from reput.formats.java import fastjson
from reput.formats.log import body, client_batch, properties, record
from reput.formats.own import files as own
from reput.formats.own import given_offsets
from reput.formats.pending import (
    order_info,
    pop_database,
    pop_state,
    timer_checkpoint,
    timer_database,
    timer_log,
    transaction_database,
)
from reput.formats.queue import batch_consume_queue, consume_queue, consume_queue_ext, rocksdb_consume_queue
from reput.formats.topics import lite_topics
from reput.formats.wire import recall_handle, receipt_handle, remoting, subscription
from reput.kernels.layouts.columns import Columns
from support import twins
from support.fuzz import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_WHERE = "fuzzed"
_MOST_BODY = 1 << 16
_PROPERTIES = {"amount": "250", "region": "eu", "rate": "1.5", "ok": "true", "TAGS": "a", "long": "9" * 20}


class Target(NamedTuple):
    """A decoder to fuzz.

    Attributes:
        name: its name, also that of its corpus.
        what: what it decodes, for people.
        run: decodes bytes; raises if a law is broken.
        longest: the most bytes of an input.
    """

    name: str
    what: str
    run: Callable[[bytes], None]
    longest: int = 512


# --- the log -------------------------------------------------------------------------------------


def _record(data: bytes) -> None:
    """The first byte chooses the CRC that is checked."""
    check, data = (data[0] & 7 if data else 0), data[1:]
    if check & record.CHECK_MASK == record.CHECK_MASK:
        check -= 1
    verdict, size = record.examine(data, 0, len(data), 0, check)
    columns = [Columns(8, 8, 8), Columns(8, 8, 8)]
    call = twins.Call(crc_check=check)
    reference, compiled = (twins.decode(kind, data, call, columns.pop()) for kind in twins.TWINS)
    assert reference == compiled, "the twins differ"
    if verdict is record.Verdict.GOOD:
        found = record.decode_record(data)
        again = record.decode_record(record.encode_record(found))
        assert again._replace(body_crc=found.body_crc) == found
        assert found.size == size


def _properties(data: bytes) -> None:
    found = properties.decode_properties(data)
    # A value with the byte that ends a name can be read, and is not written.
    encoded = _allowing(ValueError, properties.encode_properties, found)
    assert encoded is None or properties.decode_properties(encoded) == found
    properties.text_properties(data)
    properties.keys_of(data)


def _batch(data: bytes) -> None:
    found = client_batch.decode_messages(data)
    assert found is None or client_batch.decode_messages(client_batch.encode_messages(found)) == found


def _body(data: bytes) -> None:
    """The first two bytes are flags."""
    flags = int.from_bytes(data[:2]) if len(data) > 1 else 0
    try:
        assert len(body.decode_body(data[2:], flags, _MOST_BODY)) <= max(_MOST_BODY, len(data))
    except body.BodyError:
        return


# --- queues and indexes --------------------------------------------------------------------------


def _queue_entries(data: bytes) -> None:
    """Every kind of entry, wherever it may begin."""
    for at in range(min(len(data), 64)):
        unit = consume_queue_ext.decode_unit(data, at)
        assert unit is None or unit.size <= len(data) - at
        if len(data) - at >= consume_queue.ENTRY_SIZE:
            entry = consume_queue.decode_entry(data, at)
            assert consume_queue.encode_entry(entry) == data[at : at + consume_queue.ENTRY_SIZE]
            entry.values()
        if len(data) - at >= batch_consume_queue.BATCH_ENTRY_SIZE:
            batch = batch_consume_queue.decode_batch_entry(data, at)
            size = batch_consume_queue.BATCH_ENTRY_SIZE
            assert batch_consume_queue.encode_batch_entry(batch) == data[at : at + size]
            batch.values()


def _database_keys(data: bytes) -> None:
    """Keys and values of RocksDB: entries of queues and their ends, entries of the index, topics and offsets."""
    found = rocksdb_consume_queue.decode_entry_key(data)
    assert found is None or rocksdb_consume_queue.entry_key(*found) == data
    ends = rocksdb_consume_queue.decode_offset_key(data)
    assert ends is None or rocksdb_consume_queue.offset_key(ends.queue, ends.kind) == data
    for decode in (
        rocksdb_consume_queue.decode_value,
        rocksdb_consume_queue.decode_offset_value,
        index_database.decode_value,
        index_database.decode_mark,
    ):
        _allowing(struct.error, decode, data)
    key = index_database.decode_entry_key(data)
    assert key is None or index_database.entry_key(key) == data
    for decode_key in (metadata_v2.decode_name_key, metadata_v2.decode_offset_key, metadata_v2.decode_offset):
        _allowing(DamagedStoreError, decode_key, data, _WHERE)
    _allowing(DamagedStoreError, metadata_v2.decode_version, data, _WHERE)


def _index_file(data: bytes) -> None:
    if len(data) >= index_file.HEADER_SIZE:
        assert index_file.encode_header(index_file.decode_header(data)) == data[: index_file.HEADER_SIZE]
    index_file.is_index_name(data.decode("utf-8", "replace"))


def _manifest(data: bytes) -> None:
    rocksdb_manifest.manifest_name(data)
    rocksdb_manifest.ends_within_a_change(data)
    rocksdb_manifest.never_had_a_table(data)


# --- configuration and metadata ------------------------------------------------------------------


def _broker_conf(data: bytes) -> None:
    found = parse_properties(data.decode("utf-8", "surrogateescape"))
    _allowing(ConfigError, StoreConfig.from_properties, found)
    _allowing(ConfigError, parse_delay_levels, data.decode("utf-8", "replace"))


def _consumer_offset(data: bytes) -> None:
    _rewritten(consumer_offset.decode, consumer_offset.encode, data)


def _metadata(data: bytes) -> None:
    """Every other file and value of metadata in JSON."""
    fastjson.parse_object_keyed(data)
    for decode in (
        metadata_v1.decode_offsets,
        metadata_v1.decode_configuration,
        metadata_v2.decode_value,
        data_version.decode_version,
        consumer_filter.decode,
    ):
        _allowing(DamagedStoreError, decode, data, _WHERE)
    _rewritten(delay_offset.decode_delay_offsets, delay_offset.encode_delay_offsets, data)
    _rewritten(request_modes.decode_modes, request_modes.encode_modes, data)
    if _rewritten(order_info.decode_order_table, order_info.encode_order_table, data) is not None:
        list(order_info.decode_order_info(data, _WHERE))


def _own(data: bytes) -> None:
    """Files of reput's own."""
    _rewritten(own.decode_intent, own.encode_intent, data)
    _rewritten(own.decode_deleted, own.encode_deleted, data)
    _rewritten(given_offsets.decode_given_offsets, given_offsets.encode_given_offsets, data)
    _rewritten(own.decode_frontier, own.encode_frontier, data)


def _connect(data: bytes) -> None:
    """Files of sinks and exports in JSON, and RocketMQ's checkpoint."""
    ledger = _allowing(DamagedStoreError, decode_ledger, data, _WHERE)
    assert ledger is None or decode_ledger(json.dumps(asdict(ledger)).encode(), _WHERE) == ledger
    _allowing(ConfigError, decode_plan, Path(_WHERE), data)
    marker = decode_marker(data)
    assert marker is None or decode_marker(json.dumps(asdict(marker)).encode()) == marker
    _allowing(struct.error, decode_checkpoint, data)


def _staged(data: bytes) -> None:
    """Arrow streams of staged messages: each value of a batch can be read."""

    def read() -> None:
        for batch in read_stream(data):
            batch.to_pylist()

    # Bytes that are no UTF-8 are text to Arrow where it does not look at them: names.
    _allowing(ValueError, read)


def _pending(data: bytes) -> None:
    """Pops, timers and transactions. The first byte says where a key ends and its value begins."""
    size, data = (data[0] if data else 0), data[1:]
    key, value = data[:size], data[size:]
    popped = pop_state.decode_pop_checkpoint(data)
    if popped is not None:
        again = pop_state.decode_pop_checkpoint(pop_state.encode_pop_checkpoint(popped).body)
        assert again is not None
        assert again.key == popped.key
    for tag in (pop_state.ACK_TAG, pop_state.BATCH_ACK_TAG):
        pop_state.decode_pop_ack(data, tag)
    kept = pop_database.decode_pop_record(key, value)
    assert kept is None or pop_database.pop_key(kept) == key
    timer_database.decode_timer_entry(key, value)
    timer_database.decode_checkpoint_value(value)
    transaction_database.decode_half_entry(key, value)
    transaction_database.decode_last_offset(value)
    timer_log.decode_unit(data, size)
    _allowing(struct.error, timer_checkpoint.decode_timer_checkpoint, data)


# --- clients -------------------------------------------------------------------------------------


def _frame(data: bytes) -> None:
    """The first byte says where what is received is cut in two."""
    cut, data = (data[0] if data else 0), data[1:]
    whole = _allowing(remoting.FrameError, remoting.FrameReader().feed, data)
    reader = remoting.FrameReader()
    parts = _allowing(remoting.FrameError, lambda: reader.feed(data[:cut]) + reader.feed(data[cut:]))
    assert (whole is None) == (parts is None), "a frame depends on how it arrives"
    assert whole == parts, "a frame depends on how it arrives"
    for frame in whole or ():
        encoded = _allowing(remoting.FrameError, remoting.encode, frame)
        if encoded is not None:
            assert remoting.encode(*remoting.FrameReader().feed(encoded)) == encoded


def _sql92(data: bytes) -> None:
    found = _allowing(ConfigError, sql.compile, data.decode("utf-8", "replace"))
    if found is not None:
        assert found.matches(_PROPERTIES) in {True, False, None}
        assert found.matches({}) in {True, False, None}


def _subscription(data: bytes) -> None:
    """Texts and JSON by which a client names subscriptions, messages and routes."""
    text = data.decode("utf-8", "replace")
    named = subscription.Subscription("t", text, subscription.TAG, 0)
    assert subscription.subscription_of(named.as_json() | {"expressionType": named.kind}) == named
    found = subscription.subscription_of(fastjson.parse_fastjson(data))
    assert found is None or subscription.subscription_of(found.as_json()) == found
    handle = receipt_handle.decode_handle(text)
    assert handle is None or receipt_handle.decode_handle(receipt_handle.encode_handle(handle)) == handle
    recall_handle.decode_recall_handle(text)
    record.decode_message_id(text)
    lite_topics.decode_lite_topic(data)
    parse_route("t", data)


def _rewritten(decode: Callable[[bytes, str], T], encode: Callable[[T], bytes], data: bytes) -> T | None:
    """Return what a file decodes to, and fail if that, written and read, is another value; None for a damaged file.

    Half a character of UTF-16 cannot be written.
    """
    value = _allowing(DamagedStoreError, decode, data, _WHERE)
    assert value is None or decode(encode(value), _WHERE) == value or "\\ud" in repr(value)
    return value


def _allowing(error: type[Exception], decode: Callable[..., T], *given: object) -> T | None:
    """Return what a decoder returns; None for the error that its docstring names."""
    try:
        return decode(*given)
    except error:
        return None


TARGETS = (
    Target("record", "records of the log, in both twins of the kernels", _record),
    Target("fields", "fields of records, in both twins", kernels.fields),
    Target(
        "dispatch", "entries, batches, further queues, items and keys of records, in both twins", kernels.dispatch, 1024
    ),
    Target("filter", "properties and numbers that filters read, in both twins", kernels.filters, 256),
    Target("select", "entries that a pull chooses from, in both twins", kernels.select, 256),
    Target("lookup", "pulls, searches by time and by key over any files, in both twins", kernels.lookup, 1024),
    Target("properties", "properties of a message", _properties),
    Target("batch", "batches of clients", _batch),
    Target("body", "compressed bodies", _body),
    Target("queue-entries", "entries of ConsumeQueues and of batches, ext units", _queue_entries, 128),
    Target("database-keys", "keys and values of queues, indexes and metadata in RocksDB", _database_keys, 256),
    Target("index-file", "headers and names of IndexFiles", _index_file, 128),
    Target("manifest", "MANIFEST and CURRENT of RocksDB", _manifest),
    Target("broker-conf", "broker.conf and the delays in it", _broker_conf),
    Target("consumer-offset", "consumerOffset.json", _consumer_offset),
    Target("metadata", "all other metadata in JSON", _metadata),
    Target("own", "swap intents, frontiers and lists of deleted queues", _own),
    Target("pending", "pops, timers and transactions", _pending),
    Target("frame", "frames of the remoting protocol", _frame),
    Target("sql92", "SQL92 filters", _sql92, 256),
    Target("connect", "ledgers of sinks, plans and markers of exports, the checkpoint", _connect),
    Target("staged", "Arrow streams of staged messages", _staged),
    Target("subscription", "subscriptions, handles, ids and routes", _subscription),
)
