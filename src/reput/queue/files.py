"""ConsumeQueue files on disk: which queues there are, and where each ends.

Source: `ConsumeQueue.recover`: entries count while they are valid, and the walk continues in the next file only if this
one is full. `ConsumeQueueStore.loadConsumeQueues`: folders whose name is no number are skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reput.files import fs
from reput.files import names as folder_names
from reput.formats import paths
from reput.formats.queue import consume_queue
from reput.formats.queue.consume_queue import DEFAULT_FILE_SIZE, ENTRY_SIZE, QueueKey
from reput.formats.stored_text import stored_bytes

BLOCK_ENTRIES = 1 << 14
"""The entries of a file that are read at once."""
_CHUNK_BYTES = 1 << 20


class FilesOnDisk(NamedTuple):
    """The number of a queue's own files, and their bytes."""

    number: int
    bytes: int


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue: its path, its start (bytes in the queue) and its length."""

    path: Path
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class QueueFolder:
    """A queue on disk: its topic (as the folder is named), its id, and its files in order.

    `not_files` are folders that have names of files.
    """

    topic: str
    queue_id: int
    path: Path
    files: tuple[QueueFile, ...]
    not_files: tuple[Path, ...] = ()

    @property
    def key(self) -> QueueKey:
        """Its topic and id."""
        return QueueKey(stored_bytes(self.topic), self.queue_id)

    @property
    def counted(self) -> FilesOnDisk:
        """The number of its files, and their bytes."""
        return FilesOnDisk(len(self.files), sum(file.size for file in self.files))

    @property
    def emptied(self) -> list[str]:
        """A sentence on each file of no bytes, for a store that was closed and has no record for these entries yet."""
        return [
            f"{file.path}: an empty file, though the store was closed: its entries are lost. Run `reput rebuild --only "
            "queue`"
            for file in self.files
            if file.size == 0
        ]

    @property
    def bound(self) -> int:
        """The queue offset after the last entry that its files have room for."""
        return max(((file.start + file.size) // ENTRY_SIZE for file in self.files), default=0)


def list_queues(folder: Path) -> Iterator[QueueFolder]:
    """Yield the queues below a consumequeue folder, by topic and id."""
    for topic in fs.list_dir(folder):
        if not topic.is_file:
            yield from list_topic_queues(folder / topic.name)


QUEUES_ASKED = 200
"""The number of queues whose files an open looks at, to know a size or refuse odd ones."""
QUEUES_COMPARED = 1000
"""The number of queues whose files are compared with a given size."""


def some_queues(folder: Path, most: int) -> Iterator[QueueFolder]:
    """Yield at most `most` of the queues below a consumequeue folder, in no order, without a look at the others."""
    return (queue_folder(folder, key) for key in islice(queue_keys(folder), most))


def queue_keys(folder: Path, topic: bytes | None = None) -> Iterator[QueueKey]:
    """Yield the keys of the queues below a consumequeue folder, or of a topic, in no order; only names are read."""
    for name in folder_names.sub_folders(folder) if topic is None else [os.fsdecode(topic)]:
        for queue in folder_names.sub_folders(folder / name):
            queue_id = paths.parse_queue_name(queue)
            if queue_id is not None:
                yield QueueKey(os.fsencode(name), queue_id)


def topic_names(folder: Path) -> Iterator[bytes]:
    """Yield the names of folders below a consumequeue folder that a topic can have, in no order."""
    for name in folder_names.sub_folders(folder):
        # For a folder with an ASCII name only the length is in doubt. The full test takes 1 us a topic.
        if (name.isascii() and len(name) <= paths.MAX_TOPIC_BYTES) or paths.is_topic_folder_name(os.fsencode(name)):
            yield os.fsencode(name)


def list_topic_queues(folder: Path) -> Iterator[QueueFolder]:
    """Yield the queues of one topic's folder, by id."""
    ids = map(paths.parse_queue_name, folder_names.sub_folders(folder))
    for queue_id in sorted(one for one in ids if one is not None):
        path = folder / str(queue_id)
        yield QueueFolder(folder.name, queue_id, path, *listed_files(path))


def queue_folder(folder: Path, key: QueueKey) -> QueueFolder:
    """Return the folder of one queue, whether it exists or not; its topic must be a possible name of a folder."""
    topic = os.fsdecode(key.topic)
    path = folder / topic / str(key.queue_id)
    return QueueFolder(topic, key.queue_id, path, *listed_files(path))


def owns_queue_file(names: Sequence[str]) -> bool:
    """Return True for TOPIC/QUEUE/OFFSET, the path of a queue file below the folder of its kind."""
    if len(names) != 3:
        return False
    return paths.parse_queue_name(names[1]) is not None and paths.parse_offset_name(names[2]) is not None


def move_queues_aside(folder: Path, topic: bytes, queue_id: int | None, aside: Path) -> list[QueueKey]:
    """Move a topic's queues, or one of them, from below `folder` into `aside`; return those that were moved.

    The topic's folder is removed with its last queue, unless it is the last folder: without any folder, queues would
    count as lost. The moves are not durable; the deletion syncs them before it removes the files.
    """
    if not paths.is_topic_folder_name(topic):
        return []
    name, moved = os.fsdecode(topic), []
    for queue in list_topic_queues(folder / name):
        if queue_id is None or queue.queue_id == queue_id:
            target = aside / folder.name / name / str(queue.queue_id)
            fs.make_dirs(target.parent)
            fs.rename(queue.path, target)
            moved.append(queue.key)
    if moved and not fs.list_dir(folder / name) and len(fs.list_dir(folder)) > 1:
        fs.remove_tree(folder / name)
    return moved


def remove_first_files(files: Iterable[QueueFile]) -> list[str]:
    """Remove the first files of a queue, or of its ext units, in order; return their paths.

    A power cut brings back no file whose successor is gone. So each removal waits until the one before it is durable,
    that of an earlier call, too.
    """
    gone: list[str] = []
    for file in files:
        fs.sync_path(file.path.parent)
        fs.remove_file(file.path)
        gone.append(str(file.path))
    return gone


def zero(path: Path, size: int, owner: fs.Owner, begin: int, end: int) -> None:
    """Zero the bytes [begin, end) of a file that has `size`, durably."""
    while begin < end:
        count = min(_CHUNK_BYTES, end - begin)
        fs.write_at(str(path), size, owner, bytes(count), begin)
        begin += count
    fs.sync_path(path)


def list_queue_files(folder: Path) -> tuple[QueueFile, ...]:
    """Return the files of one queue, in order."""
    return listed_files(folder)[0]


def listed_files(folder: Path) -> tuple[tuple[QueueFile, ...], tuple[Path, ...]]:
    """Return the files of one queue, in order, and the folders that have names of files."""
    files, not_files = [], []
    for entry in fs.list_dir(folder):
        start = paths.parse_offset_name(entry.name)
        if start is None:
            continue
        if not entry.is_file:
            not_files.append(folder / entry.name)
        else:
            files.append(QueueFile(folder / entry.name, start, entry.size))
    return tuple(files), tuple(not_files)


def valid_entries(data: bytes) -> int:
    """Return how many entries from the start of `data` are valid, up to the first that is not."""
    array = np.frombuffer(data, dtype=consume_queue.ENTRY.dtype, count=len(data) // ENTRY_SIZE)
    invalid = np.flatnonzero((array["physical_offset"] < 0) | (array["size"] <= 0))
    return int(invalid[0]) if len(invalid) else len(array)


def _valid_entries_of(file: QueueFile) -> int:
    """Return the same for a file, block by block: the length of a file may be more than memory."""
    count = 0
    while count < file.size // ENTRY_SIZE:
        data = fs.read_bytes(file.path, BLOCK_ENTRIES * ENTRY_SIZE, count * ENTRY_SIZE) or b""
        found = valid_entries(data)
        count += found
        if found < BLOCK_ENTRIES:
            break
    return count


def max_offset(queue: QueueFolder, bound: int) -> int | None:
    """Return the queue offset after the last valid entry of a queue; None without a usable file, or above `bound`.

    An empty last file does not count: RocketMQ removes it.
    """
    files = [file for file in queue.files if file.size >= ENTRY_SIZE and file.start % ENTRY_SIZE == 0]
    for file in reversed(files):
        if file.start // ENTRY_SIZE > bound:
            return None
        count = _valid_entries_of(file)
        if count or file is files[0]:
            end = file.start // ENTRY_SIZE + count
            return end if end <= bound else None
    return None


class FoundSize(NamedTuple):
    """The size of a store's queue files in bytes, and how it was found; `odd`: what contradicts it.

    `is_of_files`: the files show it. Otherwise it is RocketMQ's default.
    """

    size: int
    source: str
    odd: str | None = None
    is_of_files: bool = True


def found_file_size(queues: Iterable[QueueFolder]) -> FoundSize:
    """Return the file size with which these queues were made.

    The distance between names shows it best: a file that was cut keeps its name. If each queue has one file, their
    lengths show it as far as they agree. RocketMQ's default is used if they do not agree, or if there are no files.
    """
    lengths: Counter[int] = Counter()
    distances: Counter[int] = Counter()
    starts: Counter[int] = Counter()
    for queue in queues:
        lengths.update(file.size for file in queue.files if file.size)
        starts.update(file.start for file in queue.files)
        distances.update(after.start - before.start for before, after in pairwise(queue.files))
    votes = Counter({size: count for size, count in (lengths + distances).items() if size % ENTRY_SIZE == 0})
    # Every file starts at a multiple of the size. The distance over a missing file is a multiple too, but not the size.
    fitting = {size: sum(count for start, count in starts.items() if start % size == 0) for size in votes}
    likely = sorted(votes, key=lambda size: (fitting[size], votes[size], distances[size], size), reverse=True)
    if likely and distances[likely[0]]:
        size, source = likely[0], "from the names of the present queue files"
    elif len(likely) == 1 or (likely and votes[likely[0]] > votes[likely[1]]):
        size, source = likely[0], "as the present queue files have"
    else:
        size, source = DEFAULT_FILE_SIZE, "RocketMQ's default"
    others = sum(count for length, count in lengths.items() if length != size)
    odd = f"{others} of {lengths.total()} queue files have another length than {size} bytes" if others else None
    return FoundSize(size, source, odd, bool(likely) and size == likely[0])


def may_have_size(queues: Iterable[QueueFolder], size: int) -> bool:
    """Return True if these queues may be made with a file size: most files have it, and no name or length contradicts.

    Beside a lost file, names alone may suggest a multiple of the size. If no file has bytes, names alone count.
    """
    files = [file for queue in queues for file in queue.files]
    if any(file.size > size or file.start % size for file in files):
        return False
    lengths = Counter(file.size for file in files if file.size)
    return lengths[size] == max(lengths.values(), default=0)
