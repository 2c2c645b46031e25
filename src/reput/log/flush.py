"""Flushing a log in the background, and waiting for it: one sync serves all who wait.

With sync flush a put waits until its record is durable: the service syncs as soon as somebody waits, and whoever comes
while it does is served by the next round (group commit). Without, it syncs every so often, when enough pages are dirty
or too long has passed. A write buffer is committed to the file in steps of its own.

Source: `CommitLog.GroupCommitService`, `FlushRealTimeService`, `CommitRealTimeService`.
"""

from __future__ import annotations

import threading
import time

from reput.errors import ReputError
from reput.log.append import Flushed, LogAppender
from reput.log.settings import PAGE_SIZE


class FlushService:
    """Syncs the log of an appender in a thread of its own, from `start` to `stop`.

    `error` is what stopped it: the appender then refuses puts.
    """

    def __init__(self, appender: LogAppender) -> None:
        self.appender = appender
        self.last_flushed = Flushed(appender.flushed, 0)
        self.error: ReputError | None = None
        self._settings = appender.settings
        self._changed = threading.Condition()
        self._wanted = 0
        self._stopping = False
        self._last_flush = self._last_commit = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="reput-flush", daemon=True)

    def start(self) -> None:
        """Begin to sync."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was put since the last sync is left to the appender's close."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def wait_flushed(self, offset: int, timeout_ms: int) -> bool:
        """Wait until the log is durable up to `offset`; False when it is not in time.

        Raises:
            ReputError: the disk refused a sync.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            if offset > self._wanted:
                self._wanted = offset
                self._changed.notify_all()
            while self.appender.flushed < offset:
                if self.error is not None:
                    raise type(self.error)(str(self.error))
                left = deadline - time.monotonic()
                if left <= 0 or self._stopping:
                    return False
                self._changed.wait(left)
        return True

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
        except ReputError as error:
            with self._changed:
                self.error = error
                self._changed.notify_all()

    def _round(self) -> None:
        settings, appender = self._settings, self.appender
        pause_ms = (
            settings.commit_interval_commit_log if settings.write_buffered else settings.flush_interval_commit_log
        )
        with self._changed:
            if self._wanted <= appender.flushed and not self._stopping:
                self._changed.wait(pause_ms / 1000)
            if self._stopping:
                return
            wanted = self._wanted > appender.flushed
        now = time.monotonic()
        if settings.write_buffered and (self._dirty_pages(appender.committed, appender.wrote) or wanted):
            appender.commit()
        thorough = now - self._last_flush >= settings.flush_commit_log_thorough_interval / 1000
        pages = (appender.committed - appender.flushed) // PAGE_SIZE
        if wanted or thorough or settings.sync_flush or pages >= settings.flush_commit_log_least_pages:
            self._flush()

    def _dirty_pages(self, begin: int, end: int) -> bool:
        late = time.monotonic() - self._last_commit >= self._settings.commit_interval_commit_log / 1000
        if late:
            self._last_commit = time.monotonic()
        return end > begin and (late or (end - begin) // PAGE_SIZE >= self._settings.commit_commit_log_least_pages)

    def _flush(self) -> None:
        if self.appender.flushed < self.appender.committed:
            self.last_flushed = self.appender.flush()
        self._last_flush = time.monotonic()
        with self._changed:
            self._changed.notify_all()
