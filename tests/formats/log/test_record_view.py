"""Messages as views of their records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.client.received import ReceivedMessage
from reput.errors import ReputError
from reput.formats.log.properties import text_properties
from reput.formats.log.record import Record, decode_record, encode_record
from reput.store.read.message import StoredMessage
from support.records import hostile_records, records


def views(data: bytes) -> tuple[StoredMessage, ReceivedMessage]:
    """Each kind of view of a record."""
    return StoredMessage(memoryview(data), 0, 0), ReceivedMessage(data, "broker-a")


@given(records() | hostile_records())
def test_each_value_is_that_of_the_record(record: Record) -> None:
    """A view has the values of the decoded record, with either host and either magic, in whatever order they come."""
    data = encode_record(record)
    stored = decode_record(data)

    for view in views(data):
        assert view.queue_id == stored.queue_id
        assert view.queue_offset == stored.queue_offset
        assert view.physical_offset == stored.physical_offset
        assert view.flag == stored.flag
        assert view.born_timestamp == stored.born_timestamp
        assert view.store_timestamp == stored.store_timestamp
        assert view.properties == text_properties(stored.properties)
        assert view.message_id == stored.message_id
        assert view.record == stored
    stored_view = views(data)[0]
    assert (stored_view.body, stored_view.sys_flag) == (stored.body, stored.sys_flag)
    assert stored_view.body is stored_view.body, "a large body is not copied each time that it is asked for"


@given(st.binary(max_size=300))
def test_no_value_of_other_bytes(data: bytes) -> None:
    """Bytes that decode to no record give no value, but an error of reput."""
    try:
        decode_record(data)
    except ValueError:
        for view in views(data):
            for name in ("topic", "body", "properties", "queue_id", "record"):
                with pytest.raises(ReputError):
                    getattr(view, name)
