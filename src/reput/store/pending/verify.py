"""The record that an entry of a timer wheel, a database or a queue refers to, compared with the log."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import properties as props
from reput.formats.log.record import CHECK_BODY, Record, Verdict
from reput.formats.stored_text import shown_text
from reput.store.read.message import StoredMessage
from reput.store.read.queue_walk import QueuedMessage
from reput.store.read.view import StoreView


class RecordState(StrEnum):
    """The comparison of a pending row with the log."""

    VERIFIED = "verified"
    """The record is there, and it is the one that the row describes."""
    RECALLED = "recalled"
    """The record is there, and a later message marks it as deleted: it will not be delivered."""
    EXPIRED = "expired"
    """The log file that held the record has been deleted."""
    MISSING = "missing"
    """The log ends before this place."""
    DAMAGED = "damaged"
    """The bytes at this place are no good record."""
    ANOTHER = "another"
    """There is a good record of another message."""


class Verified(NamedTuple):
    """The state of a record, the reason if it is not the expected one, and its values if it is a good record."""

    state: RecordState
    reason: str | None
    record: Record | None
    properties: dict[bytes, bytes]

    def another(self, reason: str) -> Verified:
        """Return the same with the finding that the record is another one."""
        return self._replace(state=RecordState.ANOTHER, reason=reason)

    def recalled(self) -> Verified:
        """Return the same with the finding that a later message marks it as deleted."""
        return self._replace(state=RecordState.RECALLED, reason="a later message marks it as deleted")

    @property
    def is_verified(self) -> bool:
        """True if the record is the one that was looked for, and nothing marks it as deleted."""
        return self.state is RecordState.VERIFIED

    def number(self, name: bytes) -> int | None:
        """Return a property that is a whole number of at most 64 bits; None for any other text."""
        return parse_whole(self.properties.get(name), 64)

    def text(self, name: bytes) -> str | None:
        """Return a property as text; None if it is missing."""
        value = self.properties.get(name)
        return None if value is None else shown_text(value)

    @property
    def real_topic(self) -> str | None:
        """The topic to which the message goes in the end."""
        return self.text(props.REAL_TOPIC)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the message."""
        return tuple(props.keys_of(self.text(props.KEYS) or ""))


def properties_of(found: QueuedMessage) -> dict[bytes, bytes]:
    """Return the properties of a message that a walk along its queue found."""
    return props.decode_properties(found.message.record.properties)


def verify(view: StoreView, physical_offset: int, size: int, topics: tuple[str, ...]) -> Verified:
    """Compare a place of the log with what refers to it: a record of `size` bytes, of one of these topics.

    The body's CRC is checked. The caller has caught up with the log.
    """
    found = view.examined(physical_offset, CHECK_BODY)
    if not isinstance(found, StoredMessage):
        return Verified(*_absent(view, physical_offset, found), None, {})
    record = found.record
    good = Verified(RecordState.VERIFIED, None, record, props.decode_properties(record.properties))
    if len(found.raw) != size:
        return good.another(f"the record at log offset {physical_offset} has {len(found.raw)} bytes, not {size}")
    if found.topic not in topics:
        return good.another(f"the record at log offset {physical_offset} is of topic {found.topic}")
    return good


def verify_queued(view: StoreView, found: QueuedMessage, topic: str) -> Verified:
    """Compare the record of a queue's message with the log, as `verify` does."""
    return verify(view, found.physical_offset, found.size, (topic,))


def _absent(view: StoreView, physical_offset: int, verdict: Verdict) -> tuple[RecordState, str]:
    if physical_offset < view.log.min_offset:
        return RecordState.EXPIRED, f"log offset {physical_offset}: the log begins at {view.log.min_offset}"
    if physical_offset >= view.follower.offset:
        return RecordState.MISSING, f"log offset {physical_offset}: the log ends at {view.follower.offset}"
    return RecordState.DAMAGED, f"log offset {physical_offset}: {verdict.meaning}"


WRONG_STATES = frozenset({RecordState.MISSING, RecordState.DAMAGED, RecordState.ANOTHER})
"""The states that mean wrong bytes, in the log or in what refers to it."""
