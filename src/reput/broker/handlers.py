"""The table of requests: one handler for each code. A code that is not here is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput.broker import members, offsets, pulls, routes, timers, transactions
from reput.broker.codes import RequestCode

if TYPE_CHECKING:
    from reput.broker.broker import Broker
    from reput.broker.requests import Answer, Request

Handler = Callable[["Broker", "Request"], "Answer | None"]
"""Serves a request: returns its answer, or None if it is answered later."""

HANDLERS: Final[Mapping[int, Handler]] = {
    RequestCode.PULL_MESSAGE: pulls.serve_pull,
    RequestCode.LITE_PULL_MESSAGE: pulls.serve_pull,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
    RequestCode.UPDATE_AND_CREATE_TOPIC: routes.update_topic,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.topic_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: routes.cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: routes.all_topics,
    RequestCode.END_TRANSACTION: transactions.end_transaction,
    RequestCode.RECALL_MESSAGE: timers.recall_message,
    RequestCode.HEART_BEAT: members.heartbeat,
    RequestCode.UNREGISTER_CLIENT: members.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members.consumer_list,
    RequestCode.CHECK_CLIENT_CONFIG: members.check_client_config,
    RequestCode.LOCK_BATCH_MQ: members.lock_queues,
    RequestCode.UNLOCK_BATCH_MQ: members.unlock_queues,
}
"""Handlers by request code; the codes of sends are in `sends.SEND_CODES`."""
