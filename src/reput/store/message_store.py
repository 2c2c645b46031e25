"""The message store: a log that is written, indexes that follow it, and readers of both.

    open        own the store (locks, epoch, an unfinished swap), find where the indexes end, decode the rest into the
                tail, cut the log after its last good record
    put         the log's appender; a message is readable when its put returns
    read        a view: indexes below the frontier, the tail above
    reput       an indexer brings the durable indexes up to the confirmed offset; the tail drops the entries they have
    close       flush, catch up, write progress and checkpoint; remove `abort` if the indexes are complete

Source: `DefaultMessageStore`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from reput.config import StoreConfig
from reput.errors import AccessError, ClosedError, ConfigError, DamagedStoreError, ReputError
from reput.files import forks, fs, locks
from reput.files.gone import tried_again
from reput.formats.own import files as own
from reput.queue.tail import TAIL_MAX_ENTRIES
from reput.store.disk.frontier import durable_offset
from reput.store.disk.layout import find_or_make_store
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.open.opening import open_beside, open_view
from reput.store.open.reopening import Reopening
from reput.store.progress.calls import ProgressCalls
from reput.store.putting import Putting
from reput.store.read.arrivals import Arrivals, Waiter
from reput.store.read.reading import Reading
from reput.store.read.view import number_of
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.log.append.append import LogAppender
    from reput.log.append.flush import FlushService
    from reput.store.disk.layout import StoreLayout
    from reput.store.metadata.homes import MetadataHomes
    from reput.store.open.opening import Opened
    from reput.store.owner.indexer import CatchUp, Indexer
    from reput.store.owner.owner import Ownership
    from reput.store.pending.work import PendingWork
    from reput.store.progress.progress import ConsumerProgress
    from reput.store.read.lite_topics import LiteTopicState
    from reput.store.read.queue_answers import PullLimits
    from reput.store.read.view import StoreView
    from reput.store.write.writing import StoreWriter

_log = logging.getLogger("reput.store")
_TICK_S = 0.1
_LOOK_OUT_S = 0.02


class Lag(NamedTuple):
    """The part of the log without index entries: bytes, queue entries, and the age (ms) of its first message."""

    bytes: int
    messages: int
    ms: int


class LocalStore(ProgressCalls, Putting, Reading):
    """An open store. Safe for threads: one writer at a time inside, many readers.

    `open` makes one. `notes` lists the findings and repairs of the open. `damage` lists the queues, topics and
    committed offsets that cannot be read: all else can. `opened_in_s` is the time that decoding the tail took.
    """

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        opened: Opened,
        notes: list[str],
        reopening: Reopening | None,
    ) -> None:
        super().__init__(opened.view)
        self.layout = layout
        self.config = config
        # This is the owner's own list: later jobs add their findings to it.
        self.notes = notes
        self.notes += opened.notes
        self._reopening = reopening
        self._use(opened, opened.damage)
        self.opened_in_s = opened.seconds
        self._progress: ConsumerProgress | None = None
        self._homes: MetadataHomes | None = None
        self._metadata_lock = threading.Lock()
        self.background_error: Exception | None = None
        self._resources = contextlib.ExitStack()
        self._writing: StoreWriter | None = None
        self._flush: FlushService | None = None
        self._sync_flush = False
        self._tail_max = config.tail_max_entries or TAIL_MAX_ENTRIES
        self._arrivals = Arrivals()
        # Every put reads these: one look-up each instead of three.
        self._tail, self._waiting = opened.view.queues_table.tail, self._arrivals.table
        self._appender: LogAppender | None = None
        self._stop = threading.Event()
        self._house_calls = threading.Event()
        self._housekeeper: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        config: StoreConfig | None = None,
        *,
        read_only: bool = False,
        create: bool = False,
        limits: PullLimits | None = None,
        delete_expired: bool | None = None,
    ) -> Self:
        """Open the store in `path`. With `create` a missing or empty folder becomes a new store.

        A read-only store changes nothing and locks nothing: another process may write meanwhile, and its confirmed
        messages become visible.

        Expired log files are deleted only on request: by `delete_expired`, by a broker.conf or another configuration
        that says when files are deleted, or by the configuration that the store was made with. See
        `reput.store.write.expiry`.

        Raises:
            NotAStoreError: There is no store in `path`, and `create` is not set; or the folder holds something else.
            StoreLockedError: A live broker or another reput process holds the store. (A follower that catches up
                releases it.)
            DamagedLogError: The log is damaged below an offset that was known to be durable; nothing was changed.
            TailFullError: More messages wait for their indexes than `tail_max_entries` allows.
            ReputError: See `reput.errors`.
        """
        config = config or StoreConfig()
        if delete_expired is not None:
            config = replace(config, delete_expired=delete_expired)
        layout, is_new = find_or_make_store(path, config, create=None if read_only else create)
        purpose = Purpose.READ if read_only else Purpose.WRITE
        tried_again(lambda: StoreOnDisk(layout, config, purpose).refuse_early())
        with contextlib.ExitStack() as resources:
            if read_only:
                beside = partial(open_beside, layout, config, limits)
                reopening = resources.enter_context(contextlib.closing(Reopening(layout, beside)))
                store = cls(layout, config, reopening.open(), [], reopening)
                # A store that is dropped without a close leaves no thread.
                forks.finalize(store, reopening.end)
            else:
                from reput.store.owner.owner import take_over

                owned = resources.enter_context(take_over(layout))
                opened = open_view(layout, config, limits)
                store = cls(layout, config, opened, owned.notes, None)
                store._load_progress()
                store._begin_to_write(opened, owned, is_new=is_new)
            store._resources = resources.pop_all()
        forks.refuse_in_child(
            store, str(layout.root), "reput.MessageStore.open(path), with read_only=True to read beside a writer"
        )
        return store

    def _begin_to_write(self, opened: Opened, owned: Ownership, *, is_new: bool) -> None:
        from reput.store.write.writing import StoreWriter

        self._writing = writing = StoreWriter(
            self.layout, self.config, opened, owned, is_new=is_new, notes=self.notes, flushed=self._on_flushed
        )
        self.config, self._flush = writing.config, writing.flush_service
        self._appender, self._sync_flush = writing.appender, writing.appender.settings.sync_flush
        self._housekeeper = threading.Thread(target=self._keep_house, args=[writing], name="reput-store", daemon=True)
        self._housekeeper.start()

    @property
    def progress(self) -> ConsumerProgress:
        """The committed offsets of all groups, wherever the broker keeps them.

        A reader decodes them on first use: there may be very many, and most readers never need them.

        Raises:
            DamagedStoreError: Their file or database is damaged; a file, and its .bak is missing or damaged as well.
        """
        return self._progress or self._load_progress()

    def _load_progress(self) -> ConsumerProgress:
        from reput.store.metadata.tables import Table
        from reput.store.progress.progress import PERSIST_INTERVAL_MS, VERSION_STEP, ConsumerProgress

        config, homes = self.config, self.metadata_homes
        with self._metadata_lock:
            if self._progress is None:
                self._progress = ConsumerProgress.load(
                    homes.home(Table.OFFSETS),
                    persist_interval_ms=config.flush_consumer_offset_interval or PERSIST_INTERVAL_MS,
                    version_step=config.consumer_offset_update_version_step or VERSION_STEP,
                )
                self._progress.make_durable = self._flush_for_offsets
                # A writer goes on without them, and they count for it only where they are used.
                wrong = () if self._reopening is None else self._progress.damage
                self.damage += [text for text in wrong if text not in self.damage]
                self.notes += [note for note in self._progress.notes if note not in (*self.notes, *wrong)]
            return self._progress

    def _flush_for_offsets(self) -> None:
        # A close has flushed the log before it persists the offsets.
        if self._writing is not None and not self._closed:
            self._writing.flush()

    @property
    def metadata_homes(self) -> MetadataHomes:
        """The places of topics, groups and offsets. They are written only while the store is open to write."""
        from reput.store.metadata.homes import MetadataHomes

        with self._metadata_lock:
            if self._homes is None:
                metadata = StoreOnDisk(self.layout, self.config, Purpose.READ).metadata
                self._homes = MetadataHomes(metadata, self.layout.own(own.ROCKSDB_LOGS), now_ms)
            return self._homes

    @property
    def pending(self) -> PendingWork:
        """The work that waits in the store now: timers, open transactions, and messages held by pop consumers.

        Raises:
            ClosedError: The store is closed.
        """
        from reput.store.pending.work import PendingWork

        return PendingWork(self._open_view(), lambda: self.progress)

    def lite_topics(self, topic: str | None = None, *, at_ms: int | None = None) -> Iterator[LiteTopicState]:
        """Iterate over the lite topics, by parent and name, each with its messages, age, expiry and lags.

        Memory does not grow with their messages. Without lags if the committed offsets are damaged, as `damage` then
        says.

        Args:
            topic: Only lite topics of this topic of type LITE.
            at_ms: `is_expired` is about this time (ms since 1970); None for now.

        Raises:
            ConfigError: There is no such topic of type LITE; the text names similar ones.
        """
        from reput.store.read.lite_topics import DEFAULT_MIN_TTL_MS, LiteTopics

        expirations = self.view.topics_of_broker().lite_expirations
        min_ttl_ms = self.config.min_lite_ttl
        try:
            progress = self.progress
        except DamagedStoreError as error:
            progress = None
            if str(error) not in self.damage:
                self.damage.append(str(error))
        listed = LiteTopics(
            self._open_view(), progress, expirations, DEFAULT_MIN_TTL_MS if min_ttl_ms is None else min_ttl_ms
        )
        return listed.states(now_ms() if at_ms is None else at_ms, topic)

    # --- writing -------------------------------------------------------------------------------

    def _writer(self) -> StoreWriter:
        self._check_open(to_write=True)
        assert self._writing is not None
        return self._writing

    def _check_open(self, *, to_write: bool) -> None:
        if self._closed:
            raise ClosedError(f"{self.layout.root}: this store has been closed; open it again")
        if to_write and self._writing is None:
            raise AccessError(f"{self.layout.root}: open read-only; open it without read_only to change it")

    def flush(self) -> int:
        """Make all messages durable; return the log offset up to which they are."""
        return self._writer().flush()

    # --- indexes -------------------------------------------------------------------------------

    def catch_up_with(self, indexer: Indexer) -> CatchUp:
        """Let an indexer bring the durable indexes up to the confirmed offset.

        Raises:
            DamagedLogError: The log after the frontier is damaged.
        """
        return self._writer().catch_up_with(indexer)

    def refuse_catch_up(self) -> None:
        """Raise the error that `catch_up_with` would raise now; change nothing.

        Raises:
            AccessError: The store is open read-only.
            StoreLockedError: Another process follows the store.
        """
        self._writer().refuse_catch_up()

    @property
    def is_followed(self) -> bool:
        """True if a process follows this store now and builds its indexes: also this one, during a catch-up."""
        return locks.owner_is_live(self.layout.own(own.FOLLOWER_NAME))

    def lag(self) -> Lag:
        """Return the part of the confirmed log without index entries. Readers do not wait: the tail answers."""
        view = self._open_view()
        view.catch_up()
        begin = max(view.frontiers.both, view.log.min_offset)
        lag_bytes = max(0, view.confirmed() - begin)
        stored = view.log.store_time(begin) if lag_bytes else -1
        age = max(0, now_ms() - stored) if stored > 0 else 0
        return Lag(lag_bytes, view.queues_table.tail.entries if lag_bytes else 0, age)

    def serve_clients(self) -> None:
        """Let other processes know that this program serves RocketMQ clients: their errors then name it.

        A put that finds too many messages without indexes waits no more from now on: it raises at once.

        Raises:
            AccessError: The store is open read-only.
        """
        self._writer().serve_clients()
        self._waits_for_tail = False

    @property
    def is_writing(self) -> bool:
        """True if messages can be put: the store is open, and not read-only."""
        return self._writing is not None and not self._closed

    @property
    def flushed_offset(self) -> int:
        """The log offset up to which this writer knows the log to be durable; 0 for a reader."""
        return 0 if self._writing is None else self._writing.appender.flushed

    @property
    def behind_bytes(self) -> int:
        """Bytes of log that no durable index covers yet."""
        writing, view = self._writing, self.view
        is_open = writing is not None and not self._closed
        durable = writing.durable_frontier() if writing and is_open else durable_offset(self.layout, view.frontiers)
        return max(0, view.confirmed() - max(durable, view.log.min_offset))

    @property
    def needs_catch_up(self) -> bool:
        """True if a catch-up has work to do: messages without durable entries, or items that a crash has left."""
        return self.behind_bytes > 0 or (self._writing is not None and self._writing.may_have_leftovers)

    # --- reading -------------------------------------------------------------------------------

    def wait(self, topic: str, queue_id: int, offset: int, timeout_s: float) -> bool:
        """Wait until a queue has a message at `offset`, at most `timeout_s` seconds; return whether it has."""
        arrived = threading.Event()
        waiter = self.on_arrival(topic, queue_id, offset, arrived.set)
        try:
            arrived.wait(timeout_s)
        finally:
            self._arrivals.remove(waiter)
        return self.max_offset(topic, queue_id) > offset

    def on_arrival(self, topic: str, queue_id: int, offset: int, arrived: Callable[[], None]) -> Waiter:
        """Call `arrived` once, from any thread, as soon as a queue has a message at `offset`, or at close.

        A wait takes no thread, so there may be thousands. `stop_waiting` ends it.
        """
        self._open_view().key_of(topic, queue_id)
        if not callable(arrived):
            raise ConfigError(f"arrived {arrived!r:.80}: give a function that takes no argument")
        waiter = Waiter(topic, queue_id, number_of("offset", offset), arrived)
        self._arrivals.add(waiter)
        if self._writing is None and self._housekeeper is None:
            # Another process writes: a thread must look for messages.
            self._housekeeper = threading.Thread(target=self._look_out, name="reput-store", daemon=True)
            self._housekeeper.start()
        # The message may have come before: a put notifies only the waiters that it finds.
        self._arrivals.reached(topic, queue_id, self.max_offset(topic, queue_id))
        return waiter

    def stop_waiting(self, waiter: Waiter) -> None:
        """End a wait that `on_arrival` began."""
        self._arrivals.remove(waiter)

    def _notify_arrivals(self) -> None:
        for topic, queue_id in self._arrivals.queues():
            if self._stop.is_set():
                return
            # A queue that cannot be read must not hide the others.
            with self._kept_error():
                self._arrivals.reached(topic, queue_id, self._current_view().max_offset(topic, queue_id))

    def _open_view(self) -> StoreView:
        self._check_open(to_write=False)
        return self._current_view()

    def _current_view(self) -> StoreView:
        if self._reopening is not None and self._reopening.is_due:
            self._reopening.renew(self._take_over_view)
        return self.view

    def _newer_view(self) -> StoreView:
        """See `StoreView.newer`."""
        reopening = self._reopening
        if reopening is not None and reopening.is_replaced:
            reopening.renew_after_swap(self._take_over_view)
        # Another thread may have replaced the view.
        return self.view

    def _take_over_view(self, opened: Opened) -> None:
        self.notes += [note for note in opened.notes if note not in self.notes]
        progress = self._progress
        self._use(opened, opened.damage if progress is None else [*opened.damage, *progress.damage])
        self._read(opened.view)

    def _use(self, opened: Opened, damage: list[str]) -> None:
        """Begin to use a view, and the list of what cannot be read; what pulls meet later is added to it."""
        self.damage = damage
        opened.view.damaged.report = damage.append
        if self._reopening is not None:
            # Weak: the finalizer that ends the watch holds the view.
            view, newer = opened.view, weakref.WeakMethod(self._newer_view)
            view.newer = lambda: view if (ask := newer()) is None else ask()

    # --- deletion ------------------------------------------------------------------------------

    def delete_expired(self, manual: bool = False) -> list[str]:
        """Delete log files that have expired (deleteWhen, fileReservedTime, disk ratios); return their names.

        The call deletes even if deletion is off. If deletion is on, this runs by itself every cleanResourceInterval.
        With `manual` it deletes at any hour. A run deletes at most deleteFileBatchMax files. It never deletes the last
        file, nor a file that no durable index covers yet. Queue and index files follow the log's minimum. `notes` and
        the logger `reput.store` name each deleted file. If the disk is over its highest ratio, puts are refused
        (DISK_FULL) until there is room again.
        """
        return self._writer().delete_expired(manual=manual)

    def delete_queues_with(self, indexer: Indexer, topic: str, queue_id: int | None = None) -> list[int]:
        """Delete a topic's queues, or one of them; return their ids. See `reput.MessageStore.delete_topic`."""
        return self._writer().delete_queues_with(indexer, topic, queue_id)

    # --- background, closing -------------------------------------------------------------------

    def _keep_house(self, writing: StoreWriter) -> None:
        notified = -1
        while self._is_called():
            with self._kept_error():
                writing.catch_up()
            if self._arrivals and (reached := self.view.follower.offset) != notified:
                notified = reached  # who waits from now on looks by himself first
                self._notify_arrivals()
            with self._kept_error():
                self.progress.persist_if_due(now_ms())
            with self._kept_error():
                writing.keep_up()

    @contextlib.contextmanager
    def _kept_error(self) -> Iterator[None]:
        """Keep an error of the block for callers: the next step is due all the same.

        Puts and reads that it concerns meet the same error themselves.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept, and logged
            if not isinstance(error, ReputError):
                _log.exception("the housekeeper of %s has failed", self.layout.root)
            self.background_error = error

    def _is_called(self) -> bool:
        """Wait for work, or for a moment; return False when the store is closed."""
        self._house_calls.wait(_TICK_S)
        self._house_calls.clear()
        return not self._stop.is_set()

    def _look_out(self) -> None:
        while not self._stop.wait(_LOOK_OUT_S):
            self._notify_arrivals()

    def _on_flushed(self) -> None:
        if self._waiting:
            self._house_calls.set()

    def close(self) -> None:
        """Make everything durable and release the store; a second call does nothing.

        `abort` stays if the durable indexes are incomplete: RocketMQ, or the next open, then recovers.

        Raises:
            FlushError: The disk refused the flush; everything is released all the same.
            AccessError: A callback of a future made the call; it runs in a thread that must end first.
        """
        if self._closed:
            return
        if self._flush is not None and self._flush.runs_here():
            raise AccessError(f"{self.layout.root}: a callback of put_message_async cannot close the store")
        self._closed = True
        try:
            self._arrivals.notify_all()
            self._stop.set()
            self._house_calls.set()
            self._end_threads()
            if self._writing is not None:
                is_complete = self._writing.close_log()
                self.progress.persist()
                if is_complete:
                    fs.remove_file(self.layout.abort)
        finally:
            self._let_go()

    def _end_threads(self) -> None:
        try:
            if self._reopening is not None:
                self._reopening.close()
            if self._housekeeper is not None:
                self._housekeeper.join()
            if self._writing is not None:
                self._writing.end_catch_ups()
        finally:
            # Also after an interrupt: nothing else would ever end the flushing thread.
            if self._writing is not None:
                self._writing.flush_service.close()

    def _let_go(self) -> None:
        try:
            # Before the store's lock: a broker that gets it opens its databases.
            if self._homes is not None:
                self._homes.close()
        finally:
            try:
                if self._writing is not None:
                    self._writing.let_go()
            finally:
                self.view.close()
                self._resources.close()
                forks.released(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not forks.is_refused(self):
            self.close()
