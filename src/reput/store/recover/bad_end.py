"""The bytes at a log's end that are no record: a crash has left them, or they are damage.

They are damage if they were known to be good once (`reput.store.recover.known_good`), or if the store was closed and a
queue has an entry for a record there, or after that. A broker that starts cuts its queues where it cuts its log, so
that record was whole. RocketMQ cuts it all the same.
"""

from __future__ import annotations

import contextlib

from reput.errors import DamagedStoreError
from reput.log.read.maps import LogMaps
from reput.store.disk import abort
from reput.store.disk.store import StoreOnDisk
from reput.store.recover.known_good import why_known_good


def why_damaged(store: StoreOnDisk, log: LogMaps, end: int, written: int, last_store_timestamp: int = -1) -> str:
    """Return the reason why the `written` bytes at log offset `end`, which are no record, are damage; or "".

    `last_store_timestamp`: that of the record before them, if it is known.
    """
    known = why_known_good(store.layout, log, end, written, last_store_timestamp)
    return known or (_named_by_a_queue(store, end) if abort.is_closed(store.layout) else "")


def _named_by_a_queue(store: StoreOnDisk, end: int) -> str:
    for kind in store.kinds:
        for queue in kind.queues():
            # A queue that cannot be read proves nothing.
            with contextlib.suppress(DamagedStoreError):
                last = queue.bounds_and_last()[1]
                if last >= end:
                    return f"the queue {queue.key} of this closed store has an entry for log offset {last}"
    return ""
