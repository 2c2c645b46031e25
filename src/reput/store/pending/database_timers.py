"""Timer messages in RocksDB: those of the column family `timer` that have not been delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reput.files.database import Family
from reput.formats.log import properties as props
from reput.formats.paths import INDEX_DATABASE
from reput.formats.pending.timer_database import (
    QUEUE_OFFSET_KEY,
    TIMELINE_KEY,
    TimerEntry,
    decode_checkpoint_value,
    decode_timer_entry,
    has_time,
    is_timer_checkpoint,
    timer_key,
)
from reput.formats.stored_text import shown_text
from reput.formats.topics.system_topics import TIMER_TOPIC
from reput.store.pending.timer_queue import is_marked
from reput.store.pending.timer_row import PendingTimer, timer_row
from reput.store.pending.verify import Verified, verify
from reput.store.read.view import StoreView

_NAMED = 5


class DatabaseTimers:
    """The timers of a database.

    `queue_offset` is the next message of the timer topic that it takes in. `timeline_ms` is the time up to which it has
    delivered; None if it has never delivered any.
    """

    def __init__(self, view: StoreView, family: Family, damage: list[str]) -> None:
        self._view = view
        self._family = family
        self._damage = damage
        self.queue_offset = decode_checkpoint_value(family.get(QUEUE_OFFSET_KEY)) or 0
        self.timeline_ms = decode_checkpoint_value(family.get(TIMELINE_KEY))

    def rows(self, until_ms: int, marks: Mapping[int, set[str]]) -> Iterator[PendingTimer]:
        """Yield the messages that are due at a time or before, by that time; `marks` as for the wheel."""
        begin = timer_key(max(0, self.timeline_ms or 0))
        odd = 0
        # Messages before `begin` have been delivered, but a key without a time may be there, too.
        for key, _ in self._family.walk(None, begin):
            if not has_time(key):
                odd += 1
                self._name_odd(odd, f"timer key {key.hex() or 'of no bytes'}: no timer message")
        for key, value in self._family.walk(begin):
            entry = None if is_timer_checkpoint(key) else decode_timer_entry(key, value)
            if entry is not None and entry.deliver_timestamp > until_ms:
                break
            if entry is not None:
                yield self._row(entry, marks.get(entry.deliver_timestamp, set()))
            elif not is_timer_checkpoint(key):
                odd += 1
                what = (
                    f"its value has {len(value)} bytes, which is no timer message"
                    if has_time(key)
                    else "no timer message"
                )
                self._name_odd(odd, f"timer key {key[:40].hex()}: {what}")

    def _name_odd(self, number: int, text: str) -> None:
        if number <= _NAMED:
            self._damage.append(f"{self._family.place}: {text}; RocketMQ skips it")

    def _row(self, entry: TimerEntry, marked: set[str]) -> PendingTimer:
        verified = _compared(verify(self._view, entry.physical_offset, entry.size, (TIMER_TOPIC,)), entry, marked)
        row = timer_row(verified, entry.physical_offset, entry.size, INDEX_DATABASE, entry.deliver_timestamp)
        rolled = props.TIMER_ROLL_LABEL in verified.properties
        return row._replace(
            wheel_timestamp=None,
            unique_key=shown_text(entry.unique_key),
            roll_times=max(row.roll_times, int(rolled)),
        )


def _compared(verified: Verified, entry: TimerEntry, marked: set[str]) -> Verified:
    if not verified.is_verified:
        return verified
    due, unique_key = verified.number(props.TIMER_OUT_MS), verified.properties.get(props.UNIQUE_KEY)
    if due != entry.deliver_timestamp or unique_key != entry.unique_key:
        return verified.another(
            f"the record at log offset {entry.physical_offset} is due at {due} with unique key "
            f"{verified.text(props.UNIQUE_KEY)}, not at {entry.deliver_timestamp} with "
            f"{shown_text(entry.unique_key)}"
        )
    return verified.recalled() if is_marked(verified, marked) else verified
