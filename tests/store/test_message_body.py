"""A message's body in Python: as it is stored, and as a consumer gets it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.formats.log.record import FLAG_COMPRESSED
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.golden
def test_messages_have_the_body_of_a_consumer() -> None:
    """`decoded_body` is what the producer compressed, and `body` what is stored."""
    compressed = 0
    with reput.MessageStore.open(golden.shared("json"), read_only=True) as store:
        for queue in store.queues("orders"):
            for message in store.messages("orders", queue.queue_id):
                if not message.sys_flag & FLAG_COMPRESSED:
                    assert message.decoded_body == message.body
                    continue
                compressed += 1
                said = message.properties
                found = len(message.decoded_body), zlib.crc32(message.decoded_body) & 0x7FFFFFFF
                assert found == (int(said["plainSize"]), int(said["plainCrc"]))
    assert compressed


def test_a_message_with_a_bad_body(tmp_path: Path) -> None:
    """A body that cannot be decompressed is an error that names the place, and the stored bytes stay readable."""
    log = LogBuilder()
    placed = log.message("orders", body=b"no stream", sys_flag=FLAG_COMPRESSED)
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, None)
    with reput.MessageStore.open(store, read_only=True) as opened:
        message = opened.message_at(placed.offset)
        assert message is not None
        with pytest.raises(DamagedStoreError, match=rf"log offset {placed.offset}\): the body cannot be decompressed"):
            _ = message.decoded_body
        assert message.body == b"no stream"
