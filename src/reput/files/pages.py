"""Pages of memory. A store to a map asks the file system for the blocks of the whole page, not of the stored bytes."""

from __future__ import annotations

import mmap


def page_begin(position: int) -> int:
    """Return the begin of the page that holds a position of a map or a file."""
    return position // mmap.PAGESIZE * mmap.PAGESIZE


def page_end(position: int) -> int:
    """Return the end of the page that holds the byte before a position; a page's begin comes back as it is."""
    return page_begin(position + mmap.PAGESIZE - 1)
