"""Writing again what a system may have dropped: the log's bytes after a sync of the log has failed.

After a failed sync Linux takes the pages for written, and the next sync reports no error, though the disk lacks them.
The pages are still in memory. Written once more, they reach the disk, or the sync fails again.
"""

from __future__ import annotations

from reput.files import fs
from reput.log.read.files import list_log_files
from reput.store.disk.layout import StoreLayout

_BLOCK = 1 << 20


def write_again(layout: StoreLayout, offsets: range, owner: fs.Owner) -> None:
    """Write the log's bytes at these log offsets once more where they are, and make them durable.

    Raises:
        ReputError: the disk refuses it again.
    """
    if not fs.exists(layout.commit_log):
        return
    for file in list_log_files(layout.commit_log, tolerant=True).files:
        end = min(offsets.stop, file.end)
        for at in range(max(offsets.start, file.start), end, _BLOCK):
            size = min(_BLOCK, end - at)
            data = fs.read_bytes(file.path, size, at - file.start) or b""
            fs.write_at(str(file.path), file.size, owner, data, at - file.start)
    layout.sync_log()
