"""Opening of a store: the end of its indexes, the end of its log, and the tail between the two."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from reput.config import StoreConfig
from reput.errors import DamagedLogError, DamagedStoreError, TailFullError
from reput.files.gone import tried_again
from reput.formats import paths
from reput.formats.layout import NO_LIMIT
from reput.formats.log.record import Verdict
from reput.log.read.maps import LogMaps
from reput.queue.kinds import AnyKind
from reput.queue.tail import TAIL_MAX_ENTRIES
from reput.store.disk.abort import is_closed
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.frontier import Frontiers
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.queue_types import refuse_batches_beside
from reput.store.disk.store import StoreOnDisk
from reput.store.open.beside import BrokerWriter, ReputWriter
from reput.store.open.swaps import SwapCount
from reput.store.owner.holders import Writer, writer_of
from reput.store.read.lookup import Watched
from reput.store.read.queue_answers import PullLimits
from reput.store.read.registered_bits import RegisteredBits
from reput.store.read.tail_follower import TailFollower
from reput.store.read.view import StoreView
from reput.store.recover.lost_end import lost_end, why_short
from reput.store.recover.recovery import LogTail, Start, find_start, judge_tail


@dataclass(slots=True)
class Opened:
    """A view of a store and how it was opened.

    `writer` wrote the store then, and `swaps` counts those since then. `seconds` were spent on decoding the tail.
    `last_store_timestamp` (ms) is that of the log's last record, 0 if unknown. `is_short`: the log has lost its end.
    `damage`: kinds of queues that cannot be read, each with what helps; other kinds answer, or the log. So it has files
    in the place of folders and the reverse, which are read as if they were not there, and a reader's lost end of a log.
    """

    view: StoreView
    writer: Writer
    swaps: SwapCount
    start: Start
    tail: LogTail
    seconds: float
    notes: list[str]
    last_store_timestamp: int
    is_short: bool
    damage: list[str]

    def close(self) -> None:
        """Release what the view has open; results that are kept stay valid."""
        self.view.close()
        self.swaps.close()


def open_beside(layout: StoreLayout, config: StoreConfig, limits: PullLimits | None = None) -> Opened:
    """Open a store that another process may be writing; again, if it deletes or replaces files meanwhile.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
        ReputError: see `open_view`.
    """
    while True:
        opened = tried_again(partial(open_view, layout, config, limits, beside=True))
        if not opened.swaps.has_risen:
            return opened
        opened.close()


def open_view(
    layout: StoreLayout, config: StoreConfig, limits: PullLimits | None = None, *, beside: bool = False
) -> Opened:
    """Open a store up to the end of its log.

    Args:
        beside: another process may be writing: read up to the offset that it confirms, and follow it.

    Raises:
        ConfigError: a setting contradicts the files, and messages are to be put; or the size of queue files does.
        DamagedLogError: messages are to be put, and the log is damaged where it was known to be good.
        DamagedStoreError: a queue's files have a wrong length, and messages are to be put.
        StoreLockedError: another process has the queues open to write, and messages are to be put.
        TailFullError: more messages without a durable index than the tail may hold.
        ReputError: see `reput.errors`.
    """
    purpose, swaps = Purpose.READ if beside else Purpose.WRITE, SwapCount(layout)
    store = StoreOnDisk(layout, config, purpose, verify_crc=config.check_crc_on_recover is not False)
    writer, reput = _writer_beside(layout, swaps) if beside else (Writer.NOBODY, None)
    store.refuse()
    settings, kinds = store.settings, store.kinds
    log = store.maps()
    start = _start(store, log, reput)
    confirmed, begin_to_follow, watched = _follow(reput, writer, store, log)
    view = StoreView(store, log, start.frontiers, confirmed, limits)
    view.was_closed = start.how != "crash" and is_closed(layout)
    if writer is not Writer.BROKER and is_closed(layout):
        view.entry_reader.bloom_bits = RegisteredBits(layout.root / paths.CONFIG, settings.bloom)
    view.follower.most_entries = config.tail_max_entries or TAIL_MAX_ENTRIES
    view.follower.queues.tail.most_entries = 2 * max(view.follower.most_entries, TAIL_MAX_ENTRIES)
    begin = time.perf_counter()
    damage = _damage_of_queues(store)
    try:
        verdict = view.follower.follow(confirmed())
    except TailFullError as error:
        if not damage:
            raise
        raise DamagedStoreError(
            f"{'; '.join(damage)}. The log alone is too long to be read instead: {error}"
        ) from error
    seconds = time.perf_counter() - begin
    # Records may show batches that neither configuration nor folders show.
    refuse_batches_beside(view.follower.types, kinds)
    damage += store.topics.damage if beside else ()
    lacking = [note for note in (*settings.notes, view.index.lacks()) if note and not note.startswith(tuple(damage))]
    notes = [*store.log.notes, *lacking, *store.contradicted]
    tail, is_short = LogTail(view.follower.offset, Verdict.ZERO, 0), False
    if writer is Writer.NOBODY:
        try:
            tail = judge_tail(store, log, tail.end, verdict or Verdict.ZERO, view.follower.last_store_timestamp)
        except DamagedLogError as error:
            if not beside:
                raise
            damage.append(f"{error}. Messages before that are read")
        view.confirmed = lambda: tail.end
        loss = (lost_end if beside else why_short)(store, tail, start.named)
        is_short = bool(loss)
        if loss and beside:
            damage.append(loss)
        elif loss:
            notes.append(f"{loss}. Queues go on from what is there")
    notes += _short_databases(store, kinds if writer is Writer.NOBODY else (), start, view)
    log.follow_writes()
    begin_to_follow(view)
    view.lookups.watched = watched
    if tail.written:
        notes.append(_note_on(tail))
    last_ms = _last_store_timestamp(store, start, view.follower)
    return Opened(view, writer, swaps, start, tail, seconds, notes, last_ms, is_short, damage)


def _start(store: StoreOnDisk, log: LogMaps, reput: ReputWriter | None) -> Start:
    """Return what `find_start` does, or what a reput writer knows beyond that.

    Of indexes that RocketMQ has built only the writer knows that they are complete: there is no frontier yet.
    """
    start = find_start(store, log)
    if reput is None or reput.frontier <= start.frontiers.both:
        return start
    return start._replace(frontiers=Frontiers(*map(max, start.frontiers, Frontiers.at(reput.frontier))))


def _note_on(tail: LogTail) -> str:
    following = f"; good records follow, the first one at {tail.following}" if tail.following >= 0 else ""
    return (
        f"the log ends at {tail.end} with {tail.written} bytes that are not a whole record ({tail.verdict.meaning})"
        f"{following}"
    )


def _damage_of_queues(store: StoreOnDisk) -> list[str]:
    found = (*map(str, store.unreadable.values()), store.partial_database, *store.wrong_type_texts)
    return [text for text in found if text]


def _short_databases(store: StoreOnDisk, kinds: Sequence[AnyKind], start: Start, view: StoreView) -> list[str]:
    """Return a note on each kind that says up to where it is complete, and ends before the log after a crash.

    RocketMQ writes its database without a log of its own, so a kill loses what was not flushed.
    """
    log_end, notes = view.follower.offset, []
    for kind in kinds:
        end = store.complete_to(kind)
        if end is not None and end < log_end and start.how == "crash":
            state = f"complete up to log offset {end}" if end else "empty"
            notes.append(
                f"{kind.folder}: the database of queues is {state}, as after a kill, and the log goes on to {log_end}: "
                "messages after that are read from the log alone. `reput rebuild --only queue` fills the database, and "
                "so does a broker that opens the store"
            )
    return notes


def _last_store_timestamp(store: StoreOnDisk, start: Start, follower: TailFollower) -> int:
    """Return the store time of the log's last record: from the tail, else the frontier, else the checkpoint."""
    if follower.records:
        return follower.last_store_timestamp
    frontier = store.frontier if start.how == "own" else None
    if frontier is not None and frontier.queue_fingerprint is not None:
        return frontier.queue_fingerprint.store_timestamp
    return max(0, read_checkpoint(store.layout).physic_msg_timestamp)


def _writer_beside(layout: StoreLayout, swaps: SwapCount) -> tuple[Writer, ReputWriter | None]:
    writer = writer_of(layout)
    return writer, ReputWriter(layout, swaps) if writer is Writer.REPUT else None


def _follow(
    reput: ReputWriter | None, writer: Writer, store: StoreOnDisk, log: LogMaps
) -> tuple[Callable[[], int], Callable[[StoreView], None], Watched | None]:
    """Return a reader's end of the log, the call that lets a view follow it, and the memory that shows a change."""
    if reput is not None:
        return reput.confirmed, reput.begin, reput.watched
    if writer is Writer.BROKER:
        broker = BrokerWriter(store.kinds, log)
        return broker.confirmed, broker.begin, None
    return (lambda: NO_LIMIT), (lambda _view: None), Watched()
