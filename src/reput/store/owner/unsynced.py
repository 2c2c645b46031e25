"""Writing the log's bytes again after a sync of the log has failed; see `reput.files.again`."""

from __future__ import annotations

from reput.files import fs
from reput.files.again import write_bytes_again
from reput.log.read.files import list_log_files, written_end
from reput.store.disk.layout import StoreLayout


def write_again(layout: StoreLayout, flushed: int, wrote: int, owner: fs.Owner) -> None:
    """Write the log's bytes that may not be durable once more where they are, and make them durable.

    Args:
        layout: the store's paths.
        flushed: the log offset up to which reput has made the log durable.
        wrote: the log offset up to which reput has written it. If others have written since, nothing is known of the
            bytes before, either: an older copy may be in their place.
        owner: the owner of files.

    Raises:
        ReputError: the disk refuses it again.
    """
    if not fs.exists(layout.commit_log):
        return
    files = list_log_files(layout.commit_log, tolerant=True).files
    ends = {file: file.start + written for file in files if (written := written_end(file.path, 0, file.size))}
    begin = flushed if max(ends.values(), default=0) <= wrote else 0
    for file, end in ends.items():
        write_bytes_again(file.path, file.size, owner, max(begin, file.start) - file.start, end - file.start)
    layout.sync_log()
