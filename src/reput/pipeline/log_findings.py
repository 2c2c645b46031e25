"""What a decoded log shows that rebuild and check both speak of: places for people, the torn end, what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from reput.errors import UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.log.files import LogFiles
from reput.pipeline.job import SplitResult

_SCAN_BYTES = 1 << 20


def refuse_oddities(log: LogFiles, results: Sequence[SplitResult]) -> None:
    """Refuse, by name, messages for queues of a kind that reput does not build yet.

    Raises:
        UnsupportedStoreError: there is one.
    """
    for result in results:
        found = result.oddities
        if found.inner_batches:
            raise UnsupportedStoreError(
                f"{place(log, found.first_inner_batch)}: an inner batch (sysFlag 0x80), so this store has batch "
                "ConsumeQueues, which reput does not build yet; nothing was changed"
            )
        if found.multi_dispatches:
            raise UnsupportedStoreError(
                f"{place(log, found.first_multi_dispatch)}: a message for light message queues (LMQ, property "
                "INNER_MULTI_DISPATCH), which reput does not build yet; nothing was changed"
            )


def written_bytes(log: LogFiles, begin: int) -> int:
    """Bytes from `begin` to the last one that is not zero, over the rest of the log."""
    for file in reversed(log.files):
        position = file.data_end
        while position > max(file.start, begin):
            chunk = max(position - _SCAN_BYTES, file.start, begin)
            data = fs.read_bytes(file.path, position - chunk, chunk - file.start) or b""
            kept = data.rstrip(b"\0")
            if kept:
                return chunk + len(kept) - begin
            position = chunk
    return 0


def file_start(log: LogFiles, offset: int) -> int:
    """Start of the log file that an offset falls into, 0 for none."""
    return next((file.start for file in log.files if file.start <= offset < file.end), 0)


def file_name(log: LogFiles, offset: int) -> str:
    """Name of the log file that an offset falls into."""
    return next((file.path.name for file in log.files if file.start <= offset < file.end), "-")


def place(log: LogFiles, offset: int) -> str:
    """A log offset as file and position in it, for people."""
    start = file_start(log, offset)
    return f"{log.folder / paths.offset_name(start)} at {offset - start} (log offset {offset})"
