"""Delay levels: messages wait in SCHEDULE_TOPIC_XXXX, and go to their topic when they are due.

A message of level n waits in queue n - 1, with its topic and queue in REAL_TOPIC and REAL_QID. All messages of a level
have the same delay, so they become due in the order of their queue. `DelayProgress` keeps how far each level has been
delivered. A message that was delivered after it was written last is delivered once more after a kill.

Source: `HookUtils.transformDelayLevelMessage`, `ScheduleMessageService`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.codes import ResponseCode, refuse
from reput.errors import DamagedLogError, ReputError
from reput.formats import paths
from reput.formats.property_names import DELAY, REAL_QUEUE_ID, REAL_TOPIC
from reput.formats.system_topics import HALF_TOPIC, SCHEDULE_TOPIC
from reput.log.encode.message import Message, PutStatus
from reput.store.progress.delays import DelayProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.broker.broker import Broker
    from reput.store.read.arrivals import Waiter
    from reput.store.read.message import StoredMessage

log = logging.getLogger("reput.broker")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_AT_ONCE = 32
"""The most messages of a level that are delivered before clients are served again."""
_AGAIN_S = 0.1
_LONGEST_WAIT_S = 10.0
"""Longer waits are cut into such pieces, so that a clock that is set is noticed."""

NEVER_STORED: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""The refusals of a put that come each time: what waits for it would wait for ever."""


class DelayLevels:
    """The delay levels of a broker. All methods but `persist` run in the loop's thread."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self.delays_ms = broker.store.view.settings.delays_ms
        self._progress = DelayProgress.load(broker.store.layout.root / paths.CONFIG)
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiters: dict[int, Waiter] = {}
        self._is_stopped = False
        for note in self._progress.notes:
            log.error("%s. Delayed messages that are still there are delivered again", note)

    @property
    def table(self) -> Mapping[int, int]:
        """The queue offset of the next message of each level."""
        return self._progress.table

    def place(self, message: Message, queue_id: int) -> tuple[Message, int]:
        """Return a message and its queue as they are stored: one with a delay level waits in the queue of its level.

        A level above the highest one counts as the highest. A message without a level, or of level 0 or below, comes
        back as it is.
        """
        properties = message.properties or {}
        text = properties.get(DELAY)
        if text is None:
            return message, queue_id
        if not _WHOLE_NUMBER.fullmatch(text):
            refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: property DELAY is {text!r:.40}")
        level = min(int(text), len(self.delays_ms))
        if level <= 0:
            return message, queue_id
        waiting = {**properties, DELAY: str(level), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(queue_id)}
        return replace(message, topic=SCHEDULE_TOPIC, properties=waiting), level - 1

    def start(self) -> None:
        """Begin to deliver."""
        for level in range(1, len(self.delays_ms) + 1):
            self._look(level)

    def stop(self) -> None:
        """Deliver no more."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        for waiter in self._waiters.values():
            self._broker.store.stop_waiting(waiter)

    def persist(self) -> None:
        """Write how far each level is, if that has changed; any thread may call it."""
        try:
            self._progress.persist(self._broker.store.flush)
        except ReputError as error:
            log.error("delayed messages are delivered, but not noted: %s", error)  # noqa: TRY400 - the text says it all

    def _look(self, level: int) -> None:
        """Deliver the messages of a level that are due, a few at a time; then wait for the next one."""
        if self._is_stopped:
            return
        self._timers.pop(level, None)
        self._waiters.pop(level, None)
        try:
            if self._broker.store.is_tail_full:
                self._broker.ask_for_indexes()
                self._look_again(level, _AGAIN_S)
            else:
                self._deliver_some(level)
        except ReputError as error:
            log.error("delay level %d: nothing is delivered now: %s", level, error)  # noqa: TRY400 - the text says it all
            self._look_again(level, _LONGEST_WAIT_S)

    def _deliver_some(self, level: int) -> None:
        store, offset = self._broker.store, self._progress.table.get(level, 0)
        found = store.get_message(SCHEDULE_TOPIC, level - 1, offset, _AT_ONCE)
        for message in found:
            try:
                wait_s = self._wait_s(level, message)
            except DamagedLogError as error:
                log.error("a delayed message is left out: %s", error)  # noqa: TRY400 - the text says it all
                continue
            if wait_s > 0 or not self._deliver(message):
                self._look_again(level, wait_s or _AGAIN_S)
                return
            self._progress.advance(level, message.queue_offset + 1)
        if found.next_offset != offset:
            self._progress.advance(level, found.next_offset)
            self._look_again(level, 0)
        else:
            arrived = partial(self._broker.soon, self._look, level)
            self._waiters[level] = store.on_arrival(SCHEDULE_TOPIC, level - 1, offset, arrived)

    def _look_again(self, level: int, wait_s: float) -> None:
        self._timers[level] = self._loop.call_later(min(wait_s, _LONGEST_WAIT_S), self._look, level)

    def _wait_s(self, level: int, message: StoredMessage) -> float:
        """Return the seconds until a message is due, 0 if it is. A clock that was set back makes none later."""
        delay_ms = self.delays_ms[level - 1]
        wait_ms = message.store_timestamp + delay_ms - time.time_ns() // 1_000_000
        return wait_ms / 1000 if 0 < wait_ms <= delay_ms else 0.0

    def _deliver(self, message: StoredMessage) -> bool:
        """Put a message that is due to its topic; return False if the store does not take it now."""
        topic, queue_id = real_place(message.properties)
        if topic is None or queue_id is None or topic == HALF_TOPIC:
            log.error("a delayed message is left out: it names no queue to go to: %r", message)
            return True
        future = self._broker.store.put_message_async(copy_of(message, topic), queue_id)
        # With sync flush it is done later; what is not stored is done at once.
        refusal = None if not future.done() or future.result().status.is_stored else future.result()
        if refusal is not None and refusal.status in NEVER_STORED:
            log.error("a delayed message is left out: %r: %s", message, refusal.reason)
            return True
        return refusal is None


def real_place(properties: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the topic and queue to which a waiting message goes; None for what is missing or wrong."""
    queue_id = properties.get(REAL_QUEUE_ID, "")
    return properties.get(REAL_TOPIC), int(queue_id) if queue_id.isdecimal() and len(queue_id) < 10 else None


def copy_of(message: StoredMessage, topic: str) -> Message:
    """Return a stored message for another topic, with its properties, sender and times."""
    record = message.record
    return Message(
        topic,
        record.body,
        properties=message.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
    )
