"""publish: the staged indexes become durable with their checkpoint and frontier, and go live by one swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reput.files import fs
from reput.files.names import is_empty_dir
from reput.formats import paths
from reput.formats.checkpoint import CHECKPOINT_FILE_SIZE, Checkpoint, encode_checkpoint
from reput.formats.own import files as own
from reput.log.read.files import LogFiles, list_log_files, sync_log
from reput.log.read.maps import LogMaps
from reput.pipeline.build.index.plan import IndexEnd, IndexFileResult
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split.job import SplitResult
from reput.store.disk.checkpoint import read_checkpoint, write_checkpoint
from reput.store.disk.frontier import read_frontier
from reput.store.disk.layout import StoreLayout
from reput.store.owner import swap
from reput.store.owner.owner import Ownership
from reput.store.owner.strays import carry_over_strays, strays_text
from reput.store.recover.recovery import fingerprint_before


def stage_checkpoint(layout: StoreLayout, epoch: int, checkpoint: Checkpoint, owner: fs.Owner) -> None:
    """Write the checkpoint that goes live with the indexes."""
    fs.write_at(
        str(layout.staging(epoch) / paths.CHECKPOINT),
        CHECKPOINT_FILE_SIZE,
        owner,
        encode_checkpoint(checkpoint),
        0,
    )


def stage_frontier(layout: StoreLayout, epoch: int, frontier: own.Frontier, owner: fs.Owner) -> None:
    """Write the frontier that goes live with the indexes."""
    path = layout.staging(epoch) / own.FRONTIER_PART
    fs.make_dirs(path.parent, owner)
    fs.write_whole(path, own.encode_frontier(frontier), owner)


class Published(NamedTuple):
    """The new state of a store: its checkpoint, its frontier (None: it has none), and the paths that are swapped in."""

    checkpoint: Checkpoint
    frontier: own.Frontier | None
    parts: Sequence[str]


def publish(build: Build, log: LogFiles, report: RebuildReport, compose: Callable[[], Published]) -> None:
    """Stage the new state of a store, which `compose` returns, and swap it in with the indexes; tasks end first.

    `compose` is called once the log is durable.
    """
    build.fence_late_tasks()
    fs.remove_tree(build.job.parts_folder)
    with build.stage("publish"):
        # The checkpoint calls the log durable, which may be on another disk than the rest.
        with build.owned.syncing():
            sync_log(log)
        new, layout, epoch = compose(), build.layout, build.owned.epoch
        parts = [*new.parts, paths.CHECKPOINT]
        stage_checkpoint(layout, epoch, new.checkpoint, build.job.owner)
        if new.frontier is not None:
            stage_frontier(layout, epoch, new.frontier, build.job.owner)
            parts.append(own.FRONTIER_PART)
        go_live(build.owned, parts, report)


def go_live(owned: Ownership, parts: Sequence[str], report: RebuildReport) -> None:
    """Swap the staged parts in, with files of others from the folders that they replace."""
    owned.verify()
    if kept := carry_over_strays(owned.layout, owned.epoch, parts):
        report.notes.append(f"kept {strays_text(kept)}")
    with owned.syncing():
        swap.swap_in(owned.layout, owned.epoch, tuple(parts), owned.count_swap)
    with swap.new_indexes_live():
        owned.indexes_replaced()
        if is_empty_dir(vacated := owned.layout.own_queue_database):
            # The database has moved out of it.
            fs.remove_tree(vacated)


@dataclass(slots=True)
class Reached:
    """The end of live indexes that grow: the log offset, the last record below it, and the last IndexFile touched.

    `leaves_index_files`: there are IndexFiles, and they do not grow, since the index database does instead.
    """

    end: int
    last: SplitResult | None = None
    index_file: IndexFileResult | None = None
    leaves_index_files: bool = False

    def add(self, end: int, last: SplitResult | None, index_files: Sequence[IndexFileResult]) -> None:
        """Add another range."""
        self.end = end
        self.last = last or self.last
        self.index_file = index_files[-1] if index_files else self.index_file


def make_durable(owned: Ownership, reached: Reached, *, log_is_ours: bool) -> bool:
    """Sync log and indexes, then write it down: the checkpoint first, the frontier file last.

    Returns False, and writes nothing down, if the writer beside could not sync the log: a later sync proves nothing.

    `log_is_ours`: no other process writes into the checkpoint how far the log is durable.

    Raises:
        FlushError: an earlier sync of the log has failed, and the log is ours.
        StaleEpochError: another process has taken the store over; nothing was written then.
    """
    layout, owner = owned.layout, fs.owner_of(owned.layout.root)
    owned.sync()
    if not log_is_ours and owned.is_unsynced():
        return False
    owned.refuse_unsynced()
    last = reached.last
    fields: dict[str, int] = {}
    if last is not None:
        fields = {
            "logics_msg_timestamp": last.last_store_timestamp,
            "confirm_phy_offset": last.last_record,
            "logics_physical_offset": last.last_record,
        }
        if log_is_ours and last.last_store_timestamp > read_checkpoint(layout).physic_msg_timestamp:
            fields["physic_msg_timestamp"] = last.last_store_timestamp
    if reached.index_file is not None:
        fields["index_msg_timestamp"] = reached.index_file.header.end_timestamp
    old = read_frontier(layout) or own.Frontier(owned.watermarks.store_id)
    fingerprint = fingerprint_of(list_log_files(layout.commit_log), last) or old.queue_fingerprint
    new = old._replace(
        store_id=owned.watermarks.store_id,
        epoch=owned.epoch,
        queue_offset=reached.end,
        queue_fingerprint=fingerprint,
    )
    if not reached.leaves_index_files:
        new = new._replace(index_offset=reached.end, index_fingerprint=fingerprint)
    if reached.index_file is not None:
        header = reached.index_file.header
        new = new._replace(index_file=reached.index_file.name, index_count=header.index_count)
    with owned.publishing():
        write_checkpoint(layout, owner, **fields)
        fs.write_whole(layout.own(own.FRONTIER_NAME), own.encode_frontier(new), owner)
    return True


def keep_frontier(owned: Ownership, log: LogMaps, offset: int, index_end: IndexEnd) -> bool:
    """Write the first frontier of a store whose indexes others have built, complete up to `offset`.

    Without it the next job would have to find the offset again. Returns True if the store has a frontier now.

    Raises:
        FlushError: an earlier sync of the log has failed.
        StaleEpochError: another process has taken the store over.
    """
    layout = owned.layout
    if read_frontier(layout) is not None:
        return True
    fingerprint = fingerprint_before(log, offset)
    if fingerprint is None:
        return False
    owned.sync()
    owned.refuse_unsynced()
    frontier = own.Frontier(
        owned.watermarks.store_id,
        owned.epoch,
        queue_offset=offset,
        queue_fingerprint=fingerprint,
        index_offset=offset,
        index_fingerprint=fingerprint,
        index_file=index_end.name,
        index_count=index_end.next_item if index_end.name else 0,
    )
    with owned.publishing():
        fs.write_whole(layout.own(own.FRONTIER_NAME), own.encode_frontier(frontier), fs.owner_of(layout.root))
    return True


def fingerprint_of(log: LogFiles, last: SplitResult | None) -> own.Fingerprint | None:
    """Return the fingerprint of the last record below a frontier, which another record at its place does not have."""
    if last is None:
        return None
    for file in log.files:
        if file.start <= last.last_record < file.end:
            data = fs.read_bytes(file.path, last.last_record_size, last.last_record - file.start) or b""
            return own.Fingerprint.of(last.last_record, data, last.last_store_timestamp)
    return None
