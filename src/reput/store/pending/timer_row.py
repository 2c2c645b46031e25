"""A row about a timer message that waits."""

from __future__ import annotations

from typing import NamedTuple

from reput.formats.log import properties as props
from reput.store.pending.verify import RecordState, Verified


class PendingTimer(NamedTuple):
    """A timer message that waits; times in ms, None for unknown values.

    `deliver_timestamp` is when it goes to its topic, `wheel_timestamp` when the wheel gives it out: earlier for a
    message that is put back (`is_rolled`), as it is due after the wheel's window. `roll_times` counts how often that
    happened. `source` says where it waits. `state` is the comparison with the log, `reason` what differs.
    """

    deliver_timestamp: int
    wheel_timestamp: int | None
    topic: str | None
    queue_id: int | None
    unique_key: str | None
    keys: tuple[str, ...]
    physical_offset: int
    size: int
    store_timestamp: int | None
    is_rolled: bool
    roll_times: int
    source: str
    state: RecordState
    reason: str | None


def timer_row(
    verified: Verified, physical_offset: int, size: int, source: str, wheel_timestamp: int | None = None
) -> PendingTimer:
    """Return the row of a timer message; without a record the wheel's time counts."""
    record, due = verified.record, verified.number(props.TIMER_OUT_MS)
    is_it = verified.state in {RecordState.VERIFIED, RecordState.RECALLED}
    if not is_it:
        verified = verified._replace(properties={})
    return PendingTimer(
        deliver_timestamp=due if is_it and due is not None else wheel_timestamp or 0,
        wheel_timestamp=wheel_timestamp,
        topic=verified.real_topic,
        queue_id=verified.number(props.REAL_QUEUE_ID),
        unique_key=verified.text(props.UNIQUE_KEY),
        keys=verified.keys,
        physical_offset=physical_offset,
        size=size,
        store_timestamp=record.store_timestamp if is_it and record is not None else None,
        is_rolled=False,
        roll_times=verified.number(props.TIMER_ROLL_TIMES) or 0,
        source=source,
        state=verified.state,
        reason=verified.reason,
    )
