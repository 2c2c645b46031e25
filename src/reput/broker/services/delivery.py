"""Messages that have waited in another topic, and go to their own when they are due."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from reput.errors import DamagedStoreError
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, properties_text
from reput.formats.log.property_names import REAL_QUEUE_ID, REAL_TOPIC
from reput.formats.log.record import CRC_PROPERTY_SIZE
from reput.log.encode.message import Message, PutStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.embedded import MessageStore
    from reput.log.encode.message import PutResult
    from reput.store.read.message import StoredMessage

log = logging.getLogger("reput.broker")
NEVER_STORED: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""The refusals of a put that come each time: what waits for it would wait for ever."""


def real_place(properties: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the topic and queue to which a waiting message goes; None for what is missing or wrong."""
    queue_id = parse_whole(properties.get(REAL_QUEUE_ID, ""), 32)
    return properties.get(REAL_TOPIC), None if queue_id is None or queue_id < 0 else queue_id


def refuse_wrong_body(message: StoredMessage) -> None:
    """Refuse to store a message again whose body is damaged: the copy would have a CRC of its own, and look sound.

    Raises:
        DamagedStoreError: its body does not match its CRC.
    """
    if not message.body_matches_crc:
        raise DamagedStoreError(f"log offset {message.physical_offset}: the body does not match its CRC")


def copy_of(message: StoredMessage, topic: str) -> Message:
    """Return a stored message for another topic, with its properties, sender and times.

    Raises:
        DamagedStoreError: as `refuse_wrong_body`.
    """
    refuse_wrong_body(message)
    record = message.record
    return Message(
        topic,
        record.body,
        properties=message.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
    )


def properties_size(properties: Mapping[str, str]) -> int:
    """Return the bytes that properties take in a record, with room for the checksum that a store may add."""
    return len(properties_text(properties).encode()) + CRC_PROPERTY_SIZE


def deliver(
    store: MessageStore,
    waiting: StoredMessage,
    message: Message,
    queue_id: int,
    stored: Callable[[], object] = lambda: None,
    further: Mapping[str, str] = MappingProxyType({}),
) -> PutResult | None:
    """Put the message for which another one has waited; call `stored` if the store takes it.

    `further`: properties that the broker adds. A message that has no room for them goes without them.

    Returns:
        The refusal, if the store does not take it now. What it would never take is left out, and logged.
    """
    if further:
        properties = {**(message.properties or {}), **further}
        if properties_size(properties) <= MAX_PROPERTIES_SIZE:
            message = replace(message, properties=properties)
    future = store.put_message_async(message, queue_id)
    # With sync flush it is done later; what is not stored is done at once.
    if not future.done() or future.result().status.is_stored:
        stored()
        return None
    refusal = future.result()
    if refusal.status not in NEVER_STORED:
        return refusal
    log.error("a waiting message is left out: %r: %s", waiting, refusal.reason)
    return None
