"""When the log is made durable, and who waits for it.

    with FlushService(log) as flush:
        result = flush.settle(log.append(message), waits=message.waits_for_flush)

With ASYNC_FLUSH a thread syncs every 500 ms what has grown by 4 pages, and every 10 s whatever there is. With
SYNC_FLUSH a put waits: all puts that wait at one time share one sync (group commit). With a write buffer
(transientStorePool) a second thread writes the buffer to the file in steps of 200 ms; readers see what it has written.

Source: `CommitLog.FlushRealTimeService`, `CommitLog.GroupCommitService`, `CommitLog.CommitRealTimeService`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition, Thread
from types import TracebackType
from typing import Self, TypeVar

from reput.errors import ClosedError, FlushError, ReputError
from reput.log.append import Flushed, LogAppender
from reput.log.message import PutManyResult, PutResult, PutStatus
from reput.log.settings import PAGE_SIZE

Result = TypeVar("Result", PutResult, PutManyResult)


def is_due(position: int, done: int, least_pages: int, file_size: int) -> bool:
    """Whether there is enough between two log offsets to write or sync it.

    That is: a file has become full, so many pages have been begun or, with 0 pages, anything at all.
    """
    if position // file_size > done // file_size:
        return True
    if least_pages > 0:
        return position // PAGE_SIZE - done // PAGE_SIZE >= least_pages
    return position > done


class FlushService:
    """The threads that flush (and commit) a log; `on_flushed` is told of each flush that moved, and must not raise.

    The service ends before its log is closed. A sync that fails ends it: the log then takes no more puts, and whoever
    waits gets the FlushError.
    """

    def __init__(self, log: LogAppender, on_flushed: Callable[[Flushed], None] | None = None) -> None:
        self._log = log
        self._on_flushed = on_flushed
        self._changed = Condition()
        self._wanted = 0
        self._running = True
        self._failure: ReputError | None = None
        self._threads = [Thread(target=self._run, args=(self._flush_loop,), name="reput-flush", daemon=True)]
        if log.settings.write_buffered:
            self._threads.append(Thread(target=self._run, args=(self._commit_loop,), name="reput-commit", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> ReputError | None:
        """What ended the service before its time, None while all is well."""
        return self._failure

    def settle(self, result: Result, waits: bool = True) -> Result:
        """The answer to a put: with SYNC_FLUSH once it is durable, or FLUSH_DISK_TIMEOUT after syncFlushTimeout.

        A put that does not wait (the property WAIT=false), or stored nothing, is answered at once.

        Raises:
            FlushError: the disk refused to keep it.
        """
        settings = self._log.settings
        if not settings.sync_flush or not waits or result.status is not PutStatus.PUT_OK:
            return result
        if self.wait_flushed(result.end_offset, settings.sync_flush_timeout):
            return result
        reason = f"not known to be durable after {settings.sync_flush_timeout} ms (syncFlushTimeout)"
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT, reason=reason)

    def wait_flushed(self, offset: int, timeout_ms: int) -> bool:
        """Wait until all below a log offset is durable; False when that takes too long.

        Raises:
            FlushError: a sync failed.
            ClosedError: the service has ended before it was durable.
        """
        if self._log.flushed >= offset:
            return True
        with self._changed:
            # What nobody has put yet cannot be flushed: to want it would keep the thread busy for nothing.
            self._wanted = max(self._wanted, min(offset, self._log.wrote))
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._log.flushed >= offset or not self._running, timeout_ms / 1000)
            if self._log.flushed >= offset:
                return True
            if self._failure is not None:
                raise type(self._failure)(str(self._failure))
            if not self._running:
                raise ClosedError(f"{self._log.folder}: closed before log offset {offset} was durable")
        return False

    def close(self) -> None:
        """End the threads; what they left is flushed when the log is closed."""
        with self._changed:
            self._running = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except (FlushError, ClosedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(FlushError(f"{self._log.folder}: the thread that flushes the log has died: {error!r}"))
            raise

    def _fail(self, error: ReputError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._running = False
            self._changed.notify_all()

    def _flush_loop(self) -> None:
        settings = self._log.settings
        thorough_s = settings.flush_commit_log_thorough_interval / 1000
        last_thorough = time.monotonic()
        while self._sleep(settings.flush_interval_commit_log, for_waiters=True):
            least_pages = settings.flush_commit_log_least_pages
            if self._wanted > self._log.flushed or time.monotonic() >= last_thorough + thorough_s:
                least_pages, last_thorough = 0, time.monotonic()
            before = self._log.flushed
            if self._wanted > before:
                self._log.commit()
            if not is_due(self._log.committed, before, least_pages, settings.mapped_file_size_commit_log):
                continue
            flushed = self._log.flush()
            with self._changed:
                self._changed.notify_all()
            if self._on_flushed is not None and flushed.offset > before:
                self._on_flushed(flushed)

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

    def _sleep(self, interval_ms: int, for_waiters: bool = False) -> bool:
        """Wait for the next turn, or until somebody waits for a flush; False when the service ends."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._running or (for_waiters and self._wanted > self._log.flushed), interval_ms / 1000
            )
            return self._running
