"""Writing again what a system may have dropped.

After a failed sync Linux takes the pages for written, and the next sync reports no error, though the disk lacks them.
The pages are still in memory. Written once more, they reach the disk, or the sync fails again.
"""

from __future__ import annotations

from pathlib import Path

from reput.files import fs

_BLOCK = 1 << 20


def write_bytes_again(path: Path, size: int, owner: fs.Owner, begin: int, end: int) -> None:
    """Write the bytes [begin, end) of a file that has `size` once more where they are; the caller syncs them.

    Raises:
        ReputError: the disk refuses it.
    """
    for at in range(begin, end, _BLOCK):
        data = fs.read_bytes(path, min(_BLOCK, end - at), at) or b""
        fs.write_at(str(path), size, owner, data, at)
