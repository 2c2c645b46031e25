"""Requests of administrators about topics: make, change and delete them, and say what they hold.

Source: `AdminBrokerProcessor`, `AttributeParser`, `TopicAttributes`, `TopicValidator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput.broker.state.attributes import OF_TOPICS, changed_attributes
from reput.broker.state.configuration import check_topic, queue_count
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.errors import ConfigError
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.pop_topics import retry_topics
from reput.formats.wire.bodies import QueueName, write_queue_table
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

_FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})


def update_topic(broker: Broker, request: Request) -> Answer:
    """Make a topic, or change it."""
    topic = check_topic(request.text("topic"))
    request.text("defaultTopic")
    filter_type = request.text("topicFilterType")
    if filter_type not in _FILTER_TYPES:
        refuse(ResponseCode.SYSTEM_ERROR, f"topicFilterType = [{filter_type:.40}] value invalid")
    if broker.topics.is_system(topic):
        refuse(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
    read, write, permission = request.int32("readQueueNums"), request.int32("writeQueueNums"), request.int32("perm")
    if not 0 <= permission <= 7:
        refuse(ResponseCode.INVALID_PARAMETER, f"perm {permission}: give a sum of 4 (read), 2 (write) and 1 (inherit)")
    before = broker.topics.find(topic) or {}
    further = {
        "attributes": _attributes(before.get("attributes"), request.fields.get("attributes", "")),
        "order": request.flag("order"),
        "topicFilterType": filter_type,
        "topicSysFlag": request.int32("topicSysFlag", 0),
    }
    broker.topics.create(topic, read, write, permission, further)
    return Answer()


def _attributes(before: Any, text: str) -> dict[str, str]:
    """Return the attributes of a topic after changes such as `+message.type=FIFO,-lite.topic.expiration`."""
    changes = [change.partition("=") for change in text.split(",") if change]
    names = [name[1:] for name, _, _ in changes]
    if len(set(names)) < len(names):
        refuse(ResponseCode.SYSTEM_ERROR, f"attributes {text!r:.80}: a name comes twice. Give each once")
    return changed_attributes(before, {name: value for name, _, value in changes}, OF_TOPICS)


def delete_topic(broker: Broker, request: Request) -> Answer | None:
    """Delete a topic, if there is one, with its queues, all groups' offsets and what they hold; the log stays.

    The retry topics that pops of groups have made of it go with it.
    """
    topic = request.text("topic")
    if not topic.strip():
        refuse(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if broker.topics.is_system(topic):
        refuse(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
    broker.refuse_work(request)
    topics = [topic, *_retry_topics(broker, topic)]
    for one in topics:
        # From now on nobody may put to it, pull from it or make it again.
        broker.topics.begin_to_delete(one)
        broker.holds.answer_pulls_of_topic(one)
        broker.polls.answer_topic(one)

    gone: list[str] = []

    def delete() -> Answer:
        store = broker.store
        try:
            for one in topics:
                if store.queues(one):
                    store.delete_topic(one)
                gone.append(one)
                store.clean_offsets(topic=one)
            # A start after a kill must not move offsets of a new topic of that name, as the pops of the old one did.
            broker.leases.note_offsets()
            store.flush()
            store.progress.persist()
        except ConfigError as error:
            return Answer(ResponseCode.INVALID_PARAMETER, str(error))
        return Answer()

    def finish() -> None:
        # A store that has refused it, such as one that a follower indexes, still has the topic and what groups hold.
        for one in topics:
            broker.topics.end_deletion(one, is_deleted=one in gone)
        for one in gone:
            broker.statistics.forget(one)
            broker.order_blocks.forget_topic(one)
            broker.leases.forget_topic(one)
            # A late ack may have committed one meanwhile.
            broker.store.clean_offsets(topic=one)

    broker.in_thread(request, delete, finish)
    return None


def _retry_topics(broker: Broker, topic: str) -> list[str]:
    groups = sorted({*broker.consumers.groups_of(topic), *broker.store.progress.groups_of(topic)})
    names = (name for group in groups for name in retry_topics(topic, group))
    return [name for name in names if broker.topics.find(name) is not None]


def delete_route(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer a request to a name server to forget a topic: the topics of the broker are all that it knows."""
    request.text("topic")
    return Answer()


def topic_statistics(broker: Broker, request: Request) -> Answer:
    """Answer the offsets of a topic's queues, and when each got its last message."""
    topic = request.text("topic")
    config, store = broker.topics.get(topic), broker.store
    table: dict[QueueName, Any] = {}
    for queue_id in range(queue_count(config, "readQueueNums", "writeQueueNums")):
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        last_ms = max(store.store_time(topic, queue_id, high - 1), 0) if high else 0
        values = {"lastUpdateTimestamp": last_ms, "maxOffset": high, "minOffset": low}
        table[QueueName(broker.name, queue_id, topic)] = values
    per_s = broker.statistics.put_rate(topic)
    return Answer(pieces=(write_queue_table({"offsetTable": table, "topicPutTps": per_s}),))


def all_topic_configs(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the configurations of all topics."""
    return Answer(pieces=(write_fastjson(broker.topics.document()),))


def topic_config(broker: Broker, request: Request) -> Answer:
    """Answer the configuration of a topic."""
    return Answer(pieces=(write_fastjson(broker.topics.get(request.text("topic"))),))
