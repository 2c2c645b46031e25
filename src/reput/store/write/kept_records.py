"""Good records that a cut of the log would remove: a copy of the log's last files stays in reput's own folder.

After a crash RocketMQ cuts its log at the first bad record, and so does reput. If the machine has not failed, but one
record is damaged, many good ones may follow. `cut-OFFSET/commitlog/` then has the files from that of the log offset on,
as they were. The folder `cut-OFFSET` is a store: a rebuild with salvage makes its queues, and it can be read.
"""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

from reput.errors import ReputError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.log.read.maps import LogMaps
from reput.store.disk import abort
from reput.store.disk.layout import StoreLayout
from reput.store.owner.owner import Ownership
from reput.store.recover.recovery import LogTail
from reput.store.write.cut import is_removed


def keep_records(layout: StoreLayout, log: LogMaps, tail: LogTail, owned: Ownership, owner: fs.Owner) -> list[str]:
    """Keep the log's files from the tail on if the cut would remove good records; return notes for people.

    After a crash of reput itself none of these is durable, and nothing is kept.

    Raises:
        ReputError: There is no room for the copy, or the disk refuses it. Nothing was cut.
    """
    if tail.following < 0 or _was_put_by_reput(layout, tail, owned):
        return []
    staging = layout.staging(owned.epoch) / paths.COMMIT_LOG
    fs.make_dirs(staging, owner)
    for start in log.starts:
        if start + log.file_size > tail.end:
            name = paths.offset_name(start)
            _keep(log.folder / name, staging / name, owner, can_link=is_removed(log, start, tail.end))
    fs.sync_tree(staging.parent)
    kept = _free_name(layout, tail.end)
    fs.rename(staging.parent, kept)
    fs.sync_path(layout.reput)
    note = (
        f"good records follow the bad one at log offset {tail.end}, the first one at {tail.following}: {kept} keeps "
        f"the log's files from there on. It is a store: `reput rebuild --salvage {kept}` makes its queues, and `reput "
        "get` or `reput export` reads it. Remove it when you need it no more"
    )
    return [note]


def _was_put_by_reput(layout: StoreLayout, tail: LogTail, owned: Ownership) -> bool:
    """Return True if a crash of reput left the bytes after the log's end. A broker 4.x leaves the text of `abort`."""
    return abort.was_left_by_reput(layout) and tail.end + tail.written <= owned.watermarks["wrote_offset"]


def _keep(file: Path, kept: Path, owner: fs.Owner, *, can_link: bool) -> None:
    """Keep a file of the log; `can_link`: the cut does not change it, but removes its name."""
    if can_link:
        # A link to another disk, or where a file system has no links, is refused.
        with contextlib.suppress(ReputError):
            fs.link(file.resolve(), kept)
            return
    fs.copy_file(file, kept, owner)


def _free_name(layout: StoreLayout, end: int) -> Path:
    names = (own.cut_name(end, number) for number in count())
    return next(path for name in names if not fs.exists(path := layout.own(name)))
