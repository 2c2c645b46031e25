"""A message as a view of its record, whose parts are decoded on first use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from reput.errors import ReputError
from reput.formats.log import properties
from reput.formats.log.property_names import KEYS, TAGS, UNIQUE_KEY
from reput.formats.log.record import Record, body_matches_crc, decode_record


class RecordView(ABC):
    """The values of a message that are those of its record; times in ms, offsets as RocketMQ has them."""

    __slots__ = ("__dict__",)

    raw: bytes | memoryview

    @abstractmethod
    def _no_record(self, error: ValueError) -> ReputError:
        """Return the error for bytes that are no record: it says where they come from, and what helps."""

    @cached_property
    def record(self) -> Record:
        """All values of the record, as they are stored.

        Raises:
            ReputError: The bytes are no record, or another one than asked for.
        """
        return self._decoded()

    def _decoded(self) -> Record:
        """Return the values of the record; raise as `record` does."""
        try:
            return decode_record(self.raw)
        except ValueError as error:
            raise self._no_record(error) from error

    @cached_property
    def properties(self) -> dict[str, str]:
        """All properties as text."""
        return properties.text_properties(self.record.properties)

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
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """The message's number in its queue."""
        return self.record.queue_offset

    @property
    def physical_offset(self) -> int:
        """The log offset at which the record starts."""
        return self.record.physical_offset

    @property
    def message_id(self) -> str:
        """RocketMQ's offset message id."""
        return self.record.message_id

    @property
    def flag(self) -> int:
        """The application's own flag."""
        return self.record.flag

    @property
    def born_timestamp(self) -> int:
        """The time at which the producer made the message (ms)."""
        return self.record.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """The time at which the message was stored (ms)."""
        return self.record.store_timestamp
