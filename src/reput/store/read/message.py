"""A stored message: a view of its record, whose parts are decoded on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from reput.errors import DamagedLogError, DamagedStoreError, ReputError
from reput.formats import paths
from reput.formats.log.body import MAX_DECODED_BODY_SIZE, BodyError, decode_body
from reput.formats.log.record import PartsOfRecord, stored_properties
from reput.formats.log.record_view import QUEUE_ID, SYS_FLAG, RecordView
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import shown_text
from reput.log.read.reader import place_in
from reput.store.read.queue_of_record import is_in_queue


class StoredMessage(RecordView):
    """A message as the log holds it; times in ms, offsets as RocketMQ has them.

    `raw` is a view of the mapped file, valid as long as this object or the result that it came from is kept.
    All values come from the record, so the first use of one may raise DamagedLogError, or DamagedStoreError if the
    record is not one of the queue that was asked for. `raw` is not looked at.
    """

    __slots__ = ("_body", "_place", "_queue", "raw")

    raw: memoryview
    _body: bytes | None

    def __init__(self, raw: memoryview, start: int, position: int, queue: QueueKey | None = None) -> None:
        self.raw = raw
        self._parts = self._body = None
        self._place = start, position
        self._queue = queue

    def _check(self, parts: PartsOfRecord) -> None:
        queue = self._queue
        if queue is None:
            return
        queue_id = parts.values[QUEUE_ID]
        topic = bytes(self.raw[parts.topic_at : parts.properties_length_at])
        if (topic != queue.topic or queue_id != queue.queue_id) and not is_in_queue(
            own := QueueKey(topic, queue_id), stored_properties(self.raw, parts), queue
        ):
            raise DamagedStoreError(
                f"{self._described_place}: an entry of queue {queue} leads to this message of queue {own}. "
                "`reput check` finds all such entries, and `reput rebuild --only queue` builds them from the log"
            )

    def _no_record(self) -> DamagedLogError:
        return DamagedLogError(
            f"{self._described_place}: an "
            "index leads there, but there is no record: its lengths do not add up. The messages after "
            "it can be read. `reput check` says what is damaged: `reput rebuild` mends an index and loses nothing; "
            "for a damaged log restore the file from a copy, or give the message up with `reput rebuild --salvage`"
        )

    @property
    def _described_place(self) -> str:
        start, position = self._place
        return place_in(f"{paths.COMMIT_LOG}/{paths.offset_name(start)}", start, start + position)

    @property
    def topic(self) -> str:
        """The topic."""
        return shown_text(self._stored_topic())

    @property
    def body(self) -> bytes:
        """The body as stored, perhaps compressed (see `sys_flag`); `decoded_body` is what a consumer gets."""
        body = self._body
        if body is None:
            self._body = body = self._stored_body()
        return body

    @cached_property
    def decoded_body(self) -> bytes:
        """The body as a consumer gets it: decompressed, at most 64 MiB.

        Raises:
            DamagedStoreError: It cannot be decompressed.
        """
        return self.decode_body()

    def decode_body(self, max_size: int = MAX_DECODED_BODY_SIZE) -> bytes:
        """Return the body as a consumer gets it: decompressed, at most `max_size` bytes.

        Raises:
            DamagedStoreError: It cannot be decompressed.
        """
        try:
            return decode_body(self.body, self.sys_flag, max_size)
        except BodyError as error:
            raise DamagedStoreError(
                f"{self._described_place}: the body cannot be decompressed: {error}. `body` has the stored bytes"
            ) from error

    @property
    def sys_flag(self) -> int:
        """RocketMQ's sysFlag bits."""
        return self._number(SYS_FLAG)

    def __reduce__(self) -> tuple[Callable[..., StoredMessage], tuple[bytes, int, int, QueueKey | None]]:
        return _of_bytes, (bytes(self.raw), *self._place, self._queue)

    def __repr__(self) -> str:
        try:
            _ = self.record
        except ReputError:
            return f"StoredMessage({self._described_place}: not readable, {len(self.raw)} bytes)"
        return (
            f"StoredMessage({self.topic}/{self.queue_id} offset {self.queue_offset}, at {self.physical_offset}, "
            f"{len(self.raw)} bytes)"
        )


def _of_bytes(raw: bytes, start: int, position: int, queue: QueueKey | None) -> StoredMessage:
    """Make a message that holds its record itself: a copy, or one that another process has sent."""
    return StoredMessage(memoryview(raw), start, position, queue)
