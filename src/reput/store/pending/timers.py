"""Timer messages that wait: in the timer wheel, and in the queue of rmq_sys_wheel_timer that it has not taken in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.formats import properties as props
from reput.formats.system_topics import TIMER_TOPIC
from reput.formats.timer_checkpoint import TimerCheckpoint
from reput.formats.timer_log import TimerUnit
from reput.store.pending.queue_walk import walk_queue
from reput.store.pending.timer_log import TimerLogReader
from reput.store.pending.timer_wheel import WheelReader, find_wheel, has_timer_log, last_unit, read_timer_checkpoint
from reput.store.pending.verify import RecordState, Verified, verify
from reput.store.read.view import StoreView

WHEEL, QUEUE = "wheel", "queue"


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


class WheelTimers:
    """The timer messages of a store in files.

    Args:
        view: the open store.
        damage: gets what cannot be read.
        taken_in: the queue offset up to which another place has taken the queue in.
    """

    def __init__(self, view: StoreView, damage: list[str], taken_in: int = 0) -> None:
        self._view = view
        self._damage = damage
        self.queue_offset = taken_in
        self._log: TimerLogReader | None = None
        self._checkpoint = TimerCheckpoint()
        self._wheel: WheelReader | None = None
        try:
            self._open()
        except DamagedStoreError as error:
            damage.append(str(error))

    def _open(self) -> None:
        root = self._view.layout.root
        self._checkpoint = read_timer_checkpoint(root) or self._checkpoint
        self.queue_offset = max(self.queue_offset, self._checkpoint.last_timer_queue_offset)
        if not has_timer_log(root):
            return
        self._log = TimerLogReader(root)
        if (last := last_unit(self._log)) is not None:
            # The checkpoint is written each second, and the log before it.
            found = verify(self._view, last.physical_offset, last.record_size, (TIMER_TOPIC,))
            if found.state is RecordState.VERIFIED and found.record is not None:
                self.queue_offset = max(self.queue_offset, found.record.queue_offset + 1)
        path = find_wheel(root)
        if path is not None:
            self._wheel = WheelReader(path, self._log, self._checkpoint)

    def in_wheel(self, until_ms: int) -> Iterator[PendingTimer]:
        """Yield the messages that the wheel gives out at a time or before, by time."""
        if self._wheel is None or self._log is None:
            return
        recalled = self._marks_in_queue()
        for slot in takewhile(lambda slot: slot.time_ms <= until_ms, self._wheel.slots()):
            units = (self._log.unit_at(position) for position in slot.positions)
            marked = {key for unit in units if unit.is_delete_mark and (key := self._marked_key(unit))}
            marked |= recalled.get(slot.time_ms, set())
            for position in slot.positions:
                unit = self._log.unit_at(position)
                if not unit.is_delete_mark:
                    yield self._row(unit, marked)
            if slot.damage is not None:
                self._damage.append(slot.damage)

    def in_queue(self) -> Iterator[PendingTimer]:
        """Yield the messages that the wheel has not taken in, in the order of the queue."""
        for found in walk_queue(self._view, TIMER_TOPIC, 0, self.queue_offset):
            size = len(found.message.raw)
            verified = verify(self._view, found.physical_offset, size, (TIMER_TOPIC,))
            if props.TIMER_DEL_UNIQKEY not in verified.properties:
                yield timer_row(verified, found.physical_offset, size, QUEUE)

    def close(self) -> None:
        """Release the files."""
        if self._log is not None:
            self._log.close()

    def _marks_in_queue(self) -> dict[int, set[str]]:
        """Return the keys that messages in the queue mark as deleted, by the time of the slot that gets the mark."""
        marks: dict[int, set[str]] = {}
        for found in walk_queue(self._view, TIMER_TOPIC, 0, self.queue_offset):
            verified = verify(self._view, found.physical_offset, len(found.message.raw), (TIMER_TOPIC,))
            key, time = verified.text(props.TIMER_DEL_UNIQKEY), verified.number(props.TIMER_OUT_MS)
            if key is not None and time is not None:
                marks.setdefault(time, set()).add(key)
        return marks

    def _marked_key(self, unit: TimerUnit) -> str | None:
        found = verify(self._view, unit.physical_offset, unit.record_size, (TIMER_TOPIC,))
        return found.text(props.TIMER_DEL_UNIQKEY)

    def _row(self, unit: TimerUnit, marked: set[str]) -> PendingTimer:
        verified = verify(self._view, unit.physical_offset, unit.record_size, (TIMER_TOPIC,))
        if verified.state is RecordState.VERIFIED:
            verified = _compared(verified, unit, marked)
        row = timer_row(verified, unit.physical_offset, unit.record_size, WHEEL, unit.time)
        return row._replace(wheel_timestamp=unit.time, is_rolled=unit.is_rolled)


def _compared(verified: Verified, unit: TimerUnit, marked: set[str]) -> Verified:
    """Return the finding after a look at the time that the record names, and at marks of deletion."""
    due = verified.number(props.TIMER_OUT_MS)
    if due is None or (due <= unit.time if unit.is_rolled else due != unit.time):
        return verified.another(f"the record at log offset {unit.physical_offset} is due at {due}, not {unit.time}")
    unique_key = verified.text(props.UNIQ_KEY)
    # appendTopicForTimerDeleteKey decides which of them a broker compares.
    if marked and {unique_key, f"{verified.real_topic}+{unique_key}"} & marked:
        return verified._replace(state=RecordState.RECALLED, reason="a later message marks it as deleted")
    return verified


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
        queue_id=verified.number(props.REAL_QID),
        unique_key=verified.text(props.UNIQ_KEY),
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
