"""A producer for asyncio: sends messages one by one, in batches, later, or in transactions.

Source: `DefaultMQProducerImpl`, `MQFaultStrategy`, `SelectMessageQueueByHash`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from reput.client.columns import messages_of
from reput.client.connections import Credentials
from reput.client.core import REQUEST_S, ClientCore, check_group
from reput.client.outgoing import COMPRESS_FROM, MAX_MESSAGE_SIZE, Delivery, OutgoingEncoder
from reput.client.refusals import refusal
from reput.client.results import STATUSES, SendResult, results_of
from reput.client.transactions import AsyncTransaction, TransactionCheck, TransactionEnds
from reput.errors import ClientError, ConfigError, NoRouteError, TimedOutError, UnreachableError
from reput.files.closing import AsyncClosing
from reput.formats.java.hashing import java_string_hash
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.encode.unique_keys import UniqueKeys

if TYPE_CHECKING:
    from reput.client.outgoing import Outgoing
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.remoting import RemotingFrame
    from reput.log.encode.message import Message

RETRIES: Final = 2
"""Further tries of a send (`retryTimesWhenSendFailed`)."""
TOPIC_QUEUES: Final = 4
"""Queues of a topic that the broker makes for its first message (`defaultTopicQueueNums`)."""
RETRIED: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals after which a message is sent to another queue (`DefaultMQProducer.retryResponseCodes`)."""


class AsyncProducer(AsyncClosing):
    """A producer, to be used in one event loop. It begins with its first send, and is an async context manager.

    A message that a broker does not take is sent again, to a queue of another broker if there is one. So a message
    whose answer was lost may be stored twice, with the same unique key.

    Args:
        group: The producer group.
        name_server: The address of the name server, `host:port`; several with semicolons between.
        access_key: The access key; None if the broker asks for none.
        secret_key: The secret of the access key.
        timeout_s: The longest time for a send with its further tries (s).
        retries: Further tries of a send.
        topic_queues: Queues of a topic that the broker makes for its first message.
        max_message_size: The longest body, and the longest batch (bytes).
        compress_from: Bodies of this length and longer ones are compressed (bytes); 0 compresses none.
        check: Answers about a transaction whose end the broker does not know: True to commit, False to roll back, None
            if it is not known here either. It gets the half message; it may be a coroutine function.

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
        named = {"retries": retries, "max_message_size": max_message_size, "compress_from": compress_from}
        for name, value in {**named, "topic_queues": topic_queues}.items():
            if type(value) is not int or value < (name == "topic_queues"):
                raise ConfigError(f"{name} {value!r:.40}: give a whole number from {int(name == 'topic_queues')} on")
        self._group = check_group(group)
        self._core = ClientCore(name_server, Credentials.of(access_key, secret_key), timeout_s, self._members)
        self._encoder = OutgoingEncoder(group, UniqueKeys(self._core.address), max_message_size, compress_from)
        self._retries = retries
        self._topic_queues = topic_queues
        self._transactions = TransactionEnds(self._core, group, check)
        self._is_started = False
        self._turn = random.randrange(1 << 16)

    def __repr__(self) -> str:
        return f"<reput.AsyncProducer {self._group!r}, {self._core.client_id}>"

    def _members(self) -> dict[str, Any]:
        return {"producerDataSet": [{"groupName": self._group}]}

    async def close(self) -> None:
        """Leave the group, and close the connections."""
        await self._core.stop_work()
        await self._core.unregister(producerGroup=self._group)
        await self._core.close()

    # --- sends ---------------------------------------------------------------------------------

    async def send(
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
        """Send a message, and return its place when the broker has stored it.

        Args:
            message: The message.
            delay_level: Deliver it after the time of this delay level of the broker, from 1 on.
            deliver_at_ms: Deliver it at this time (ms since 1970).
            delay_ms: Deliver it after this time (ms).
            order_key: Messages with one key go to one queue, in the order of their sends. Such a send is tried once.
            queue_id: Send it to this queue of the topic's first broker. Such a send is tried once.
            timeout_s: The longest time for it (s); None for the producer's.

        Raises:
            PutError: The message cannot be sent.
            ClientError: No broker has stored it, or none has answered.
        """
        outgoing = self._encoder.single(message, Delivery(delay_level, deliver_at_ms, delay_ms))
        return (await self._send(outgoing, order_key, queue_id, timeout_s))[0]

    async def send_batch(
        self, messages: Iterable[Message] | Any, *, order_key: str | None = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        """Send messages in batches of about 1 MiB, and return the place of each, in their order.

        Each batch has messages of one topic, and goes to one queue. If one batch fails, others may be stored.

        Args:
            messages: Messages; or an Arrow table or record batch with the columns of `MessageStore.put_messages`.
            order_key: All go to the queue of this key, in their order. Such a send is tried once.
            timeout_s: The longest time for each batch (s); None for the producer's.

        Raises:
            PutError: One of the messages cannot be in a batch; nothing is sent.
            ClientError: No broker has stored a batch, or none has answered.
        """
        batches = self._encoder.batches(messages_of(messages))
        results: dict[int, SendResult] = {}
        for places, outgoing in batches:
            results.update(zip(places, await self._send(outgoing, order_key, None, timeout_s), strict=True))
        return [results[place] for place in range(len(results))]

    async def send_one_way(self, message: Message) -> None:
        """Send a message that no broker answers: it may be lost, and nobody hears of it.

        Raises:
            PutError: The message cannot be sent.
            ClientError: There is no route, or no connection.
        """
        outgoing = self._encoder.single(message)
        queue = self._choose(await self._queues(outgoing.topic), None)
        fields = outgoing.fields(self._group, queue, self._topic_queues)
        address = self._core.routes.address_of(queue.broker_name)
        await self._core.connections.notify(address, RequestCode.SEND_MESSAGE_V2, fields, outgoing.body)

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> AsyncTransaction:
        """Return a transaction about a message, for `async with`: consumers get the message when the block ends well.

        The block begins when the broker has stored the half message. An error in the block rolls the message back. If
        the end does not reach the broker, the broker asks a producer of the group, which calls its `check`.

        Args:
            message: The message; a transaction has no delay.
            timeout_s: The longest time for the send (s); None for the producer's.
        """

        async def send() -> SendResult:
            outgoing = self._encoder.single(message, is_half=True)
            return (await self._send(outgoing, None, None, timeout_s))[0]

        return AsyncTransaction(send, self._transactions)

    async def recall(self, result: SendResult) -> None:
        """Recall a message that waits for its time (`deliver_at_ms`, `delay_ms`).

        Raises:
            ConfigError: The send has no recall handle.
            ClientError: The broker does not recall it: the message is due, or recalls are switched off.
        """
        if not result.recall_handle:
            raise ConfigError("the send has no recall handle: give the result of a send with deliver_at_ms or delay_ms")
        fields = {"producerGroup": self._group, "topic": result.topic, "recallHandle": result.recall_handle}
        address = self._core.routes.address_of(result.broker_name)
        await self._core.ask("recall", address, RequestCode.RECALL_MESSAGE, fields, topic=result.topic)

    # --- parts ---------------------------------------------------------------------------------

    def _start(self) -> None:
        self._core.refuse_if_closed()
        if not self._is_started:
            self._is_started = True
            self._core.start()

    async def _queues(self, topic: str) -> Sequence[QueueName]:
        self._start()
        route = self._core.routes.known(topic)
        if route is None:
            route = await self._core.routes.find(topic, self._topic_queues)
            # Brokers ask registered members of the group about transactions.
            self._core.go(self._core.register_everywhere())
        if not route.to_write:
            words = (
                f"topic {topic}: no queue of it may be written, or its brokers are not there; see mqadmin topicRoute"
            )
            raise NoRouteError(words, topic=topic)
        return route.to_write

    def _choose(self, queues: Sequence[QueueName], last_broker: str | None) -> QueueName:
        """Return the queue whose turn it is, of another broker than the last try's if there is one."""
        self._turn += 1
        others = queues if last_broker is None else [one for one in queues if one.broker_name != last_broker]
        others = others or queues
        return others[self._turn % len(others)]

    async def _send(
        self, outgoing: Outgoing, order_key: str | None, queue_id: int | None, timeout_s: float | None
    ) -> list[SendResult]:
        """Send a message or a batch; try again as the Java client does."""
        deadline = asyncio.get_running_loop().time() + (self._core.timeout_s if timeout_s is None else timeout_s)
        queues = await self._queues(outgoing.topic)
        if order_key is not None or queue_id is not None:
            return await self._try(outgoing, _fixed(queues, order_key, queue_id), deadline)
        last: ClientError | None = None
        broker: str | None = None
        for _ in range(1 + self._retries):
            if last is not None and asyncio.get_running_loop().time() >= deadline:
                break
            queue = self._choose(queues, broker)
            broker = queue.broker_name
            try:
                return await self._try(outgoing, queue, deadline)
            except (UnreachableError, TimedOutError) as error:
                last = error
                # The broker may be elsewhere now.
                self._core.go(self._core.routes.refresh([outgoing.topic]))
            except ClientError as error:
                if error.code not in RETRIED:
                    raise
                last = error
        assert last is not None
        raise last

    async def _try(self, outgoing: Outgoing, queue: QueueName, deadline: float) -> list[SendResult]:
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
        address = self._core.routes.address_of(queue.broker_name)
        code = RequestCode.SEND_BATCH_MESSAGE if outgoing.is_batch else RequestCode.SEND_MESSAGE_V2
        fields = outgoing.fields(self._group, queue, self._topic_queues)
        answer: RemotingFrame = await self._core.connections.ask(
            address, code, fields, outgoing.body, timeout_s=left_s, topic=outgoing.topic
        )
        if answer.code not in STATUSES:
            raise refusal("send to topic", address, answer, outgoing.topic)
        try:
            return results_of(answer, outgoing, queue)
        except (KeyError, ValueError) as error:
            words = f"{address}: an answer to a send without its place ({error!r:.100}): what answers is no broker"
            raise ClientError(words, address=address, topic=outgoing.topic) from error


def _fixed(queues: Sequence[QueueName], order_key: str | None, queue_id: int | None) -> QueueName:
    """Return the queue that a key or a number names (`SelectMessageQueueByHash`)."""
    if order_key is not None and queue_id is not None:
        raise ConfigError("order_key, queue_id: give one of them")
    if order_key is not None:
        # As Java's remainder, which has the sign of the hash.
        return queues[abs(java_string_hash(order_key)) % len(queues)]
    found = next((one for one in queues if one.queue_id == queue_id), None)
    if found is None:
        raise ConfigError(f"queue_id {queue_id!r:.40}: the topic has no such queue to write; it has {len(queues)}")
    return found
