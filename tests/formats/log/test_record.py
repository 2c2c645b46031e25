"""The message record and the blank record."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log import record as fmt
from reput.formats.log.record import (
    Record,
    Verdict,
    decode_message_id,
    decode_record,
    encode_record,
    examine,
)
from support import golden
from support.encoders import magic_for_topic
from support.records import HOST_V4, HOST_V6, LogBuilder, damages, hostile_records, logs, records
from support.search import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

SYS_FLAG_BITS = (
    fmt.FLAG_COMPRESSED,
    fmt.FLAG_MULTI_TAGS,
    fmt.TRANSACTION_PREPARED,
    fmt.TRANSACTION_COMMIT,
    fmt.TRANSACTION_ROLLBACK,
    fmt.FLAG_BORN_HOST_V6,
    fmt.FLAG_STORE_HOST_V6,
    fmt.FLAG_NEED_UNWRAP,
    fmt.FLAG_INNER_BATCH,
    *(kind for kind in fmt.COMPRESSION_NAMES if kind),
)


def normalised(record: Record) -> Record:
    """The record with the fields that encoding computes."""
    sys_flag = record.sys_flag & ~(fmt.FLAG_BORN_HOST_V6 | fmt.FLAG_STORE_HOST_V6)
    sys_flag |= fmt.FLAG_BORN_HOST_V6 if len(record.born_host.address) == 16 else 0
    sys_flag |= fmt.FLAG_STORE_HOST_V6 if len(record.store_host.address) == 16 else 0
    size = fmt.record_size(record.topic, record.body, record.properties, sys_flag, record.magic)
    return record._replace(sys_flag=sys_flag, body_crc=zlib.crc32(record.body) & 0x7FFFFFFF, size=size)


def golden_records(store: str) -> Iterator[tuple[int, int, bytes]]:
    """Log offset, position in its file and the file's bytes of every record of a golden store."""
    for start, data in golden.log_files(golden.shared(store)):
        position = 0
        verdict, size = examine(data, position, len(data), start)
        while verdict is Verdict.GOOD:
            yield start + position, position, data
            position += size
            verdict, size = examine(data, position, len(data), start + position)
        assert verdict in (Verdict.BLANK, Verdict.ZERO)


# --- layout --------------------------------------------------------------------------------------


def test_offsets_are_the_peer_s() -> None:
    """The head's fields are where RocketMQ reads them."""
    assert fmt.HEAD.offsets == {
        "total_size": 0,
        "magic": 4,
        "body_crc": 8,
        "queue_id": 12,
        "flag": 16,
        "queue_offset": 20,
        "physical_offset": 28,
        "sys_flag": 36,
        "born_timestamp": 40,
    }
    assert (fmt.MAGIC_V1 & 0xFFFFFFFF, fmt.MAGIC_V2 & 0xFFFFFFFF) == (0xDAA320A7, 0xDAA320AB)
    assert (fmt.HEAD_SIZE, fmt.STORE_TIMESTAMP_AT_V4, fmt.MIN_RECORD_SIZE, fmt.BLANK_SIZE) == (48, 56, 91, 8)


def test_a_record_byte_by_byte() -> None:
    """One record's bytes, put together by hand."""
    record = Record(
        topic=b"t",
        body=b"hi",
        properties=b"a\x01b\x02",
        queue_id=1,
        flag=2,
        queue_offset=3,
        physical_offset=4,
        sys_flag=1,
        born_timestamp=5,
        born_host=fmt.Host(b"\1\2\3\4", 6),
        store_timestamp=7,
        store_host=fmt.Host(b"\5\6\7\x08", 8),
        reconsume_times=9,
        prepared_transaction_offset=10,
    )
    expected = b"".join(
        (
            struct.pack(">iI", 98, 0xDAA320A7),
            struct.pack(">iiiqqiq", zlib.crc32(b"hi") & 0x7FFFFFFF, 1, 2, 3, 4, 1, 5),
            b"\1\2\3\4" + struct.pack(">i", 6),
            struct.pack(">q", 7),
            b"\5\6\7\x08" + struct.pack(">i", 8),
            struct.pack(">iq", 9, 10),
            struct.pack(">i", 2) + b"hi",
            b"\x01t",
            struct.pack(">h", 4) + b"a\x01b\x02",
        )
    )

    assert encode_record(record) == expected


def test_the_shortest_record_has_the_minimum_size() -> None:
    """A record without body, topic and properties is as long as the minimum says."""
    assert len(encode_record(Record(topic=b""))) == fmt.MIN_RECORD_SIZE


@given(records())
def test_written_size_is_the_predicted_size(record: Record) -> None:
    """`record_size` is the length of what `encode_record` writes, and what its first field says."""
    data = encode_record(record)

    assert len(data) == normalised(record).size == int.from_bytes(data[:4])


def test_parts_list_names_every_field_in_order() -> None:
    """The documented parts begin with the head's fields and end with the properties."""
    names = [name for name, _, _ in fmt.RECORD_PARTS]

    assert names[: len(fmt.HEAD.fields)] == [field.name for field in fmt.HEAD.fields]
    assert names[-1] == "properties"
    assert sum(int(size) for _, size, _ in fmt.RECORD_PARTS[:9]) == fmt.HEAD_SIZE


# --- round trips ---------------------------------------------------------------------------------


@pytest.mark.behaviour("MessageDecoderTest.testEncodeAndDecode", "MessageDecoderTest.testEncodeAndDecodeOnIPv6Host")
@given(records())
def test_round_trip(record: Record) -> None:
    """A record decodes to what was encoded, with what encoding computes filled in."""
    data = encode_record(record)

    assert decode_record(data) == normalised(record)
    assert encode_record(decode_record(data)) == data


@pytest.mark.parametrize("bit", SYS_FLAG_BITS)
@pytest.mark.parametrize("magic", [fmt.MAGIC_V1, fmt.MAGIC_V2])
def test_every_sys_flag_bit_survives(bit: int, magic: int) -> None:
    """Each bit of sysFlag is kept, and each host bit is set by a 16-byte address."""
    record = Record(
        topic=b"topic",
        sys_flag=bit,
        magic=magic,
        born_host=HOST_V6 if bit == fmt.FLAG_BORN_HOST_V6 else HOST_V4,
        store_host=HOST_V6 if bit == fmt.FLAG_STORE_HOST_V6 else HOST_V4,
    )
    data = encode_record(record)

    assert decode_record(data).sys_flag == bit
    assert decode_record(data).born_host == record.born_host
    assert decode_record(data).store_host == record.store_host
    assert examine(data, 0, len(data), 0) == (Verdict.GOOD, len(data))


def test_host_bits_follow_the_addresses() -> None:
    """A host bit that contradicts its address is corrected."""
    record = Record(topic=b"t", sys_flag=fmt.FLAG_BORN_HOST_V6, born_host=HOST_V4, store_host=HOST_V6)

    assert decode_record(encode_record(record)).sys_flag == fmt.FLAG_STORE_HOST_V6


@pytest.mark.behaviour(
    "MessageDecoderTest.testMessageId",
    "MessageDecoderTest.testEncodeAndDecode",
    "MessageDecoderTest.testEncodeAndDecodeOnIPv6Host",
)
def test_hosts_and_message_ids_as_text() -> None:
    """Hosts print as address and port; a message id is host and offset in upper-case hex."""
    v4 = Record(topic=b"t", store_host=fmt.Host(b"\x0a\0\0\x07", 10911), physical_offset=0xABC)
    v6 = v4._replace(store_host=fmt.Host(bytes(15) + b"\1", 10911))

    assert (str(v4.store_host), str(v6.store_host)) == ("10.0.0.7:10911", "[::1]:10911")
    assert v4.message_id == "0A000007" + "00002A9F" + "0000000000000ABC"
    assert (len(v4.message_id), len(v6.message_id)) == (32, 56)
    for record in (v4, v6):
        assert decode_message_id(record.message_id) == (record.store_host, record.physical_offset)
    for other in ("", "0A", v4.message_id[1:], v4.message_id + "00", "Z" * 32, " " * 32):
        assert decode_message_id(other) is None


@pytest.mark.parametrize(
    ("topic", "magic"),
    [
        (b"t" * 127, fmt.MAGIC_V1),
        (b"t" * 128, fmt.MAGIC_V2),
        ("订".encode() * 127, fmt.MAGIC_V1),
        ("\N{GRINNING FACE}".encode() * 63 + b"t", fmt.MAGIC_V1),
        ("\N{GRINNING FACE}".encode() * 64, fmt.MAGIC_V2),
        (b"\xed\xa0\x80" * 127, fmt.MAGIC_V1),
    ],
)
def test_long_topics_take_version_2(topic: bytes, magic: int) -> None:
    """More than 127 UTF-16 units, as Java counts them, make a v2 record."""
    assert magic_for_topic(topic) == magic


def test_what_a_length_field_cannot_say_is_refused() -> None:
    """A topic or properties longer than their length field can say are not encoded."""
    with pytest.raises(ValueError, match="topic of 128 bytes"):
        encode_record(Record(topic=b"t" * 128))
    with pytest.raises(ValueError, match="topic of 32768 bytes"):
        encode_record(Record(topic=b"t" * 32768, magic=fmt.MAGIC_V2))
    with pytest.raises(ValueError, match="properties of 32768 bytes"):
        encode_record(Record(topic=b"t", properties=b"p" * 32768))
    with pytest.raises(ValueError, match="properties of 32768 bytes"):
        encode_record(Record(topic=b"t", properties=b"p" * 32747), append_crc=True)
    assert len(decode_record(encode_record(Record(topic=b"t" * 32767, magic=fmt.MAGIC_V2))).topic) == 32767


# --- the CRC property ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crc", "digits"),
    [(0, b"0000000000"), (7, b"7000000000"), (1234567890, b"0987654321"), (120, b"0210000000")],
)
def test_crc_digits_are_reversed(crc: int, digits: bytes) -> None:
    """The CRC property holds ten decimal digits, the least significant first."""
    assert fmt.crc_property(crc) == b"__CRC32#\x01" + digits + b"\x02"
    assert fmt.decode_crc_property(fmt.crc_property(crc)) == crc


@given(st.integers(0, 0x7FFFFFFF))
def test_crc_property_round_trip(crc: int) -> None:
    """Every CRC decodes from its property, which is always 20 bytes long."""
    assert len(fmt.crc_property(crc)) == fmt.CRC_PROPERTY_SIZE
    assert fmt.decode_crc_property(fmt.crc_property(crc)) == crc


@given(st.binary(max_size=24) | st.binary(min_size=10, max_size=10).map(lambda d: b"__CRC32#\x01" + d + b"\x02"))
def test_other_bytes_are_no_crc_property(data: bytes) -> None:
    """Bytes decode to a CRC only where they are that CRC's property."""
    crc = fmt.decode_crc_property(data)

    assert crc is None or fmt.crc_property(crc) == data


@given(records(), st.data())
def test_the_crc_property_covers_the_whole_record(record: Record, data: st.DataObject) -> None:
    """With the CRC property any other bit of the record may not change; without it the check fails."""
    record = record._replace(physical_offset=0)
    good = encode_record(record, append_crc=True)
    assert examine(good, 0, len(good), 0, fmt.CHECK_PROPERTY) == (Verdict.GOOD, len(good))

    bad = bytearray(good)
    bad[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert examine(bytes(bad), 0, len(bad), 0, fmt.CHECK_PROPERTY)[0] is not Verdict.GOOD
    plain = encode_record(record)
    assert examine(plain, 0, len(plain), 0, fmt.CHECK_PROPERTY) == (Verdict.BAD_CRC, len(plain))


def test_the_crc_property_is_separated_from_what_stands_before() -> None:
    """Properties without a final separator get one before the CRC property."""
    for properties in (b"", b"a\x01b\x02", b"a\x01b"):
        stored = decode_record(encode_record(Record(topic=b"t", properties=properties), append_crc=True)).properties
        assert stored[:-20] == (properties and properties.removesuffix(b"\x02") + b"\x02")


# --- examine -------------------------------------------------------------------------------------


def test_blank_records() -> None:
    """A blank record counts as one only where it says exactly what is left of the file."""
    data = fmt.encode_blank(20) + bytes(12)

    assert data[:8] == struct.pack(">iI", 20, 0xCBD43194)
    assert examine(data, 0, 20, 0) == (Verdict.BLANK, 20)
    assert examine(data, 0, 19, 0) == (Verdict.BAD_MAGIC, 0)
    assert examine(fmt.encode_blank(8), 0, 8, 0) == (Verdict.BLANK, 8)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.GOOD),
        ({"queue_id": -1}, Verdict.BAD_QUEUE),
        ({"queue_offset": -1}, Verdict.BAD_QUEUE),
        ({"queue_offset": fmt.queue_offset_bound(0)}, Verdict.GOOD),
        ({"queue_offset": fmt.queue_offset_bound(0) + 1}, Verdict.BAD_QUEUE),
        ({"queue_offset": fmt.batch_offset_bound(0) + 1}, Verdict.BAD_QUEUE),
        ({"physical_offset": 1}, Verdict.BAD_OFFSET),
        ({"topic": b""}, Verdict.BAD_TOPIC),
        ({"topic": b".."}, Verdict.BAD_TOPIC),
        ({"topic": b"a/b"}, Verdict.BAD_TOPIC),
        ({"topic": b"\xff"}, Verdict.BAD_TOPIC),
    ],
)
def test_verdicts_on_values(change: dict[str, int | bytes], verdict: Verdict) -> None:
    """Values that a record in this place cannot have make it no record."""
    data = encode_record(Record(topic=b"t")._replace(**change))  # type: ignore[arg-type]

    assert examine(data, 0, len(data), 0)[0] is verdict


@pytest.mark.parametrize("flag", [0, fmt.FLAG_INNER_BATCH])
@pytest.mark.parametrize("strict", [0, fmt.STRICT_OFFSETS])
def test_queue_offsets_of_batches(flag: int, strict: int) -> None:
    """A message in a queue of batches may have a higher offset; where there are none, only a batch may."""
    place = 1 << 20
    bound = fmt.queue_offset_bound(place) if strict and not flag else fmt.batch_offset_bound(place)
    for offset, verdict in ((bound, Verdict.GOOD), (bound + 1, Verdict.BAD_QUEUE)):
        record = Record(topic=b"t", sys_flag=flag, queue_offset=offset, physical_offset=place)
        data = encode_record(record)
        assert examine(data, 0, len(data), place, fmt.CHECK_BODY | strict)[0] is verdict


@pytest.mark.parametrize(
    ("at", "value", "verdict"),
    [
        (0, 90, Verdict.BAD_SIZE),
        (0, -1, Verdict.BAD_SIZE),
        (0, 1 << 30, Verdict.TRUNCATED),
        (0, 97, Verdict.BAD_SIZE),
        (4, 1, Verdict.BAD_MAGIC),
        (8, 1, Verdict.BAD_CRC),
        (84, -1, Verdict.BAD_SIZE),
        (84, 0x7FFFFFFF, Verdict.BAD_SIZE),
        (84, 1, Verdict.BAD_SIZE),
        (36, fmt.FLAG_BORN_HOST_V6 | fmt.FLAG_STORE_HOST_V6, Verdict.BAD_SIZE),
    ],
)
def test_verdicts_on_fields(at: int, value: int, verdict: Verdict) -> None:
    """A field that contradicts the others makes it no record, and says why."""
    data = bytearray(encode_record(Record(topic=b"t", body=b"body", properties=b"a\x01b")))
    struct.pack_into(">i", data, at, value)

    assert examine(bytes(data), 0, len(data), 0)[0] is verdict


def test_verdicts_on_what_is_not_written() -> None:
    """Zeros are nothing, and so is the end; a record that its file cuts short is truncated."""
    data = encode_record(Record(topic=b"t", body=b"body"))

    assert examine(bytes(100), 0, 100, 0) == (Verdict.ZERO, 0)
    assert examine(bytes(7), 0, 7, 0) == (Verdict.ZERO, 0)
    assert examine(b"", 0, 0, 0) == (Verdict.ZERO, 0)
    assert examine(data, 0, 7, 0) == (Verdict.TRUNCATED, 0)
    assert {examine(data, 0, cut, 0)[0] for cut in range(8, len(data))} == {Verdict.TRUNCATED}
    assert {examine(data[:cut], 0, cut, 0)[0] for cut in range(8, len(data))} == {Verdict.TRUNCATED}


def test_a_body_crc_is_looked_at_only_where_there_is_a_body_and_a_check() -> None:
    """Without body or check any body CRC will do, as in the peer."""
    with_body = bytearray(encode_record(Record(topic=b"t", body=b"body")))
    with_body[8] ^= 1
    without_body = bytearray(encode_record(Record(topic=b"t")))
    without_body[8] ^= 1

    assert examine(bytes(with_body), 0, len(with_body), 0)[0] is Verdict.BAD_CRC
    assert examine(bytes(with_body), 0, len(with_body), 0, fmt.CHECK_NONE)[0] is Verdict.GOOD
    assert examine(bytes(without_body), 0, len(without_body), 0)[0] is Verdict.GOOD


def test_every_verdict_has_a_meaning() -> None:
    """Each verdict has a text for people."""
    assert all(verdict.meaning for verdict in Verdict)


# --- hostile bytes -------------------------------------------------------------------------------


@settings(max_examples=cases(100, 1000))
@given(st.data(), logs(max_records=4))
def test_hostile_bytes_are_never_more_than_they_are(data: st.DataObject, log: LogBuilder) -> None:
    """`examine` says of any bytes what they are, never looks past the limit, and a good record decodes."""
    damaged = data.draw(damages(log))
    for position in {0, *(placed.offset - log.start for placed in log.placed), len(damaged) // 2}:
        limit = data.draw(st.integers(0, len(damaged)))
        for crc_check in (fmt.CHECK_NONE, fmt.CHECK_BODY, fmt.CHECK_PROPERTY):
            verdict, size = examine(damaged, position, limit, log.start + position, crc_check)
            assert (verdict, size) == examine(damaged[:limit], position, limit, log.start + position, crc_check)
            assert position + size <= max(limit, position)
            if verdict is Verdict.GOOD:
                assert decode_record(damaged[:limit], position).size == size


@given(st.binary(max_size=300), st.integers(0, 310))
def test_decoding_any_bytes_gives_a_record_or_a_value_error(data: bytes, offset: int) -> None:
    """Bytes that are no record raise ValueError and nothing else."""
    try:
        record = decode_record(data, offset)
    except ValueError:
        return
    assert fmt.MIN_RECORD_SIZE <= record.size <= len(data) - offset


@given(hostile_records())
def test_impossible_values_are_told(record: Record) -> None:
    """A record is good exactly where its topic, queue id and queue offset are possible."""
    data = encode_record(record._replace(physical_offset=0))
    possible_queue = record.queue_id >= 0 and 0 <= record.queue_offset <= fmt.queue_offset_bound(0)
    expected = Verdict.BAD_QUEUE if not possible_queue else Verdict.GOOD
    if expected is Verdict.GOOD and not fmt.is_topic_folder_name(record.topic):
        expected = Verdict.BAD_TOPIC

    assert examine(data, 0, len(data), 0)[0] is expected


# --- golden stores -------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("store", golden.STORES)
def test_golden_records_encode_to_the_same_bytes(store: str) -> None:
    """Every record that RocketMQ wrote decodes, encodes to the very bytes, and has the magic we choose."""
    count = 0
    for offset, position, data in golden_records(store):
        record = decode_record(data, position)
        assert record.physical_offset == offset
        assert encode_record(record) == data[position : position + record.size]
        assert magic_for_topic(record.topic) == record.magic
        count += 1

    assert count == golden.facts(store).messages
