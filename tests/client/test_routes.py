"""Routes, as name servers answer them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reput.client.routes import parse_route
from reput.formats.wire.bodies import QueueName

BROKERS: list[dict[str, Any]] = [
    {"brokerName": "b-b", "brokerAddrs": {"0": "h:1", "1": "h:2"}, "cluster": "c"},
    {"brokerName": "b-a", "brokerAddrs": {"1": "h:3"}, "cluster": "c"},
]


def queues(name: str, perm: int, reads: int = 2, writes: int = 1) -> dict[str, Any]:
    """The queues of a topic at a broker."""
    return {"brokerName": name, "perm": perm, "readQueueNums": reads, "writeQueueNums": writes}


def body(*queue_data: dict[str, Any]) -> bytes:
    """The body of an answer."""
    return json.dumps({"brokerDatas": BROKERS, "queueDatas": queue_data}).encode()


def test_a_route_has_queues_by_their_rights() -> None:
    """Queues are in the order of brokers and numbers; only a master's are written, only known brokers' are read."""
    route = parse_route("t", body(queues("b-b", 6), queues("b-a", 6), queues("gone", 6)))
    assert route.to_read == tuple(QueueName(name, one, "t") for name in ("b-a", "b-b") for one in range(2))
    assert route.to_write == (QueueName("b-b", 0, "t"),)
    assert route.brokers == {"b-b": {0: "h:1", 1: "h:2"}, "b-a": {1: "h:3"}}
    assert parse_route("t", body(queues("b-b", 4))).to_write == ()
    assert parse_route("t", body(queues("b-b", 2))).to_read == ()


def test_a_new_topic_has_few_queues() -> None:
    """The route of TBW102 gives a topic that does not exist at most as many queues as the producer wants."""
    route = parse_route("new", body(queues("b-b", 7, 8, 8)), 4)
    assert route.to_write == route.to_read == tuple(QueueName("b-b", one, "new") for one in range(4))


def test_bare_numbers_are_keys_as_well() -> None:
    """Name servers of RocketMQ 4 write the ids of brokers without quotes."""
    text = b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b"}],"queueDatas":[]}'
    assert parse_route("t", text).brokers == {"b": {0: "h:1"}}


@given(
    st.binary(max_size=60)
    | st.builds(
        lambda one: json.dumps(one).encode(),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["brokerDatas", "queueDatas", "brokerAddrs", "brokerName", "perm", "0"]), inner
                )
            ),
            max_leaves=12,
        ),
    )
)
def test_any_answer_is_a_route(data: bytes) -> None:
    """Bytes that are no route give one without queues or with those that can be read, and no error."""
    route = parse_route("t", data)
    assert {queue.broker_name for queue in route.to_read} <= route.brokers.keys()


def test_a_broker_id_of_thousands_of_digits() -> None:
    """Python reads no number of that many digits: such a broker is left out, like others without a number."""
    brokers = [{"brokerName": "b", "brokerAddrs": {"9" * 5000: "h:1", "0": "h:2"}}]
    assert parse_route("t", json.dumps({"brokerDatas": brokers}).encode()).brokers == {"b": {0: "h:2"}}
