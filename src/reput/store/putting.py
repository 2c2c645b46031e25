"""The putting half of an open store: a message is readable when its put returns."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from reput.errors import TailFullError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from reput.log.append.append import LogAppender
    from reput.log.append.flush import FlushService, PutFuture
    from reput.log.append.positions import PreparedQueue
    from reput.log.encode.client_batch import SentBatch
    from reput.log.encode.message import Message, PutManyResult, PutResult
    from reput.queue.tail import Tail
    from reput.store.disk.layout import StoreLayout
    from reput.store.read.arrivals import Arrivals
    from reput.store.read.view import StoreView
    from reput.store.sender import Sender
    from reput.store.write.writing import StoreWriter

TAIL_WAIT_S = 5.0
_STEP_S = 0.1


class Putting(ABC):
    """The calls of an open store that store messages. The open sets the attributes: every put reads them."""

    layout: StoreLayout
    view: StoreView
    _tail: Tail
    _tail_max: int
    _arrivals: Arrivals
    _waiting: Mapping[tuple[str, int], object]
    _appender: LogAppender | None
    _flush: FlushService | None
    _sync_flush: bool
    _waits_for_tail = True
    """False if a put that finds the tail full fails at once: its thread serves clients, also those that only read."""

    @abstractmethod
    def _writer(self) -> StoreWriter:
        """Return the store's writer; raise ClosedError if the store is closed, AccessError if it is read-only."""

    def put_message(self, message: Message, queue_id: int = 0) -> PutResult:
        """Store one message in a queue of its topic; with SYNC_FLUSH it is durable when this returns.

        A rejected put does not raise: it returns a `status` and a `reason`.

        Raises:
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
            TailFullError: Too many messages are not indexed yet.
            FlushError: The disk refuses to make the message durable; open the store again.
        """
        if self._tail.entries >= self._tail_max:
            self._wait_for_tail()
        appender = self._appender or self._writer().appender
        result = appender.append(message, queue_id)
        if self._sync_flush or self._waiting:
            return self._answered(result, message.topic, queue_id, message.waits_for_flush)
        return result

    def _answered(self, result: PutResult, topic: str, queue_id: int, waits: bool = True) -> PutResult:
        """Return the answer to a put when its message is durable, if it must be; wake who waits for the queue."""
        if self._sync_flush and self._flush:
            result = self._flush.settle(result, waits)
        if self._waiting:
            self._wake(topic, queue_id)
        return result

    def _wake(self, topic: str, queue_id: int) -> None:
        """Wake who waits for a queue."""
        if self._arrivals.waits(topic, queue_id):
            self._arrivals.reached(topic, queue_id, self.view.max_offset(topic, queue_id))

    def sender(self, topic: str, queue_id: int = 0) -> Sender:
        """Return a sender of messages to one queue: its puts look nothing up, and make no `Message`.

        Raises:
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
            PutError: No message can be put to a topic of this name, or to this queue id.
        """
        from reput.store.sender import Sender

        prepared = self._writer().appender.prepare(topic, queue_id)
        return Sender(prepared, self._put_prepared, self.put_message)

    def _put_prepared(
        self, queue: PreparedQueue, body: Any, tags: Any, keys: Any, unique_key: Any, flag: Any, born: Any
    ) -> PutResult | None:
        """Do what `put_message` does with the values of an ordinary message; return None to leave it to that."""
        appender = self._appender
        if appender is None or self._tail.entries >= self._tail_max:
            return None
        result = appender.append_to(queue, body, tags, keys, unique_key, flag, born)
        if result is not None and (self._sync_flush or self._waiting):
            return self._answered(result, queue.name, queue.queue_id)
        return result

    def put_message_async(self, message: Message, queue_id: int = 0) -> PutFuture[PutResult]:
        """Store one message without waiting; the future has the result that `put_message` returns.

        With SYNC_FLUSH the future is done when the message is durable. All pending messages share a sync, so one
        thread, or an event loop (`await asyncio.wrap_future(...)`), replaces many threads that wait. With ASYNC_FLUSH,
        and if nothing was stored, the future is done at once. There is no FLUSH_DISK_TIMEOUT: use the time-out of the
        future. Callbacks run in the thread that flushes. They block it, and can neither wait for another put nor close
        the store.

        The future fails with a FlushError if the disk refuses the message; `close` first keeps what it can. The call
        raises the errors of `put_message`, and waits if too many messages are not indexed yet.
        """
        if self._tail.entries >= self._tail_max:
            self._wait_for_tail()
        appender = self._appender or self._writer().appender
        result = appender.append(message, queue_id)
        assert self._flush is not None
        promised = self._flush.promise(result, message.waits_for_flush)
        # With sync flush the message becomes visible later: the flush wakes the housekeeper, which notifies.
        if not self._sync_flush and self._waiting:
            self._wake(message.topic, queue_id)
        return promised

    def put_messages(
        self, messages: Iterable[Message] | pa.Table | pa.RecordBatch, queue_id: int | Sequence[int] = 0
    ) -> PutManyResult:
        """Store messages in order in one file of the log, all or none.

        Args:
            messages: `Message`s, or Arrow columns, which a kernel encodes; see `reput.log.encode.columns` for names
                and types.
            queue_id: One queue for all messages, or one for each.

        The call raises the errors of `put_message`.
        """
        return self._settled(*self._append_many(messages, queue_id))

    def put_messages_async(
        self, messages: Iterable[Message] | pa.Table | pa.RecordBatch, queue_id: int | Sequence[int] = 0
    ) -> PutFuture[PutManyResult]:
        """Store messages as `put_messages` does, without waiting; the future is as that of `put_message_async`."""
        return self._promised(*self._append_many(messages, queue_id))

    def _append_many(
        self, messages: Iterable[Message] | pa.Table | pa.RecordBatch, queue_id: int | Sequence[int]
    ) -> tuple[PutManyResult, Iterable[tuple[str, int]]]:
        """Append messages; return the answer, and their queues."""
        appender = self._writer().appender
        if self.is_tail_full:
            self._wait_for_tail()
        if hasattr(messages, "schema"):
            return appender.append_columns(messages), self._arrivals.queues()
        if isinstance(messages, Iterator):  # they are looked at twice
            messages = list(messages)
        result = appender.append_many(messages, queue_id)
        ids = repeat(queue_id) if isinstance(queue_id, int) else queue_id
        return result, ((one.topic, own) for one, own in zip(messages, ids, strict=False))

    def put_client_batch(self, sent: SentBatch) -> PutManyResult | None:
        """Store a batch as a RocketMQ client has sent it, in order in one file of the log, all or none.

        Returns:
            The answer, as of `put_messages`; None, and nothing is stored, if the batch must be looked at message by
            message: its body does not hold whole messages, or a property may change how a message is stored.

        The call raises the errors of `put_message`.
        """
        result = self._append_client_batch(sent)
        return None if result is None else self._settled(result, {(sent.topic, sent.queue_id)})

    def put_client_batch_async(self, sent: SentBatch) -> PutFuture[PutManyResult] | None:
        """Store a batch as `put_client_batch` does; return the future of the answer, as of `put_message_async`."""
        result = self._append_client_batch(sent)
        return None if result is None else self._promised(result, {(sent.topic, sent.queue_id)})

    def _append_client_batch(self, sent: SentBatch) -> PutManyResult | None:
        appender = self._writer().appender
        if self.is_tail_full:
            self._wait_for_tail()
        return appender.append_client_batch(sent)

    def _settled(self, result: PutManyResult, queues: Iterable[tuple[str, int]]) -> PutManyResult:
        """Return the answer to a put to these queues when it is durable, if it must be; wake who waits for them."""
        if self._sync_flush and self._flush:
            result = self._flush.settle(result)
        self._wake_all(result, queues)
        return result

    def _promised(self, result: PutManyResult, queues: Iterable[tuple[str, int]]) -> PutFuture[PutManyResult]:
        """Return the future of the answer to a put to these queues; wake who waits for them."""
        assert self._flush is not None
        promised = self._flush.promise(result)
        if not self._sync_flush:
            self._wake_all(result, queues)
        return promised

    def _wake_all(self, result: PutManyResult, queues: Iterable[tuple[str, int]]) -> None:
        if self._waiting and result.status.is_stored:
            for topic, queue_id in set(queues):
                self._wake(topic, queue_id)

    @property
    def is_tail_full(self) -> bool:
        """True if too many messages wait for their indexes: puts then fail, and the store cannot be opened again."""
        return self.view.queues_table.tail.entries >= self._tail_max

    def _wait_for_tail(self) -> None:
        deadline = time.monotonic() + (TAIL_WAIT_S if self._waits_for_tail else 0.0)
        while self.is_tail_full:
            if time.monotonic() >= deadline:
                raise TailFullError(
                    f"{self.layout.root}: {self.view.queues_table.tail.entries} entries are not in durable indexes yet "
                    f"(tail_max_entries {self._tail_max}). Call store.reput(), or keep `reput follow` running on it"
                )
            time.sleep(_STEP_S)
