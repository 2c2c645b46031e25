"""Sends that wait for a sync, with flushDiskType=SYNC_FLUSH: the sender's answer comes when its message is durable.

A send that waits longer than syncFlushTimeout is answered with FLUSH_DISK_TIMEOUT: its message is stored, and not known
to be durable. It counts until its sync has ended. So a disk that hangs gets a bounded number of messages, and the sends
above it are refused.

Source: `CommitLog.GroupCommitService`, `FlushDiskWatcher`; `sendThreadPoolQueueCapacity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reput.broker.wire.refusals import refuse_as_busy
from reput.log.append.settings import DEFAULT_SYNC_FLUSH_TIMEOUT_MS
from reput.log.encode.message import PutStatus

if TYPE_CHECKING:
    from concurrent.futures import Future

    from reput.broker.state.state import BrokerState
    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request
    from reput.log.append.flush import PutFuture, Result

MAX_SYNCS: Final = 10_000
"""The most sends that wait for a sync; a further one is refused."""
MAX_SYNC_BYTES: Final = 256 << 20
"""The most bytes of their requests; sends above them are refused."""


@dataclass(slots=True, eq=False)
class _Sync:
    """A send of one message or of a batch that waits; `answer` takes what `stored` is.

    `deadline_s`: the loop's time when it is answered at the latest.
    """

    request: Request
    answer: Callable[[Any], Answer]
    stored: Any
    size: int
    deadline_s: float
    is_late: bool = False


class Syncs:
    """The sends that wait. All methods run in the loop's thread."""

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self._time_out_ms = state.store.config.sync_flush_timeout or DEFAULT_SYNC_FLUSH_TIMEOUT_MS
        # In the order in which they came, which is that of their deadlines.
        self._waiting: dict[_Sync, None] = {}
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def refuse_more(self, request: Request) -> None:
        """Refuse a send if too many wait.

        Raises:
            RefusedError: too many wait.
        """
        if len(self._waiting) >= MAX_SYNCS or self._bytes + request.size > MAX_SYNC_BYTES:
            refuse_as_busy()

    def wait(self, request: Request, future: PutFuture[Result], answer: Callable[[Result], Answer]) -> None:
        """Answer a send with what `answer` makes of the result of its put, when that comes or is late."""
        if future.done():
            self._state.guarded(request, lambda: answer(future.result()))
            return
        deadline_s = self._loop.time() + self._time_out_ms / 1000
        sync = _Sync(request, answer, future.stored, request.size, deadline_s)
        self._waiting[sync] = None
        self._bytes += sync.size
        if self._timer is None:
            self._timer = self._loop.call_at(deadline_s, self._answer_late)
        future.add_done_callback(lambda done: self._state.soon(self._end, sync, done))

    async def end(self) -> None:
        """Wait until all are answered: when they are durable, or late."""
        while not all(sync.is_late for sync in self._waiting):  # noqa: ASYNC110 - futures of another thread
            await asyncio.sleep(0.01)

    def _end(self, sync: _Sync, future: Future[Any]) -> None:
        """Answer a sender whose message is durable, or will not be."""
        del self._waiting[sync]
        self._bytes -= sync.size
        if not sync.is_late:
            self._state.guarded(sync.request, lambda: sync.answer(future.result()))

    def _answer_late(self) -> None:
        """Answer the senders whose time is over, and look again when the next one's is."""
        self._timer = None
        reason = f"not known to be durable after {self._time_out_ms} ms (syncFlushTimeout)"
        for sync in [one for one in self._waiting if not one.is_late]:
            if sync.deadline_s > self._loop.time():
                self._timer = self._loop.call_at(sync.deadline_s, self._answer_late)
                return
            sync.is_late = True
            late = sync.stored._replace(status=PutStatus.FLUSH_DISK_TIMEOUT, reason=reason)
            self._state.guarded(sync.request, lambda sync=sync, late=late: sync.answer(late))  # type: ignore[misc]
