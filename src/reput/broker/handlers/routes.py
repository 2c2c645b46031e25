"""Requests to a name server: the broker is the only one that it knows.

Source: `ClientRequestProcessor`, `DefaultRequestProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.java.fastjson import write_fastjson
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request


def _broker_data(broker: Broker, request: Request) -> dict[str, Any]:
    """Return the broker's data. Its address is one that this client reaches."""
    return {
        "brokerAddrs": {"0": request.connection.own_address},
        "brokerName": broker.name,
        "cluster": broker.identity.cluster,
        "enableActingMaster": False,
    }


def topic_route(broker: Broker, request: Request) -> Answer:
    """Answer the queues of a topic and the broker that has them."""
    topic = request.text("topic")
    config = broker.topics.find(topic)
    if config is None:
        refuse(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}. "
            "Send to it with automatic creation, or make it: reput serve --topic NAME:QUEUES",
        )
    queues = {
        "brokerName": broker.name,
        "perm": config.get("perm", 0),
        "readQueueNums": config.get("readQueueNums", 0),
        "topicSysFlag": config.get("topicSysFlag", 0),
        "writeQueueNums": config.get("writeQueueNums", 0),
    }
    route = {"brokerDatas": [_broker_data(broker, request)], "filterServerTable": {}, "queueDatas": [queues]}
    return Answer(pieces=(write_fastjson(route),))


def cluster_info(broker: Broker, request: Request) -> Answer:
    """Answer the brokers of all clusters: this one."""
    info = {
        "brokerAddrTable": {broker.name: _broker_data(broker, request)},
        "clusterAddrTable": {broker.identity.cluster: [broker.name]},
    }
    return Answer(pieces=(write_fastjson(info),))


def all_topics(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the names of all topics."""
    return Answer(pieces=(write_fastjson({"topicList": broker.topics.names()}),))


def system_topics(broker: Broker, request: Request) -> Answer:
    """Answer the names of the topics that are RocketMQ's own."""
    names = [name for name in broker.topics.names() if broker.topics.is_system(name)]
    return Answer(pieces=(write_fastjson({"brokerAddr": request.connection.own_address, "topicList": names}),))


def cluster_topics(broker: Broker, request: Request) -> Answer:
    """Answer the names of the topics of a cluster: this broker's."""
    names = broker.topics.names() if request.text("cluster") == broker.identity.cluster else []
    return Answer(pieces=(write_fastjson({"topicList": names}),))


def no_key_value(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer that a name server's table of keys has no such key; there is none."""
    namespace, key = request.text("namespace"), request.text("key")
    return Answer(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
