"""A consumer for asyncio: a member of a group that shares the queues of topics.

Source: `DefaultMQPushConsumerImpl`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.client.assignment import Assignment, StartAt
from reput.client.columns import record_batch_of
from reput.client.connections import Credentials
from reput.client.core import REQUEST_S, ClientCore, check_group
from reput.client.group_calls import GroupCalls
from reput.client.inbox import Inbox
from reput.client.received import ReceivedMessage
from reput.client.refusals import closed
from reput.errors import ClosedError, ConfigError, NoRouteError
from reput.files.closing import AsyncClosing
from reput.formats.config.consumer_filter import SQL92, TAG
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.formats.topics.topic_names import topic_fault
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.headers import MOST_TRIES
from reput.formats.wire.subscription import Subscription
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.client.connection import ClientConnection
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.remoting import RemotingFrame
    from reput.store.read.sql_filter import SqlFilter

MAX_QUEUE_MESSAGES: Final = 1000
"""Messages of a queue that are not done, from which on it is not pulled (`pullThresholdForQueue`)."""
MAX_BYTES: Final = 64 << 20
"""Bytes of all messages that are not done, from which on no queue is pulled."""
POLL_MESSAGES: Final = 32
"""Messages of a poll by default."""
_STARTS: Final = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET"}


class AsyncConsumer(AsyncClosing):
    """A consumer, to be used in one event loop. It begins with its first poll, and is an async context manager.

    A message is delivered until it is committed: if the consumer ends before, another member of the group gets it. So
    a message may come twice. Clients of RocketMQ may be members of the same group.

    Args:
        group: The consumer group. All its members subscribe to the same.
        name_server: The address of the name server, `host:port`; several with semicolons between.
        subscriptions: By topic, the tags that are wanted, such as `paid || sent`, `*` for all messages, or a
            `reput.SqlFilter`.
        start_at: The place at which a group without a committed offset begins: "first", "last" or a time (ms since
            1970). As with RocketMQ, "last" begins a young queue at its first message.
        access_key: The access key; None if the broker asks for none.
        secret_key: The secret of the access key.
        timeout_s: The longest wait for an answer (s).
        most_tries: Tries of a message that is sent back, after which it is a dead letter.
        max_queue_messages: Messages of a queue that are not committed, from which on it brings no more.
        max_bytes: Bytes of all messages that are not committed, from which on no queue brings more.

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
        numbers = {"most_tries": most_tries, "max_queue_messages": max_queue_messages, "max_bytes": max_bytes}
        for name, value in numbers.items():
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} {value!r:.40}: give a whole number from 1 on")
        if start_at not in _STARTS and (type(start_at) is not int or start_at < 0):
            raise ConfigError(f"start_at {start_at!r:.40}: give 'first', 'last' or a time in ms")
        self._group = check_group(group)
        self._most_tries = most_tries
        self._start_at: StartAt = start_at
        self._subscriptions = _subscriptions(group, subscriptions)
        self._core = ClientCore(name_server, Credentials.of(access_key, secret_key), timeout_s, self._members)
        self._core.served[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = self._serve_change
        self._calls = GroupCalls(self._core, group)
        self._inbox = Inbox(max_queue_messages, max_bytes)
        self._assignment = Assignment(self._core, self._calls, self._inbox, self._subscriptions, start_at)
        self._starting: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<reput.AsyncConsumer {self._group!r}, {self._core.client_id}>"

    def _members(self) -> dict[str, Any]:
        consumer = {
            "consumeFromWhere": _STARTS.get(str(self._start_at), "CONSUME_FROM_TIMESTAMP"),
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self._group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [one.as_json() for one in self._subscriptions.values()],
            "unitMode": False,
        }
        return {"consumerDataSet": [consumer]}

    def _serve_change(self, asked: RemotingFrame, connection: ClientConnection) -> None:  # noqa: ARG002 - as all
        if asked.fields.get("consumerGroup") == self._group:
            self._assignment.changed()

    # --- begin and end -------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group, and take a share of the queues; the first poll does so, too.

        Raises:
            ClientError: No name server answers, or a broker refuses a filter.
            ClosedError: The consumer is closed.
        """
        if self._is_closed:
            raise closed("consumer")
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        for subscription in self._subscriptions.values():
            try:
                route = await self._core.routes.find(subscription.topic)
            except NoRouteError:
                # It may be made later.
                continue
            if subscription.kind != TAG and route.to_read:
                address = self._core.routes.address_of(route.to_read[0].broker_name)
                await self._calls.check_filter(address, subscription)
        self._core.start()
        await self._assignment.start()

    async def close(self) -> None:
        """Commit what is done, leave the group, and close the connections. Messages that are not committed come again.

        Raises:
            ClientError: A broker has not taken the offsets: messages that were committed come again, too.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._inbox.close()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._core.stop_work()
        try:
            await self._assignment.persist()
        finally:
            await self._core.unregister(consumerGroup=self._group)
            await self._core.close()

    # --- messages ------------------------------------------------------------------------------

    @property
    def assigned(self) -> list[QueueName]:
        """The queues that this consumer has now, those of the group's retry topic among them."""
        return sorted(self._assignment.works)

    async def poll(self, max_messages: int = POLL_MESSAGES, timeout_s: float | None = 1.0) -> list[ReceivedMessage]:
        """Return the next messages; wait for them if there are none.

        Messages of one queue come in its order, those that come again too.

        Args:
            max_messages: The most messages.
            timeout_s: The longest wait (s), after which the list is empty; None waits until messages arrive.

        Raises:
            ClientError: It is the first poll; see `start`.
            ClosedError: The consumer is closed.
        """
        if type(max_messages) is not int or max_messages < 1:
            raise ConfigError(f"max_messages {max_messages!r:.40}: give a whole number from 1 on")
        loop = asyncio.get_running_loop()
        end_s = None if timeout_s is None else loop.time() + timeout_s
        await self.start()
        while True:
            if self._is_closed:
                raise closed("consumer")
            found = self._inbox.take(max_messages)
            left_s = None if end_s is None else end_s - loop.time()
            if found or (left_s is not None and left_s <= 0):
                return found
            await self._inbox.wait(left_s)

    async def poll_batch(self, max_messages: int = MAX_QUEUE_MESSAGES, timeout_s: float | None = 1.0) -> Any:
        """Return the next messages as a `pyarrow.RecordBatch` with the columns of `reput.scan`; see `poll`.

        `commit()` without messages commits them.

        Raises:
            DamagedStoreError: A body cannot be decompressed.
        """
        return record_batch_of(await self.poll(max_messages, timeout_s))

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Yield messages until the consumer is closed."""
        while True:
            try:
                messages = await self.poll(timeout_s=None)
            except ClosedError:
                return
            for message in messages:
                yield message

    def commit(self, messages: ReceivedMessage | Iterable[ReceivedMessage] | None = None) -> None:
        """Note that messages are done, in any order; None: all that polls have returned.

        A queue's offset is that of its first message that is not done. Brokers get offsets with the next pulls, every
        5 s, when the consumer is closed, and by `persist_offsets`.
        """
        if messages is None:
            self._inbox.all_done(self._assignment.works.values())
        else:
            self._inbox.done([messages] if isinstance(messages, ReceivedMessage) else messages)

    async def retry(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have the broker deliver a message again later, and note it as done.

        After `most_tries` tries it becomes a dead letter, in the topic %DLQ% and the group's name. If the call fails,
        the message is not done.

        Args:
            message: A message that a poll has returned.
            delay_level: The delay level until then; 0 for one that rises with each try, -1 for a dead letter now.

        Raises:
            ClientError: The broker does not take it.
        """
        work = message.work
        if work is None:
            raise ConfigError(f"{message!r}: give a message that a poll of this consumer has returned")
        if work.is_dropped:
            # It comes again without that.
            return
        await self._calls.send_back(message, work.queue, delay_level, self._most_tries)
        self._inbox.done([message])

    async def persist_offsets(self) -> None:
        """Have the brokers note what is committed, and wait until they have.

        Raises:
            ClientError: A broker does not take it.
        """
        await self._assignment.persist()


def _subscriptions(group: str, wanted: Mapping[str, str | SqlFilter]) -> dict[str, Subscription]:
    """Return subscriptions by topic, with that to the group's retry topic.

    Raises:
        ConfigError: one of them is no topic or no filter.
    """
    given: Any = wanted
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"subscriptions {wanted!r:.80}: give a mapping of topics to tags, such as {{'orders': '*'}}")
    version = now_ms()
    found: dict[str, Subscription] = {}
    for topic, one in given.items():
        fault = topic_fault(topic) if isinstance(topic, str) else f"The specified topic: {topic!r:.80}, is no text."
        if fault is not None:
            raise ConfigError(f"subscriptions: {fault}")
        expression = one if isinstance(one, str) else getattr(one, "expression", None)
        if not isinstance(expression, str):
            raise ConfigError(f"the filter of topic {topic}: {one!r:.80}: give tags as text, or a reput.SqlFilter")
        found[topic] = Subscription(topic, expression, TAG if isinstance(one, str) else SQL92, version)
    retry_topic = f"{RETRY_PREFIX}{group}"
    found[retry_topic] = Subscription(retry_topic, ALL_TAGS, TAG, version)
    return found
