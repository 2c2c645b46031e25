"""The flush service: threads that make the log durable, and the puts that wait for them.

    with FlushService(log) as flush:
        result = flush.settle(log.append(message), waits=message.waits_for_flush)
        future = flush.promise(log.append(message), waits=message.waits_for_flush)

With ASYNC_FLUSH a thread syncs the log every 500 ms if it has grown by 4 pages, and every 10 s in any case. With
SYNC_FLUSH a put waits. All puts that wait at the same time share one sync (group commit). The next sync begins when as
many puts wait as the last one answered, and after the duration of the last sync at the latest. Otherwise the puts of
callers that were just answered would miss it and wait for two syncs. With a write buffer (transientStorePool) a second
thread writes the buffer to the file in steps of 200 ms; readers see what it has written.

Each waiting put has a lock of its own. (With one condition for all, each flush woke every waiter, and these queued for
the condition's lock again.) A put that must not wait gets a future: waking a thread and giving it the interpreter costs
several times a put.

Source: `CommitLog.FlushRealTimeService`, `CommitLog.GroupCommitService`, `CommitLog.CommitRealTimeService`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from itertools import pairwise
from threading import TIMEOUT_MAX, Condition, Lock, Thread, current_thread
from typing import Any, TypeVar

from reput.errors import ClosedError, FlushError, ForkedStoreError, ReputError
from reput.files import forks
from reput.files.closing import Closing
from reput.log.append.append import LogAppender
from reput.log.append.positions import Flushed
from reput.log.append.settings import PAGE_SIZE
from reput.log.encode.message import PutManyResult, PutResult, PutStatus

_log = logging.getLogger("reput.log")
Result = TypeVar("Result", PutResult, PutManyResult)
_GATHER_S_MAX = 0.002
"""No sync waits longer than this for more puts to share it."""


class _FlushWaiter:
    """A put that waits until all below log offset `offset` is durable.

    `done` is released then, or when the service ends. The waiter requests a flush up to `wanted`, since bytes above the
    log's end cannot be flushed. A waiter that continues wakes `next`. (All woken at once, they queue for the
    interpreter and sleep again: half as much CPU time more, a tenth fewer puts.)
    """

    __slots__ = ("done", "next", "offset", "wanted")

    def __init__(self, offset: int, wrote: int) -> None:
        self.offset = offset
        self.next: _FlushWaiter | None = None
        self.wanted = min(offset, wrote)
        self.done = Lock()
        self.done.acquire()


class PutFuture(Future[Result]):
    """A future of the answer to a put. `stored`: where the messages are stored; they are not durable yet."""

    def __init__(self, stored: Result) -> None:
        super().__init__()
        self.stored: Result = stored


class _Promise(_FlushWaiter):
    """A put that does not wait, but has a future that gets its `result` then."""

    __slots__ = ("answer", "is_settled", "result")

    def __init__(self, result: PutResult | PutManyResult, wrote: int) -> None:
        super().__init__(result.end_offset, wrote)
        self.result = result
        self.is_settled = False
        self.answer: PutFuture[Any] = PutFuture(result)
        # The message is stored: the future cannot be cancelled.
        self.answer.set_running_or_notify_cancel()

    def keep(self) -> None:
        """Report that the message is durable."""
        self._settle(self.answer.set_result, self.result)

    def break_off(self, error: ReputError) -> None:
        """Report that the message is not known to be durable."""
        self._settle(self.answer.set_exception, error)

    def forsake(self, error: ReputError) -> None:
        """Make a forked child's copy of the future fail: the thread that would settle it is the parent's.

        The copy is initialized again: that thread may hold its lock, and its callbacks are the parent's, too.
        """
        Future.__init__(self.answer)
        self.answer.set_exception(error)

    def _settle(self, settle: Callable[[Any], None], value: Any) -> None:
        try:
            settle(value)
        except BaseException:  # noqa: BLE001 - logged
            # A Future passes on errors that are no Exception, and other puts wait for this thread.
            _log.exception("a callback of a message's future has failed")
        self.is_settled = True


def _rouse(waiters: Iterable[_FlushWaiter]) -> None:
    """Let these waiters continue; another thread may have done so already."""
    for waiter in waiters:
        with contextlib.suppress(RuntimeError):
            waiter.done.release()


def is_due(position: int, done: int, least_pages: int, file_size: int) -> bool:
    """Return True if there are enough bytes between two log offsets to write or sync them.

    That is: a file has become full, `least_pages` pages have been begun or, with 0 pages, there is any byte.
    """
    if position // file_size > done // file_size:
        return True
    if least_pages > 0:
        return position // PAGE_SIZE - done // PAGE_SIZE >= least_pages
    return position > done


class FlushService(Closing):
    """The threads that flush (and commit) a log; `on_flushed` is called after each flush, and must not raise.

    The service ends before its log is closed. A sync that fails ends it: the log then takes no more puts, and each
    waiting put gets the FlushError.
    """

    def __init__(self, log: LogAppender, on_flushed: Callable[[Flushed], None] | None = None) -> None:
        self._log = log
        self._on_flushed = on_flushed
        self._ended = Condition()
        self._running = True
        # The mutex guards the waiters, and how many of them wake the flushing thread (0: it is at work), which sleeps
        # at `_wake`. Waiters in `_parked` wait for bytes that were not put when they came.
        self._mutex, self._wake = Lock(), Lock()
        self._wake.acquire()
        self._waiters: list[_FlushWaiter] = []
        self._parked: list[_FlushWaiter] = []
        self._roused: list[_FlushWaiter] = []
        self._waking = 1
        self._expected = 1
        self._last_sync_s = 0.0
        self._failure: ReputError | None = None
        # Waiters that have stopped waiting, and whose futures are being settled.
        self._settling: list[_FlushWaiter] = []
        forks.in_child(self, FlushService._forsake)
        self._threads = [Thread(target=self._run, args=(self._flush_loop,), name="reput-flush", daemon=True)]
        if log.settings.write_buffered:
            self._threads.append(Thread(target=self._run, args=(self._commit_loop,), name="reput-commit", daemon=True))
        for thread in self._threads:
            thread.start()

    def settle(self, result: Result, waits: bool = True) -> Result:
        """Return the answer to a put: with SYNC_FLUSH when it is durable, or FLUSH_DISK_TIMEOUT after syncFlushTimeout.

        A put that does not wait (the property WAIT=false), or stored nothing, is answered at once.

        Raises:
            FlushError: The disk refuses to keep it; the error's `stored` is `result`.
        """
        settings = self._log.settings
        if not settings.sync_flush or not waits or result.status is not PutStatus.PUT_OK:
            return result
        try:
            if self.wait_flushed(result.end_offset, settings.sync_flush_timeout):
                return result
        except FlushError as error:
            error.stored = result
            raise
        reason = f"not known to be durable after {settings.sync_flush_timeout} ms (syncFlushTimeout)"
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT, reason=reason)

    def promise(self, result: Result, waits: bool = True) -> PutFuture[Result]:
        """Return a future of the answer of `settle`, without the time-out: the caller decides how long to wait.

        Its callbacks run in the flushing thread. It fails with a FlushError if the disk refuses to keep the message,
        and with a ClosedError if the service ends before the message is durable.
        """
        promise = _Promise(result, self._log.wrote)
        waits = waits and self._log.settings.sync_flush and result.status is PutStatus.PUT_OK
        if not waits or self._log.flushed >= promise.offset:
            promise.keep()
        elif not self._join(promise):
            self._conclude(promise)
        return promise.answer

    def _conclude(self, promise: _Promise) -> None:
        """Settle a promise when no more flushes come."""
        if self._log.flushed >= promise.offset:
            promise.keep()
        else:
            promise.break_off(self._why_not(promise.offset))

    def _why_not(self, offset: int) -> ReputError:
        if self._failure is not None:
            return type(self._failure)(str(self._failure))
        return ClosedError(f"{self._log.folder}: closed before log offset {offset} was durable")

    def runs_here(self) -> bool:
        """Return True if the caller is a callback, in one of the service's own threads."""
        return current_thread() in self._threads

    def wait_flushed(self, offset: int, timeout_ms: int) -> bool:
        """Wait until all below a log offset is durable; return False after the time-out.

        Raises:
            FlushError: A sync failed.
            ClosedError: The service ended before all was durable.
        """
        if self._log.flushed >= offset:
            return True
        waiter = _FlushWaiter(offset, self._log.wrote)
        if self._join(waiter):
            if not waiter.done.acquire(timeout=min(timeout_ms / 1000, TIMEOUT_MAX)):
                self._leave(waiter)
            if waiter.next is not None:
                _rouse((waiter.next,))
        if self._log.flushed >= offset:
            return True
        if self._failure is not None or not self._running:
            raise self._why_not(offset)
        return False

    def _join(self, waiter: _FlushWaiter) -> bool:
        """Request a flush; return False if there will be none."""
        with self._mutex:
            if not self._running:
                return False
            if waiter.wanted <= self._log.flushed:
                if waiter.offset <= self._log.flushed:
                    return False
                self._parked.append(waiter)
                return True
            self._waiters.append(waiter)
            if 0 < self._waking <= len(self._waiters):
                self._wake_up()
        return True

    def _leave(self, waiter: _FlushWaiter) -> None:
        with self._mutex:
            for waiters in (self._waiters, self._parked):
                if waiter in waiters:
                    waiters.remove(waiter)

    def _wake_up(self) -> None:
        """Wake the flushing thread; the caller holds the mutex."""
        self._waking = 0
        if self._wake.locked():
            self._wake.release()

    def close(self) -> None:
        """Settle all promises and end the threads; closing the log flushes the rest."""
        try:
            self._keep_promises()
        finally:
            self._end()
        for thread in self._threads:
            thread.join()
        forks.released(self)

    def _forsake(self) -> None:
        """Make all waits fail in a forked child, whose copy of the service this is."""
        error = ForkedStoreError(
            f"{self._log.folder}: the parent process has put this message and flushes it, and this process was forked "
            "meanwhile. Wait for futures before you fork, or in the parent"
        )
        for waiter in self._settling + self._waiters + self._parked:
            if isinstance(waiter, _Promise) and not waiter.is_settled:
                waiter.forsake(error)

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except (FlushError, ClosedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(FlushError(f"{self._log.folder}: the thread that flushes the log has died: {error!r}"))
            raise

    def _fail(self, error: ReputError) -> None:
        self._failure = self._failure or error
        self._end()

    def _end(self) -> None:
        with self._ended:
            self._running = False
            self._ended.notify_all()
        with self._mutex:
            self._settling = waiters = self._waiters + self._parked + self._roused
            self._waiters, self._parked = [], []
            self._wake_up()
        _rouse(waiters)
        for waiter in waiters:
            if isinstance(waiter, _Promise):
                self._conclude(waiter)

    def _keep_promises(self) -> None:
        if not any(isinstance(waiter, _Promise) for waiter in self._waiters + self._parked):
            return
        try:
            self._log.commit()
            self._log.flush()
        except (FlushError, ClosedError) as error:
            # Closing the log raises the error again.
            self._fail(error)
        else:
            self._release()

    def _flush_loop(self) -> None:
        settings = self._log.settings
        thorough_s = settings.flush_commit_log_thorough_interval / 1000
        last_thorough = time.monotonic()
        while self._rest(settings.flush_interval_commit_log / 1000):
            least_pages = settings.flush_commit_log_least_pages
            wanted = bool(self._waiters)
            if wanted or time.monotonic() >= last_thorough + thorough_s:
                least_pages, last_thorough = 0, time.monotonic()
            before = self._log.flushed
            if wanted:
                self._log.commit()
            if is_due(self._log.committed, before, least_pages, settings.mapped_file_size_commit_log):
                begin = time.monotonic()
                flushed = self._log.flush()
                self._last_sync_s = time.monotonic() - begin
                if self._on_flushed is not None and flushed.offset > before:
                    self._on_flushed(flushed)
            self._release()

    def _release(self) -> None:
        """Let the waiters continue whose messages are durable."""
        with self._mutex:
            flushed = self._log.flushed
            everybody = self._waiters + self._parked
            done = [waiter for waiter in everybody if waiter.offset <= flushed]
            self._settling = done
            self._waiters = [waiter for waiter in everybody if waiter.wanted > flushed]
            self._parked = [waiter for waiter in everybody if waiter.wanted <= flushed < waiter.offset]
            self._expected = len(done) + len(self._waiters)
            promises = [waiter for waiter in done if isinstance(waiter, _Promise)]
            threads = [waiter for waiter in done if not isinstance(waiter, _Promise)] if promises else done
            for waiter, following in pairwise(threads):
                waiter.next = following
            # Waiters of another thread's flush may not have been woken yet.
            self._roused = [*(waiter for waiter in self._roused if waiter.done.locked()), *threads]
        _rouse(threads[:1])
        for promise in promises:
            promise.keep()
        self._settling = []

    def _rest(self, interval_s: float) -> bool:
        """Wait for the next turn, or for the expected number of waiters; return False when the service ends."""
        if self._expected > 1:
            self._doze(min(self._last_sync_s, _GATHER_S_MAX), self._expected)
            # An interrupted waiter has not woken the next one.
            _rouse(self._roused)
        if self._running and not self._waiters:
            self._doze(interval_s, 1)
        return self._running

    def _doze(self, interval_s: float, waking: int) -> None:
        """Wait for `interval_s`, or until `waking` puts wait for a flush."""
        with self._mutex:
            if len(self._waiters) >= waking or not self._running:
                return
            self._waking = waking
        self._wake.acquire(timeout=min(interval_s, TIMEOUT_MAX))
        with self._mutex:
            self._waking = 0
            # Another thread may have released it in between.
            self._wake.acquire(blocking=False)

    def _commit_loop(self) -> None:
        settings = self._log.settings
        thorough_s = settings.commit_commit_log_thorough_interval / 1000
        last_thorough = time.monotonic()
        while self._sleep(settings.commit_interval_commit_log):
            least_pages = settings.commit_commit_log_least_pages
            if time.monotonic() >= last_thorough + thorough_s:
                least_pages, last_thorough = 0, time.monotonic()
            log, size = self._log, settings.mapped_file_size_commit_log
            if is_due(log.wrote, log.committed, least_pages, size):
                log.commit()

    def _sleep(self, interval_ms: int) -> bool:
        """Wait for the next turn; return False when the service ends."""
        with self._ended:
            self._ended.wait_for(lambda: not self._running, interval_ms / 1000)
            return self._running
