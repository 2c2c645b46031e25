"""The state of a broker that requests and services share, and the ways in which they work: one event loop, one thread.

The loop serves; the thread does what waits for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.broker.state.config_writes import ConfigWrites
from reput.broker.state.configuration import GroupConfigs, TopicConfigs
from reput.broker.state.consumers import Consumers
from reput.broker.state.full_disk import FullDisk
from reput.broker.state.identity import BrokerIdentity
from reput.broker.state.known_headers import KnownHeaders, PullHeader, SendHeader
from reput.broker.state.locks import QueueLocks
from reput.broker.state.notices import GroupNotices
from reput.broker.state.producers import Producers
from reput.broker.state.request_modes import RequestModes
from reput.broker.state.statistics import Statistics
from reput.broker.state.stored_topics import stored_topics
from reput.broker.wire.answers import Answer, answer_of_error
from reput.broker.wire.channel import about
from reput.broker.wire.client_calls import ClientCalls
from reput.broker.wire.refusals import RefusedError, refuse_as_busy
from reput.errors import ReputError, TailFullError
from reput.formats import paths
from reput.formats.log.record import encode_message_id
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import FrameError
from reput.log.append.settings import DEFAULT_MAX_MESSAGE_SIZE
from reput.log.encode.client_batch import join_message_ids
from reput.log.encode.unique_keys import UniqueKeys
from reput.store.metadata.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.broker.wire.channel import Channel
    from reput.broker.wire.requests import Request
    from reput.embedded import MessageStore
    from reput.formats.log.record import Host

log = logging.getLogger("reput.broker")
MAX_WORK: Final = 1000
"""The most requests that wait for the thread that waits for the disk; a further one is refused."""
MAX_WORK_BYTES: Final = 256 << 20
"""The most bytes of these requests; requests above them are refused."""


class BrokerState:
    """The state of a broker on an open store. All methods but `soon` run in the loop's thread.

    Args:
        store: the store, open to write.
        host: the address and port of message ids, as in the store's records.
        loop: the loop that serves connections.

    Attributes:
        identity: The names of the broker and of its cluster.
        wants_indexes: True if the durable indexes are to be built soon: the store takes no messages without them.
        has_kernels: True once the compiled kernels are loaded; to load them takes longer than clients should wait.
    """

    def __init__(self, store: MessageStore, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self.identity = BrokerIdentity.of(store.config)
        self.name = self.identity.name
        homes = store.metadata_homes
        place = homes.metadata.place
        self.config_writes = ConfigWrites(loop)
        topics, groups = homes.configurations(Table.TOPICS), homes.configurations(Table.GROUPS)
        config = store.config
        self.topics = TopicConfigs(
            topics,
            place(Table.TOPICS),
            self.identity,
            self.config_writes,
            stored_topics(store, topics.values),
            makes=config.auto_create_topic_enable is not False,
        )
        self.groups = GroupConfigs(
            groups, place(Table.GROUPS), self.config_writes, makes=config.auto_create_subscription_group is not False
        )
        self.request_modes = RequestModes(store.layout.root / paths.CONFIG, self.config_writes)
        self.consumers = Consumers(GroupNotices(loop, self._notify).changed)
        self.producers = Producers()
        self.client_calls = ClientCalls(loop)
        self.locks = QueueLocks()
        self.known_sends: KnownHeaders[SendHeader] = KnownHeaders(
            lambda header: self.topics.basis_of_sends(header.topic)
        )
        self.known_pulls: KnownHeaders[PullHeader] = KnownHeaders(self._basis_of_pull)
        self.statistics = Statistics(lambda topic: self.topics.find(topic) is not None)
        self.full_disk = FullDisk()
        self.unique_keys = UniqueKeys(host.address[:4])
        self.max_message_size = config.max_message_size or DEFAULT_MAX_MESSAGE_SIZE
        self.is_sync_flush = config.flush_disk_type == "SYNC_FLUSH"
        self.wants_indexes = False
        self.has_kernels = False
        self._host = host.encode()
        self._loop = loop
        self._working = 0
        self._working_bytes = 0
        self._worker = ThreadPoolExecutor(1, "reput-broker-worker")

    def _basis_of_pull(self, header: PullHeader) -> tuple[object, ...]:
        group, topic = header.group, header.topic
        online = self.consumers.find(group)
        of_group = None if online is None else (online.kind, online.subscriptions.get(topic))
        return self.groups.find(group), self.topics.find(topic), of_group

    def connection_lost(self, connection: Channel) -> None:
        """Forget what a connection that is gone has registered."""
        self.consumers.connection_lost(connection)
        self.producers.connection_lost(connection)
        self.client_calls.connection_lost(connection)

    def _notify(self, group: str) -> None:
        """Let the consumers of a group know that it has changed."""
        for connection in self.consumers.to_notify(group):
            self.client_calls.notify(connection, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def ask_for_indexes(self) -> None:
        """Build the durable indexes soon: the store takes no messages without them."""
        self.wants_indexes = True

    def takes_messages(self) -> bool:
        """Return False if the store takes no messages without durable indexes, which are then built soon."""
        if not self.store.is_tail_full:
            return True
        self.ask_for_indexes()
        return False

    def refuse_full_tail(self) -> None:
        """Refuse a request that stores something, before it changes anything, if the store takes no messages.

        Raises:
            RefusedError: it takes none without durable indexes.
        """
        if not self.takes_messages():
            refuse_as_busy()

    def message_id(self, offset: int) -> str:
        """Return the id of the message at a log offset."""
        return encode_message_id(self._host, offset)

    def message_ids(self, offsets: NDArray[np.int64]) -> str:
        """Return the ids of the messages at log offsets, with commas between."""
        return join_message_ids(self._host, offsets)

    # --- work ----------------------------------------------------------------------------------

    def guarded(self, request: Request, work: Callable[[], Answer | None]) -> None:
        """Answer a request with what `work` returns, or with its error. No error ends the broker.

        The answer waits until the topics and groups that the request makes or uses are durable.
        """
        outer = self.config_writes.begin_request()
        try:
            answer = work()
        except RefusedError as refusal:
            answer = Answer(refusal.code, refusal.remark)
        except ReputError as error:
            if isinstance(error, TailFullError):
                self.ask_for_indexes()
            answer = answer_of_error(error)
        except FrameError as error:
            answer = Answer(ResponseCode.SYSTEM_ERROR, f"a client cannot be asked: {error}")
        except Exception as error:  # an error of ours must not end the other clients' broker
            code, connection = request.frame.code, request.connection
            log.exception("request %d of %s failed", code, connection.peer, extra=about(connection, code))
            answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        finally:
            self.config_writes.end_request(request, outer)
        if answer is not None:
            request.answer(answer)

    def soon(self, work: Callable[..., object], *args: Any) -> None:
        """Run work in the loop; any thread may call it. After the loop's end nothing happens."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work, *args)

    def refuse_work(self, request: Request) -> None:
        """Refuse a request if too many wait for the other thread.

        Raises:
            RefusedError: too many wait.
        """
        if self._working >= MAX_WORK or self._working_bytes + request.size > MAX_WORK_BYTES:
            refuse_as_busy()

    def in_thread(
        self, request: Request, work: Callable[[], Answer], finish: Callable[[], object] = lambda: None
    ) -> None:
        """Answer a request with what `work` returns in another thread: it waits for the disk.

        Before that the loop calls `finish`, also if `work` has failed.

        Raises:
            RefusedError: too many requests wait for that thread.
        """
        self.refuse_work(request)
        size = request.size
        self._working += 1
        self._working_bytes += size
        future = self._worker.submit(work)

        def done() -> Answer:
            self._working -= 1
            self._working_bytes -= size
            finish()
            return future.result()

        future.add_done_callback(lambda _: self.soon(self.guarded, request, done))

    async def end_work(self) -> None:
        """Wait for what is done in the other thread, and take no more."""
        await self._loop.run_in_executor(None, self._worker.shutdown)
