"""A queue out of order, for RocksDB's tables: the order rule writes a scratch file, which is then read in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reput.files import fs
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, blank_value, decode_value
from reput.pipeline.build.reorder.queue_builder import QueueOutcome, build_queue
from reput.pipeline.split.job import Job
from reput.queue.runs import EntryRun

_AT_ONCE = 1 << 18


class OutOfOrderQueue:
    """One queue out of order of one task (`name` is the task's). The scratch file holds its values from `first` on."""

    def __init__(self, job: Job, key: QueueKey, name: str) -> None:
        self._key = key
        self._path = f"{job.parts_folder}/{name}.scratch"
        self._owner = job.owner
        self._first = self._next = 0
        fs.remove_file(self._path)

    def build(self, runs: Callable[[], Iterator[EntryRun]], end: int = 0) -> QueueOutcome:
        """Build the queue from its runs, in log order; a queue that ends at queue offset `end` continues there."""
        self._first = end
        outcome = build_queue(self._key, runs, self, end)
        self._first, self._next = outcome.first if outcome.restarts or not end else end, outcome.next
        return outcome

    def result(self) -> Iterator[EntryRun]:
        """Yield the queue that was built, in order."""
        for begin in range(self._first, self._next, _AT_ONCE):
            count = min(_AT_ONCE, self._next - begin)
            at = (begin - self._first) * VALUE_SIZE
            yield EntryRun(begin, fs.load_array(self._path, "u1", count * VALUE_SIZE, at).data, VALUE_SIZE)

    def put(self, run: EntryRun) -> None:
        """Append values."""
        self._append(run.entries)

    def blank(self, begin: int, end: int, following: EntryRun) -> None:
        """Append pre-blank values into a gap, with the time of the next message: times must not run backwards."""
        _, store_timestamp = decode_value(following.entries[:VALUE_SIZE])
        value = blank_value(store_timestamp)
        while begin < end:
            count = min(end - begin, _AT_ONCE)
            self._append(memoryview(value * count))
            begin += count

    def drop(self) -> None:
        """Remove all values."""
        fs.remove_file(self._path)

    def _append(self, values: memoryview) -> None:
        fs.append(self._path, values)
