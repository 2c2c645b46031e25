"""Timer messages in the timer wheel: those that it has taken in and not delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.formats.log import properties as props
from reput.formats.pending.timer_checkpoint import TimerCheckpoint
from reput.formats.pending.timer_log import TimerUnit
from reput.formats.pending.timer_wheel import FILE_NAME
from reput.formats.topics.system_topics import TIMER_TOPIC
from reput.store.pending.timer_log import TimerLogReader
from reput.store.pending.timer_queue import is_marked
from reput.store.pending.timer_row import PendingTimer, timer_row
from reput.store.pending.timer_wheel import (
    SlotDamage,
    WheelReader,
    find_wheel,
    has_timer_log,
    last_unit,
    read_timer_checkpoint,
    refuse_slots_without_log,
)
from reput.store.pending.verify import RecordState, Verified, verify
from reput.store.read.view import StoreView

WHEEL = "wheel"


class WheelTimers:
    """The wheel of a store; empty if the store has none.

    `queue_offset` is the next message of the timer topic that the wheel takes in.

    Args:
        view: the open store.
        damage: gets what cannot be read.
    """

    def __init__(self, view: StoreView, damage: list[str]) -> None:
        self.queue_offset = 0
        self._view = view
        self._damage = damage
        self._log: TimerLogReader | None = None
        self._wheel: WheelReader | None = None
        try:
            self._open()
        except DamagedStoreError as error:
            damage.append(str(error))

    def _open(self) -> None:
        root = self._view.layout.root
        checkpoint = read_timer_checkpoint(root) or TimerCheckpoint()
        self.queue_offset = checkpoint.last_timer_queue_offset
        wheel = find_wheel(root)
        if not has_timer_log(root):
            if wheel is not None:
                refuse_slots_without_log(root, wheel, checkpoint)
            return
        self._log = TimerLogReader(root)
        if (last := last_unit(self._log)) is not None:
            # The checkpoint is written each second, and the log before it.
            found = verify(self._view, last.physical_offset, last.record_size, (TIMER_TOPIC,))
            if found.state is RecordState.VERIFIED and found.record is not None:
                self.queue_offset = max(self.queue_offset, found.record.queue_offset + 1)
        self._wheel = WheelReader(wheel or root / FILE_NAME, self._log, checkpoint)

    def rows(
        self, until_ms: int, marks: Mapping[int, set[str]], topic_hashes: frozenset[int] | None = None
    ) -> Iterator[PendingTimer]:
        """Yield the messages that the wheel gives out at a time or before, by that time.

        `marks` has the keys that later messages mark as deleted, by time. `topic_hashes`: only messages for topics with
        these hashes.
        """
        if self._wheel is None or self._log is None:
            return
        # A file that lost its end has units of very many slots.
        first: dict[Path, SlotDamage] = {}
        slots: Counter[Path] = Counter()
        for slot in takewhile(lambda slot: slot.time_ms <= until_ms, self._wheel.slots()):
            units = map(self._log.unit_at, slot.marks)
            marked = {key for unit in units if (key := self._marked_key(unit)) is not None}
            marked |= marks.get(slot.time_ms, set())
            for unit in map(self._log.unit_at, slot.positions):
                if topic_hashes is None or unit.topic_hash in topic_hashes:
                    yield self._row(unit, marked)
            if slot.damage is not None:
                first.setdefault(slot.damage.file, slot.damage)
                slots[slot.damage.file] += 1
        self._damage += [one.text(slots[file]) for file, one in first.items()]

    def close(self) -> None:
        """Release the files."""
        if self._log is not None:
            self._log.close()

    def _marked_key(self, unit: TimerUnit) -> str | None:
        found = verify(self._view, unit.physical_offset, unit.record_size, (TIMER_TOPIC,))
        return found.text(props.TIMER_DELETE_KEY)

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
    return verified.recalled() if is_marked(verified, marked) else verified
