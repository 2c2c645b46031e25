"""The metrics of a broker, under RocketMQ's names where RocketMQ means the same. Names of our own begin with `reput_`.

Counters are read as they are. Lags are looked up in the store when somebody asks, in a thread beside the loop.

Source: `BrokerMetricsManager`, `ConsumerLagCalculator`, `RemotingMetricsManager`, `DefaultStoreMetricsManager`.
OpenTelemetry's `PrometheusHttpServer` adds the units to their names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.state.configuration import queue_count
from reput.broker.state.statistics import OTHER_CODE, Histogram
from reput.files import disk_space
from reput.formats.topics.permissions import READ, WRITE
from reput.formats.topics.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.prometheus import COUNTER, GAUGE, HISTOGRAM, Buckets, Metric, Series, encode
from reput.formats.wire.remoting import LANGUAGES, version_name
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.server import BrokerServer
    from reput.broker.services.broker import Broker
    from reput.broker.state.consumers import ClientInfo

_SYSTEM_GROUPS: Final = "cid_rmq_sys_"
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_REMOTING: Final = {"protocol_type": "remoting"}
_LOCAL_DISK: Final = {"storage_type": "local", "storage_medium": "disk"}
Labels = dict[str, str]
MAX_LAG_QUEUES: Final = 65_536
"""The most queues, counted once for each group, whose lag a page has. A heartbeat names any number of topics."""


class _GroupReading(NamedTuple):
    """A topic that a group reads: how far it is, queue by queue. An offset is negative if there is none."""

    group: str
    topic: str
    pulled: list[int]


class Metrics:
    """The metrics of a broker.

    Args:
        broker: the broker.
        server: the server of its clients.
    """

    def __init__(self, broker: Broker, server: BrokerServer) -> None:
        self._broker = broker
        self._server = server
        # One page at a time: a page of many queues takes a while.
        self._lock = asyncio.Lock()

    async def page(self) -> bytes:
        """Return all metrics as text; runs in the loop."""
        async with self._lock:
            metrics = [*self._counted(), *self._connected()]
            readings, left_out = self._readings()
            metrics.append(_gauge("reput_lag_queues_left_out", "Queues of groups whose lag is left out", left_out))
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, self._write, metrics, readings)

    def _write(self, metrics: list[Metric], readings: list[_GroupReading]) -> bytes:
        labels = {"cluster": self._broker.identity.cluster, "node_type": "broker", "node_id": self._broker.name}
        return encode([*metrics, *self._lags(readings), *self._stored()], labels)

    def _is_system(self, topic: str, group: str) -> str:
        return _word(self._broker.topics.is_system(topic) or _is_system_group(group))

    # --- counters ------------------------------------------------------------------------------

    def _counted(self) -> Iterator[Metric]:
        counts, is_system = self._broker.statistics, self._broker.topics.is_system
        taken = [
            ({"topic": topic, "message_type": kind.value, "is_system": _word(is_system(topic))}, volume)
            for (topic, kind), volume in sorted(counts.taken.items())
            if not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
        ]
        yield _counter("rocketmq_messages_in_total", "Messages stored", [(one, got.messages) for one, got in taken])
        yield _counter(
            "rocketmq_throughput_in_total", "Bytes of their records", [(one, got.size) for one, got in taken]
        )
        sizes = [Series(one, _buckets(got.sizes)) for one, got in taken]
        yield Metric("rocketmq_message_size", HISTOGRAM, "Bytes of a record, the mean of each put", sizes)
        given = [
            ({"topic": topic, "consumer_group": group, "is_system": self._is_system(topic, group)}, volume)
            for (topic, group), volume in sorted(counts.given.items())
            if not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
        ]
        yield _counter("rocketmq_messages_out_total", "Messages given", [(one, got.messages) for one, got in given])
        yield _counter(
            "rocketmq_throughput_out_total", "Bytes of their records", [(one, got.size) for one, got in given]
        )
        dead = [
            ({"consumer_group": group, "topic": topic, "is_system": self._is_system(topic, group)}, count)
            for (group, topic), count in counts.dead_letters.items()
        ]
        yield _counter("rocketmq_send_to_dlq_messages_total", "Messages that became dead letters", dead)
        for name, ended in (("commit", counts.committed), ("rollback", counts.rolled_back)):
            by_topic = [({"topic": topic}, count) for topic, count in ended.items()]
            yield _counter(f"rocketmq_{name}_messages_total", f"Transactions: {name}", by_topic)
        times = [Series(_answer_labels(*kind), _buckets(found)) for kind, found in sorted(counts.latencies.items())]
        yield Metric("rocketmq_rpc_latency_milliseconds", HISTOGRAM, "Time from a request to its answer", times)
        closed = [({"reason": reason}, count) for reason, count in counts.closed.items()]
        yield _counter("reput_connections_closed_total", "Connections that the broker has closed", closed)

    def _connected(self) -> Iterator[Metric]:
        broker = self._broker
        producers = Counter(_client_labels(one) for one in broker.producers.all())
        samples = [Series({**dict(one), **_REMOTING}, count) for one, count in producers.items()]
        yield Metric("rocketmq_producer_connections", GAUGE, "Producers that are online", samples)
        samples = []
        for group, found in broker.consumers.all().items():
            further = {"consumer_group": group, "is_system": _word(_is_system_group(group)), **_REMOTING}
            further["consume_mode"] = _MODES.get(found.kind.consume_type, "push")
            members = Counter(map(_client_labels, found.members.values()))
            samples += [Series({**further, **dict(one)}, count) for one, count in members.items()]
        yield Metric("rocketmq_consumer_connections", GAUGE, "Consumers that are online", samples)
        yield _gauge("rocketmq_broker_permission", "4 to read, 2 to write", READ | WRITE)
        yield _gauge("rocketmq_topic_number", "Topics", len(broker.topics.names()))
        yield _gauge("rocketmq_consumer_group_number", "Consumer groups", len(broker.groups))
        yield _gauge("reput_connections", "Connections that are open", self._server.open_connections)
        yield _gauge("reput_held_pulls", "Pulls that wait for a message", len(broker.holds))
        timers = broker.timers.running_info()
        lag = timers["timerOffsetBehind"]
        yield _gauge("rocketmq_timer_enqueue_lag", "Timer messages that the wheel has not taken in", lag, _LOCAL_DISK)

    # --- what is looked up in the store --------------------------------------------------------

    def _readings(self) -> tuple[list[_GroupReading], int]:
        """Return what the groups that are online read, without their retry topics, and how many queues are left out.

        Those of a topic that has no room any more are left out.
        """
        broker, found, taken, left_out = self._broker, list[_GroupReading](), 0, 0
        for group, members in broker.consumers.all().items():
            for topic in members.subscriptions:
                config = broker.topics.find(topic)
                if config is None or topic.startswith(RETRY_PREFIX) or not config.get("perm", 0) & (READ | WRITE):
                    continue
                count = queue_count(config, "writeQueueNums")
                if taken + count > MAX_LAG_QUEUES:
                    left_out += count
                    continue
                taken += count
                pulled = [broker.statistics.pulled.get((group, topic, queue), -1) for queue in range(count)]
                found.append(_GroupReading(group, topic, pulled))
        return found, left_out

    def _lags(self, readings: list[_GroupReading]) -> Iterator[Metric]:
        store, at_ms = self._broker.store, now_ms()
        samples: dict[str, list[Series]] = {name: [] for name in _LAGS}
        for group, topic, pulled in readings:
            lag = ready = in_flight = 0
            first_lagging = first_waiting = at_ms
            for queue, pull_offset in enumerate(pulled):
                end, committed = store.max_offset(topic, queue), store.query_offset(group, topic, queue)
                read_to = committed if committed >= 0 else end
                pulled_to = pull_offset if pull_offset >= 0 else end
                lag += max(end - read_to, 0)
                ready += max(end - pulled_to, 0)
                in_flight += max(pull_offset - committed, 0) if committed >= 0 else 0
                first_lagging = min(first_lagging, self._stored_ms(topic, queue, read_to, at_ms))
                first_waiting = min(first_waiting, self._stored_ms(topic, queue, pulled_to, at_ms))
            labels = {"consumer_group": group, "topic": topic, "is_retry": "false"}
            labels["is_system"] = self._is_system(topic, group)
            values = (lag, at_ms - first_lagging, in_flight, at_ms - first_waiting, ready)
            for name, value in zip(_LAGS, values, strict=True):
                samples[name].append(Series(labels, value))
        for name, meaning in _LAGS.items():
            yield Metric(name, GAUGE, meaning, samples[name])

    def _stored_ms(self, topic: str, queue: int, offset: int, at_ms: int) -> int:
        """Return the store time of a message; now, if there is none."""
        stored_ms = self._broker.store.store_time(topic, queue, offset)
        return stored_ms if stored_ms > 0 else at_ms

    def _stored(self) -> Iterator[Metric]:
        store = self._broker.store
        view, confirmed = store.view, store.view.confirmed()
        size = disk_space.disk_use(store.layout.root).used
        yield _gauge("rocketmq_storage_size_bytes", "Bytes in use in the store's file system", size, _LOCAL_DISK)
        unsynced = max(0, confirmed - store.flushed_offset)
        yield _gauge("rocketmq_storage_flush_behind_bytes", "Bytes of log that are not durable", unsynced, _LOCAL_DISK)
        first_ms = view.log.store_time(view.log.min_offset) if confirmed > view.log.min_offset else -1
        if first_ms > 0:
            age_ms = now_ms() - first_ms
            name = "rocketmq_storage_message_reserve_time_milliseconds"
            yield _gauge(name, "Age of the first message", age_ms, _LOCAL_DISK)
        yield _gauge("reput_index_behind_bytes", "Bytes of log without durable indexes", store.behind_bytes)


_LAGS: Final = {
    "rocketmq_consumer_lag_messages": "Messages after the committed offset, filters left aside",
    "rocketmq_consumer_lag_latency_milliseconds": "Age of the first of them",
    "rocketmq_consumer_inflight_messages": "Messages that were given, and are not committed",
    "rocketmq_consumer_queueing_latency_milliseconds": "Age of the first message that was not given",
    "rocketmq_consumer_ready_messages": "Messages that were not given, filters left aside",
}


def _counter(name: str, meaning: str, values: list[tuple[Labels, int]]) -> Metric:
    return Metric(name, COUNTER, meaning, [Series(labels, value) for labels, value in values])


def _gauge(name: str, meaning: str, value: float, labels: Mapping[str, str] | None = None) -> Metric:
    return Metric(name, GAUGE, meaning, [Series(labels or {}, value)])


def _buckets(histogram: Histogram) -> Buckets:
    return Buckets(histogram.bounds, tuple(histogram.counts), histogram.sum)


def _client_labels(client: ClientInfo) -> tuple[tuple[str, str], ...]:
    return ("language", LANGUAGES[client.language].lower()), ("version", version_name(client.version).lower())


def _answer_labels(request: int, response: int, is_held: bool, is_one_way: bool) -> Labels:
    return {
        **_REMOTING,
        "request_code": "other" if request == OTHER_CODE else RequestCode(request).name.lower(),
        "response_code": "other" if response == OTHER_CODE else ResponseCode(response).name.lower(),
        "is_long_polling": _word(is_held),
        "result": "oneway" if is_one_way else "success",
    }


def _is_system_group(group: str) -> bool:
    return group.lower().startswith(_SYSTEM_GROUPS)


def _word(value: bool) -> str:
    return "true" if value else "false"
