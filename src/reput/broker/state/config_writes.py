"""Writes of changed topics, groups and modes, in a thread of their own: one for all that has changed in a turn.

Requests that make a topic or a group, or use one that is being written, are answered when it is durable; so are those
that set a mode. Changes that come during a write go into the next one, so a client that makes many topics or groups
stops nobody else.

RocketMQ writes at each change, in the thread of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from reput.broker.wire.answers import answer_of_error
from reput.broker.wire.refusals import refuse, refuse_as_busy
from reput.errors import NoSpaceError, ReputError
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request

log = logging.getLogger("reput.broker")
MAX_UNWRITTEN: Final = 10_000
"""The most answers that wait for a topic or a group to be durable; a further request for one is refused."""
MAX_UNWRITTEN_BYTES: Final = 256 << 20
"""The most bytes of their requests; requests above them are refused."""


class WrittenTable(Protocol):
    """A table that is written: topics, groups, or modes."""

    def persist(self) -> None:
        """Make the changes durable, if there are any, in another thread.

        Raises:
            ReputError: they cannot be written.
        """
        ...


class ConfigWrite:
    """A write that has not ended yet."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: ReputError | None = None
        self._waiting: list[Callable[[ConfigWrite], None]] = []

    def then(self, work: Callable[[ConfigWrite], None]) -> None:
        """Call `work` when the write has ended, with its error or without one."""
        if self.is_done:
            work(self)
        else:
            self._waiting.append(work)

    def end(self, error: ReputError | None) -> None:
        """Call all who wait."""
        self.is_done, self.error = True, error
        for work in self._waiting:
            work(self)
        self._waiting.clear()


class _Needed(NamedTuple):
    """The write for which a request waits. `must`: its answer promises what is written."""

    write: ConfigWrite
    must: bool


class ConfigWrites:
    """The writes of a broker's topics, groups and modes. All methods run in the loop's thread.

    Args:
        loop: the loop that serves connections.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tables: list[WrittenTable] = []
        self._thread = ThreadPoolExecutor(1, "reput-broker-configs")
        self._next: ConfigWrite | None = None
        self._running: ConfigWrite | None = None
        self._unwritten: dict[tuple[int, str], ConfigWrite] = {}
        self._needed: _Needed | None = None
        self._has_failed = self._is_full = self._is_ended = False
        self._answers = self._bytes = 0

    def add(self, table: WrittenTable) -> None:
        """Write this table from now on."""
        self._tables.append(table)

    # --- changes -------------------------------------------------------------------------------

    def refuse_more(self) -> None:
        """Refuse a request for what is not durable yet if too many wait, or the broker stops.

        Raises:
            RefusedError: so it is.
        """
        if self._is_ended:
            refuse(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
        if self._answers >= MAX_UNWRITTEN or self._bytes >= MAX_UNWRITTEN_BYTES:
            refuse_as_busy()

    def changed(self, table: WrittenTable, name: str, *, must: bool) -> None:
        """Write a change soon; the request that is being served waits for it.

        `must`: without room on the disk its answer is that error. Others are answered all the same: consumers of a full
        disk go on.
        """
        self._unwritten[id(table), name] = self._need(must=must)

    def uses(self, table: WrittenTable, name: str, *, must: bool = False) -> None:
        """Let the request that is being served wait for what it uses, if that is not durable yet.

        Raises:
            RefusedError: too many wait.
        """
        write = self._unwritten.get((id(table), name))
        if write is not None:
            self.refuse_more()
            self._note(write, must=must)
        elif must and self._has_failed:
            self._need(must=True)

    def is_unwritten(self, table: WrittenTable, name: str) -> bool:
        """Return True if a change of a name is not durable yet."""
        return (id(table), name) in self._unwritten

    def _need(self, *, must: bool) -> ConfigWrite:
        if self._next is None:
            self._next = ConfigWrite()
            if self._running is None:
                self._loop.call_soon(self._begin)
        self._note(self._next, must=must)
        return self._next

    def _note(self, write: ConfigWrite, *, must: bool) -> None:
        before = self._needed
        # A later write ends after the one before it.
        later = write if before is None or write is self._next else before.write
        self._needed = _Needed(later, must or (before is not None and before.must))

    # --- requests ------------------------------------------------------------------------------

    def begin_request(self) -> _Needed | None:
        """Begin to note what a request needs; return what the one around it needs, for `end_request`."""
        outer, self._needed = self._needed, None
        return outer

    def end_request(self, request: Request | None, outer: _Needed | None) -> ConfigWrite | None:
        """Let a request's answer wait for the write that it needs, which is returned; None if it needs none."""
        needed, self._needed = self._needed, outer
        if needed is None:
            return None
        if request is not None:
            request.delay = partial(self._delay, needed)
        return needed.write

    def _delay(self, needed: _Needed, request: Request, answer: Answer) -> None:
        """Answer a request after the write that it needs."""
        size = request.size
        self._answers += 1
        self._bytes += size

        def written(write: ConfigWrite) -> None:
            self._answers -= 1
            self._bytes -= size
            error = write.error
            is_lost = error is not None and (needed.must or not isinstance(error, NoSpaceError))
            request.answer(answer_of_error(error) if error is not None and is_lost else answer)

        needed.write.then(written)

    # --- writes --------------------------------------------------------------------------------

    def write_now(self) -> None:
        """Make all changes durable before this returns: no loop runs yet.

        Raises:
            ReputError: the system refuses a call, or the disk is full.
        """
        _write(self._tables)
        self._unwritten.clear()
        self._needed, write, self._next = None, self._next, None
        if write is not None:
            write.end(None)

    def retry(self) -> None:
        """Write again what could not be written."""
        if self._has_failed:
            outer = self.begin_request()
            self._need(must=False)
            self.end_request(None, outer)

    def _begin(self) -> None:
        if self._next is None or self._running is not None:
            return
        write, self._next = self._next, None
        self._running = write
        future = self._thread.submit(_write, tuple(self._tables))
        future.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._end, write, done))

    def _end(self, write: ConfigWrite, future: Future[None]) -> None:
        error = future.exception()
        self._running = None
        self._has_failed = error is not None
        self._unwritten = {key: other for key, other in self._unwritten.items() if other is not write}
        if isinstance(error, NoSpaceError):
            # Once: each second they are tried again.
            if not self._is_full:
                log.warning("configurations are in memory alone until there is room: %s", error)
        elif error is not None:
            log.error(
                "topics, groups and modes are not written: %s",
                error,
                exc_info=None if isinstance(error, ReputError) else error,
            )
        self._is_full = isinstance(error, NoSpaceError)
        self._begin()
        if error is not None and not isinstance(error, ReputError):
            error = ReputError(f"topics, groups and modes are not written: {type(error).__name__}: {error}")
        write.end(error)

    async def end(self) -> None:
        """Write what is not durable yet, answer those who wait for it, and take no more changes."""
        self._is_ended = True
        self.retry()
        while (write := self._next or self._running) is not None:
            ended = self._loop.create_future()
            write.then(lambda _, ended=ended: ended.set_result(None))  # type: ignore[misc]
            await ended
        await self._loop.run_in_executor(None, self._thread.shutdown)


def _write(tables: Sequence[WrittenTable]) -> None:
    for table in tables:
        table.persist()
