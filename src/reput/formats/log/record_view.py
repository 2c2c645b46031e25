"""A message as a view of its record, whose parts are decoded on first use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from reput.errors import ReputError
from reput.formats.log import properties
from reput.formats.log.property_names import KEYS, TAGS, UNIQUE_KEY
from reput.formats.log.record import (
    BEFORE_BODY_V4,
    PartsOfRecord,
    Record,
    body_matches_crc,
    find_parts,
    record_of,
    stored_properties,
)

QUEUE_ID, SYS_FLAG, _FLAG, _QUEUE_OFFSET, _PHYSICAL_OFFSET, _BORN, _STORED = (
    [field.name for field in BEFORE_BODY_V4.fields].index(name)
    for name in ("queue_id", "sys_flag", "flag", "queue_offset", "physical_offset", "born_timestamp", "store_timestamp")
)


class RecordView(ABC):
    """The values of a message that are those of its record; times in ms, offsets as RocketMQ has them."""

    __slots__ = ("__dict__", "_parts")

    raw: bytes | memoryview
    _parts: PartsOfRecord | None
    """The parts once they are found; they are enough for most values, and take half the time of `record`."""

    @abstractmethod
    def _no_record(self) -> ReputError:
        """Return the error for bytes that are no record: it says where they come from, and what helps."""

    @cached_property
    def record(self) -> Record:
        """All values of the record, as they are stored.

        Raises:
            ReputError: The bytes are no record, or another one than asked for.
        """
        return record_of(self.raw, self._known())

    def _known(self) -> PartsOfRecord:
        """Return the parts of the record; raise as `record` does."""
        parts = self._parts
        if parts is None:
            parts = find_parts(self.raw, 0, len(self.raw))
            if parts is None:
                raise self._no_record()
            self._check(parts)
            self._parts = parts
        return parts

    @abstractmethod
    def _check(self, parts: PartsOfRecord) -> None:
        """Raise ReputError if the record is another one than asked for."""

    def _number(self, place: int) -> int:
        """Return a number of those before the body, by its place among them."""
        number: int = self._known().values[place]
        return number

    def _stored_topic(self) -> bytes:
        parts = self._known()
        return bytes(self.raw[parts.topic_at : parts.properties_length_at])

    def _stored_body(self) -> bytes:
        parts = self._known()
        return bytes(self.raw[parts.body_at : parts.topic_length_at])

    @cached_property
    def properties(self) -> dict[str, str]:
        """All properties as text."""
        return properties.text_properties(stored_properties(self.raw, self._known()))

    @property
    def tags(self) -> str | None:
        """The tags; None if there are none."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys, in their order."""
        return properties.keys_of(self.properties.get(KEYS, ""))

    @property
    def unique_key(self) -> str | None:
        """The producer's unique key; None if there is none."""
        return self.properties.get(UNIQUE_KEY)

    @property
    def body_matches_crc(self) -> bool:
        """True if the stored body has the CRC that the record names. No read checks this by itself."""
        return body_matches_crc(self.record)

    @property
    def queue_id(self) -> int:
        """The queue within the topic of the record."""
        return self._number(QUEUE_ID)

    @property
    def queue_offset(self) -> int:
        """The message's number in its queue."""
        return self._number(_QUEUE_OFFSET)

    @property
    def physical_offset(self) -> int:
        """The log offset at which the record starts."""
        return self._number(_PHYSICAL_OFFSET)

    @property
    def message_id(self) -> str:
        """RocketMQ's offset message id."""
        return self.record.message_id

    @property
    def flag(self) -> int:
        """The application's own flag."""
        return self._number(_FLAG)

    @property
    def born_timestamp(self) -> int:
        """The time at which the producer made the message (ms)."""
        return self._number(_BORN)

    @property
    def store_timestamp(self) -> int:
        """The time at which the message was stored (ms)."""
        return self._number(_STORED)
