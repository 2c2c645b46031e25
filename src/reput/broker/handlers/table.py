"""The table of requests: one handler for each code. A code that is not here is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput.broker.handlers import (
    acks,
    assignments,
    group_admin,
    group_offsets,
    groups,
    members,
    offsets,
    pops,
    pulls,
    queries,
    routes,
    send_back,
    sends,
    status,
    topics,
)
from reput.formats.wire.codes import RequestCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request

Handler = Callable[["Broker", "Request"], "Answer | None"]
"""Serves a request: returns its answer, or None if it is answered later."""

HANDLERS: Final[Mapping[int, Handler]] = {
    RequestCode.PULL_MESSAGE: pulls.serve_pull,
    RequestCode.LITE_PULL_MESSAGE: pulls.serve_pull,
    RequestCode.CONSUMER_SEND_MSG_BACK: send_back.send_back,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
    RequestCode.QUERY_MESSAGE: queries.query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: queries.view_message,
    RequestCode.GET_EARLIEST_MSG_STORETIME: queries.earliest_time,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topics.update_topic,
    RequestCode.DELETE_TOPIC_IN_BROKER: topics.delete_topic,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: topics.delete_route,
    RequestCode.GET_TOPIC_STATS_INFO: topics.topic_statistics,
    RequestCode.GET_ALL_TOPIC_CONFIG: topics.all_topic_configs,
    RequestCode.GET_TOPIC_CONFIG: topics.topic_config,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.group_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: status.runtime_info,
    RequestCode.GET_KV_CONFIG: routes.no_key_value,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.topic_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: routes.cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: routes.all_topics,
    RequestCode.END_TRANSACTION: sends.end_transaction,
    RequestCode.RECALL_MESSAGE: sends.recall_message,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: routes.system_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: routes.cluster_topics,
    RequestCode.HEART_BEAT: members.heartbeat,
    RequestCode.UNREGISTER_CLIENT: members.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members.consumer_list,
    RequestCode.CHECK_CLIENT_CONFIG: members.check_client_config,
    RequestCode.LOCK_BATCH_MQ: members.lock_queues,
    RequestCode.UNLOCK_BATCH_MQ: members.unlock_queues,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: group_admin.consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: group_admin.producer_connections,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: group_admin.groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: group_admin.topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: group_admin.subscription_of_group,
    RequestCode.GET_CONSUMER_RUNNING_INFO: group_admin.consumer_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: group_admin.consume_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: group_admin.consumer_status,
    RequestCode.GET_CONSUME_STATS: group_offsets.consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: group_offsets.consume_time_span,
    RequestCode.GET_ALL_CONSUMER_OFFSET: group_offsets.all_consumer_offsets,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: group_offsets.reset_offset,
    RequestCode.CLONE_GROUP_OFFSET: group_offsets.clone_offsets,
    RequestCode.QUERY_ASSIGNMENT: assignments.query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: assignments.set_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: assignments.all_request_modes,
    RequestCode.POP_MESSAGE: pops.pop_message,
    RequestCode.PEEK_MESSAGE: pops.peek_message,
    RequestCode.NOTIFICATION: pops.notification,
    RequestCode.POLLING_INFO: pops.polling_info,
    RequestCode.ACK_MESSAGE: acks.ack_message,
    RequestCode.BATCH_ACK_MESSAGE: acks.batch_ack_message,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: acks.change_invisible_time,
}
"""Handlers by request code; the codes of sends are in `sends.SEND_CODES`."""
