"""Rows about messages that pop consumers hold, and about the lag of their groups."""

from __future__ import annotations

from typing import NamedTuple

from reput.store.pending.verify import RecordState


class PendingPop(NamedTuple):
    """A message that a pop has given to a group, and that is not acked; times in ms, None for unknown values.

    Until `visible_timestamp` no other pop gets it. `attempts` counts how often it was put back without success.
    `source` says where its state is: as a timer message, in the revive topic, in a database, or in the file of orderly
    consumers. `state` says whether
    the queue has the message at `offset`, `reason` what differs.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    pop_timestamp: int
    visible_timestamp: int
    attempts: int
    physical_offset: int | None
    source: str
    state: RecordState
    reason: str | None


class PopLag(NamedTuple):
    """The lag of a group in a queue that has messages in flight.

    `lag` counts the messages above the committed offset, which a pop moves at once. `true_lag` adds those in flight
    below it that the queue has; `in_flight` counts all. A pop of an orderly consumer does not move the offset, so its
    messages are in `lag` and not in `in_flight`.
    """

    group: str
    topic: str
    queue_id: int
    committed_offset: int | None
    max_offset: int
    lag: int | None
    in_flight: int
    true_lag: int | None
