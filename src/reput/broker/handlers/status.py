"""The state of the broker, as `mqadmin brokerStatus` and `clusterList` show it.

Source: `AdminBrokerProcessor.prepareRuntimeInfo`, `StoreStatsService.getRuntimeInfo`, `DefaultMessageStore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.broker.wire.answers import Answer
from reput.files import disk_space
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.system_topics import SCHEDULE_TOPIC
from reput.formats.wire.remoting import VERSION, version_name
from reput.texts import size_text
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request


def runtime_info(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer counts, rates and states, as texts."""
    return Answer(pieces=(write_fastjson({"table": {name: str(value) for name, value in _values(broker).items()}}),))


def _values(broker: Broker) -> dict[str, object]:
    store, counts = broker.store, broker.statistics
    view, at_ms = store.view, now_ms()
    put, given = (" ".join(f"{rate:.2f}" for rate in rates) for rates in counts.rates())
    put_total, put_bytes = counts.put_messages, counts.put_bytes
    use, confirmed = disk_space.disk_use(store.layout.root), view.confirmed()
    days, rest = divmod((at_ms - counts.started_ms) // 1000, 86_400)
    values: dict[str, object] = {
        "bootTimestamp": counts.started_ms,
        "runtime": f"[ {days} days, {rest // 3600} hours, {rest // 60 % 60} minutes, {rest % 60} seconds ]",
        "brokerActive": "true",
        "brokerVersionDesc": version_name(VERSION),
        "putMessageTimesTotal": put_total,
        "putMessageSizeTotal": put_bytes,
        "putMessageAverageSize": put_bytes / max(put_total, 1),
        "putMessageFailedTimes": counts.refused_sends,
        "putTps": put,
        "getFoundTps": given,
        "getMissTps": "0.00 0.00 0.00",
        "getTotalTps": given,
        "getTransferredTps": given,
        # RocketMQ counts by the day, and without system topics; here the day begins at the start.
        "msgPutTotalYesterdayMorning": 0,
        "msgPutTotalTodayMorning": 0,
        "msgPutTotalTodayNow": counts.put_messages_of_users,
        "msgGetTotalYesterdayMorning": 0,
        "msgGetTotalTodayMorning": 0,
        "msgGetTotalTodayNow": counts.given_messages_of_users,
        "dispatchBehindBytes": store.behind_bytes,
        "pageCacheLockTimeMills": 0,
        "earliestMessageTimeStamp": view.log.store_time(view.log.min_offset) if confirmed else -1,
        "startAcceptSendRequestTimeStamp": 0,
        "commitLogDirCapacity": f"Total : {size_text(use.used + use.usable)}, Free : {size_text(use.usable)}.",
        "commitLogDiskRatio": use.used / max(use.used + use.usable, 1),
        "consumeQueueDiskRatio": use.used / max(use.used + use.usable, 1),
        "commitLogMinOffset": view.log.min_offset,
        "commitLogMaxOffset": confirmed,
        "remainHowManyDataToFlush": size_text(max(0, confirmed - store.flushed_offset)),
        **broker.timers.running_info(),
    }
    for level, offset in broker.delays.table.items():
        values[f"scheduleMessageOffset_{level}"] = f"{offset},{store.max_offset(SCHEDULE_TOPIC, level - 1)}"
    for pool in ("send", "pull", "litePull", "query", "ack"):
        # There are no queues of requests: each read is served at once.
        values |= {f"{pool}ThreadPoolQueueSize": 0, f"{pool}ThreadPoolQueueHeadWaitTimeMills": 0}
        values[f"{pool}ThreadPoolQueueCapacity"] = 10_000
    return values
