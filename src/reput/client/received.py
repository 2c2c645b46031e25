"""Messages as a consumer gets them: records, one after the other, whose parts are decoded on first use.

Source: `MessageDecoder.decodesBatch`, `DefaultMQPushConsumerImpl.resetRetryAndNamespace`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from reput.errors import ClientError, DamagedStoreError
from reput.formats.log.body import MAX_DECODED_BODY_SIZE, BodyError, decode_body
from reput.formats.log.property_names import KEYS, RETRY_TOPIC, TAGS, UNIQUE_KEY
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED, HEAD, MIN_RECORD_SIZE, PartsOfRecord
from reput.formats.log.record_view import SYS_FLAG, RecordView
from reput.formats.stored_text import shown_text
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.formats.topics.system_topics import RETRY_PREFIX

_SIZE: Final = HEAD.sizes["total_size"]
_QUEUE_OFFSET_AT: Final = HEAD.offsets["queue_offset"]
_QUEUE_OFFSET_END: Final = _QUEUE_OFFSET_AT + HEAD.sizes["queue_offset"]


class ReceivedMessage(RecordView):
    """A message that a broker has delivered; times in ms, offsets as RocketMQ has them.

    Attributes:
        raw: The record, as the broker has sent it.
        broker_name: The broker.
        work: The consumer's own note of its queue.
    """

    __slots__ = ("broker_name", "raw", "work")

    raw: bytes

    def __init__(self, raw: bytes, broker_name: str) -> None:
        self.raw = raw
        self._parts = None
        self.broker_name = broker_name
        self.work: Any = None

    def _no_record(self) -> ClientError:
        return ClientError(f"broker {self.broker_name} sent bytes that are no record: their lengths do not add up")

    def _check(self, parts: PartsOfRecord) -> None:
        """Take each record: the broker has found it in the queue that was asked for."""

    @cached_property
    def topic(self) -> str:
        """The topic that the message was sent to; for another try, too, which comes from the group's retry topic."""
        topic = shown_text(self._stored_topic())
        return self.properties.get(RETRY_TOPIC, topic) if topic.startswith(RETRY_PREFIX) else topic

    @cached_property
    def body(self) -> bytes:
        """The body, decompressed.

        Raises:
            DamagedStoreError: It cannot be decompressed.
        """
        try:
            return decode_body(self._stored_body(), self._number(SYS_FLAG), MAX_DECODED_BODY_SIZE)
        except BodyError as error:
            raise DamagedStoreError(
                f"{self!r}: the body cannot be decompressed: {error}. `record.body` has the stored bytes"
            ) from error

    @property
    def queue_offset(self) -> int:
        """The message's number in its queue."""
        return int.from_bytes(self.raw[_QUEUE_OFFSET_AT:_QUEUE_OFFSET_END], signed=True)

    @property
    def reconsume_times(self) -> int:
        """The number of tries before this one."""
        return self.record.reconsume_times

    def as_row(self) -> dict[str, Any]:
        """Return the values by the names of the columns of `reput.scan`."""
        record, named = self.record, self.properties
        return {
            "topic": self.topic,
            "flag": record.flag,
            "body": self.body,
            "properties": list(named.items()),
            "brokerName": self.broker_name,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "bornTimestamp": _time(record.born_timestamp),
            "storeTimestamp": _time(record.store_timestamp),
            "keys": named.get(KEYS),
            "tags": named.get(TAGS),
            "uniqKey": named.get(UNIQUE_KEY),
            "offsetMsgId": record.message_id,
            "physicalOffset": record.physical_offset,
            "storeSize": len(self.raw),
            "bodyCRC": record.body_crc,
            "sysFlag": record.sys_flag & ~(FLAG_COMPRESSED | COMPRESSION_MASK),
            "reconsumeTimes": record.reconsume_times,
            "bornHost": str(record.born_host),
            "storeHost": str(record.store_host),
            "preparedTransactionOffset": record.prepared_transaction_offset,
            "liteTopic": named.get(LITE_TOPIC.decode()),
        }

    def __reduce__(self) -> tuple[type[ReceivedMessage], tuple[bytes, str]]:
        # Another process has the message, and no consumer to commit it with.
        return ReceivedMessage, (self.raw, self.broker_name)

    def __repr__(self) -> str:
        return f"ReceivedMessage({self.topic}/{self.queue_id} offset {self.queue_offset}, {len(self.raw)} bytes)"


def _time(time_ms: int) -> datetime | None:
    """Return a time; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def messages_in(body: bytes, broker_name: str, address: str) -> list[ReceivedMessage]:
    """Return the messages in the body of a pull's answer: records, one after the other.

    Raises:
        ClientError: the body does not hold whole records.
    """
    found, at, end = [], 0, len(body)
    while at < end:
        size = int.from_bytes(body[at : at + _SIZE], signed=True)
        if not MIN_RECORD_SIZE <= size <= end - at:
            words = f"{address}: byte {at} of {end} bytes of messages begins no record. Look with `reput check`"
            raise ClientError(words, address=address)
        found.append(ReceivedMessage(body[at : at + size], broker_name))
        at += size
    return found
