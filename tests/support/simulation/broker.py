"""RocketMQ's broker as a model: it goes on with a store that reput has closed, and ends well or is killed.

    broker = ModelBroker(path, config, now_ms)    finds the log's end, as a broker does at its start
    broker.start()                                recovers, and begins to write
    broker.put("a", b"body")                      a record, without an entry
    broker.dispatch(3)                            entries and items of the next three records
    broker.close()                                all entries, all durable, no `abort`; without it the broker was killed

If `abort` is there, it removes IndexFiles that are newer than the checkpoint, and dispatches again, from the log file
that the checkpoint says. Such an IndexFile may have items of older messages: their keys are lost (`may_lose_keys`). An
entry that is there is not written again, also if a power cut has taken the tags of its record (`keeps_old_tags`).

The codecs of `reput.formats` make its bytes, without reput's appender, kernels and pipeline. Its messages have no keys.

Source: `DefaultMessageStore.load`, `CommitLog.recoverAbnormally`, `ReputMessageService.doReput`,
`DefaultMessageStore.shutdown`, `ConsumeQueue.recover`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.files import fs
from reput.formats import paths
from reput.formats.checkpoint import CHECKPOINT_FILE_SIZE, Checkpoint, decode_checkpoint, encode_checkpoint
from reput.formats.log.record import BLANK_SIZE, Record, encode_blank, encode_record
from reput.formats.queue.consume_queue import ENTRY_SIZE, Entry, decode_entry, encode_entry
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support import stores
from support.records import message_properties
from support.simulation.broker_index import ModelIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.config import StoreConfig

_Queue = tuple[bytes, int]
_FILES_READ = 3


class ModelBroker:
    """A broker on a store with queues in files.

    Args:
        path: the store.
        config: its settings: the sizes of its files.
        now_ms: the clock.
    """

    def __init__(self, path: Path, config: StoreConfig, now_ms: Callable[[], int]) -> None:
        assert config.mapped_file_size_commit_log is not None
        assert config.mapped_file_size_consume_queue is not None
        self._path, self._owner, self._now_ms = path, fs.owner_of(path), now_ms
        self._log_size, self._queue_size = config.mapped_file_size_commit_log, config.mapped_file_size_consume_queue
        self._has_crashed = fs.exists(path / paths.ABORT)
        files = list_log_files(path / paths.COMMIT_LOG, tolerant=True)
        begin = min((int(entry.name) for entry in fs.list_dir(path / paths.COMMIT_LOG)), default=0)
        self._begin = begin
        self._records = [found.decode() for found in LogWalk(files, begin)]
        last = self._records[-1] if self._records else None
        # A blank record at the end does not count: it is written again.
        self._end = begin if last is None else last.physical_offset + last.size
        self._next: dict[_Queue, int] = {}
        for record in self._records:
            self._next[record.topic, record.queue_id] = record.queue_offset + 1
        self._entries = {queue: self._count_entries(queue) for queue in self._next}
        index_ms = self._checkpoint().index_msg_timestamp if self._has_crashed else None
        self._index = ModelIndex(path / paths.INDEX, self._owner, config, index_ms)
        self._left: list[Record] = []

    @property
    def may_lose_keys(self) -> bool:
        """True if its start removes IndexFiles, and does not index all of their messages again."""
        return bool(self._index.too_new)

    def knows(self, topics: tuple[str, ...]) -> bool:
        """Return True if each of these topics begins now, or has a record: else the model cannot number the next."""
        return self._begin == 0 or all((topic.encode(), 0) in self._next for topic in topics)

    @property
    def keeps_old_tags(self) -> bool:
        """True if a queue has an entry with the tags of a record that has lost them: it is not written again."""
        wanted = {(one.topic, one.queue_id, one.queue_offset): one for one in self._records if not self._lacks(one)}
        for topic, queue_id in self._next:
            for file in sorted(self._folder((topic, queue_id)).glob("*")):
                for number, entry in enumerate(self._entries_of(file), int(file.name) // ENTRY_SIZE):
                    record = wanted.get((topic, queue_id, number))
                    if record is not None and entry.tags_code != stores.tags_code(record):
                        return True
        return False

    def start(self) -> None:
        """Begin to write: recover after a crash, which dispatches records again."""
        fs.write_at(str(self._path / paths.ABORT), 0, self._owner, b"", 0)
        # RocketMQ does not sync it: docs/reliability.md says what a power cut soon after its start may leave.
        fs.sync_path(self._path)
        self._index.start()
        self._left = [record for record in self._records if self._lacks(record)]
        if self._has_crashed:
            self._left = self._from_trusted(self._checkpoint().min_timestamp)
            self.dispatch(len(self._left))

    def put(self, topic: str, body: bytes) -> None:
        """Append a message to queue 0 of a topic."""
        queue = topic.encode(), 0
        at_ms = self._now_ms()
        record = Record(
            topic=queue[0],
            body=body,
            properties=message_properties(tags="t"),
            queue_offset=self._next.get(queue, 0),
            born_timestamp=at_ms,
            store_timestamp=at_ms,
        )
        size = len(encode_record(record))
        left = self._log_size - self._end % self._log_size
        if size + BLANK_SIZE > left:
            self._write_log(encode_blank(left))
            self._end += left
        record = record._replace(physical_offset=self._end, size=size)
        self._write_log(encode_record(record))
        self._end += size
        self._next[queue] = record.queue_offset + 1
        self._records.append(record)
        self._left.append(record)

    def dispatch(self, most: int) -> None:
        """Write the entries and the items of the next records that were not dispatched."""
        for record in self._left[:most]:
            if self._lacks(record):
                self._write_entry(record)
            self._index.add(record)
        del self._left[:most]

    def _write_entry(self, record: Record) -> None:
        queue = record.topic, record.queue_id
        entry = Entry(record.physical_offset, record.size, stores.tags_code(record))
        position = record.queue_offset * ENTRY_SIZE
        name = paths.offset_name(position // self._queue_size * self._queue_size)
        file = self._folder(queue) / name
        fs.write_at(str(file), self._queue_size, self._owner, encode_entry(entry), position % self._queue_size)
        self._entries[queue] = record.queue_offset + 1

    def close(self) -> None:
        """Write all entries, make all durable, note that in the checkpoint, and remove `abort`."""
        self.dispatch(len(self._left))
        fs.sync_tree(self._path)
        before = self._checkpoint()
        before = before._replace(index_msg_timestamp=max(before.index_msg_timestamp, self._index.full_ms))
        if self._records:
            last = self._records[-1]
            before = before._replace(
                physic_msg_timestamp=last.store_timestamp,
                logics_msg_timestamp=last.store_timestamp,
                logics_physical_offset=last.physical_offset,
            )
        file = str(self._path / paths.CHECKPOINT)
        fs.write_at(file, CHECKPOINT_FILE_SIZE, self._owner, encode_checkpoint(before), 0)
        fs.sync_tree(self._path)
        fs.remove_file(self._path / paths.ABORT)

    def _checkpoint(self) -> Checkpoint:
        data = fs.read_bytes(self._path / paths.CHECKPOINT, CHECKPOINT_FILE_SIZE)
        return decode_checkpoint(data) if data else Checkpoint()

    def _from_trusted(self, trusted_ms: int) -> list[Record]:
        """Return the records from the last log file on whose first one is as old as the checkpoint, or all."""
        firsts = {record.physical_offset // self._log_size: record for record in reversed(self._records)}
        trusted = [one.physical_offset for one in firsts.values() if one.store_timestamp <= trusted_ms]
        begin = max(trusted, default=0)
        return [record for record in self._records if record.physical_offset >= begin]

    def _lacks(self, record: Record) -> bool:
        return record.queue_offset >= self._entries.get((record.topic, record.queue_id), 0)

    def _folder(self, queue: _Queue) -> Path:
        return self._path / paths.CONSUME_QUEUE / queue[0].decode() / str(queue[1])

    def _count_entries(self, queue: _Queue) -> int:
        """Return the queue offset after a queue's entries, as RocketMQ finds it: it reads the last three files.

        It removes the files after that.
        """
        # After a power cut a folder may be there without its files.
        files = sorted(self._folder(queue).glob("*"))
        for number, file in list(enumerate(files))[-_FILES_READ:]:
            entries = self._entries_of(file)
            end = next((n for n, entry in enumerate(entries) if not entry.is_valid), len(entries))
            if end * ENTRY_SIZE < self._queue_size:
                for later in files[number + 1 :]:
                    fs.remove_file(later)
                return int(file.name) // ENTRY_SIZE + end
        return (int(files[-1].name) + self._queue_size) // ENTRY_SIZE if files else 0

    @staticmethod
    def _entries_of(file: Path) -> list[Entry]:
        data = file.read_bytes()
        return [decode_entry(data, at) for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE)]

    def _write_log(self, data: bytes) -> None:
        begin = self._end // self._log_size * self._log_size
        file = self._path / paths.COMMIT_LOG / paths.offset_name(begin)
        fs.write_at(str(file), self._log_size, self._owner, data, self._end - begin)
