"""The messages of a consumer, of all its queues: polls take them, and pulls wait while they are too many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.client.queue_work import QueueWork
    from reput.client.received import ReceivedMessage


class Inbox:
    """The messages that were pulled and are not done. All methods run in the loop's thread.

    Args:
        max_queue_messages: messages of a queue from which on it is not pulled.
        max_bytes: bytes of all messages from which on no queue is pulled.

    Attributes:
        bytes: Bytes of all messages that are not done.
    """

    def __init__(self, max_queue_messages: int, max_bytes: int) -> None:
        self._max_queue_messages = max_queue_messages
        self._max_bytes = max_bytes
        self._ready: deque[QueueWork] = deque()
        self._arrived = asyncio.Event()
        self._freed = asyncio.Event()
        self._is_closed = False
        self.bytes = 0

    # --- pulls ---------------------------------------------------------------------------------

    def has_room(self, work: QueueWork) -> bool:
        """Return True if a queue may be pulled."""
        return work.count < self._max_queue_messages and self.bytes < self._max_bytes

    async def room(self, work: QueueWork) -> bool:
        """Wait until a queue may be pulled; return False if it is dropped."""
        while not (work.is_dropped or self.has_room(work)):
            self._freed.clear()
            await self._freed.wait()
        return not work.is_dropped

    def add(self, work: QueueWork, messages: Sequence[ReceivedMessage]) -> None:
        """Take messages that were pulled."""
        if not messages:
            return
        if not work.waiting:
            self._ready.append(work)
        self.bytes += work.add(messages)
        self._arrived.set()

    # --- polls ---------------------------------------------------------------------------------

    def take(self, most: int) -> list[ReceivedMessage]:
        """Return the next messages, at most `most`: of one queue after the other."""
        found: list[ReceivedMessage] = []
        while self._ready and len(found) < most:
            work = self._ready.popleft()
            found += work.take(most - len(found))
            if work.waiting:
                self._ready.append(work)
        return found

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until messages arrive, the consumer is closed, or the time is over."""
        self._arrived.clear()
        if self._ready or self._is_closed:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return

    # --- ends ----------------------------------------------------------------------------------

    def done(self, messages: Iterable[ReceivedMessage]) -> None:
        """Note that messages are done; those of a queue that was dropped since come to another consumer anyway."""
        freed = 0
        for message in messages:
            work = message.work
            if work is not None and not work.is_dropped:
                freed += work.done(message.queue_offset)
        self._free(freed)

    def all_done(self, works: Iterable[QueueWork]) -> None:
        """Note that all messages that were given are done."""
        self._free(sum(work.all_done() for work in works))

    def drop(self, work: QueueWork) -> None:
        """Give up the messages of a queue."""
        if work in self._ready:
            self._ready.remove(work)
        self._free(work.drop())

    def _free(self, freed: int) -> None:
        self.bytes -= freed
        self._freed.set()

    def close(self) -> None:
        """Let those who wait for messages go on."""
        self._is_closed = True
        self._arrived.set()
