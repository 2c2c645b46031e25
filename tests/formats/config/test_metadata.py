"""Keys and values of metadata in RocksDB: both ways; bytes that are neither are refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import DamagedStoreError
from reput.formats.config import data_version
from reput.formats.config import metadata_v1 as v1
from reput.formats.config import metadata_v2 as v2
from reput.formats.config.data_version import DataVersion
from reput.formats.config.metadata_v2 import CommittedKey, TableId
from reput.formats.queue.queue_kinds import kind_of_store_type

NAMES = st.binary(max_size=300)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VERSIONS = st.builds(DataVersion, INT64, INT64, INT64)


@given(st.sampled_from([TableId.OFFSETS, TableId.PULL_OFFSETS]), st.builds(CommittedKey, NAMES, NAMES, INT32), INT64)
def test_v2_offsets(table: TableId, key: CommittedKey, offset: int) -> None:
    """Any group, topic, queue and offset come back, inside the table's range and that of group and topic."""
    raw = v2.offset_key(table, key)
    assert v2.decode_offset_key(raw, "here") == key
    for begin, end in (v2.data_range(table), v2.topic_range(table, key.group, key.topic)):
        assert begin <= raw < end
    assert v2.decode_offset(v2.encode_offset(offset), "here") == offset


@given(st.builds(CommittedKey, NAMES, NAMES, INT32), NAMES, NAMES)
def test_v2_ranges_hold_one_topic(key: CommittedKey, group: bytes, topic: bytes) -> None:
    """The range of a group and a topic has no key of another."""
    begin, end = v2.topic_range(TableId.OFFSETS, group, topic)
    inside = begin <= v2.offset_key(TableId.OFFSETS, key) < end
    assert inside == ((key.group, key.topic) == (group, topic))


@given(st.sampled_from([TableId.TOPICS, TableId.GROUPS]), NAMES)
def test_v2_names(table: TableId, name: bytes) -> None:
    """Any name comes back, inside the table's range; the data version is outside."""
    key = v2.name_key(table, name)
    begin, end = v2.data_range(table)
    assert v2.decode_name_key(key, "here") == name
    assert begin <= key < end
    assert not begin <= v2.version_key(table) < end


@given(VERSIONS)
def test_versions(version: DataVersion) -> None:
    """A data version comes back in both forms."""
    assert v2.decode_version(v2.encode_version(version), "here") == version
    assert data_version.decode_version(data_version.encode_version(version), "here") == version


@given(st.dictionaries(INT32, INT64))
def test_v1_offsets(queues: dict[int, int]) -> None:
    """Any table comes back, numbers that JavaScript cannot hold too."""
    assert v1.decode_offsets(v1.encode_offsets(queues), "here") == queues


@given(st.binary(max_size=60))
def test_any_bytes_as_keys(data: bytes) -> None:
    """Bytes are a key that encodes to the same bytes, or refused with their place."""
    for table in (TableId.OFFSETS, TableId.TOPICS):
        raw = v2.data_range(table)[0] + data
        try:
            again = (
                v2.offset_key(table, v2.decode_offset_key(raw, "here"))
                if table is TableId.OFFSETS
                else v2.name_key(table, v2.decode_name_key(raw, "here"))
            )
        except DamagedStoreError as error:
            assert str(error).startswith("here: ")  # noqa: PT017 - most bytes are refused
        else:
            assert again == raw


@given(st.binary(max_size=60))
def test_any_bytes_as_values(data: bytes) -> None:
    """Bytes are a value, or refused with their place; nothing else is raised."""
    for decode in (
        v1.decode_offsets,
        data_version.decode_version,
        v1.decode_configuration,
        v2.decode_value,
        v2.decode_offset,
    ):
        try:
            decode(data, "here")
        except DamagedStoreError as error:
            assert str(error).startswith("here: ")  # noqa: PT017 - most bytes are refused


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "is not a table of offsets"),
        (b"null", "is not a table of offsets"),
        (b'{"offsetTable":[]}', "is not a table of offsets"),
        (b'{"offsetTable":{"x":1}}', "'x' is not a queue id"),
        (b'{"offsetTable":{"4294967296":1}}', "'4294967296' is not a queue id"),
        (b'{"offsetTable":{"0":1.5}}', "queue 0: '1.5' is not a queue offset"),
        (b'{"offsetTable":{"0":true}}', "queue 0: 'True' is not a queue offset"),
        (b'{"offsetTable":{"0":9223372036854775808}}', "is not a queue offset"),
    ],
)
def test_v1_values_that_are_none(value: bytes, text: str) -> None:
    """An error says what was found where an offset should be."""
    with pytest.raises(DamagedStoreError, match=text):
        v1.decode_offsets(value, "config/consumerOffsets: t@g")


def test_v2_values_of_a_newer_broker() -> None:
    """A value of another type than JSON is named with its type."""
    with pytest.raises(DamagedStoreError, match=r"its value has type 2; RocketMQ 5\.5\.1 writes type 1"):
        v2.decode_value(b"\x02abc", "config/rdb: orders")


@pytest.mark.parametrize(
    ("store_type", "is_used"), [("defaultRocksDB", True), ("DEFAULTROCKSDB", True), ("default", False), ("", False)]
)
def test_store_types(store_type: str, is_used: bool) -> None:
    """The store's type decides as in the broker, in any letters."""
    assert v1.is_used_with([kind_of_store_type(store_type)]) == is_used
