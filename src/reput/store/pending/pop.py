"""Messages that pop consumers hold: rows compared with their queues, and the lag of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.errors import ConfigError
from reput.formats.pending.pop_database import FOLDER, PopRecord, decode_pop_record
from reput.formats.topics.lite_topics import is_light
from reput.store.pending.orderly import ORDERLY
from reput.store.pending.pop_row import PendingPop, PopLag
from reput.store.pending.revive import Held
from reput.store.pending.verify import RecordState, verify
from reput.store.progress.progress import UNKNOWN, ConsumerProgress
from reput.store.read.queue_answers import PullQuestion
from reput.store.read.results import MAX_PULL_BYTES, GetStatus
from reput.store.read.tag_filter import ALL_MESSAGES
from reput.store.read.view import StoreView

if TYPE_CHECKING:
    from reput.files.database import Family

QueueOfGroup = tuple[str, str, int]


@dataclass(slots=True)
class InFlight:
    """The number of messages in flight of a group and queue, and of those that its committed offset has passed.

    A message that the queue does not have is in `number` alone: no consumer can get it.
    """

    committed: int
    number: int = 0
    passed: int = 0


def of_checkpoint(view: StoreView, held: Held) -> PendingPop:
    """Return the row of a message that a checkpoint holds."""
    key = held.checkpoint.key
    record = PopRecord(key.group, key.topic, key.queue_id, held.offset, key.pop_time, held.checkpoint.invisible_time)
    return _row(view, record._replace(attempts=held.checkpoint.put_again), held.source)


def of_database(view: StoreView, family: Family, damage: list[str]) -> Iterator[PendingPop]:
    """Yield the rows of a database, by the time at which messages become visible again."""
    for key, value in family.walk():
        record = decode_pop_record(key, value)
        if record is None:
            damage.append(
                f"{family.place}: pop key {key[:80].hex()}: its value is no record of pop, or that of another message"
            )
        else:
            yield _row(view, record, FOLDER)


def of_orderly(view: StoreView, record: PopRecord) -> PendingPop:
    """Return the row of a message that an orderly consumer holds."""
    return _row(view, record, ORDERLY)


def _row(view: StoreView, record: PopRecord, source: str) -> PendingPop:
    physical_offset, state, reason = _look(view, record)
    return PendingPop(
        group=record.group,
        topic=record.topic,
        queue_id=record.queue_id,
        offset=record.offset,
        pop_timestamp=record.pop_time,
        visible_timestamp=record.visible_time,
        attempts=record.attempts,
        physical_offset=physical_offset,
        source=source,
        state=state,
        reason=reason,
    )


def _look(view: StoreView, record: PopRecord) -> tuple[int | None, RecordState, str | None]:
    """Return the place of the message in the log, and the comparison with its queue."""
    where = f"{record.topic}/{record.queue_id} offset {record.offset}"
    try:
        asked = PullQuestion(record.topic, record.queue_id, record.offset, 1, ALL_MESSAGES, MAX_PULL_BYTES)
        result = view.pull(asked)
    except ConfigError as error:
        return None, RecordState.DAMAGED, str(error)
    if result.status is not GetStatus.FOUND:
        is_expired = result.status in {GetStatus.OFFSET_TOO_SMALL, GetStatus.MESSAGE_WAS_REMOVING}
        state = RecordState.EXPIRED if is_expired else RecordState.MISSING
        return None, state, f"{where}: the queue has {result.min_offset} to {result.max_offset}"
    physical_offset, size = int(result.physical_offsets[0]), int(result.sizes[0])
    # A light queue has the messages of other topics.
    topic = result[0].topic if is_light(record.topic) else record.topic
    verified = verify(view, physical_offset, size, (topic,))
    return physical_offset, verified.state, verified.reason


def count_in_flight(
    rows: Iterable[PendingPop], offsets: ConsumerProgress | None, counts: dict[QueueOfGroup, InFlight]
) -> Iterator[PendingPop]:
    """Yield rows, and count the messages in flight of each group and queue; `offsets`: None if they are damaged."""
    for row in rows:
        if row.source != ORDERLY:
            key = row.group, row.topic, row.queue_id
            if key not in counts:
                counts[key] = InFlight(UNKNOWN if offsets is None else offsets.query(*key))
            counts[key].number += 1
            counts[key].passed += row.offset < counts[key].committed and row.state is not RecordState.MISSING
        yield row


def lags(view: StoreView, counts: dict[QueueOfGroup, InFlight]) -> list[PopLag]:
    """Return the lag of each group and queue with messages in flight."""
    found = []
    for (group, topic, queue_id), in_flight in sorted(counts.items()):
        committed = in_flight.committed
        try:
            end = view.max_offset(topic, queue_id)
        except ConfigError:
            # The name is garbage, which the row says.
            end = 0
        lag = None if committed == UNKNOWN else max(0, end - committed)
        found.append(
            PopLag(
                group,
                topic,
                queue_id,
                None if committed == UNKNOWN else committed,
                end,
                lag,
                in_flight.number,
                None if lag is None else lag + in_flight.passed,
            )
        )
    return found
