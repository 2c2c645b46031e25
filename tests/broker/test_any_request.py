"""Any header and any body of any request: each request has a typed answer, and its connection goes on."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from broker.remoting import Client, pull_fields, send_fields, start_workers
from reput.broker.handlers.sends import SEND_CODES
from reput.broker.handlers.table import HANDLERS
from reput.formats.log.client_batch import HEAD
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator

# Texts of every kind that a field may have, among them numbers that are too large, and digits of other scripts.
TEXTS = st.sampled_from(
    [
        *(
            "orders",
            "nothing",
            "TBW102",
            "%RETRY%g",
            "%DLQ%g",
            "SCHEDULE_TOPIC_XXXX",
            "g",
            "c",
            "../up",
            "",
            " ",
            "\ud800",
        ),
        *(
            "0",
            "1",
            "-1",
            "+1",
            "++1",
            "4",
            "8",
            "12",
            "1_0",
            "٣",
            "x",
            "1.5",
            "true",
            "TRUE",
            "null",
            "U",
            "T",
            "SQL92",
        ),
        *("2147483647", "2147483648", "-2147483648", "9223372036854775807", "-9223372036854775809", "9" * 5000),
        *("a > 1", "a >", "(" * 300, "A || B", "LOWER", "UPPER", "+message.type=FIFO", "+a=b,-c", "SINGLE_TAG"),
        *(
            "7F00000100002A9F0000000000000000",
            "djEgb3JkZXJzIHJlcHV0IDkgaw==",
            "djEgb3JkZXJzIHJlcHV0IHggaw==",
            "orders;g;",
            "0 1 60000 0 0 reput 0 0",
            "0 1 60000 999 1 reput 0 0",
        ),
        *("DELAY\x01++5\x02TIMER_DELAY_MS\x015", "DELAY\x01" + "9" * 5000, "TIMER_DELIVER_MS\x01" + "9" * 30),
        *(
            "TIMER_DELAY_SEC\x01-5",
            "TRAN_MSG\x01true\x02PGROUP\x01g",
            "TRAN_MSG\x01true\x02DELAY\x012",
            "\x01\x02\x01",
            "a",
        ),
        *("TIMER_DELAY_MS\x0150\x02TIMER_DEL_UNIQKEY\x01k\x02UNIQ_KEY\x01k", "TAGS\x01A\x02KEYS\x01k l", "MSG_REGION"),
    ]
) | st.text(max_size=8)
PULL_NAMES, SEND_NAMES = [*pull_fields("t")], [*send_fields("t"), "l", "n"]
NAMES = sorted(
    {
        *(*PULL_NAMES, *SEND_NAMES, "maxMsgBytes", "producerGroup", "defaultTopic", "defaultTopicQueueNums", "batch"),
        *("sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "maxReconsumeTimes", "key", "maxNum"),
        *("beginTimestamp", "endTimestamp", "indexType", "_UNIQUE_KEY_QUERY", "setZeroIfNotFound", "group", "offset"),
        *("readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order", "attributes", "force"),
        *("timestamp", "boundaryType", "clientID", "clientId", "clientAddr", "delayLevel", "originMsgId", "msgId"),
        *("tranStateTableOffset", "commitLogOffset", "commitOrRollback", "fromTransactionCheck", "transactionId"),
        *("recallHandle", "topicList", "isForce", "srcGroup", "destGroup", "offline", "cluster", "namespace"),
        *("extraInfo", "invisibleTime", "initMode", "expType", "exp", "attemptId", "maxMsgNums", "suspend", "bornTime"),
        *("originTopic", "unitMode", "liteTopic", "committed", "jstackEnable", "acceptStandardJsonOnly", "isC"),
    }
)
# A pull that is held for long would only make the test wait.
SUSPENDS = st.sampled_from(["-1", "0", "1", "x", "9" * 30, ""])
FIELDS = st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=30).flatmap(
    lambda fields: SUSPENDS.map(lambda text: fields | {"suspendTimeoutMillis": text, "pollTime": text})
)
KEYS = st.sampled_from(
    [
        *("clientID", "clientId", "consumerGroup", "groupName", "mqSet", "brokerName", "queueId", "topic", "group"),
        *("consumerDataSet", "producerDataSet", "subscriptionDataSet", "subscriptionData", "subString", "subVersion"),
        *("expressionType", "consumeType", "messageModel", "consumeFromWhere", "retryMaxTimes", "retryQueueNums"),
        *("acks", "c", "t", "r", "q", "b", "so", "pt", "it", "rq", "mode", "popShareQueueNum", "strategyName"),
        *("consumeEnable", "attributes", "groupRetryPolicy", "messageQueueTable", '{"brokerName":"b"}'),
    ]
)
VALUES = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | TEXTS
JSON = st.dictionaries(
    KEYS,
    st.recursive(
        VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
    ),
    max_size=6,
).map(lambda value: json.dumps(value).encode())
HEADS = st.tuples(*[st.sampled_from([-1, 0, 1, 20, 1 << 30]) for _ in range(5)]).map(lambda one: HEAD.struct.pack(*one))
BODIES = JSON | st.binary(max_size=60) | HEADS | st.just(HEAD.struct.pack(23, 0, 0, 0, 1) + b"a\x00\x00")


def whole_fields(code: int) -> dict[str, str]:
    """Fields of which a request of any code finds those that it needs."""
    common = dict.fromkeys(NAMES, "1") | {
        "topic": "orders",
        "b": "orders",
        "c": "TBW102",
        "cluster": "DefaultCluster",
    }
    texts = {name: str(value) for name, value in {**send_fields("orders"), **pull_fields("orders")}.items()}
    texts |= {"topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102", "queueId": "0", "attributes": ""}
    if code == 11:
        texts["sysFlag"] = "6"
    return common | texts | {"clientId": "c", "group": "g", "consumerGroup": "g"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[reput.RunningBroker]:
    """A broker that gets any request, with every service on."""
    config = reput.StoreConfig(recall_message_enable=True)
    with reput.serve(tmp_path_factory.mktemp("any") / "store", topics={"orders": 1}, config=config) as running:
        start_workers(running)
        yield running


class Errors(logging.Handler):
    """Errors of our own: those that are logged with their place in the code."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error that nobody has expected."""
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def ask(client: Client, code: int, fields: dict[str, str], body: bytes, reply: bytes) -> frames.RemotingFrame:
    """Return the answer to a request; what the broker asks meanwhile gets `reply`."""
    number = client.send(code, body, **fields)
    while number not in client._answers:
        client.receive()
        for asked in client.asked:
            if not asked.is_one_way:
                client.socket.sendall(
                    frames.encode(frames.RemotingFrame(0, asked.opaque, frames.IS_ANSWER, None, {}, reply))
                )
        client.asked.clear()
    return client.answer(number)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("code", sorted({*HANDLERS, *SEND_CODES}))
def test_any_request_is_answered(broker: reput.RunningBroker, code: int, data: st.DataObject) -> None:
    """A request with any fields and any body has an answer with a known code; no error is our own."""
    wild = data.draw(FIELDS)
    fields = whole_fields(code) | wild if data.draw(st.booleans()) else wild
    # A binary header has 16 bits for its code.
    header_types = [frames.JSON_HEADER, frames.BINARY_HEADER] if code < 1 << 15 else [frames.JSON_HEADER]
    header_type = data.draw(st.sampled_from(header_types))
    errors = Errors()
    loggers = [logging.getLogger("reput"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(errors)
    try:
        if header_type == frames.BINARY_HEADER:
            # Such a header has UTF-8.
            fields = {name: text.encode("utf-8", "replace").decode() for name, text in fields.items()}
        with Client(broker.address, header_type) as client:
            client.heartbeat("c", "g", orders="*")
            answer = ask(client, code, fields, data.draw(BODIES), data.draw(BODIES))
            assert answer.code in set(ResponseCode)
            again: Any = client.ask(105, topic="TBW102")
            assert again.code == ResponseCode.SUCCESS
    finally:
        for logger in loggers:
            logger.removeHandler(errors)
    assert not errors.found
