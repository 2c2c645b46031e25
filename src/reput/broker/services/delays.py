"""Delay levels: messages wait in SCHEDULE_TOPIC_XXXX, and go to their topic when they are due.

A message of level n waits in queue n - 1, with its topic and queue in REAL_TOPIC and REAL_QID. All messages of a level
have the same delay, so they become due in the order of their queue. `DelayProgress` keeps how far each level has been
delivered. A message that was delivered after it was written last is delivered once more after a kill.

Source: `HookUtils.transformDelayLevelMessage`, `ScheduleMessageService`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reput.broker.services.delivery import copy_of, deliver, real_place
from reput.broker.services.due import AGAIN_S, Arrival, DueLoop, NextLook
from reput.broker.state.statistics import MessageKind
from reput.broker.wire.refusals import refuse
from reput.errors import DamagedStoreError, ReputError
from reput.formats import paths
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log.property_names import DELAY, REAL_QUEUE_ID, REAL_TOPIC
from reput.formats.topics.system_topics import HALF_TOPIC, SCHEDULE_GROUP, SCHEDULE_TOPIC
from reput.formats.wire.codes import ResponseCode
from reput.log.encode.message import Message
from reput.store.progress.delays import DelayProgress
from reput.times import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.broker.state.state import BrokerState
    from reput.store.read.message import StoredMessage

log = logging.getLogger("reput.broker")
_AT_ONCE = 32
"""The most messages of a level that are delivered before clients are served again."""


class DelayLevels:
    """The delay levels of a broker. All methods but `persist` run in the loop's thread."""

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self.delays_ms = state.store.view.settings.delays_ms
        self._progress = DelayProgress.load(state.store.layout.root / paths.CONFIG)
        self._loops = [
            DueLoop(state, loop, partial(self._step, level), f"delay level {level}: nothing is delivered now")
            for level in range(1, len(self.delays_ms) + 1)
        ]
        for note in self._progress.notes:
            log.error("%s", note)

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
        given = parse_whole(text, 32)
        if given is None:
            refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: property DELAY is {text!r:.40}")
        level = min(given, len(self.delays_ms))
        if level <= 0:
            return message, queue_id
        waiting = {**properties, DELAY: str(level), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(queue_id)}
        return replace(message, topic=SCHEDULE_TOPIC, properties=waiting), level - 1

    def start(self) -> None:
        """Begin to deliver."""
        for loop in self._loops:
            loop.look()

    def stop(self) -> None:
        """Deliver no more."""
        for loop in self._loops:
            loop.stop()

    def persist(self) -> None:
        """Write how far each level is, if that has changed; any thread may call it, one at a time."""
        try:
            self._progress.persist(self._state.store.flush)
        except ReputError as error:
            log.error("delayed messages are delivered, but delayOffset.json cannot be written: %s", error)  # noqa: TRY400 - the text says it all

    def _step(self, level: int) -> NextLook:
        """Deliver the messages of a level that are due, a few at a time."""
        store, offset = self._state.store, self._progress.table.get(level, 0)
        found = store.get_message(SCHEDULE_TOPIC, level - 1, offset, _AT_ONCE)
        for message in found:
            try:
                wait_s, place = self._wait_s(level, message), real_place(message.properties)
            except DamagedStoreError as error:
                log.error("a delayed message is left out: %s", error)  # noqa: TRY400 - the text says it all
                continue
            if wait_s > 0 or not self._deliver(message, *place):
                return NextLook(wait_s or AGAIN_S)
            self._progress.advance(level, message.queue_offset + 1)
        if found.next_offset != offset:
            self._progress.advance(level, found.next_offset)
            return NextLook(0)
        return NextLook(None, Arrival(SCHEDULE_TOPIC, level - 1, offset))

    def _wait_s(self, level: int, message: StoredMessage) -> float:
        """Return the seconds until a message is due, 0 if it is. A clock that was set back makes none later."""
        delay_ms = self.delays_ms[level - 1]
        wait_ms = message.store_timestamp + delay_ms - now_ms()
        return wait_ms / 1000 if 0 < wait_ms <= delay_ms else 0.0

    def _deliver(self, message: StoredMessage, topic: str | None, queue_id: int | None) -> bool:
        """Put a message that is due to its topic; return False if the store does not take it now."""
        if topic is None or queue_id is None or topic == HALF_TOPIC:
            place = f"level {message.queue_id + 1}, queue offset {message.queue_offset}"
            log.error("a delayed message is left out: it names no target queue: %s", place)
            return True
        try:
            copy = copy_of(message, topic)
        except DamagedStoreError as error:
            log.error("a delayed message is left out: %s", error)  # noqa: TRY400 - the text says it all
            return True
        count = partial(self._count, topic, len(message.raw))
        return deliver(self._state.store, message, copy, queue_id, count) is None

    def _count(self, topic: str, waiting_size: int) -> None:
        """Count a message that has left its level for its topic; its record differs by the topic alone."""
        size = waiting_size - len(SCHEDULE_TOPIC) + len(topic.encode())
        self._state.statistics.gave(SCHEDULE_TOPIC, SCHEDULE_GROUP, 1, size)
        self._state.statistics.put(topic, MessageKind.DELAY, 1, size)
