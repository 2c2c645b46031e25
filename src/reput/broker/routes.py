"""Requests to a name server, and about topics: the broker is the only one that it knows.

Source: `ClientRequestProcessor`, `DefaultRequestProcessor`, `AdminBrokerProcessor.updateAndCreateTopic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.broker.codes import ResponseCode, refuse
from reput.broker.configuration import CLUSTER, check_topic
from reput.broker.requests import Answer
from reput.formats.remoting import write_json

if TYPE_CHECKING:
    from reput.broker.broker import Broker
    from reput.broker.requests import Request


def _broker_data(broker: Broker, request: Request) -> dict[str, Any]:
    """Return the broker's data. Its address is the one that this client has dialled: that one it can reach."""
    return {
        "brokerAddrs": {"0": request.connection.own_address},
        "brokerName": broker.name,
        "cluster": CLUSTER,
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
    return Answer(pieces=(write_json(route),))


def cluster_info(broker: Broker, request: Request) -> Answer:
    """Answer the brokers of all clusters: this one."""
    info = {
        "brokerAddrTable": {broker.name: _broker_data(broker, request)},
        "clusterAddrTable": {CLUSTER: [broker.name]},
    }
    return Answer(pieces=(write_json(info),))


def all_topics(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the names of all topics."""
    return Answer(pieces=(write_json({"topicList": broker.topics.names()}),))


def update_topic(broker: Broker, request: Request) -> Answer:
    """Make a topic, or change it."""
    topic = check_topic(request.text("topic"))
    request.text("defaultTopic")
    request.text("topicFilterType")
    if request.fields.get("attributes"):
        refuse(ResponseCode.INVALID_PARAMETER, "reput serve takes no attributes of topics")
    read, write, permission = request.int32("readQueueNums"), request.int32("writeQueueNums"), request.int32("perm")
    if not 0 <= permission <= 7:
        refuse(ResponseCode.INVALID_PARAMETER, f"perm {permission}: give a sum of 4 (read), 2 (write) and 1 (inherit)")
    broker.topics.create(topic, read, write, permission)
    return Answer()
