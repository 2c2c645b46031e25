"""The writing half of an open store: it appends to the log, makes it durable, has it indexed, and deletes.

A store that is open to read does not need this module and its imports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock

from reput.config import StoreConfig
from reput.errors import ClosedError, ReputError
from reput.files import forks, fs
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import shown_text
from reput.log.append.append import LogAppender
from reput.log.append.flush import FlushService
from reput.log.append.positions import Flushed, LogStart
from reput.store.disk.abort import is_closed, write_abort
from reput.store.disk.checkpoint import read_checkpoint, write_checkpoint
from reput.store.disk.frontier import Frontiers, durable_offset, read_frontier
from reput.store.disk.layout import StoreLayout
from reput.store.disk.log_settings import log_settings
from reput.store.open.opening import Opened
from reput.store.owner.deletion import delete_queues, finish_deletions
from reput.store.owner.holders import follower_lock, refuse_followed
from reput.store.owner.indexer import CatchUp, CatchUpTask, Indexer
from reput.store.owner.owner import Ownership
from reput.store.owner.strays import refuse_lost_log
from reput.store.read.lookup import Watched
from reput.store.recover.known_good import never_durable
from reput.store.write.cut import cut_indexes, cut_store, names_lost_records
from reput.store.write.expiry import Expiry, keep_settings, with_own_settings
from reput.store.write.kept_records import keep_records
from reput.store.write.numbers import judge_given_offsets, keep_next_offsets, keep_tail_ends, next_offset

_CHECKPOINT_S = 1.0
_TRIES = 3
_DOES_THE_SAME = "It does what this call would do; end it first if you want to"


class StoreWriter:
    """The writer of one store, which `owned` holds. Safe for threads.

    Args:
        layout, config: the store, and the caller's configuration.
        opened: the store as `open_view` left it. From here on its view shows what is appended.
        is_new: the store was made by this call, so it keeps the settings of deletion.
        notes: the store's notes; cuts and deletions add some.
        flushed: called from any thread when more of the log is durable.
    """

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        opened: Opened,
        owned: Ownership,
        *,
        is_new: bool,
        notes: list[str],
        flushed: Callable[[], None],
    ) -> None:
        self.layout, self.view, self._owned = layout, opened.view, owned
        self.config = with_own_settings(layout, config)
        self._flushed, self._flushed_to_ms = flushed, 0
        self._checkpoint_ms = read_checkpoint(layout).physic_msg_timestamp
        # A listener of a catch-up, or a signal's handler, may close the store in the catch-up's own thread.
        self._reputting, self._ends = RLock(), False
        self.may_have_leftovers = not is_closed(layout)
        """True if a crash may have left index items above the frontier; the next catch-up removes them."""
        owner = fs.owner_of(layout.root)
        notes += self._clean_up(opened, owner)
        self.view.kept_ends.is_of_writer = True
        judge_given_offsets(self.view, opened.tail.end, opened.is_short)
        write_abort(layout, owner)
        self.appender = self._appender_at(opened, owner)
        if is_new:
            # Not earlier: the appender has refused impossible settings by now.
            keep_settings(layout, config, owner)
        self.expiry = Expiry(layout, self.config, self.view, self.appender, self._reputting, notes)
        if self.appender.settings.sync_flush:
            # Readable messages are durable.
            self.appender.flush()
        self._announce()
        self.flush_service = FlushService(self.appender, self._on_flushed)
        self._next_checkpoint = time.monotonic() + _CHECKPOINT_S
        self._serves = False
        self._clean_s = self.appender.settings.clean_resource_interval / 1000
        self._next_clean = time.monotonic() + self._clean_s

    # --- opening -------------------------------------------------------------------------------

    def _clean_up(self, opened: Opened, owner: fs.Owner) -> list[str]:
        """Cut what a crash left, and finish deletions that a killed process began; return notes."""
        view, tail = self.view, opened.tail
        # From now on puts wait.
        view.follower.most_entries = None
        if not tail.written and tail.end <= view.log.min_offset and not never_durable(self.layout):
            refuse_lost_log(self.layout, "no record")
        notes = []
        # A store that was closed, and whose log still ends there, has nothing to cut: its queues are not read.
        is_cut = tail.written or opened.is_short or view.log.file_at(tail.end) is None
        if is_cut or self.may_have_leftovers or self._owned.follows_failed_sync:
            crashed, again = self.may_have_leftovers, self._owned.follows_failed_sync
            with self._owned.syncing():
                notes += keep_records(self.layout, view.log, tail, self._owned, owner)
                notes += cut_store(self.layout, view, tail, owner, crashed=crashed, again=again)
        elif names_lost_records(view, tail.end):
            notes += cut_indexes(view, tail.end, owner)
        if finished := finish_deletions(self._owned, view.kinds):
            notes += finished
            view.load()
        return notes

    def _appender_at(self, opened: Opened, owner: fs.Owner) -> LogAppender:
        """Return the log's appender, at the log's end."""
        view = self.view
        stored = partial(next_offset, view)
        appender = LogAppender(
            self.layout.commit_log,
            log_settings(self.config, view.log.file_size),
            LogStart(opened.tail.end, self._flushed_to(), opened.last_store_timestamp, stored=stored),
            watermarks=self._owned.watermarks,
            owner=owner,
            batch_topics=view.settings.types.batch,
        )
        appender.when_sync_failed, appender.refuse_unsynced = self._owned.leave_unsynced, self._owned.refuse_unsynced
        return appender

    def _flushed_to(self) -> int:
        """Return how much of the log reput has made durable. What a killed writer left after that may not be."""
        frontier = read_frontier(self.layout)
        durable = max(frontier.queue_offset, frontier.index_offset) if frontier else 0
        return max(self._owned.watermarks["flushed_offset"], durable, self.view.log.min_offset)

    def _announce(self) -> None:
        """Let readers, in this process and in others, see what is appended from now on."""
        marks, view, appender = self._owned.watermarks, self.view, self.appender
        view.confirmed = lambda: appender.confirmed
        view.watch(Watched(marks.address("confirmed_offset"), memory=marks.memory))
        marks["frontier_offset"] = max(0, view.frontiers.both)
        marks["writer"] = os.getpid()

    def serve_clients(self) -> None:
        """Let other processes know that this writer serves RocketMQ clients; what they have read leaves its memory."""
        # A sync of the log may have failed since the open, which nobody may forget.
        if self._owned.watermarks["holder"] == own.HOLDER_WRITER:
            self._owned.watermarks["holder"] = own.HOLDER_SERVER
        self._serves = True

    # --- flushing ------------------------------------------------------------------------------

    def flush(self) -> int:
        """Make everything that was put durable; return the log offset up to which it is."""
        self.appender.commit()
        flushed = self.appender.flush()
        self._on_flushed(flushed)
        return flushed.offset

    def _on_flushed(self, flushed: Flushed) -> None:
        # Of two concurrent flushes the earlier may report last.
        self._flushed_to_ms = max(self._flushed_to_ms, flushed.store_timestamp)
        self._flushed()

    def write_checkpoint(self) -> None:
        """Write into the checkpoint up to which store time the log is durable.

        One millisecond less than the last flush reports: of two records of one time the later may not be durable.
        """
        time_ms = self._flushed_to_ms - 1
        if time_ms > self._checkpoint_ms:
            write_checkpoint(self.layout, fs.owner_of(self.layout.root), physic_msg_timestamp=time_ms)
            self._checkpoint_ms = time_ms

    # --- indexes -------------------------------------------------------------------------------

    def refuse_catch_up(self) -> None:
        """Refuse what `catch_up_with` would refuse now; wait for another catch-up of this process."""
        with self._alone():
            refuse_followed(self.layout, _DOES_THE_SAME)

    def catch_up_with(self, indexer: Indexer) -> CatchUp:
        """Have an indexer bring the durable indexes up to what is confirmed now."""
        with self._alone(), follower_lock(self.layout, _DOES_THE_SAME):
            return self._index(indexer)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for the catch-ups and deletions of other threads, and keep them waiting.

        Raises:
            ClosedError: the store has been closed meanwhile.
        """
        with self._reputting:
            if self._ends:
                raise ClosedError(f"{self.layout.root}: this store has been closed; open it again")
            yield

    def await_catch_ups(self) -> None:
        """Wait for the catch-ups and deletions of other threads. They hold the lock of a follower, too."""
        with self._reputting:
            pass

    def end_catch_ups(self) -> None:
        """Wait for the catch-ups and deletions of other threads, and begin no more."""
        with self._reputting:
            self._ends = True

    def _index(self, indexer: Indexer, *, keep_frontier: bool = False) -> CatchUp:
        """Do the work of `catch_up_with`, under its locks."""
        end = self.flush()
        view, owned = self.view, self._owned
        # A killed follower has left its process id here.
        owned.watermarks["follower"] = 0
        self.take_over_frontier()
        self._take_over_published()
        owned.take_back()
        view.follower.follow_confirmed(end)
        with view.follower.lock:
            ends = view.queues_table.ends_below_tail()
            keep_tail_ends(view)
        tag_items = view.follower.settings.tag_items
        task = CatchUpTask(
            self.layout,
            view.settings,
            owned,
            view.frontiers,
            end,
            ends,
            tag_items,
            view.kinds,
            keep_frontier,
            self.may_have_leftovers,
        )
        done = indexer.catch_up(task)
        self.may_have_leftovers = False
        view.advance(done.frontiers)
        return done

    def take_over_frontier(self) -> None:
        """Remove from the tail what a follower has indexed in the meantime."""
        visible = self._owned.watermarks["frontier_offset"]
        if visible > self.view.frontiers.both:
            self.view.advance(Frontiers.at(visible))
            self.may_have_leftovers = False

    def _take_over_published(self) -> None:
        """Go on after a catch-up that failed once its frontier had its name, as the file says and a crash may keep it.

        Another catch-up from below would remove IndexFiles that this frontier calls complete.
        """
        published = read_frontier(self.layout)
        if published is not None and published.epoch == self._owned.epoch:
            frontiers = Frontiers.of(published)
            if frontiers.both > self.view.frontiers.both:
                self.view.advance(frontiers)

    def durable_frontier(self) -> int:
        """Return the log offset below which indexes are durable, after a look at what a follower has done."""
        self.take_over_frontier()
        return durable_offset(self.layout, self.view.frontiers)

    # --- deletion ------------------------------------------------------------------------------

    def delete_expired(self, *, manual: bool) -> list[str]:
        """Delete expired log files; return their names."""
        return self.expiry.run(self.durable_frontier(), manual=manual)

    def delete_queues_with(self, indexer: Indexer, topic: str, queue_id: int | None) -> list[int]:
        """Delete a topic's queues, or one of them; return their ids.

        Raises:
            ReputError: messages are put to them meanwhile; nothing is deleted.
        """
        key = self.view.key_of(topic, queue_id or 0)
        remedy = "It may be at these queues: end it first, then delete them"
        with self._alone(), follower_lock(self.layout, remedy):
            for _ in range(_TRIES):
                known = self.appender.offsets_of(topic, queue_id)
                # Entries that are not indexed yet would come back after the deletion. Without a frontier the next
                # opening would take the end of the remaining queues for the frontier, and read the deleted messages
                # after it.
                self._index(indexer, keep_frontier=True)
                # The next put asks the view. A message that has come since would be lost with those before it.
                delete = partial(self._remove_queues, key.topic, queue_id)
                gone = self.appender.forget_queues(topic, queue_id, known, delete)
                if gone is not None:
                    return [one.queue_id for one in gone]
        raise ReputError(
            f"{self.layout.root}: messages are being put to topic {shown_text(key.topic)}, so nothing is deleted. End"
            " the puts, then delete it"
        )

    def _remove_queues(self, topic: bytes, queue_id: int | None) -> list[QueueKey]:
        # Before the queues go: a read meanwhile would miss them.
        self.view.kept_ends.forget(topic, queue_id)
        gone = delete_queues(self._owned, self.view.kinds, topic, queue_id, self.view.frontiers.both)
        self.view.load()
        return gone

    # --- background, closing -------------------------------------------------------------------

    def catch_up(self) -> None:
        """Let readers see what is appended, and what a follower has indexed."""
        with forks.held_off():
            self.view.catch_up()
            self.take_over_frontier()

    def keep_up(self) -> None:
        """Write the checkpoint, and look for expired log files, if that is due."""
        now = time.monotonic()
        if now >= self._next_checkpoint:
            self._next_checkpoint = now + _CHECKPOINT_S
            self.write_checkpoint()
            if self._serves:
                self.view.log.forget_pages()
        if now >= self._next_clean:
            self._next_clean = now + self._clean_s
            self.expiry.run(self.durable_frontier(), asked=self.config.asks_to_delete)

    def close_log(self) -> bool:
        """Make the log durable and close it; return True if the durable indexes cover it, and nothing else."""
        view = self.view
        self.appender.end_puts()
        try:
            self.appender.commit()
            self._on_flushed(self.appender.flush())
            keep_next_offsets(view, self.appender.next_offsets(), self.appender.wrote)
            # Not earlier: this confirms what was buffered, or not flushed yet.
            covered = max(durable_offset(self.layout, view.frontiers), view.log.min_offset)
            is_complete = view.confirmed() <= covered and not self.may_have_leftovers
        finally:
            self.appender.close()
        self.write_checkpoint()
        return is_complete

    def let_go(self) -> None:
        """Say that nobody writes any more. The log is usually closed by now."""
        try:
            # An interrupt may have come first. Nobody may put without the store's lock.
            self.appender.close()
        finally:
            self._owned.watermarks["writer"] = 0
