"""The same producer and consumer for threads: their loop runs in a thread of its own.

All methods may be called by any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from reput.client.assignment import StartAt
from reput.client.consumer import MAX_BYTES, MAX_QUEUE_MESSAGES, POLL_MESSAGES, AsyncConsumer
from reput.client.core import REQUEST_S
from reput.client.outgoing import COMPRESS_FROM, MAX_MESSAGE_SIZE
from reput.client.producer import RETRIES, TOPIC_QUEUES, AsyncProducer
from reput.client.received import ReceivedMessage
from reput.client.refusals import closed
from reput.errors import ClosedError
from reput.files.closing import Closing
from reput.formats.wire.headers import MOST_TRIES

if TYPE_CHECKING:
    from reput.client.results import SendResult
    from reput.client.transactions import AsyncTransaction, TransactionCheck
    from reput.formats.wire.bodies import QueueName
    from reput.log.encode.message import Message
    from reput.store.read.sql_filter import SqlFilter

UNDER_WAY: Final = 1000
"""Sends by `submit` that may be under way; a further one waits."""
Made = TypeVar("Made")


class LoopThread:
    """An event loop in a thread of its own. `name`: the thread's name."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def make(self, call: Callable[[], Made]) -> Made:
        """Make something in the loop's thread."""

        async def made() -> Made:
            return call()

        return self.run(made())

    def submit(self, work: Coroutine[Any, Any, Made]) -> Future[Made]:
        """Run a coroutine; return its future.

        Raises:
            ClosedError: the loop has ended.
        """
        with self._lock:
            if not self._is_closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise closed()

    def run(self, work: Coroutine[Any, Any, Made]) -> Made:
        """Run a coroutine, and return its result; an interrupt cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[[], None]) -> None:
        """Call something in the loop's thread, before what is submitted later."""
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(call)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the last coroutine, and end the loop; nothing if it has ended."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            asyncio.run_coroutine_threadsafe(last(), self._loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()


class Transaction:
    """A transaction about one message, as a context manager; see `Producer.transaction`."""

    def __init__(self, thread: LoopThread, transaction: AsyncTransaction) -> None:
        self._thread = thread
        self._transaction = transaction

    @property
    def result(self) -> SendResult | None:
        """The place of the half message; None before the block begins."""
        return self._transaction.result

    def end(self, outcome: bool | None) -> None:
        """End the transaction now: True commits, False rolls back, None leaves the end to `check`.

        Raises:
            ClientError: There is no connection to the broker; it asks `check` later.
        """
        self._thread.run(self._transaction.end(outcome))

    def __enter__(self) -> Self:
        self._thread.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._transaction.__aexit__(kind, error, trace))


class Producer(Closing):
    """A producer for any number of threads; `AsyncProducer` has the arguments and what each call does.

    It begins with its first send, and is a context manager.

    Raises:
        ConfigError: An argument is wrong; the error says which.
    """

    def __init__(
        self,
        group: str,
        name_server: str,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        timeout_s: float = REQUEST_S,
        retries: int = RETRIES,
        topic_queues: int = TOPIC_QUEUES,
        max_message_size: int = MAX_MESSAGE_SIZE,
        compress_from: int = COMPRESS_FROM,
        check: TransactionCheck | None = None,
    ) -> None:
        made = AsyncProducer(
            group,
            name_server,
            access_key=access_key,
            secret_key=secret_key,
            timeout_s=timeout_s,
            retries=retries,
            topic_queues=topic_queues,
            max_message_size=max_message_size,
            compress_from=compress_from,
            check=check,
        )
        self._producer = made
        self._under_way = threading.BoundedSemaphore(UNDER_WAY)
        self._thread = LoopThread("reput-producer")

    def __repr__(self) -> str:
        return repr(self._producer).replace("AsyncProducer", "Producer")

    def send(
        self,
        message: Message,
        *,
        delay_level: int | None = None,
        deliver_at_ms: int | None = None,
        delay_ms: int | None = None,
        order_key: str | None = None,
        queue_id: int | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send a message, and return its place when the broker has stored it; see `AsyncProducer.send`."""
        return self._thread.run(
            self._producer.send(
                message,
                delay_level=delay_level,
                deliver_at_ms=deliver_at_ms,
                delay_ms=delay_ms,
                order_key=order_key,
                queue_id=queue_id,
                timeout_s=timeout_s,
            )
        )

    def submit(self, message: Message, *, timeout_s: float | None = None) -> Future[SendResult]:
        """Send a message without a wait for the broker: the future has its place, or the error.

        1,000 such sends may be under way; a further one waits. They may be stored in any order.

        Raises:
            ClosedError: The producer is closed.
        """
        self._under_way.acquire()
        try:
            future = self._thread.submit(self._producer.send(message, timeout_s=timeout_s))
        except BaseException:
            self._under_way.release()
            raise
        future.add_done_callback(lambda _: self._under_way.release())
        return future

    def send_batch(
        self, messages: Iterable[Message] | Any, *, order_key: str | None = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        """Send messages in batches of about 1 MiB, and return the place of each; see `AsyncProducer.send_batch`."""
        return self._thread.run(self._producer.send_batch(messages, order_key=order_key, timeout_s=timeout_s))

    def send_one_way(self, message: Message) -> None:
        """Send a message that no broker answers: it may be lost; see `AsyncProducer.send_one_way`."""
        self._thread.run(self._producer.send_one_way(message))

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> Transaction:
        """Return a transaction about a message, for `with`; see `AsyncProducer.transaction`."""
        return Transaction(self._thread, self._producer.transaction(message, timeout_s=timeout_s))

    def recall(self, result: SendResult) -> None:
        """Recall a message that waits for its time; see `AsyncProducer.recall`."""
        self._thread.run(self._producer.recall(result))

    def close(self) -> None:
        """Leave the group, and close the connections. Sends that are under way fail."""
        self._thread.close(self._producer.close)


class Consumer(Closing):
    """A consumer for any number of threads; `AsyncConsumer` has the arguments and what each call does.

    It begins with its first poll, and is a context manager.

    Raises:
        ConfigError: An argument is wrong; the error says which.
    """

    def __init__(
        self,
        group: str,
        name_server: str,
        subscriptions: Mapping[str, str | SqlFilter],
        *,
        start_at: StartAt = "last",
        access_key: str | None = None,
        secret_key: str | None = None,
        timeout_s: float = REQUEST_S,
        most_tries: int = MOST_TRIES,
        max_queue_messages: int = MAX_QUEUE_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._consumer = AsyncConsumer(
            group,
            name_server,
            subscriptions,
            start_at=start_at,
            access_key=access_key,
            secret_key=secret_key,
            timeout_s=timeout_s,
            most_tries=most_tries,
            max_queue_messages=max_queue_messages,
            max_bytes=max_bytes,
        )
        self._thread = LoopThread("reput-consumer")

    def __repr__(self) -> str:
        return repr(self._consumer).replace("AsyncConsumer", "Consumer")

    def start(self) -> None:
        """Join the group, and take a share of the queues; the first poll does so, too. See `AsyncConsumer.start`."""
        self._thread.run(self._consumer.start())

    @property
    def assigned(self) -> list[QueueName]:
        """The queues that this consumer has now, those of the group's retry topic among them."""
        return self._thread.make(lambda: self._consumer.assigned)

    def poll(self, max_messages: int = POLL_MESSAGES, timeout_s: float | None = 1.0) -> list[ReceivedMessage]:
        """Return the next messages; wait for them if there are none. See `AsyncConsumer.poll`."""
        return self._thread.run(self._consumer.poll(max_messages, timeout_s))

    def poll_batch(self, max_messages: int = MAX_QUEUE_MESSAGES, timeout_s: float | None = 1.0) -> Any:
        """Return the next messages as a `pyarrow.RecordBatch`; see `AsyncConsumer.poll_batch`."""
        return self._thread.run(self._consumer.poll_batch(max_messages, timeout_s))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until the consumer is closed."""
        while True:
            try:
                messages = self.poll(timeout_s=None)
            except ClosedError:
                return
            yield from messages

    def commit(self, messages: ReceivedMessage | Iterable[ReceivedMessage] | None = None) -> None:
        """Note that messages are done, in any order; None: all that polls have returned. See `AsyncConsumer.commit`."""
        given = [messages] if isinstance(messages, ReceivedMessage) else messages
        done = None if given is None else list(given)
        self._thread.soon(lambda: self._consumer.commit(done))

    def retry(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have the broker deliver a message again later, and note it as done. See `AsyncConsumer.retry`."""
        self._thread.run(self._consumer.retry(message, delay_level=delay_level))

    def persist_offsets(self) -> None:
        """Have the brokers note what is committed, and wait until they have. See `AsyncConsumer.persist_offsets`."""
        self._thread.run(self._consumer.persist_offsets())

    def close(self) -> None:
        """Commit what is done, leave the group, and close the connections. See `AsyncConsumer.close`."""
        self._thread.close(self._consumer.close)
