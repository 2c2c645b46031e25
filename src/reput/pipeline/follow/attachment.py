"""The hold of a follower on a store: one process at a time builds its indexes while it is written.

A follower holds `reput/follower`. Beside a reput writer (in this process or another) it takes an epoch of its own, and
builds up to the offset that the writer confirms. If nobody writes, it owns the store while it works, as a rebuild does,
and then releases it. Beside a live RocketMQ broker, which builds its own queues, it refuses.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from reput.config import StoreConfig
from reput.errors import StoreLockedError
from reput.files import fs, locks
from reput.files.gone import tried_again
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.log.record import CHECK_NONE, MIN_RECORD_SIZE, Verdict
from reput.formats.own import files as own
from reput.log.read.files import LogFiles, list_log_files
from reput.log.read.maps import LogMaps, store_time_in
from reput.log.read.reader import record_at, written_bytes
from reput.queue.queues import Queues
from reput.store.disk.frontier import Frontiers
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.holders import Who, Writer, follower_lock, holder_of, refuse_followed, writer_of
from reput.store.owner.indexer import CatchUpTask
from reput.store.owner.owner import Ownership, is_wanted, own_store
from reput.store.recover.recovery import find_start, judge_tail

_ASK_AGAIN_S = 0.01


@dataclass(slots=True)
class Attachment:
    """A follower's hold on a store: its `task`, and the end of the log for it.

    `writer`: REPUT beside a reput writer, NOBODY if the follower owns the store.
    """

    store: StoreOnDisk
    writer: Writer
    owned: Ownership
    task: CatchUpTask
    log: LogMaps

    @property
    def layout(self) -> StoreLayout:
        """The places of its files."""
        return self.store.layout

    def _files(self) -> LogFiles:
        """The log's files now."""
        return list_log_files(self.layout.commit_log, self.log.file_size)

    def has_log(self) -> bool:
        """Return True if the log has a file yet."""
        return bool(self._files().files)

    def confirmed(self) -> int:
        """Return the log offset up to which indexes may be built; without a writer `data_end`, perhaps in a record."""
        if self.writer is Writer.REPUT:
            return self.owned.watermarks["confirmed_offset"]
        return self.data_end()

    def data_end(self) -> int:
        """Return the log offset after the last byte in the files."""
        return max((file.data_end for file in self._files().files if file.data_end > file.start), default=0)

    def ends_at(self, offset: int) -> bool:
        """Return True if nothing is written from a log offset on; this does not load the kernels."""
        files = self._files()
        return record_at(files, offset, CHECK_NONE) is Verdict.ZERO and written_bytes(files, offset) == 0

    def store_time(self, offset: int) -> int:
        """Return the store time (ms) of the record at a log offset, -1 if there is none.

        The record is read and not mapped: a follower that runs all day would end up with all pages of the log.
        """
        start = offset // self.log.file_size * self.log.file_size
        path = self.layout.commit_log / paths.offset_name(start)
        data = fs.read_bytes(path, MIN_RECORD_SIZE, offset - start) or b""
        return store_time_in(data, 0) if len(data) == MIN_RECORD_SIZE else -1

    def is_wanted(self) -> bool:
        """Return True if a program waits to write, and this follower owns the store."""
        return self.writer is Writer.NOBODY and is_wanted(self.owned.watermarks)

    def writer_is_gone(self) -> bool:
        """Return True if the writer beside this follower has ended."""
        return self.writer is Writer.REPUT and (
            self.owned.watermarks["writer"] == 0 or not locks.owner_is_live(self.layout.own(own.LOCK_NAME))
        )

    def refuse_damaged_end(self, end: int) -> None:
        """Verify that the log ends at log offset `end`, where decoding stopped.

        Raises:
            DamagedLogError: good records that were once durable follow.
        """
        self.log.refresh()
        judge_tail(self.store, self.log, end, Verdict.ZERO)

    def publish(self, offset: int) -> None:
        """Let readers use the indexes up to this log offset from now on.

        Raises:
            StaleEpochError: another process has taken the store over.
        """
        with self.owned.publishing():
            self.owned.watermarks["frontier_offset"] = offset


def someone_waits(layout: StoreLayout) -> bool:
    """Return True if a program waits to write into this store."""
    watermarks = Watermarks(layout.own(own.WATERMARKS_NAME), read_only=True)
    try:
        return is_wanted(watermarks)
    finally:
        watermarks.close()


_ONE_IS_ENOUGH = "A follower is running already. Stop it first, or keep it"


def refuse_followed_elsewhere(layout: StoreLayout) -> None:
    """Refuse what `following` and `attach` refuse as long as another process runs; nothing is changed.

    Raises:
        StoreLockedError: another process follows the store, or a live broker has it.
    """
    refuse_followed(layout, _ONE_IS_ENOUGH)
    if holder_of(layout).who is Who.BROKER:
        raise _beside_a_broker(layout)


def _beside_a_broker(layout: StoreLayout) -> StoreLockedError:
    return StoreLockedError(
        f"{layout.broker_lock}: a running broker holds this store, and builds its indexes itself. Read beside it "
        '(`reput get`, format("rocketmq")), or follow the store when the broker is stopped'
    )


@contextlib.contextmanager
def following(layout: StoreLayout) -> Iterator[None]:
    """Be the one process that follows this store.

    Raises:
        StoreLockedError: another one does.
        AccessError: this user may not write here.
    """
    fs.refuse_strangers(layout.root)
    path = layout.own(own.FOLLOWER_NAME)
    if not path.parent.is_dir():
        with own_store(layout):
            pass
    with follower_lock(layout, _ONE_IS_ENOUGH):
        watermarks = Watermarks(layout.own(own.WATERMARKS_NAME))
        watermarks["follower"] = os.getpid()
        try:
            yield
        finally:
            watermarks["follower"] = 0
            watermarks.close()


@contextlib.contextmanager
def attach(layout: StoreLayout, config: StoreConfig, wait_s: float = 0.0) -> Iterator[Attachment]:
    """Take hold of a store to build its indexes; `following` must be held.

    `wait_s`: how long it may wait for a program that opens or closes the store.

    Raises:
        StoreLockedError: a live broker, or another job of reput, is at work on it.
        DamagedStoreError: a queue file was cut: entries after the cut are missing, and no catch-up would add them.
    """
    with contextlib.ExitStack() as held:
        writer, owned = _take(layout, held, time.monotonic() + wait_s)
        # A writer beside may delete expired files meanwhile.
        yield tried_again(partial(_attached, layout, config, writer, owned))


def _take(layout: StoreLayout, held: contextlib.ExitStack, deadline: float) -> tuple[Writer, Ownership]:
    """Take an epoch beside a reput writer, or own the store if nobody writes."""
    watermarks = held.enter_context(contextlib.closing(Watermarks(layout.own(own.WATERMARKS_NAME))))
    while True:
        # Before the look at the writer: if another one, or a job, owns the store by then, this does not begin.
        epoch = watermarks["epoch"] + 1
        writer = writer_of(layout)
        if writer is Writer.BROKER:
            raise _beside_a_broker(layout)
        if writer is Writer.REPUT:
            return writer, Ownership(layout, epoch, watermarks, [], is_beside=True)
        try:
            return writer, held.enter_context(own_store(layout, holder=own.HOLDER_FOLLOWER))
        except StoreLockedError:
            # It may have opened or closed the store since.
            is_passing = holder_of(layout).who in (Who.OPENING, Who.WRITER, Who.NOBODY)
            if not is_passing or time.monotonic() >= deadline:
                raise
        time.sleep(_ASK_AGAIN_S)


def _attached(layout: StoreLayout, config: StoreConfig, writer: Writer, owned: Ownership) -> Attachment:
    store = StoreOnDisk(layout, config, Purpose.FOLLOW)
    log = store.maps()
    settings, kinds = store.settings, store.kinds
    if writer is Writer.REPUT:
        # The writer is alive, so the system has not crashed, and the files hold what was visible.
        frontiers = Frontiers.at(owned.watermarks["frontier_offset"])
    else:
        store.refuse()
        frontiers = find_start(store, log).frontiers
    queues = Queues(store.reading.open())
    queues.load(frontiers.both, log.min_offset)
    ends = queues.durable_ends()
    queues.close()
    log.follow_writes()
    tag_items = store.tag_items is not False
    task = CatchUpTask(layout, settings, owned, frontiers, 0, ends, tag_items, kinds, may_have_leftovers=True)
    return Attachment(store, writer, owned, task, log)
