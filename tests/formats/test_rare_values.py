"""Rare values of formats, which no store here has: each is read as RocketMQ reads it, or refused with its sentence."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from reput.errors import DamagedLogError, DamagedStoreError
from reput.formats.config import consumer_filter, consumer_offset, delay_offset, metadata_v2
from reput.formats.config.request_modes import decode_modes, group_mode_of
from reput.formats.database.rocksdb_manifest import ends_within_a_change, never_had_a_table
from reput.formats.database.rocksdb_table import FOOTER_SIZE, is_of_newer_format
from reput.formats.index import index_database
from reput.formats.index.index_database import IndexKey, decode_entry_key, entry_key
from reput.formats.java.fastjson import FastjsonReader, quoted_keys
from reput.formats.log.record import decode_record
from reput.formats.own import files as own
from reput.formats.pending.order_info import OrderInfo, decode_order_table, encode_order_table
from reput.formats.pending.pop_database import PopRecord, decode_pop_record, pop_key
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.rocksdb_consume_queue import MAX, OffsetKey, decode_offset_key, offset_key
from reput.formats.wire.remoting import FrameError, RemotingFrame, decode, encode, version_name
from reput.store.read.message import StoredMessage
from support.records import LogBuilder


def test_filters_of_nothing_are_passed_over() -> None:
    """A topic or a group whose filters are null has none."""
    value = {
        "filterDataByTopic": {"gone": None, "t": {"groupFilterData": {"gone": None, "g": {"expression": "a > 1"}}}}
    }
    found = consumer_filter.decode(json.dumps(value).encode(), "here")
    assert [(one.topic, one.group, one.expression) for one in found] == [("t", "g", "a > 1")]


def test_offsets_of_light_queues_are_read_from_fastjson() -> None:
    """A file with bare keys gives the offsets of light queues; topics of a group that are no texts are left out."""
    data = b'{"offsetTable":{"t@g":{0:7}},"lmqOffsetTable":{"%LMQ%a@g":9},"groupTopicMap":{"g":["t",5]}}'
    found = consumer_offset.decode(data, "here")
    assert found.offset_table == {"t@g": {0: 7}}
    assert found.light_offsets == {"%LMQ%a@g": 9}
    assert found.group_topics is None


def test_delays_without_a_version_are_written_without_one() -> None:
    """A file of delay offsets without a data version has the table alone, and is read again."""
    offsets = delay_offset.DelayOffsets({3: 7, 1: 5})
    data = delay_offset.encode_delay_offsets(offsets)
    assert b"dataVersion" not in data
    assert delay_offset.decode_delay_offsets(data, "here") == offsets


def test_keys_of_metadata_that_go_on_are_refused() -> None:
    """Bytes after the name in a key, or other separators in an offset's key, are damage."""
    table = metadata_v2.TableId.OFFSETS
    name = metadata_v2.name_key(table, b"g")
    with pytest.raises(DamagedStoreError, match="has 1 bytes after its name"):
        metadata_v2.decode_name_key(name + b"x", "here")
    key = metadata_v2.offset_key(table, metadata_v2.CommittedKey(b"g", b"t", 3))
    assert metadata_v2.decode_offset_key(key, "here") == (b"g", b"t", 3)
    with pytest.raises(DamagedStoreError, match="is not a key of a group, a topic and a queue"):
        metadata_v2.decode_offset_key(key + b"x", "here")


@pytest.mark.parametrize("data", [b"[]", b'{"popShareQueueNum":3', b'{"MAP":5}', b'{"MAP":{"t":5}}', b"5"])
def test_modes_that_are_no_map_are_refused(data: bytes) -> None:
    """A file of request modes without a map of topics is damage, and what is no object is no mode."""
    data = data.replace(b"MAP", b"messageRequestModeMap")
    with pytest.raises(DamagedStoreError, match="is not JSON with a map of topics"):
        decode_modes(data, "here")
    assert group_mode_of("PULL") is None


def test_a_manifest_may_end_with_zeros() -> None:
    """Zeros after the last change end a MANIFEST; a change whose number is cut off is one that RocksDB must judge."""
    record = struct.Struct("<IHB")
    whole = record.pack(1, 3, 1) + b"abc"
    assert not ends_within_a_change(whole + bytes(20))
    assert ends_within_a_change(whole + record.pack(1, 3, 2) + b"abc")
    assert ends_within_a_change(whole[:-1])
    for change in (b"\x02\x80", b"\x02\x05"):
        assert never_had_a_table(_manifest(change)) is (change == b"\x02\x05")


def _manifest(change: bytes) -> bytes:
    """A MANIFEST of one change, with its checksum (CRC-32C, rotated and raised, over kind and change)."""
    crc = 0xFFFFFFFF
    for byte in b"\x01" + change:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(change), 1) + change


def test_a_table_of_a_later_format_is_known_by_its_mark() -> None:
    """A footer with a later version and the mark of format 6 is newer; a damaged one lacks the mark."""
    footer = bytearray(FOOTER_SIZE)
    footer[1:5] = b"\x3e\x00\x7a\x00"
    footer[-12:-8] = (7).to_bytes(4, "little")
    assert is_of_newer_format(bytes(footer))
    assert not is_of_newer_format(bytes(footer[:1] + bytes(4) + footer[5:]))
    footer[-12:-8] = (5).to_bytes(4, "little")
    assert not is_of_newer_format(bytes(footer))


def test_keys_of_an_index_database_that_mean_nothing() -> None:
    """A key with an unknown kind, without a text, or with a time that is no hour is no entry's key."""
    hour = index_database.HOUR_MS
    good = IndexKey(hour, b"t", index_database.KEY, b"k", 5)
    assert decode_entry_key(entry_key(good)) == good
    for bad in (
        good._replace(kind=b"X"),
        good._replace(text=b""),
        good._replace(topic=b""),
        good._replace(hour_ms=hour + 1),
        good._replace(hour_ms=0),
        good._replace(physical_offset=-1),
    ):
        assert decode_entry_key(entry_key(bad)) is None


def test_many_bare_keys_are_quoted() -> None:
    """However many whole numbers are keys, each gets its quotes."""
    data = b"{" + b",".join(b"%d:%d" % (number, number) for number in range(100)) + b"}"
    assert json.loads(quoted_keys(data)) == {str(number): number for number in range(100)}


def test_an_empty_list_of_fastjson_is_empty() -> None:
    """A list without a value is read as one."""
    reader = FastjsonReader(b'{"a":[],"b":[1]}', "here")
    assert {reader.string(key): reader.value() for key in reader.members()} == {"a": [], "b": [1]}


def test_a_message_says_whether_its_body_is_the_one_that_was_put() -> None:
    """The CRC of the stored body is compared when it is asked for, and not before."""
    log = LogBuilder(4096)
    log.message("t", body=b"body")
    data = bytes(log)
    assert StoredMessage(memoryview(data), 0, 0).body_matches_crc
    at = data.index(b"body")
    other = StoredMessage(memoryview(data[:at] + b"BODY" + data[at + 4 :]), 0, 0)
    assert other.body == b"BODY"
    assert not other.body_matches_crc
    assert decode_record(data).body == b"body"
    with pytest.raises(DamagedLogError, match="an index leads there, but there is no record"):
        _ = StoredMessage(memoryview(data[:-1]), 0, 0).record


@pytest.mark.parametrize(("number", "is_part"), [("3", True), ("", False), ("x", False), ("\u0663", False)])
def test_a_damaged_index_database_is_a_part_of_a_swap(number: str, is_part: bool) -> None:
    """An intent may name a damaged index database by its number alone."""
    assert own.is_swap_part(own.DAMAGED_INDEX_DATABASE + number) is is_part


def test_orders_with_times_are_written_with_them() -> None:
    """The times of single messages are kept, and keys that are no topic and group are passed over."""
    table = {("t", "g"): {0: OrderInfo(1000, 60, [5, 6], next_visible={6: 2000}, counts={5: 1})}}
    data = encode_order_table(table)
    assert b'"ot"' in data
    assert decode_order_table(data, "here") == table
    odd = json.loads(data)
    odd["table"] |= {"no names": {}, "t@g2": 5}
    assert decode_order_table(json.dumps(odd).encode(), "here") == table


@pytest.mark.parametrize(("name", "value"), [("queueId", "x"), ("offset", 1 << 70), ("queueId", 1 << 40)])
def test_pops_that_no_key_can_have_are_none(name: str, value: Any) -> None:
    """A value of a wrong type, or a number too large for the key, is no pop."""
    record = PopRecord("g", "t", 1, 5, 1000, 60, 0)
    values = {"groupId": "g", "topicId": "t", "queueId": 1, "popTime": 1000, "invisibleTime": 60, "offset": 5}
    assert decode_pop_record(pop_key(record), json.dumps(values).encode()) == record
    assert decode_pop_record(pop_key(record), json.dumps(values | {name: value}).encode()) is None


def test_an_offset_key_of_another_kind_is_none() -> None:
    """A key of the offset family is that of a queue's highest or lowest offset, or none."""
    key = offset_key(QueueKey(b"t", 3), MAX)
    assert decode_offset_key(key) == OffsetKey(QueueKey(b"t", 3), MAX)
    assert decode_offset_key(key.replace(MAX, b"mid")) is None


def test_versions_beyond_those_that_are_known_have_names() -> None:
    """A client older than 4.0 is V3, and one that is newer than all that are known says so."""
    assert version_name(0) == "V3"
    assert version_name(1 << 20) == "HIGHER_VERSION"


def test_fields_with_too_many_brackets_are_refused() -> None:
    """A header field with many brackets inside one another is a frame or none, and never a crash."""
    header = encode(RemotingFrame(1, 1, 0, None, {"a": "MARK"}, b""))[8:]
    seen = set()
    for depth in range(500, 1100):
        deep = header.replace(b'"MARK"', b"[" * depth + b"]" * depth)
        data = struct.pack(">II", len(deep) + 4, len(deep)) + deep
        try:
            assert decode(data, 0, len(data)).fields["a"] == "[" * depth + "]" * depth
        except FrameError as error:
            seen.add(str(error).partition(":")[0])
    assert seen <= {"a header field with too many brackets inside one another", "a header that is not JSON"}
