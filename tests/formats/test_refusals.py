"""Bytes, names and values that formats refuse, each with its sentence: the branches that no store here takes."""

from __future__ import annotations

import zlib

import pytest

from reput.errors import DamagedStoreError
from reput.formats.config.request_modes import decode_modes
from reput.formats.layout import Field, Layout
from reput.formats.own import files as own
from reput.formats.own.given_offsets import decode_given_offsets
from reput.formats.own.part_file import PartKind, decode_head, encode_head
from reput.formats.pending.order_info import decode_order_info
from reput.formats.queue.batch_consume_queue import BatchEntry
from reput.formats.queue.consume_queue import Entry
from reput.formats.topics.topic_names import topic_fault
from reput.formats.wire.bodies import QueueName, queues_of, write_queue_table

KIND = PartKind("test", {"a": "i8", "b": "i4"}, {"c": "u1"})


def test_columns_of_a_part_are_equally_long() -> None:
    """Columns of rows that differ in length are refused; others may have any length."""
    with pytest.raises(ValueError, match="equally long"):
        encode_head(KIND, [3, 4, 1])
    assert decode_head(KIND, encode_head(KIND, [3, 3, 5]), KIND.places([3, 3, 5])["c"].end + 7 & ~7)["c"].length == 5


@pytest.mark.parametrize(
    ("head", "size", "said"),
    [
        (b"", 0, "ends at byte 0"),
        (bytes(KIND.head_size), 1000, "is not the head of a part of kind test"),
        (encode_head(KIND, [3, 3, 5]), 1000, "its header says"),
        (encode_head(KIND, [3, 3, 2000]), 1000, "is not the head of a part"),
    ],
)
def test_no_part(head: bytes, size: int, said: str) -> None:
    """Bytes that are no part, or not a whole one, say why."""
    with pytest.raises(ValueError, match=said):
        decode_head(KIND, head, size)


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (" ", "is blank"),
        ("a b", "contains illegal characters"),
        ("t" * 128, "topic: " + "t" * 128),
        ("%DLQ%" + "g" * 300, "DLQ or Retry topic"),
        ("orders", None),
        ("%RETRY%group", None),
    ],
)
def test_names_of_topics(topic: str, said: str | None) -> None:
    """A name that brokers refuse has RocketMQ's words, and others have none."""
    fault = topic_fault(topic)
    assert fault is None if said is None else fault is not None and said in fault


def test_queues_of_a_client() -> None:
    """Queues in a client's JSON are taken; what is no queue is left out, and keys of tables are written as queues."""
    good = {"brokerName": "b", "queueId": 1, "topic": "t"}
    assert queues_of([good, 1, {**good, "queueId": "1"}, {**good, "topic": None}]) == [QueueName("b", 1, "t")]
    assert queues_of("no list") == []
    written = write_queue_table({"table": {QueueName("b", 1, "t"): 7}})
    assert written == b'{"table":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}'


def test_words_are_whole() -> None:
    """Fields that do not begin at a word have no number of a word."""
    with pytest.raises(ValueError, match="whole words"):
        _ = Layout("odd", "here", [Field("a", "i", ""), Field("b", "q", "")]).words


def test_values_of_entries() -> None:
    """Entries of both kinds say what their tags codes mean."""
    assert Entry(0, 91, -(1 << 40)).values() == {
        "physical_offset": 0,
        "size": 91,
        "tags_code": -(1 << 40),
        "pre_blank": False,
        "ext": True,
    }
    batch = BatchEntry(0, 91, 5, 1, 10, 3)
    assert (batch.is_pre_blank, batch.is_ext) == (False, False)
    assert "base_offset" not in batch.values()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "table of pops"),
        (b'{"table": [1]}', "table of pops"),
        (b'{"table": {"t@g": {"x": {}}}}', "is not a pop"),
        (b'{"table": {"t@g": {"0": {"o": 1}}}}', "is not a pop"),
        (b'{"table": {"t@g": {"0": {"popTime": "x"}}}}', "is not a pop"),
    ],
)
def test_no_pops(data: bytes, said: str) -> None:
    """Bytes that are no file of pops are damage, which names its place."""
    with pytest.raises(DamagedStoreError, match=f"here: damaged.*{said}"):
        list(decode_order_info(data, "here"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"version": 99, "queues": []}',
        b'{"version": 1, "queues": [{"topic": 1, "queue_id": 0, "offset": 0, "done": true}]}',
    ],
)
def test_no_deleted_queues(data: bytes) -> None:
    """A list of deleted queues of another version, or with other values, is damage."""
    with pytest.raises(DamagedStoreError, match="deleted"):
        own.decode_deleted(data, "reput/deleted")


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ('[["t",0,5]]', "this version"),
        ('[["t",0]]', "not a list of offsets"),
        ('[["t",0,-1]]', "which cannot be"),
        ('[["t",0,"5"]]', "which cannot be"),
        ('[["../t",0,5]]', "which cannot be"),
        ('[["t",-1,5]]', "which cannot be"),
        ('[["t",true,5]]', "which cannot be"),
        ('[["t",[],5]]', "not a list of offsets"),
        ("7", "not a list of offsets"),
    ],
)
def test_no_given_offsets(queues: str, said: str) -> None:
    """A file with another CRC, or with what is no queue or no offset, is damage; the first one has another CRC."""
    crc = 0 if said == "this version" else zlib.crc32(f"[100,null,null,{queues}]".encode())
    data = f'{{"version":1,"log_end":100,"first":null,"last":null,"crc":{crc},"queues":{queues}}}'.encode()
    with pytest.raises(DamagedStoreError, match=f"here: .*{said}"):
        decode_given_offsets(data, "here")


@pytest.mark.parametrize("number", ["-1", "1.5", "true", '"4"', "null", "[]"])
@pytest.mark.parametrize("name", ["first", "last"])
def test_no_record_of_given_offsets(name: str, number: str) -> None:
    """A first or last record without its four numbers is damage."""
    record = f'{{"offset":{number},"size":100,"crc":1,"store_timestamp":-5}}'
    records = {"first": "null", "last": "null"} | {name: record}
    crc = zlib.crc32(f"[100,{records['first']},{records['last']},[]]".encode())
    known = f'"log_end":100,"first":{records["first"]},"last":{records["last"]},"queues":[]'
    data = f'{{"version":1,"crc":{crc},{known}}}'.encode()
    with pytest.raises(DamagedStoreError, match="not a list of offsets"):
        decode_given_offsets(data, "here")


def test_a_list_of_deleted_queues_without_a_version() -> None:
    """A list that has neither queues nor a version is refused as others are; fuzzing found a KeyError."""
    with pytest.raises(DamagedStoreError, match="not a list of deleted queues"):
        own.decode_deleted(b'{"queues":[]}', "deleted")


def test_a_request_mode_that_is_a_list() -> None:
    """A mode that is no text is refused as others are; fuzzing found a TypeError."""
    with pytest.raises(DamagedStoreError, match="is no mode"):
        decode_modes(b'{"messageRequestModeMap":{"t":{"g":{"mode":[]}}}}', "modes")
