"""follow: extends the indexes of a store with its log, as long as this runs.

A *step* indexes the log between the frontier and the confirmed offset, at most `max_batch_bytes`, and then publishes
the visible frontier: readers change from the tail to the indexes. Every `DURABLE_INTERVAL_S` log and indexes are
synced, and the durable frontier moves. After a crash the durable frontier counts, and a repeat of later steps writes
the same bytes.

The caller of `step` is the clock: a Structured Streaming query (`follow.query`), or a loop without Spark. `tend` does
the work that does not depend on new messages.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import StaleEpochError, StoreLockedError
from reput.files import fs
from reput.formats import paths
from reput.pipeline.build import publish
from reput.pipeline.build.grow.grow import Grower, Growth
from reput.pipeline.follow.attachment import Attachment, attach, following, refuse_followed_elsewhere, someone_waits
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.holders import Writer, writer_of
from reput.times import now_ms

DURABLE_INTERVAL_S = 1.5
"""The time between syncs of the indexes; with the time of a sync the durable frontier lags by some 2 s."""
MAX_BATCH_BYTES = 2 << 30
_LOOK_S = 0.5
_SMOOTH = 0.3
_OPENING_WAIT_S = 10.0
"""The time that a new follower waits for a program that opens or closes the store."""


def refuse_early(root: str | Path, config: StoreConfig) -> None:
    """Refuse what is known before Spark starts; nothing is changed. `Follow` itself asks again.

    Raises:
        ReputError: the store cannot be followed now.
    """
    refuse_followed_elsewhere(_find_followable(root, config))


def _find_followable(root: str | Path, config: StoreConfig) -> StoreLayout:
    return StoreOnDisk.find(root, config, Purpose.FOLLOW).layout


@dataclass(slots=True)
class FollowProgress:
    """The progress of a follower: log offsets, the lag of the indexes, and its last batch.

    `lag_messages` estimates the messages in `lag_bytes` by the mean size of those indexed so far, 0 before any.
    `lag_ms`: the age of the first message that is not indexed yet. `state`: `following` beside a writer, `catching up`
    on a store that nobody writes, `idle` after it released that store, `waiting` for another job to end.
    """

    state: str = "idle"
    frontier: int = 0
    durable: int = 0
    confirmed: int = 0
    lag_bytes: int = 0
    lag_messages: int = 0
    lag_ms: int = 0
    messages: int = 0
    batches: int = 0
    batch_messages: int = 0
    batch_ms: float = 0.0
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """All values by name."""
        return asdict(self)


class Follow:
    """One follower of one store. `step` and `tend` may be called from different threads.

    Args:
        on_progress: called after each batch, and whenever the state changes.
        note: called with a line for people.

    Raises:
        StoreLockedError: another process follows the store, or a broker or another job is at work on it.
        ReputError: see `reput.errors`.
    """

    def __init__(
        self,
        root: str | Path,
        engine: Engine,
        config: StoreConfig,
        *,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        listener: ProgressListener | None = None,
        on_progress: Callable[[FollowProgress], None] | None = None,
    ) -> None:
        self.layout: StoreLayout = _find_followable(root, config)
        self.config = config
        self.engine = engine
        self.max_batch_bytes = max_batch_bytes
        self.listener = listener or ProgressListener()
        self.progress = FollowProgress()
        self._on_progress = on_progress or (lambda _progress: None)
        self._lock = threading.RLock()
        self._syncing = threading.Lock()
        self._reaching = threading.Lock()
        self._stopped_at = -1
        self._held = contextlib.ExitStack()
        self._attached: tuple[Attachment, Grower, contextlib.ExitStack] | None = None
        self._reached: publish.Reached | None = None
        self._durable_at = time.monotonic()
        self._looked_at = 0.0
        self._seen: object = None
        self._bytes = 0
        self._held.enter_context(following(self.layout))
        try:
            self._attach(_OPENING_WAIT_S)
        except BaseException:
            self._held.close()
            raise

    # --- steps ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Index new messages, at most one batch; returns False if there are none.

        Raises:
            DamagedLogError: the log is damaged; the frontier is below the damage.
            ReputError: see `reput.errors`.
        """
        with self._lock:
            if self._attached is None and not self._attach_again():
                return False
            assert self._attached is not None
            attachment, grower, _ = self._attached
            if attachment.is_wanted():
                self._let_go()
                return False
            try:
                return self._step(attachment, grower)
            except StaleEpochError:
                # A writer has opened the store, or a rebuild has begun: begin again at the durable frontier.
                self.listener.note("another process has taken the store over; attaching again")
                self._detach()
                return True

    def _step(self, attachment: Attachment, grower: Grower) -> bool:
        self._fall_forward(attachment, grower)
        confirmed = attachment.confirmed()
        target = min(confirmed, grower.offset + self.max_batch_bytes)
        if target > grower.offset and attachment.writer is Writer.NOBODY and attachment.ends_at(grower.offset):
            # The files have room after the log's end.
            self._stopped_at = grower.offset
        if target <= grower.offset or grower.offset == self._stopped_at:
            self._report(attachment, grower, grower.offset if grower.offset == self._stopped_at else confirmed)
            return False
        begin, before = time.perf_counter(), grower.offset
        growth = grower.grow(target, confirmed)
        if growth.stopped:
            attachment.refuse_damaged_end(growth.end)
            self._stopped_at = growth.end
        if growth.end == before:
            self._report(attachment, grower, growth.end)
            return False
        attachment.publish(growth.end)
        with self._reaching:
            self._reached = self._reached or publish.Reached(growth.end, leaves_index_files=grower.leaves_index_files)
            self._reached.add(growth.end, growth.last, growth.index_files)
        self._count(growth, growth.end - before, time.perf_counter() - begin)
        for line in growth.out_of_order:
            self.listener.note(f"queue offsets are not consecutive: {line}")
        self._report(attachment, grower, growth.end if growth.stopped else attachment.confirmed())
        return True

    def _fall_forward(self, attachment: Attachment, grower: Grower) -> None:
        """Continue at the log's first file if files were deleted before they were indexed."""
        size = grower.log_file_size
        if fs.exists(self.layout.commit_log / paths.offset_name(grower.offset // size * size)):
            return
        attachment.log.refresh()
        if grower.offset < attachment.log.min_offset:
            self.listener.note(
                f"warning: the log begins at {attachment.log.min_offset} now, and {grower.offset} was indexed: files "
                "were deleted before their messages had entries. Going on at the log's beginning"
            )
            grower.offset = attachment.log.min_offset

    def left_bytes(self) -> int:
        """Return the bytes of log that are not indexed; without a writer this may include empty bytes at the end."""
        with self._lock:
            if self._attached is None:
                return 0
            attachment, grower, _ = self._attached
            return 0 if self._has_nothing_left() else max(0, attachment.confirmed() - grower.offset)

    def _has_nothing_left(self) -> bool:
        """Return True if nobody writes, and the log's files hold nothing from the frontier on."""
        assert self._attached is not None
        attachment, grower, _ = self._attached
        return attachment.writer is Writer.NOBODY and attachment.ends_at(grower.offset)

    def caught_up(self) -> bool:
        """Return True if every message that can be indexed is indexed."""
        with self._lock:
            if self._attached is None:
                return not self._something_new()
            attachment, grower, _ = self._attached
            return grower.offset >= attachment.confirmed() or grower.offset == self._stopped_at

    # --- what is due from time to time ---------------------------------------------------------

    def tend(self) -> None:
        """Sync when it is due, and release a store that nobody writes when all of it is indexed.

        Raises:
            ReputError: see `reput.errors`.
        """
        if time.monotonic() - self._durable_at >= DURABLE_INTERVAL_S:
            self.make_durable()
        with self._lock:
            if self._attached is None:
                return
            attachment = self._attached[0]
            done = self.caught_up()
            if done and (attachment.writer is Writer.NOBODY or self._writer_has_ended(attachment)):
                self._let_go()
                self._seen = self._signature()

    def _let_go(self) -> None:
        self.make_durable()
        self._keep_frontier()
        self._detach()
        self._seen = None

    def _writer_has_ended(self, attachment: Attachment) -> bool:
        return self._is_time_to_look() and attachment.writer_is_gone()

    def make_durable(self) -> None:
        """Sync log and indexes up to the visible frontier, and move the durable one there."""
        with self._syncing:
            self._durable_at = time.monotonic()
            with self._reaching:
                if self._reached is None or self._attached is None or self._reached.end == self.progress.durable:
                    return
                reached, attachment = replace(self._reached), self._attached[0]
            try:
                log_is_ours = attachment.writer is Writer.NOBODY
                is_durable = publish.make_durable(attachment.owned, reached, log_is_ours=log_is_ours)
            except StaleEpochError:
                return  # the next step attaches again, from the durable frontier
            if is_durable:
                self.progress.durable = reached.end

    def _keep_frontier(self) -> None:
        """Write the frontier of indexes that RocketMQ built and that needed no step, for the next follower."""
        if self._attached is None or self._reached is not None:
            return
        attachment, grower, _ = self._attached
        if attachment.writer is Writer.NOBODY and self.caught_up():
            with contextlib.suppress(StaleEpochError):
                publish.keep_frontier(attachment.owned, attachment.log, grower.offset, grower.index_end)

    def close(self) -> None:
        """Sync what was built, and release the store."""
        with self._lock:
            try:
                self.make_durable()
                self._keep_frontier()
            finally:
                self._detach()
                self._held.close()

    # --- attaching -----------------------------------------------------------------------------

    def _attach(self, wait_s: float = 0.0) -> None:
        """Take hold of the store; `wait_s` is how long a program may open or close it meanwhile."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._take_hold(max(0.0, deadline - time.monotonic()))
            except StaleEpochError:
                # Another program has owned the store since this one looked at it.
                if time.monotonic() >= deadline:
                    raise
            else:
                return

    def _take_hold(self, wait_s: float) -> None:
        held = contextlib.ExitStack()
        try:
            attachment = held.enter_context(attach(self.layout, self.config, wait_s))
            held.callback(attachment.log.close)
            if not attachment.has_log():
                # The size of the log's files is still unknown.
                held.close()
                self._seen = self._signature()
                return
            grower = Grower.begin(attachment.task, self.engine, self.listener, self.max_batch_bytes)
            held.callback(grower.close)
            grower.soft_end = attachment.writer is Writer.NOBODY
            for note in attachment.owned.notes:
                self.listener.note(note)
            frontier = attachment.task.frontiers.both
            if 0 < frontier < grower.offset:
                self.listener.note(f"warning: the log begins at {grower.offset}, after the frontier at {frontier}")
            if attachment.writer is Writer.NOBODY:
                attachment.publish(grower.offset)
        except BaseException:
            held.close()
            raise
        self._attached = (attachment, grower, held)
        self._reached, self._stopped_at = None, -1
        self.progress.durable, self.progress.frontier = frontier, grower.offset
        self.progress.state = "following" if attachment.writer is Writer.REPUT else "catching up"
        # Before the first step: a follower that has not begun must not look caught up.
        self._measure(attachment, grower, grower.offset if self._has_nothing_left() else attachment.confirmed())

    def _attach_again(self) -> bool:
        if not self._is_time_to_look() or not self._something_new():
            return False
        try:
            if someone_waits(self.layout) and writer_of(self.layout) is Writer.NOBODY:
                return False
            self._attach()
        except (StoreLockedError, StaleEpochError) as error:
            if self.progress.state != "waiting":
                self.progress.state = "waiting"
                self.listener.note(f"waiting: {error}")
                self._on_progress(self.progress)
            return False
        return self._attached is not None

    def _detach(self) -> None:
        if self._attached is not None:
            with self._syncing, self._reaching:
                held, self._attached, self._reached = self._attached[2], None, None
            held.close()
            self.progress.state = "idle"
            self._on_progress(self.progress)

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return False
        self._looked_at = now
        return True

    def _something_new(self) -> bool:
        """Return True if there is a writer, or the log's files have changed since the store was released."""
        try:
            return self._seen is None or self._signature() != self._seen
        except StoreLockedError:
            return True

    def _signature(self) -> object:
        writer = writer_of(self.layout)
        files = [(entry.name, entry.size) for entry in fs.list_dir(self.layout.commit_log)]
        last = self.layout.commit_log / files[-1][0] if files else None
        return writer is Writer.REPUT, tuple(files), fs.modified_ms(last) if last else None

    # --- progress ------------------------------------------------------------------------------

    def _count(self, growth: Growth, size: int, seconds: float) -> None:
        progress = self.progress
        progress.messages += growth.records
        progress.batches += 1
        progress.batch_messages = growth.records
        progress.batch_ms = round(seconds * 1000, 1)
        self._bytes += size
        rate, byte_rate = growth.records / max(seconds, 1e-6), size / max(seconds, 1e-6)
        progress.messages_per_s = round(
            rate if progress.batches == 1 else progress.messages_per_s * (1 - _SMOOTH) + rate * _SMOOTH
        )
        progress.bytes_per_s = round(
            byte_rate if progress.batches == 1 else progress.bytes_per_s * (1 - _SMOOTH) + byte_rate * _SMOOTH
        )

    def _report(self, attachment: Attachment, grower: Grower, confirmed: int) -> None:
        self._measure(attachment, grower, confirmed)
        self._on_progress(self.progress)

    def _measure(self, attachment: Attachment, grower: Grower, confirmed: int) -> None:
        """Note the ends of indexes and log, and the lag between them."""
        progress = self.progress
        progress.frontier, progress.confirmed = grower.offset, confirmed
        progress.lag_bytes = max(0, confirmed - grower.offset)
        mean = self._bytes / progress.messages if progress.messages else 0
        progress.lag_messages = round(progress.lag_bytes / mean) if mean else 0
        progress.lag_ms = 0
        if progress.lag_bytes:
            stored = attachment.store_time(grower.offset)
            progress.lag_ms = max(0, now_ms() - stored) if stored > 0 else 0
