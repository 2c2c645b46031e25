"""Timer messages: they wait in rmq_sys_wheel_timer, and go to their topic in the second at which they are due.

The timer wheel takes in the messages of that queue, and gives them out second by second. Its files are RocketMQ's own
(`TimerFiles`), so that a broker that opens the store next goes on where this one has ended. A message that is due later
than two days ahead is put to the queue again meanwhile. A recall puts a mark that names a message by its unique key;
the wheel leaves that message out. What was delivered in a second that was not over is delivered again after a kill.

A transactional message with a time is delivered later than its commit by that time; RocketMQ loses such a message.

Source: `HookUtils.transformTimerMessage`, `TimerMessageStore`, `RecallMessageProcessor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.delivery import copy_of, deliver, real_place
from reput.broker.services.due import LONGEST_WAIT_S, Arrival, DueLoop, NextLook
from reput.broker.wire.refusals import refuse
from reput.errors import DamagedStoreError, ReputError
from reput.formats.java.hashing import java_string_hash
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX
from reput.formats.log.property_names import (
    DELAY,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE_KEY,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQUE_KEY,
)
from reput.formats.pending.timer_log import DELETE, TimerUnit
from reput.formats.topics.system_topics import TIMER_TOPIC
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle
from reput.log.encode.message import Message
from reput.store.pending.timer_wheel import PRECISION_MS, has_timer_log
from reput.times import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.broker.state.state import BrokerState
    from reput.broker.wire.requests import Request
    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutResult
    from reput.store.read.message import StoredMessage
    from reput.store.write.timer_files import TimerFiles, TimerState

log = logging.getLogger("reput.broker")
TIMES: Final = (TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC)
"""The properties that say when a message is due."""
DEFAULT_MAX_DELAY_S: Final = 3 * 24 * 3600
_AT_ONCE = 32
_RECALL_TAG = "_RECALL_TAG_"


class Recalled(NamedTuple):
    """A recall that is put: the unique key of the message, and the put of its mark."""

    unique_key: str
    future: PutFuture[PutResult]


class Timers:
    """The timer messages of a broker. All methods but `persist` run in the loop's thread.

    Args:
        state: the broker's state.
        loop: its loop.
        first_queue_offset: the first message of the timer topic that is not in RocksDB, whose timers stay there.
    """

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop, first_queue_offset: int) -> None:
        config = state.store.config
        self._state = state
        self._due = DueLoop(state, loop, self._step, "timer messages are not delivered now")
        self._max_delay_s = config.timer_max_delay_sec or DEFAULT_MAX_DELAY_S
        self.is_recall_enabled = config.recall_message_enable is True
        self._files: TimerFiles | None = None
        self._queue_offset = first_queue_offset
        self._read_time_ms = 0
        self._write_time_ms = 0
        # The messages of the time that is being given out, and that time's marks.
        self._giving: deque[TimerUnit] = deque()
        self._marked: set[str] = set()
        self._reached: TimerState | None = None
        self._noted: TimerState | None = None

    # --- messages that come --------------------------------------------------------------------

    def place(self, message: Message, queue_id: int) -> tuple[Message, int]:
        """Return a message and its queue as they are stored: one with a time waits in the timer topic.

        A delay level counts more than a time. A message whose time is over comes back as it is.
        """
        properties = message.properties or {}
        if not any(name in properties for name in TIMES) or TIMER_OUT_MS in properties:
            return message, queue_id
        if (parse_whole(properties.get(DELAY, ""), 32) or 0) > 0:
            left = {name: value for name, value in properties.items() if name not in TIMES}
            return replace(message, properties=left), queue_id
        at_ms = now_ms()
        due_ms = _due_ms(properties, at_ms)
        if (
            due_ms is None
            or due_ms - at_ms > self._max_delay_s * 1000
            or (due_ms <= at_ms and TIMER_DELETE_KEY in properties)
        ):
            refuse(
                ResponseCode.MESSAGE_ILLEGAL,
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{self._max_delay_s * 1000}ms; or if set del msg, the delay time should be bigger than the current "
                "time",
            )
        if due_ms <= at_ms:
            return message, queue_id
        # As in RocketMQ a whole second becomes the one before it.
        out_ms = (due_ms - 1) // PRECISION_MS * PRECISION_MS
        waiting = {TIMER_OUT_MS: str(out_ms), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(queue_id)}
        return replace(message, topic=TIMER_TOPIC, properties={**properties, **waiting}), 0

    def recall_handle(self, message: Message) -> str | None:
        """Return the text by which the sender of a timer message can recall it; None for another message."""
        properties = message.properties or {}
        topic, out_ms = properties.get(REAL_TOPIC), properties.get(TIMER_OUT_MS)
        if message.topic != TIMER_TOPIC or topic is None or out_ms is None:
            return None
        handle = RecallHandle(topic, self._state.name, str(int(out_ms) + 1), properties.get(UNIQUE_KEY, ""))
        return encode_recall_handle(handle)

    def recall(self, request: Request) -> Recalled:
        """Put a mark that names the message of a recall."""
        group, topic, text = request.text("producerGroup"), request.text("topic"), request.text("recallHandle")
        if not self.is_recall_enabled:
            refuse(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden (recallMessageEnable=false)")
        self._state.topics.get(topic)
        due_ms, key = self._handle_of(topic, text)
        if not 0 < due_ms - now_ms() < self._max_delay_s * 1000:
            refuse(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
        self._state.refuse_full_tail()
        properties = {TIMER_DELETE_KEY: key, UNIQUE_KEY: key, TIMER_DELIVER_MS: str(due_ms), PRODUCER_GROUP: group}
        mark = Message(topic, b"0", tags=_RECALL_TAG, properties=properties, born_host=request.connection.peer)
        return Recalled(key, self._state.store.put_message_async(*self.place(mark, 0)))

    def _handle_of(self, topic: str, text: str) -> tuple[int, str]:
        """Return the time and the unique key in a recall handle; refuse one that is not of this topic and broker."""
        handle = decode_recall_handle(text)
        if handle is None:
            refuse(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
        if handle.topic != topic:
            refuse(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != self._state.name:
            refuse(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
        return parse_whole(handle.due_ms, 64) or -1, handle.unique_key

    def running_info(self) -> dict[str, int]:
        """Return how far deliveries lag: seconds, and messages of the queue that the wheel has not taken in."""
        waiting = self._state.store.max_offset(TIMER_TOPIC, 0) - self._queue_offset
        lag_ms = now_ms() - PRECISION_MS - self._read_time_ms if self._giving else 0
        return {"timerReadBehind": max(lag_ms, 0) // 1000, "timerOffsetBehind": max(waiting, 0)}

    # --- the wheel -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take in and to deliver."""
        self._due.look()

    def _open(self) -> TimerFiles:
        """Open the wheel where it ended."""
        from reput.store.write.timer_files import TimerFiles, earliest_read_time

        store = self._state.store
        self._files = files = TimerFiles(store.layout.root)
        self._queue_offset = max(self._queue_offset, files.checkpoint.last_timer_queue_offset)
        if files.last_unit is not None:
            last = store.message_at(files.last_unit.physical_offset)
            if last is not None and last.topic == TIMER_TOPIC:
                # The checkpoint is written each second, and the log before it.
                self._queue_offset = max(self._queue_offset, last.queue_offset + 1)
        ends = store.min_offset(TIMER_TOPIC, 0), store.max_offset(TIMER_TOPIC, 0)
        self._queue_offset = min(max(self._queue_offset, ends[0]), ends[1])
        self._read_time_ms = max(files.checkpoint.last_read_time_ms, earliest_read_time(now_ms()))
        self._write_time_ms = self._read_time_ms
        return files

    def stop(self) -> None:
        """Take in and deliver no more."""
        self._due.stop()

    def close(self) -> None:
        """Note how far timers are, and release the files."""
        self.persist()
        if self._files is not None:
            self._files.close()
            self._files = None

    def persist(self) -> None:
        """Note how far timers are, if that has changed; any thread may call it, one at a time."""
        files, reached = self._files, self._reached
        if files is None or reached is None or reached == self._noted:
            return
        try:
            # The messages that were delivered outlive a power failure if the note of it does.
            self._state.store.flush()
            files.persist(reached)
            self._noted = reached
        except ReputError as error:
            log.error("timer messages are delivered, but the timer's files cannot be written: %s", error)  # noqa: TRY400 - the text says it all

    def _note_reached(self) -> None:
        from reput.store.write.timer_files import TimerState

        self._reached = TimerState(self._queue_offset, self._read_time_ms)

    def _step(self) -> NextLook:
        """Take in what has come, deliver what is due, a few at a time."""
        store = self._state.store
        files = self._files
        if files is None:
            if store.max_offset(TIMER_TOPIC, 0) == 0 and not has_timer_log(store.layout.root):
                return NextLook(LONGEST_WAIT_S, Arrival(TIMER_TOPIC, 0, 0))
            files = self._open()
        # The clock may be set back; what the wheel has given out is over.
        self._write_time_ms = max(self._write_time_ms, now_ms() // PRECISION_MS * PRECISION_MS)
        takes_none, gives_none = self._take_in(files), self._give_out(files)
        self._note_reached()
        if not (takes_none and gives_none):
            return NextLook(0)
        until_ms = self._write_time_ms + int(LONGEST_WAIT_S * 1000)
        next_ms = files.first_used(self._read_time_ms, until_ms)
        # The messages of a second are given out when it is over.
        wait_ms = (until_ms if next_ms is None else next_ms + PRECISION_MS) - now_ms()
        return NextLook(max(0.001, wait_ms / 1000), Arrival(TIMER_TOPIC, 0, self._queue_offset))

    def _take_in(self, files: TimerFiles) -> bool:
        """Take in the next messages of the queue; return True if there are none."""
        found = self._state.store.get_message(TIMER_TOPIC, 0, self._queue_offset, _AT_ONCE)
        for message in found:
            try:
                self._take(files, message)
            except DamagedStoreError as error:
                log.error("a timer message is left out: %s", error)  # noqa: TRY400 - the text says it all
            self._queue_offset += 1
        is_idle = found.next_offset == self._queue_offset and not len(found)
        self._queue_offset = found.next_offset
        return is_idle

    def _take(self, files: TimerFiles, message: StoredMessage) -> None:
        properties = message.properties
        out_ms, is_mark = parse_whole(properties.get(TIMER_OUT_MS, ""), 64), TIMER_DELETE_KEY in properties
        if out_ms is None:
            log.error("a timer message is left out: it has no time: %r", message)
        elif out_ms >= self._write_time_ms:
            topic_hash = java_string_hash(properties.get(REAL_TOPIC, ""))
            magic = DELETE if is_mark else 0
            unit = TimerUnit(0, 0, magic, 0, 0, message.physical_offset, len(message.raw), topic_hash)
            files.add(out_ms, self._write_time_ms, unit)
        elif not is_mark:
            self._deliver(message, INT64_MAX)

    def _give_out(self, files: TimerFiles) -> bool:
        """Deliver the next messages whose second is over; return True if there are none."""
        if not self._giving:
            time_ms = files.first_used(self._read_time_ms, self._write_time_ms)
            self._read_time_ms = self._write_time_ms if time_ms is None else time_ms
            if time_ms is None:
                return True
            self._giving = deque(self._units_of(files, time_ms))
        for _ in range(min(_AT_ONCE, len(self._giving))):
            self._give(self._giving[0])
            self._giving.popleft()
        if not self._giving:
            self._read_time_ms += PRECISION_MS
        return False

    def _units_of(self, files: TimerFiles, time_ms: int) -> list[TimerUnit]:
        """Return the units of a time's messages; keep the keys of those that are marked as deleted."""
        slot = files.units_of(time_ms)
        if slot.damage is not None:
            log.error("timer messages are lost: %s", slot.damage)
        self._marked = set()
        for unit in slot.units:
            if unit.is_delete_mark and (mark := self._message_of(unit)) is not None:
                self._marked.add(mark.properties.get(TIMER_DELETE_KEY, ""))
        return [unit for unit in slot.units if not unit.is_delete_mark]

    def _message_of(self, unit: TimerUnit) -> StoredMessage | None:
        message = self._state.store.message_at(unit.physical_offset)
        if message is None or message.topic != TIMER_TOPIC or len(message.raw) != unit.record_size:
            log.error("a timer message is lost: its record at log offset %d is not there", unit.physical_offset)
            return None
        return message

    def _give(self, unit: TimerUnit) -> None:
        message = self._message_of(unit)
        if message is None:
            return
        key, topic = message.properties.get(UNIQUE_KEY), message.properties.get(REAL_TOPIC)
        # With appendTopicForTimerDeleteKey a mark names the topic, too.
        if not {key, f"{topic}+{key}"} & self._marked:
            self._deliver(message, unit.write_time, is_rolled=unit.is_rolled)

    def _deliver(self, message: StoredMessage, taken_in_ms: int, *, is_rolled: bool = False) -> None:
        """Put a message that is due to its topic, or one that is due much later to the timer topic again.

        Raises:
            ReputError: the store does not take it now.
        """
        further = {TIMER_ENQUEUE_MS: str(taken_in_ms), TIMER_DEQUEUE_MS: str(now_ms())}
        topic, queue_id = real_place(message.properties)
        if is_rolled:
            rolls = parse_whole(message.properties.get(TIMER_ROLL_TIMES, ""), 32) or 0
            further[TIMER_ROLL_TIMES] = str(rolls + 1)
            topic, queue_id = TIMER_TOPIC, 0
        if topic is None or queue_id is None:
            log.error("a timer message is left out: it names no target queue: %r", message)
            return
        try:
            copy = copy_of(message, topic)
        except DamagedStoreError as error:
            log.error("a timer message is left out: %s", error)  # noqa: TRY400 - the text says it all
            return
        refusal = deliver(self._state.store, message, copy, queue_id, further=further)
        if refusal is not None:
            raise ReputError(f"{refusal.status.value}: {refusal.reason}")


def _due_ms(properties: Mapping[str, str], at_ms: int) -> int | None:
    """Return the time at which a message is due; None if it names none."""
    for name, factor, base in ((TIMER_DELAY_SEC, 1000, at_ms), (TIMER_DELAY_MS, 1, at_ms), (TIMER_DELIVER_MS, 1, 0)):
        if name in properties:
            number = parse_whole(properties[name], 64)
            return None if number is None else base + number * factor
    return None
