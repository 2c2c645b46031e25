"""The one writer of a CommitLog: it gives each message its place in the log and its number in its queue.

    with LogAppender(store / "commitlog", LogSettings()) as log:
        log.append(Message("orders", b"body"), queue_id=2)      -> PutResult
        log.append_many(messages, queue_id=2)                   all or none -> PutManyResult
        log.flush()                                             everything so far is durable

Positions are log offsets: `wrote` >= `committed` (in the files) >= `flushed` (durable). Readers may look up to
`confirmed`: that is `committed`, or with sync flush `flushed`. A position is raised when all bytes below it are
stored, so a reader that stays below it never sees half a record.

A refused message gets a status and a reason; it uses neither a place nor a number. If the disk has no room, the status
is DISK_FULL and the next put tries again. If fsync fails, the log takes no more puts: the state of the disk is unknown.

Source: `CommitLog.asyncPutMessage`, `CommitLog.DefaultAppendMessageCallback`, `MappedFileQueue`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from reput.errors import ClosedError, FlushError, NoSpaceError, PutError, ReputError
from reput.files import disk_space, fs
from reput.files.closing import Closing
from reput.files.folders import make_durable_dir
from reput.files.watermarks import WatermarkCell
from reput.formats.log.record import BLANK_SIZE
from reput.kernels import COMPILED, kind_in_use, place_kernels
from reput.kernels.layouts.place import NOT_PLACED, OWN_HOST
from reput.log.append.append_file import AppendFile
from reput.log.append.lists import FIELDS_AT, MessageLists
from reput.log.append.log_end import LAST_MS, OFFSET, LogEnd, not_placed
from reput.log.append.positions import NEW_LOG, Flushed, LogStart, PreparedQueue
from reput.log.append.prepared_batches import PreparedBatches
from reput.log.append.rolling import RollingFiles
from reput.log.append.settings import LogSettings
from reput.log.encode.batch import CheckedBatch, MessageBatch, checked_body, raise_numbers, stored_nothing
from reput.log.encode.encode import BornHosts, RecordEncoder, RecordParts, is_numbered
from reput.log.encode.inner import checked_inner
from reput.log.encode.message import (
    Message,
    MessageRefusedError,
    OwnPathError,
    PropertyEncoder,
    PutManyResult,
    PutResult,
    PutStatus,
    check_message,
    illegal,
    too_large_text,
)
from reput.log.encode.topics import TopicState, TopicTable

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from reput.files.watermarks import Watermarks
    from reput.log.encode.client_batch import SentBatch

_Returned = TypeVar("_Returned")
_time_ns = time.time_ns


class LogAppender(Closing):
    """Appends to the log in `folder`; safe for threads.

    Args:
        folder: The commitlog folder; it is created if it is missing.
        settings: Sizes, limits, hosts, and whether readers wait for the flush.
        start: The state of the log, by default that of a new one.
        watermarks: Publishes wrote, flushed and confirmed for other processes.
        owner: The owner of new files, by default the folder's owner.
        batch_topics: Topics (UTF-8) whose queues take batches in one record (queue.type BatchCQ).

    Raises:
        ConfigError: The end offset lies outside the files, or the last file's size is not that of the settings.
    """

    def __init__(
        self,
        folder: Path,
        settings: LogSettings,
        start: LogStart = NEW_LOG,
        *,
        watermarks: Watermarks | None = None,
        owner: fs.Owner | None = None,
        batch_topics: Collection[bytes] = (),
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.when_disk_full: Callable[[], str] = str
        """Returns the text that a put adds to its reason if the disk is full."""
        self.when_sync_failed: Callable[[], object] = str
        """Called when the disk has refused a sync, before any caller learns it."""
        self.refuse_unsynced: Callable[[], object] = str
        """Raises an error if a sync of the log has failed in another program: one that succeeds here proves nothing."""
        if not fs.exists(folder):
            # The folder's name must be as durable as its files.
            make_durable_dir(folder, owner)
        size, buffered, end_offset = settings.mapped_file_size_commit_log, settings.write_buffered, start.end_offset
        owner = owner or fs.owner_of(folder)
        self._files = RollingFiles(folder, size, owner, end_offset=end_offset, write_buffered=buffered)
        self._largest_batch = size - BLANK_SIZE
        self._lock, self._flush_lock = Lock(), Lock()
        auto_version = settings.auto_message_version_on_topic_len
        self._topics = TopicTable(start.queues, end_offset, auto_version, batch_topics, start.stored)
        self._known, self._topic_at = self._topics.by_name, self._topics.at_by_name
        self._properties = PropertyEncoder(settings.enabled_append_prop_crc, settings.enable_lmq)
        self._encode_properties = self._properties.encode
        self._records = RecordEncoder(settings.store_host, settings.enabled_append_prop_crc)
        self._frame, self._encode = self._records.frame, self._records.encode
        self._place: Callable[..., PutResult | None] = not_placed
        self._place_message: Callable[..., PutResult | None] = not_placed
        self._born_hosts = BornHosts()
        self._lists: MessageLists | None = None
        self._max_body = settings.max_message_size
        self._batches = PreparedBatches(self._topics, self._records, self._max_body, enable_lmq=settings.enable_lmq)
        self._stopped: ReputError | None = None
        self._takes_puts = True
        self._blocked: MessageRefusedError | None = None
        self._end = LogEnd(end_offset, start.last_store_timestamp, self._records, self._max_body, self._lock)
        self._end_at = self._end.at
        # The log offset up to which the files hold the records, and the store time of the last one there.
        self._committed, self._committed_ms = end_offset, start.last_store_timestamp
        self._confirm_writes = not settings.sync_flush and not buffered
        names = ("wrote_offset", "flushed_offset", "confirmed_offset")
        self._take_cells([watermarks.cell(name) if watermarks else WatermarkCell.own() for name in names])
        durable = end_offset if start.flushed_offset is None else min(start.flushed_offset, end_offset)
        self._recovered = range(durable, end_offset)
        # At no instant is more called durable than is: a killed program leaves what it has published.
        self._flushed[0] = durable
        self._wrote[0] = self._confirmed[0] = end_offset

    # --- positions -----------------------------------------------------------------------------

    @property
    def wrote(self) -> int:
        """Log offset up to which records are in memory or in the files."""
        return self._end.offset

    @property
    def committed(self) -> int:
        """Log offset up to which the files hold the records."""
        return self._committed if self.settings.write_buffered else self._end.offset

    @property
    def flushed(self) -> int:
        """Log offset up to which the log is durable."""
        return int(self._flushed[0])

    @property
    def confirmed(self) -> int:
        """Log offset up to which readers may look."""
        return int(self._confirmed[0])

    @property
    def last_store_timestamp(self) -> int:
        """Store time (ms) of the last record."""
        return self._end.last_ms

    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        """Return the number that the next message of each queue gets."""
        with self._lock:
            return dict(self._topics.items())

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Return the number that the next message of this queue gets, 0 for an unknown queue."""
        known = self._known.get(topic)
        return 0 if known is None else max(known.next_offset(queue_id), 0)

    def block_puts(self, reason: str) -> None:
        """Refuse puts with DISK_FULL and this reason; an empty reason allows them again."""
        with self._lock:
            self._blocked = MessageRefusedError(PutStatus.DISK_FULL, reason) if reason else None
            if reason:
                # With no room left, every put calls _make_room, which checks this.
                self._end.shut()

    # --- puts ----------------------------------------------------------------------------------

    def append(self, message: Message, queue_id: int = 0) -> PutResult:
        """Store a message at the log's end.

        Raises:
            ClosedError: The log is closed.
            FlushError: An earlier flush failed.
        """
        # Without the lock: the kernel keeps the GIL, and stores nothing while a thread holds the lock. To take it for
        # each put made four threads a quarter as fast as one. A put that is overtaken gets the time of the other one.
        placed = self._place_message(self._end_at, FIELDS_AT, self._topic_at, message, queue_id, _time_ns())
        return placed or self._append_encoded(message, queue_id)

    def append_to(
        self,
        queue: PreparedQueue,
        body: object,
        tags: object,
        keys: object,
        unique_key: object,
        flag: object,
        born: object,
    ) -> PutResult | None:
        """Store an ordinary message, given by its values, in a prepared queue.

        The answer is None, and nothing is stored, if `append` must look at the message.
        """
        return self._place(
            self._end_at, queue.topic.at, queue.queue_id, flag, born, OWN_HOST, _time_ns(), body, tags, keys,
            unique_key, None,
        )  # fmt: skip

    def prepare(self, topic: str, queue_id: int) -> PreparedQueue:
        """Return a queue for `append_to`.

        Raises:
            PutError: No message can be put to a topic of this name, or to this queue id.
        """
        try:
            known = self._topics.topic(topic)
            self._topics.check_queue_id(queue_id)
        except MessageRefusedError as refusal:
            raise PutError(refusal.status, refusal.reason) from None
        return PreparedQueue(topic, int(queue_id), known)

    def _append_encoded(self, message: Message, queue_id: int) -> PutResult:
        """Store a message whose properties must be encoded here, or one that the kernel does not take."""
        try:
            body = message.body
            if type(body) is not bytes:
                body = checked_body(body, self._max_body)
            properties = self._encode_properties(message)
            topic = self._known.get(message.topic) or self._topics.topic(message.topic)
            host = self._born_hosts.number(message.born_host)
            flags = message.sys_flag or message.reconsume_times or message.prepared_transaction_offset
            if not flags and host is not None:
                placed = self._place(
                    self._end_at, topic.at, queue_id, message.flag, message.born_timestamp, host, _time_ns(), body,
                    None, None, None, properties,
                )  # fmt: skip
                if placed is not None:
                    return placed
            # A new queue, no room left in memory, a thread that holds the lock, or a value that only a record of
            # another kind holds, or none.
            return self._append_any(message, body, properties, topic, queue_id)
        except (MessageRefusedError, AttributeError, TypeError) as problem:
            return self._refused(message, queue_id, problem)

    def _take_back(self, size: int) -> None:
        """Zero the bytes after the log's end where storing a record has failed."""
        end = self._end
        if end.memory is not None and end.offset + size <= end.room_end:
            at = end.offset - end.start
            try:
                end.memory[at : at + size] = bytes(size)
            except BaseException as error:
                self._stop(ReputError(f"{self.folder}: half a record is left after the log's end: {error!r}"))
                raise

    def _refused(self, message: Message, queue_id: int, problem: Exception) -> PutResult:
        if isinstance(problem, OwnPathError):
            return self._append_inner(message, queue_id)
        try:
            check_message(message)
        except MessageRefusedError as refusal:
            problem = refusal
        if not isinstance(problem, MessageRefusedError):
            raise problem
        return PutResult(problem.status, reason=problem.reason)

    def _append_any(
        self, message: Message, body: bytes, properties: bytes, topic: TopicState, queue_id: int
    ) -> PutResult:
        """Store a message of any kind.

        Raises:
            MessageRefusedError: It cannot be stored.
        """
        body = checked_body(body, self._max_body)
        parts = RecordParts.of(message, self._frame(message), body, properties, topic, queue_id)
        size = parts.size
        with self._lock:
            if self._end.offset + size > self._end.room_end:
                self._make_room(size)
            offset = self._end.offset
            number = self._topics.next_offset(topic, queue_id, offset)
            now = self._now()
            numbered = is_numbered(message.sys_flag)
            number = number if numbered else 0
            data = self._encode(parts, number, offset, now)
            self._store(data, now, {(topic, queue_id): number + 1} if numbered else {})
        return PutResult(PutStatus.PUT_OK, offset, size, number, now)

    def _append_inner(self, message: Message, queue_id: int) -> PutResult:
        """Store a message that takes more than one number. Its record holds the numbers."""
        try:
            body = checked_body(message.body, self._max_body)
            topic = self._topics.topic(message.topic)
            inner = checked_inner(message, topic, self._topics, self.settings.enable_lmq)
            frame = self._records.frame(message, inner=True)
            with self._lock:
                number = self._topics.next_offset(topic, queue_id, self._end.offset)
                numbered = is_numbered(message.sys_flag)
                further = inner.next_offsets(self._topics, self._end.offset)
                stored = inner.numbered(number, further)
                properties = self._properties.encode(stored, inner=True)
                parts = RecordParts.of(stored, frame, body, properties, topic, queue_id)
                size = parts.size
                if self._end.offset + size > self._end.room_end:
                    self._make_room(size)
                offset, now = self._end.offset, self._now()
                data = self._encode(parts, number if numbered else 0, offset, now)
                following = inner.following(further)
                if numbered:
                    following[topic, queue_id] = number + inner.messages
                self._store(data, now, following)
        except MessageRefusedError as refusal:
            return PutResult(refusal.status, reason=refusal.reason)
        return PutResult(PutStatus.PUT_OK, offset, size, number if numbered else 0, now)

    def _store(self, data: bytes, now: int, following: Mapping[tuple[TopicState, int], int]) -> None:
        """Put a record at the log's end, where there is room, and set the next offsets of its queues to `following`."""
        memory: Any = self._end.memory
        vector, begin, end = self._end.vector, self._end.offset - self._end.start, self._end.offset + len(data)
        try:
            memory[begin : begin + len(data)] = data
            # The last call: no interrupt can come after it.
            raise_numbers(following.keys(), following.values())
            vector[LAST_MS] = now
            vector[OFFSET] = self._wrote[0] = end
            if self._confirm_writes:
                self._confirmed[0] = end
        except BaseException:
            self._take_back(len(data))
            raise

    def offsets_of(self, topic: str, queue_id: int | None = None) -> dict[int, int]:
        """Return the next offsets of a topic's queues, or of this one of them, to which messages were put."""
        with self._lock:
            return self._topics.offsets_of(topic, queue_id)

    def forget_queues(
        self, topic: str, queue_id: int | None, known: Mapping[int, int], delete: Callable[[], _Returned]
    ) -> _Returned | None:
        """Call `delete` while puts wait, let the numbers of these queues begin again at 0, and return what it returns.

        The answer is None, and nothing is called, if `offsets_of` is not `known` any more.
        """
        with self._lock:
            if self._topics.offsets_of(topic, queue_id) != known:
                return None
            deleted = delete()
            self._topics.forget(topic, queue_id)
            return deleted

    def append_many(self, messages: Iterable[Message], queue_id: int | Sequence[int] = 0) -> PutManyResult:
        """Store consecutive messages in one file, all or none; `queue_id` is one for all, or one for each.

        Raises:
            ClosedError: The log is closed.
            FlushError: An earlier flush failed.
        """
        try:
            return self._append_list(messages, queue_id) or self._append_prepared(
                MessageBatch(messages, queue_id, self._topics, self._records, self._properties, self._max_body)
            )
        except MessageRefusedError as refusal:
            return stored_nothing(refusal.status, refusal.reason)

    def _append_list(self, messages: object, queue_id: object) -> PutManyResult | None:
        if self._lists is None:
            return None
        while not isinstance(placed := self._lists.place(messages, queue_id, _time_ns()), PutManyResult):
            if placed == NOT_PLACED:
                return None
            with self._lock:
                self._make_room(placed)
        return placed

    def append_columns(self, table: pa.Table | pa.RecordBatch) -> PutManyResult:
        """Store messages given as Arrow columns (see `reput.log.encode.columns`), as `append_many` does."""
        try:
            return self._append_prepared(self._batches.of_columns(table))
        except MessageRefusedError as refusal:
            return stored_nothing(refusal.status, refusal.reason)

    def append_client_batch(self, sent: SentBatch) -> PutManyResult | None:
        """Store a batch as a client has sent it, as `append_many` does.

        The answer is None, and nothing is stored, if `append_many` must look at its messages.
        """
        try:
            batch = self._batches.of_sent(sent)
            return None if batch is None else self._append_prepared(batch)
        except MessageRefusedError as refusal:
            return stored_nothing(refusal.status, refusal.reason)

    def _append_prepared(self, batch: CheckedBatch) -> PutManyResult:
        with self._lock:
            if not batch.size:
                self._raise_stopped()
                return stored_nothing(PutStatus.PUT_OK)
            self._make_room(batch.size, by_write=True)
            file, position = self._files.current, self._end.offset - self._end.start
            vector, end = self._end.vector, self._end.offset + batch.size
            assert file is not None
            try:
                result = batch.encode(file.write, position, self._end.offset, self._now())
            except BaseException as error:
                broken = self._half_written(file, position, batch.size, error)
                if broken is error:
                    raise
                raise broken from error
            # Nothing is called up to the return, so no interrupt comes in between.
            vector[LAST_MS] = result.store_timestamp
            vector[OFFSET] = self._wrote[0] = end
            if self._confirm_writes:
                self._confirmed[0] = end
            return result

    def _half_written(self, file: AppendFile, position: int, size: int, error: BaseException) -> BaseException:
        """Zero the bytes after the log's end where writing a batch has failed; return the error to raise."""
        try:
            file.wipe(position, size)
        except BaseException as worse:  # noqa: BLE001 - it is raised by the caller
            cause = error if isinstance(error, ReputError) else ReputError(f"{file.path}: a batch broke off: {error!r}")
            stopped = self._stop(cause)
            # Let the interrupt propagate; the next caller learns the state of the log.
            return next((one for one in (error, worse) if not isinstance(one, Exception)), stopped)
        return self._disk_full(error) if isinstance(error, NoSpaceError) else error

    def _disk_full(self, error: NoSpaceError) -> MessageRefusedError:
        """Return the answer to a put for which the disk has no blocks."""
        percent = disk_space.disk_use(self.folder).percent
        reason = f"{error}. The disk is {percent} % full. {self.when_disk_full()}".rstrip()
        return MessageRefusedError(PutStatus.DISK_FULL, reason)

    # --- places --------------------------------------------------------------------------------

    def _now(self) -> int:
        return max(_time_ns() // 1_000_000, self._end.last_ms)

    def _make_room(self, size: int, by_write: bool = False) -> None:
        """Make room for `size` bytes at the log's end, which may become the start of the next file.

        `by_write`: the caller stores them with `AppendFile.write`, not in its memory.

        Raises:
            MessageRefusedError: The disk is full, or no file is large enough.
        """
        self._raise_stopped()
        if not self._takes_puts:
            raise self._closed()
        if self._blocked is not None:
            raise MessageRefusedError(self._blocked.status, self._blocked.reason)
        if size > self._largest_batch:
            raise illegal(too_large_text(size, self._largest_batch))
        # Until the file is known: an interrupt below may leave a file whose memory is gone.
        self._end.shut()
        try:
            file, offset = self._files.make_room(self._end.offset, size, by_write)
        except NoSpaceError as error:
            raise self._disk_full(error) from error
        if offset != self._end.offset:
            self._end.offset = self._committed = self._wrote[0] = offset
            self._committed_ms = self._end.last_ms
            if not self.settings.sync_flush:
                # Also with a write buffer: ending a file writes its buffer out.
                self._confirmed[0] = offset
        self._end.take_memory(file.memory, file.start, file.start + file.room_end)
        is_ready = self._end.is_guarded and not self._records.append_crc and kind_in_use() == COMPILED
        if self._place is not_placed and is_ready:
            # The plain kernel does not do less than `_append_any`.
            self._place, self._place_message = place_kernels().place_record, place_kernels().place_message
            self._lists = MessageLists(self._end, self._topics)

    # --- commit, flush, close ------------------------------------------------------------------

    def commit(self) -> int:
        """Write the write buffer to the file; return the log offset up to which the files hold the records.

        Raises:
            FlushError: The disk refuses it; the log takes no more puts.
        """
        with self._lock:
            self._raise_stopped()
            self._commit()
            return self._end.offset

    def _commit(self) -> None:
        file = self._files.current
        if self.settings.write_buffered and file is not None and self._committed < self._end.offset:
            try:
                # After an interrupt the current file may begin after the log's end: then nothing is left to write.
                file.commit(max(self._end.offset - file.start, 0))
            except ReputError as error:
                raise self._stop(error) from error
            self._committed, self._committed_ms = self._end.offset, self._end.last_ms
            self._confirmed[0] = self._end.offset

    def flush(self) -> Flushed:
        """Make all that is committed durable. Concurrent calls share one sync.

        Raises:
            FlushError: The disk refuses it, or refused it before; the log takes no more puts.
        """
        with self._flush_lock:
            with self._lock:
                self._raise_stopped()
                stored_ms = self._committed_ms if self.settings.write_buffered else self._end.last_ms
                files, target = self._files, Flushed(self.committed, stored_ms)
                if target.offset == self.flushed and not files.retired:
                    return target
                recovered, retired, current = self._recovered, list(files.retired), files.current
                names_changed, files.names_changed = files.names_changed, False
            try:
                files.sync_range(recovered)
                for file in retired if current is None else [*retired, current]:
                    file.sync()
                if names_changed:
                    fs.sync_path(self.folder)
                self.refuse_unsynced()
            except BaseException as error:
                # After an interrupt, too, the next flush does it.
                files.names_changed = files.names_changed or names_changed
                if not isinstance(error, ReputError):
                    raise
                self.when_sync_failed()
                with self._lock:
                    raise self._stop(error) from error
            self._recovered = range(target.offset, target.offset)
            with self._lock:
                files.forget(retired)
            self._flushed[0] = target.offset
            if self.settings.sync_flush:
                self._confirmed[0] = target.offset
            return target

    def end_puts(self) -> None:
        """Refuse puts from now on: what the log holds then is all that it ever holds."""
        with self._lock:
            self._takes_puts = False
            self._end.shut()

    def close(self) -> None:
        """Make everything durable and close the files; a second call does nothing.

        Raises:
            FlushError: The disk refuses it, or refused it before; the files are closed all the same.
        """
        with self._lock:
            if isinstance(self._stopped, ClosedError):
                return
        self.end_puts()  # one in between would be answered, and not be durable
        try:
            self.commit()
            self.flush()
        finally:
            with self._flush_lock, self._lock:
                self._stopped = self._closed()
                self._end.drop_memory()
                self._files.close()
                self._let_go_of_cells()

    def _closed(self) -> ClosedError:
        return ClosedError(f"{self.folder}: this log has been closed; open the store again")

    def _let_go_of_cells(self) -> None:
        # A concurrent reader of a position gets the old cell or the new one, never a released one.
        old = self._wrote, self._flushed, self._confirmed
        self._take_cells([WatermarkCell.own(cell[0]) for cell in old])
        for cell in old:
            cell.release()

    def _take_cells(self, cells: Sequence[WatermarkCell]) -> None:
        wrote, flushed, confirmed = cells
        self._wrote, self._flushed, self._confirmed = wrote.view, flushed.view, confirmed.view
        self._end.publish_at(wrote.at, confirmed.at if self._confirm_writes else 0)

    def _stop(self, error: ReputError) -> FlushError:
        """Take no more puts: what the disk has kept is unknown, and a second fsync would not report it."""
        stopped = FlushError(
            f"{error}. What was put after log offset {self.flushed} may be lost; open the store again to see"
            " what is left"
        )
        self._stopped = self._stopped or stopped
        self._end.shut()
        return stopped

    def _raise_stopped(self) -> None:
        if self._stopped is not None:
            raise type(self._stopped)(str(self._stopped))
