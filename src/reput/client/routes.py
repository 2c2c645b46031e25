"""The brokers and queues of topics, as name servers answer them.

Source: `TopicRouteData`, `MQClientInstance.topicRouteData2TopicPublishInfo`, `topicRouteData2TopicSubscribeInfo`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.client.refusals import refusal
from reput.errors import ClientError, ConfigError, NoRouteError, TimedOutError, UnreachableError
from reput.formats.java.fastjson import parse_fastjson
from reput.formats.java.java_numbers import parse_whole
from reput.formats.topics.permissions import READ, WRITE
from reput.formats.topics.system_topics import CREATE_TOPIC
from reput.formats.wire.addresses import host_and_port
from reput.formats.wire.bodies import QueueName
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from reput.client.connections import Connections

log = logging.getLogger("reput.client")
MASTER: Final = 0
"""The id of the broker that takes messages, among those of one name."""
_MAX_QUEUES = 1 << 16


class TopicRoute(NamedTuple):
    """The queues of a topic that may be read and written, and the addresses of brokers by name and id."""

    to_read: tuple[QueueName, ...]
    to_write: tuple[QueueName, ...]
    brokers: Mapping[str, Mapping[int, str]]


def parse_route(topic: str, body: bytes, most_queues: int | None = None) -> TopicRoute:
    """Return the route that a name server's answer describes; what is no queue and no broker is left out.

    Args:
        topic: the topic that gets the queues.
        body: the answer's body.
        most_queues: the most queues that a broker gets, for a topic that does not exist yet; None for a topic's own.
    """
    values = parse_fastjson(body)
    values = values if isinstance(values, dict) else {}
    brokers = {name: ids for name, ids in map(_broker, _objects(values, "brokerDatas")) if ids}
    to_read: list[QueueName] = []
    to_write: list[QueueName] = []
    for queues in _objects(values, "queueDatas"):
        name, perm = queues.get("brokerName"), _number(queues, "perm")
        if not isinstance(name, str) or name not in brokers:
            continue
        reads, writes = _number(queues, "readQueueNums"), _number(queues, "writeQueueNums")
        if most_queues is not None:
            reads = writes = min(reads, most_queues)
        if perm & READ:
            to_read += [QueueName(name, queue_id, topic) for queue_id in range(reads)]
        if perm & WRITE and MASTER in brokers[name]:
            to_write += [QueueName(name, queue_id, topic) for queue_id in range(writes)]
    return TopicRoute(tuple(sorted(to_read)), tuple(sorted(to_write)), brokers)


def _objects(values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = values.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _number(values: Mapping[str, Any], name: str) -> int:
    found = values.get(name)
    return min(max(found, 0), _MAX_QUEUES) if type(found) is int else 0


def _broker(values: Mapping[str, Any]) -> tuple[str, dict[int, str]]:
    found = values.get("brokerAddrs")
    ids = found if isinstance(found, dict) else {}
    numbers = {key: parse_whole(key, 64) for key, one in ids.items() if key.isdecimal() and isinstance(one, str)}
    addresses = {number: ids[key] for key, number in numbers.items() if number is not None}
    return str(values.get("brokerName")), addresses


class Routes:
    """The routes that a client knows. All methods run in the loop's thread.

    Args:
        name_servers: the addresses of name servers, with semicolons between.
        connections: the client's connections.
        timeout_s: the longest wait for an answer.

    Raises:
        ConfigError: one of them is no address.
    """

    def __init__(self, name_servers: str, connections: Connections, timeout_s: float) -> None:
        self._servers = [one.strip() for one in name_servers.split(";") if one.strip()]
        if not self._servers:
            raise ConfigError("name_server: give host:port, such as 127.0.0.1:9876; several with semicolons between")
        for one in self._servers:
            host_and_port(one)
        self._connections = connections
        self._timeout_s = timeout_s
        self._routes: dict[str, TopicRoute] = {}
        self._made_up: dict[str, int] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute]] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}

    def known(self, topic: str) -> TopicRoute | None:
        """Return a topic's route if it was asked for already."""
        return self._routes.get(topic)

    def addresses(self) -> set[tuple[str, int, str]]:
        """Return all brokers of the topics that were asked for: name, id and address."""
        return {(name, one, address) for name, ids in self._brokers.items() for one, address in ids.items()}

    def address_of(self, broker_name: str, broker_id: int = MASTER) -> str:
        """Return the address of a broker: of this id, else of the master, else of any that has the name.

        Raises:
            NoRouteError: no broker has that name.
        """
        ids = self._brokers.get(broker_name, {})
        for one in (broker_id, MASTER, *sorted(ids)):
            if one in ids:
                return ids[one]
        raise NoRouteError(f"broker {broker_name}: no name server names its address; see whether it runs")

    async def find(self, topic: str, most_queues: int | None = None) -> TopicRoute:
        """Return a topic's route, which is asked for once.

        Args:
            topic: the topic.
            most_queues: queues of each broker, if the topic does not exist yet and brokers make topics; None if the
                topic has to exist.

        Raises:
            NoRouteError: there is no such topic.
            ClientError: no name server answers.
        """
        known = self._routes.get(topic)
        return known if known is not None else await self.ask(topic, most_queues)

    async def ask(self, topic: str, most_queues: int | None = None) -> TopicRoute:
        """Ask for a topic's route; see `find`."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.create_task(self._ask_now(topic, most_queues))
            self._asking[topic] = asking
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        return await asyncio.shield(asking)

    async def _ask_now(self, topic: str, most_queues: int | None) -> TopicRoute:
        body = await self._ask_servers(topic)
        if body is not None:
            route = parse_route(topic, body)
            self._made_up.pop(topic, None)
        else:
            body = None if most_queues is None else await self._ask_servers(CREATE_TOPIC)
            if body is None or most_queues is None:
                self._routes.pop(topic, None)
                words = f"topic {topic}: no name server of {';'.join(self._servers)} knows it. Make the topic first: "
                raise NoRouteError(f"{words}mqadmin updateTopic, or reput serve --topic {topic}:4", topic=topic)
            route = parse_route(topic, body, most_queues)
            self._made_up[topic] = most_queues
        self._routes[topic] = route
        self._brokers.update(route.brokers)
        return route

    async def _ask_servers(self, topic: str) -> bytes | None:
        """Return the answer about a topic; None if there is no such topic.

        Raises:
            ClientError: no name server answers.
        """
        last: ClientError | None = None
        for server in list(self._servers):
            fields = {"topic": topic}
            try:
                answer = await self._connections.ask(
                    server, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, timeout_s=self._timeout_s, topic=topic
                )
            except (UnreachableError, TimedOutError) as error:
                last = error
                # The next question begins with one that may answer.
                self._servers.append(self._servers.pop(self._servers.index(server)))
                continue
            if answer.code == ResponseCode.SUCCESS:
                return answer.body
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise refusal("the route of topic", server, answer, topic)
        assert last is not None
        raise last

    async def refresh(self, topics: Sequence[str] | None = None) -> None:
        """Ask for the routes of topics again, None: of all that are known; those that cannot be had stay."""
        for topic in list(self._routes) if topics is None else topics:
            try:
                await self.ask(topic, self._made_up.get(topic))
            except ClientError as error:
                log.warning("the route of topic %s is not up to date: %s", topic, error)
