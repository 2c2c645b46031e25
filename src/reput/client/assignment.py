"""The queues of a consumer: its share in each topic, the offset at which each begins, and its pulls.

Source: `RebalanceImpl`, `RebalancePushImpl.computePullFromWhere`, `DefaultMQPushConsumerImpl.pullMessage`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from reput.client.queue_work import QueueWork
from reput.errors import BrokerError, ClientError, NoRouteError
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.formats.wire.allocate import allocate_averagely
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.client.core import ClientCore
    from reput.client.group_calls import GroupCalls, Pulled
    from reput.client.inbox import Inbox
    from reput.client.received import ReceivedMessage
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.subscription import Subscription

log = logging.getLogger("reput.client")
StartAt = Literal["first", "last"] | int
"""The place at which a group without a committed offset begins: a queue's first or next message, or a time (ms)."""
REBALANCE_S: Final = 20.0
"""The time between looks at the members of the group (`rebalance.waitInterval`); brokers report changes at once."""
PERSIST_S: Final = 5.0
"""The time between commits of offsets (`persistConsumerOffsetInterval`); pulls commit, too."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 3.0
_FIRST_AGAIN_S = 0.5
_UNKNOWN_HERE = {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}


class Assignment:
    """The queues of a consumer. All methods run in the loop's thread.

    Args:
        core: the client.
        calls: the requests of its group.
        inbox: takes the messages.
        subscriptions: what the group wants, by topic; the group's retry topic among them.
        start_at: the place at which a group without a committed offset begins.
    """

    def __init__(
        self,
        core: ClientCore,
        calls: GroupCalls,
        inbox: Inbox,
        subscriptions: Mapping[str, Subscription],
        start_at: StartAt,
    ) -> None:
        self._core = core
        self._calls = calls
        self._inbox = inbox
        self._subscriptions = subscriptions
        self._start_at = start_at
        self._works: dict[QueueName, QueueWork] = {}
        self._changed = asyncio.Event()

    @property
    def works(self) -> Mapping[QueueName, QueueWork]:
        """The queues that it has now."""
        return self._works

    async def start(self) -> None:
        """Take the first share; begin to look at the members of the group, and to commit offsets."""
        self._core.go(self._rebalance_always(await self.rebalance()))
        self._core.go(self._core.repeat(PERSIST_S, self._persist_later))

    def changed(self) -> None:
        """Look at the members of the group now: a broker says that they have changed."""
        self._changed.set()

    # --- queues --------------------------------------------------------------------------------

    async def _rebalance_always(self, is_complete: bool) -> None:
        short_s = _FIRST_AGAIN_S
        while True:
            # What is missing may come soon, such as a topic that is being made.
            short_s = _FIRST_AGAIN_S if is_complete else min(2 * short_s, REBALANCE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S if is_complete else short_s):
                    await self._changed.wait()
            self._changed.clear()
            is_complete = await self.rebalance()

    async def rebalance(self) -> bool:
        """Take the queues that are this consumer's share; return False if a topic is to be looked at again soon."""
        is_complete = True
        for topic in self._subscriptions:
            try:
                is_complete = await self._rebalance_topic(topic) and is_complete
            except NoRouteError as error:
                is_complete = False
                # The first member of a group has its retry topic made.
                log.log(logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING, "%s", error)
            except ClientError as error:
                is_complete = False
                log.warning("the queues of topic %s stay as they are: %s", topic, error)
        return is_complete

    async def _rebalance_topic(self, topic: str) -> bool:
        route = await self._core.routes.find(topic)
        own_id, ids = self._core.client_id, None
        for name in sorted({queue.broker_name for queue in route.to_read}):
            address = self._core.routes.address_of(name)
            try:
                await self._core.register(address)
                ids = await self._calls.members(address) if ids is None else ids
                if own_id not in ids:
                    # The broker has forgotten it, as after a start.
                    await self._core.send_heartbeat(address)
                    ids = await self._calls.members(address)
            except ClientError as error:
                log.warning("%s", error)
        if ids is None or own_id not in ids:
            return False
        mine = allocate_averagely(route.to_read, ids, own_id)
        for queue in [one for one in self._works if one.topic == topic and one not in mine]:
            await self._leave(self._works[queue])
        is_complete = True
        for queue in [one for one in mine if one not in self._works]:
            is_complete = await self._begin(queue) and is_complete
        return is_complete

    async def _begin(self, queue: QueueName) -> bool:
        """Begin to pull a queue; return False if its broker does not say where."""
        try:
            committed = await self._calls.committed(queue)
            offset = await self._first_offset(queue) if committed is None else committed
        except ClientError as error:
            log.warning("queue %s is not pulled yet: %s", queue, error)
            return False
        work = QueueWork(queue, self._subscriptions[queue.topic], offset)
        work.sent_offset = -1 if committed is None else committed
        self._pull(work)
        return True

    async def _first_offset(self, queue: QueueName) -> int:
        if queue.topic.startswith(RETRY_PREFIX) or self._start_at == "first":
            # If the queue no longer has offset 0, the answer to the first pull says where it begins.
            return 0
        if self._start_at == "last":
            return await self._calls.max_offset(queue)
        return await self._calls.offset_by_time(queue, self._start_at)

    def _pull(self, work: QueueWork) -> None:
        self._works[work.queue] = work
        self._core.go(self._pull_always(work))

    async def _leave(self, work: QueueWork) -> None:
        """Give a queue up, and commit what is done of it."""
        self._inbox.drop(work)
        self._works.pop(work.queue, None)
        await self._persist([work], waits=True)

    # --- pulls ---------------------------------------------------------------------------------

    async def _pull_always(self, work: QueueWork) -> None:
        pause_s = _FIRST_PAUSE_S
        while await self._inbox.room(work):
            try:
                await self._core.register(self._core.routes.address_of(work.queue.broker_name, work.broker_id))
                pulled = await self._calls.pull(work)
            except ClientError as error:
                await self._after(work, error, pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            self._take(work, pulled)

    async def _after(self, work: QueueWork, error: ClientError, pause_s: float) -> None:
        """Wait before the next pull of a queue; send the subscription to a broker that does not know it."""
        if work.is_dropped:
            return
        log.warning("queue %s is pulled again in %.1f s: %s", work.queue, pause_s, error)
        # Another broker of its name may have the messages, too.
        work.broker_id = 0
        await asyncio.sleep(pause_s)
        if error.code in _UNKNOWN_HERE:
            try:
                await self._core.send_heartbeat(error.address)
            except ClientError as again:
                log.warning("%s", again)

    def _take(self, work: QueueWork, pulled: Pulled) -> None:
        if work.is_dropped:
            return
        if pulled.is_moved:
            log.warning("queue %s goes on at offset %d, as its broker says", work.queue, pulled.next_offset)
            self._inbox.drop(work)
            self._pull(QueueWork(work.queue, work.subscription, pulled.next_offset))
            return
        tags = work.subscription.tags
        # Brokers compare the hashes of tags.
        messages = [one for one in pulled.messages if _has_one_of(one, tags)] if tags else pulled.messages
        work.next_offset, work.broker_id = pulled.next_offset, pulled.broker_id
        self._inbox.add(work, messages)

    # --- offsets -------------------------------------------------------------------------------

    async def _persist_later(self) -> None:
        await self._persist(list(self._works.values()), waits=False)

    async def persist(self) -> None:
        """Commit what is done, and wait until the brokers have it.

        Raises:
            ClientError: a broker does not take it.
        """
        error = await self._persist(list(self._works.values()), waits=True)
        if error is not None:
            raise error

    async def _persist(self, works: Iterable[QueueWork], *, waits: bool) -> ClientError | None:
        """Commit the offsets that have changed; return the last error."""
        last: ClientError | None = None
        gone: set[str] = set()
        for work in works:
            offset = work.committable
            if offset == work.sent_offset or work.queue.broker_name in gone:
                continue
            try:
                await self._calls.commit(work.queue, offset, waits=waits)
            except BrokerError as error:
                last = error
                log.warning("%s", error)
            except ClientError as error:
                last = error
                gone.add(work.queue.broker_name)
                log.warning("offsets of broker %s are committed later: %s", work.queue.broker_name, error)
            else:
                work.sent_offset = offset
        return last


def _has_one_of(message: ReceivedMessage, tags: Collection[str]) -> bool:
    """Return True if a message has one of these tags; one that cannot be read has none."""
    try:
        return message.tags in tags
    except ClientError as error:
        log.error("a message is left out: %s", error)  # noqa: TRY400 - the text says it all
        return False
