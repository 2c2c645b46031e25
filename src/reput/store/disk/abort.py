"""The file `abort`: it is there from the open of a store to write until its clean close. Its text says who opened it.

RocketMQ writes its process id, or nothing (4.x), and reads only whether the file is there.
"""

from __future__ import annotations

import os

from reput.files import fs
from reput.store.disk.layout import StoreLayout

_OURS = " reput"
_MOST_BYTES = 64


def write_abort(layout: StoreLayout, owner: fs.Owner) -> None:
    """Write the file durably, with the process id."""
    fs.write_whole(layout.abort, f"{os.getpid()}{_OURS}".encode(), owner)


def is_closed(layout: StoreLayout) -> bool:
    """Return True if the last program that had the store open to write has closed it cleanly."""
    return not fs.exists(layout.abort)


def was_left_by_reput(layout: StoreLayout) -> bool:
    """Return True if the file is there, and reput was the last that opened the store to write."""
    return (fs.read_bytes(layout.abort, _MOST_BYTES) or b"").endswith(_OURS.encode())
