"""A log that ends, with nothing after it, before what was there once.

Its last file was removed, its end was never copied, or an older copy is in its place. A power cut takes only what was
never durable, and a broker that starts cuts its queues where it cuts its log.
"""

from __future__ import annotations

from reput.store.disk.store import StoreOnDisk
from reput.store.recover.known_good import known_good_beside
from reput.store.recover.recovery import LogTail

_REMEDY = (
    "Messages up to there are read. Restore the files from a replica or a backup, or give up what is lost with `reput "
    "rebuild --salvage`"
)


def lost_end(store: StoreOnDisk, tail: LogTail, named: int) -> str:
    """Return the damage that a reader reports of such a log; "" if it has not lost its end. See `why_short`."""
    loss = why_short(store, tail, named)
    return f"{loss}. {_REMEDY}" if loss else ""


def why_short(store: StoreOnDisk, tail: LogTail, named: int) -> str:
    """Return a sentence on a log that has lost its end; "" if it has not, or if bytes are left there.

    `named`: see `Start`.

    Raises:
        DamagedStoreError: The frontier file is damaged.
    """
    if tail.written:
        return ""
    known = known_good_beside(store.layout, store.frontier)
    if tail.end < known.offset:
        why = f"{known.source} calls it durable up to {known.offset}"
    elif tail.end <= named:
        why = f"a queue of this closed store has an entry for log offset {named}"
    else:
        return ""
    return f"the log ends at {tail.end}, and {why}: it was replaced by an older copy, or its end is lost"
