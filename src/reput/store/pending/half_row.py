"""A row about a transaction without an end."""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.log import properties as props
from reput.store.pending.verify import RecordState, Verified


class PendingTransaction(NamedTuple):
    """A half message without an end; times in ms, None for unknown values.

    `half_offset` is its queue offset in the half topic. `source` says where it waits: in that topic, in RocksDB, or as
    a timer message that will go to that topic. `state` is the comparison with the log, `reason` what differs.
    """

    topic: str | None
    queue_id: int | None
    unique_key: str | None
    keys: tuple[str, ...]
    producer_group: str | None
    born_timestamp: int | None
    store_timestamp: int | None
    check_times: int
    half_offset: int | None
    physical_offset: int
    size: int
    source: str
    state: RecordState
    reason: str | None


def half_row(verified: Verified, physical_offset: int, size: int, source: str) -> PendingTransaction:
    """Return the row of a half message."""
    record = verified.record if verified.state is RecordState.VERIFIED else None
    if record is None:
        verified = verified._replace(properties={})
    return PendingTransaction(
        topic=verified.real_topic,
        queue_id=verified.number(props.REAL_QUEUE_ID),
        unique_key=verified.text(props.UNIQUE_KEY),
        keys=verified.keys,
        producer_group=verified.text(props.PRODUCER_GROUP),
        born_timestamp=None if record is None else record.born_timestamp,
        store_timestamp=None if record is None else record.store_timestamp,
        check_times=verified.number(props.CHECK_TIMES) or 0,
        half_offset=None,
        physical_offset=physical_offset,
        size=size,
        source=source,
        state=verified.state,
        reason=verified.reason,
    )
