"""The limits of a broker: each has its refusal, and other clients are served on. Clients vanish in every state."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from broker.remoting import Client, bodies, pull_fields, send_fields
from reput.broker import server
from reput.broker.handlers import members
from reput.broker.services import holds, waiting
from reput.broker.state import committed, configuration, locks, state
from reput.broker.wire import connection
from reput.formats.wire import remoting as frames
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

R, C = RequestCode, ResponseCode


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with the topic `orders`; its store is sound afterwards."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 2}) as running:
        yield running
    assert_sound(path)


def closed(broker: reput.RunningBroker) -> dict[str, int]:
    """The connections that the broker has closed, by reason."""
    return dict(broker._broker.statistics.closed)


def ends(client: Client) -> bool:
    """Wait until the broker has closed a connection."""
    try:
        while client.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


# --- limits --------------------------------------------------------------------------------------


def test_connections_over_the_limit_are_closed(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than MAX_CONNECTIONS is closed at once; the others are served, and one that goes makes room."""
    client.put("orders")
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with Client(broker.address) as second:
        second.put("orders")
        with Client(broker.address) as third:
            assert ends(third)
        assert closed(broker) == {"too_many": 1}
        assert client.put("orders").code == C.SUCCESS
    wait_until(lambda: broker._server.open_connections == 1)
    with Client(broker.address) as again:
        assert again.put("orders").code == C.SUCCESS


@pytest.mark.parametrize("length", [frames.MAX_FRAME_SIZE - 3, 0x7FFFFFFF, -1, 0, 3])
def test_a_frame_of_a_wrong_length_ends_its_connection(
    broker: reput.RunningBroker, client: Client, length: int
) -> None:
    """A length above 16 MiB, or below a header's, is no frame: nothing is reserved for it."""
    with Client(broker.address) as wrong:
        wrong.socket.sendall(struct.pack(">ii", length, 0))
        assert ends(wrong)
    assert closed(broker) == {"no_frame": 1}
    assert client.put("orders").code == C.SUCCESS


def test_unread_input_is_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished frames of all connections together have a bound; the connection that passes it is closed."""
    monkeypatch.setattr(server, "MAX_INPUT", 100_000)
    half = struct.pack(">ii", 200_000, 100) + b"x" * 60_000
    with Client(broker.address) as first, Client(broker.address) as second:
        first.socket.sendall(half)
        wait_until(lambda: broker._server.input_bytes >= 60_000)
        second.socket.sendall(half)
        assert ends(second)
        assert closed(broker) == {"full_input": 1}
        assert client.put("orders").code == C.SUCCESS
    wait_until(lambda: broker._server.input_bytes == 0)


def test_held_pulls_are_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull above MAX_HELD is answered at once, as one that has found nothing."""
    monkeypatch.setattr(holds, "MAX_HELD", 1)
    waiting = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 30_000}
    number = client.send(R.PULL_MESSAGE, **pull_fields("orders", **waiting))
    assert client.pull("orders", 1, **waiting).code == C.PULL_NOT_FOUND
    assert len(broker._broker.holds) == 1
    client.put("orders", b"now")
    assert bodies(client.answer(number)) == [b"now"]


def test_held_bytes_are_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of held pulls have a bound in bytes: a pull that passes it is answered at once."""
    monkeypatch.setattr(waiting, "MAX_WAITING_BYTES", 50_000)
    held = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 30_000}
    client.send(R.PULL_MESSAGE, **pull_fields("orders", **held))
    assert client.pull("orders", 1, **held, subscription="A" * 60_000).code == C.PULL_NOT_FOUND
    assert client.pull("orders", 1, **held, subscription="A" * 70_000).code == C.SUBSCRIPTION_PARSE_FAILED
    assert len(broker._broker.holds) == 1


def slow_reader(broker: reput.RunningBroker) -> Client:
    """A client whose system takes few answers for it."""
    slow = Client(broker.address)
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return slow


def pulls(count: int) -> list[tuple[int, bytes, int, dict[str, Any]]]:
    """Pulls of the first four messages of `orders`, one of them each."""
    return [(R.PULL_MESSAGE, b"", 0, pull_fields("orders", offset=number % 4)) for number in range(count)]


@pytest.fixture
def large(client: Client) -> list[bytes]:
    """Four messages of 1 MiB in `orders`."""
    made = [random.randbytes(1 << 20) for _ in range(4)]
    for body in made:
        client.put("orders", body)
    return made


def test_requests_wait_until_their_client_reads(
    broker: reput.RunningBroker, client: Client, large: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks for more than it reads at a time gets all of it, in order; what waits for it is bounded."""
    monkeypatch.setattr(connection, "MAX_OUTPUT", 4 << 20)
    with Client(broker.address) as slow:
        numbers = slow.send_all(pulls(60))
        wait_until(lambda: any(one.waiting for one in broker._server._connections))
        for _ in range(20):
            assert client.put("orders", queue_id=1).code == C.SUCCESS
            assert sum(one.waiting for one in broker._server._connections) < 4 << 20
        for place, number in enumerate(numbers):
            assert bodies(slow.answer(number)) == [large[place % 4]]
        assert slow.put("orders", queue_id=1).code == C.SUCCESS
    assert closed(broker) == {}


@pytest.mark.usefixtures("large")
def test_a_client_that_reads_nothing_is_closed(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads none of its answers for STALLED_S is closed; others are served."""
    monkeypatch.setattr(server, "STALLED_S", 0.5)
    with slow_reader(broker) as slow:
        slow.send_all(pulls(16))
        wait_until(lambda: closed(broker) == {"slow_reader": 1})
    assert client.put("orders").code == C.SUCCESS


@pytest.mark.usefixtures("large")
def test_answers_that_wait_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that wait have a bound for all connections; only the one that passes it is closed."""
    monkeypatch.setattr(server, "MAX_ALL_OUTPUT", 1 << 20)
    with slow_reader(broker) as slow:
        slow.send_all(pulls(16))
        wait_until(lambda: closed(broker) == {"full_output": 1})
    assert client.put("orders").code == C.SUCCESS


def test_answers_that_wait_for_one_client_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held pulls that a message answers all at once pass the bound of a connection: it is closed."""
    monkeypatch.setattr(connection, "MAX_OUTPUT", 4 << 20)
    with slow_reader(broker) as slow:
        held = pull_fields("orders", 1, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
        slow.send_all([(R.PULL_MESSAGE, b"", 0, held)] * 16)
        wait_until(lambda: len(broker._broker.holds) == 16)
        client.put("orders", random.randbytes(1 << 20), 1)
        wait_until(lambda: closed(broker) == {"slow_reader": 1})
    assert client.put("orders").code == C.SUCCESS


@pytest.mark.usefixtures("large")
def test_requests_that_waited_for_their_client_counted_in_no_limit(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests after answers that nobody reads are unread input, with the memory of parsed frames, until they end."""
    asked = [*pulls(60), *[(R.GET_MAX_OFFSET, b"", 0, {})] * 1000]
    with Client(broker.address, frames.BINARY_HEADER) as slow:
        numbers = slow.send_all(asked)
        wait_until(lambda: broker._server.input_bytes > 200_000)
        monkeypatch.setattr(server, "MAX_INPUT", broker._server.input_bytes + 100_000)
        with Client(broker.address, frames.BINARY_HEADER) as further:
            further.send_all(asked)
            wait_until(lambda: closed(broker) == {"full_input": 1})
        assert [slow.answer(number).opaque for number in numbers] == numbers
        wait_until(lambda: broker._server.input_bytes == 0)
        assert client.put("orders", queue_id=1).code == C.SUCCESS


def test_members_and_locks_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From MAX_MEMBERS members on heartbeats are refused as busy; above MAX_LOCKS no queue is locked."""
    monkeypatch.setattr(members, "MAX_MEMBERS", 2)
    monkeypatch.setattr(locks, "MAX_LOCKS", 1)
    assert client.heartbeat("one", "readers", orders="*").code == C.SUCCESS
    assert client.produce("one", "writers").code == C.SUCCESS
    assert client.produce("two", "writers").code == C.SYSTEM_BUSY
    queues = [{"brokerName": "reput", "topic": "orders", "queueId": number} for number in range(2)]
    body = json.dumps({"clientId": "one", "consumerGroup": "readers", "mqSet": queues}).encode()
    for _ in range(2):
        locked = json.loads(client.ask(R.LOCK_BATCH_MQ, body).body)["lockOKMQSet"]
        assert locked == queues[:1]
    client.ask(R.UNREGISTER_CLIENT, clientID="one", producerGroup="writers")
    assert client.produce("two", "writers").code == C.SUCCESS


def test_names_and_filters_of_clients_are_bounded(broker: reput.RunningBroker, client: Client) -> None:
    """A heartbeat or a lock with a name or a filter that is too long is refused as a whole: nothing of it is kept."""
    for name, most in (("clientID", 1024), ("groupName", 255)):
        long = "x" * (most + 1)
        body = {"clientID": "one", "producerDataSet": [{"groupName": "writers"}]}
        if name in body:
            body[name] = long
        else:
            body["producerDataSet"] = [{"groupName": "writers"}, {"groupName": long}]
        answer = client.ask(R.HEART_BEAT, json.dumps(body).encode())
        assert (answer.code, f"no {name} of at most {most}" in str(answer.remark)) == (C.SYSTEM_ERROR, True)
    for topic, wanted in (("x" * 256, "*"), ("orders", "x" * ((1 << 16) + 1))):
        answer = client.heartbeat("one", "readers", **{topic: wanted})
        assert (answer.code, "a filter of at most 65536" in str(answer.remark)) == (C.SYSTEM_ERROR, True)
    queue = {"brokerName": "reput", "topic": "orders", "queueId": 0}
    request = {"clientId": "one", "consumerGroup": "readers", "mqSet": [queue]}
    for change in (
        {"clientId": "x" * 1025},
        {"consumerGroup": "x" * 256},
        {"mqSet": [queue, {**queue, "topic": "x" * 256}]},
        {"mqSet": [queue, {**queue, "brokerName": "x" * 256}]},
    ):
        assert client.ask(R.LOCK_BATCH_MQ, json.dumps({**request, **change}).encode()).code == C.SYSTEM_ERROR
    held = broker._broker
    assert (len(held.producers), len(held.consumers), held.locks._locks) == (0, 0, 0)


def test_subscriptions_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat with which the subscriptions of all groups pass MAX_SUBSCRIBED is refused as busy."""
    assert client.heartbeat("one", "readers", orders="a || b").code == C.SUCCESS
    monkeypatch.setattr(members, "MAX_SUBSCRIBED", 25)
    answer = client.heartbeat("one", "others", orders="a || b")
    assert (answer.code, "have 25 characters" in str(answer.remark)) == (C.SYSTEM_BUSY, True)
    client.ask(R.UNREGISTER_CLIENT, clientID="one", consumerGroup="readers")
    assert client.heartbeat("one", "others", orders="a || b").code == C.SUCCESS


def test_a_long_header_closes_the_connection(broker: reput.RunningBroker, client: Client) -> None:
    """A header above 512 KiB is not read; the other connections go on."""
    with Client(broker.address) as other, contextlib.suppress(OSError):
        assert other.ask(R.HEART_BEAT, b"{}", long="x" * (1 << 19)) is None
    wait_until(lambda: closed(broker) == {"no_frame": 1})
    assert client.put("orders").code == C.SUCCESS


def test_a_message_without_a_body_is_refused(client: Client) -> None:
    """A message without a body is refused with 1, as with RocketMQ, and nothing is stored."""
    answer = client.put("orders", b"")
    assert (answer.code, answer.remark) == (C.SYSTEM_ERROR, "the message has no body")
    assert client.ask(R.SEND_BATCH_MESSAGE, b"", **send_fields("orders", m=True)).code == C.SYSTEM_ERROR
    assert not bodies(client.pull("orders"))


def test_a_queue_that_a_topic_does_not_have_is_refused_in_the_words_of_rocketmq(client: Client) -> None:
    """The refusal of a queue prints the topic as `TopicConfig.toString` does."""
    answer = client.put("orders", b"body", 99)
    assert answer.code == C.INVALID_PARAMETER
    words = "request queueId[99] is illegal, TopicConfig [topicName=orders, readQueueNums="
    assert str(answer.remark).startswith(words)
    further = "perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}] Producer: "
    assert further in str(answer.remark)


def test_a_long_body_of_json_is_refused(client: Client) -> None:
    """A body of JSON above 1 MiB is not read."""
    answer = client.ask(R.HEART_BEAT, b'{"clientID":"' + b"x" * (1 << 20) + b'"}')
    assert (answer.code, "the most is 1048576" in str(answer.remark)) == (C.SYSTEM_ERROR, True)


def test_a_long_batch_is_refused(client: Client) -> None:
    """A batch whose body is over maxMessageSize is refused before its messages are read."""
    answer = client.ask(R.SEND_BATCH_MESSAGE, bytes((4 << 20) + 1), **send_fields("orders", m=True))
    assert (answer.code, "maxMessageSize" in str(answer.remark)) == (C.MESSAGE_ILLEGAL, True)


def test_a_message_that_no_frame_holds_is_refused(tmp_path: Path) -> None:
    """A message above 16 MiB, which another program has stored, has a typed answer; the connection goes on."""
    path, config = tmp_path / "store", reput.StoreConfig(max_message_size=20 << 20)
    with reput.MessageStore.open(path, config, create=True) as store:
        store.put_message(reput.Message("orders", bytes(17 << 20)), queue_id=0)
    with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
        answer = client.pull("orders")
        assert (answer.code, "the answer cannot be sent" in str(answer.remark)) == (C.SYSTEM_ERROR, True)
        assert client.put("orders").code == C.SUCCESS
        assert bodies(client.pull("orders", offset=1)) == [b"body"]


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process, so that nobody waits for it when a test has failed."""
    try:
        yield
    finally:
        process.kill()


def is_served(address: str) -> bool:
    """Return True if a new client is taken and served."""
    with Client(address) as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        return client.put("orders").code == C.SUCCESS
    return False


def test_connections_leave_the_store_its_files(tmp_path: Path) -> None:
    """Near the process's limit of open files a connection is closed with one reason; clients and the store go on."""
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
        "from reput.cli.main import main\n"
        f"sys.argv[1:] = ['serve', {str(tmp_path / 'store')!r}, '--port', '0', '--json', '--topic', 'orders:2',\n"
        "    '--set', 'mappedFileSizeCommitLog=65536']\n"
        "main()\n"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process, ended(process):
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        with Client(address) as first, contextlib.ExitStack() as opened:
            host, port = address.split(":")
            for _ in range(500):
                opened.enter_context(socket.create_connection((host, int(port))))
            for number in range(200):
                assert first.put("orders", bytes(1000), number % 2).code == C.SUCCESS
        wait_until(lambda: is_served(address))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert b"raise `ulimit -n`" in errors
    assert b"Traceback" not in errors, errors
    assert_sound(tmp_path / "store")


def test_work_that_waits_for_the_disk_is_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that another thread would do is refused as busy if too many wait; those before it are done."""
    client.put("orders")
    monkeypatch.setattr(state, "MAX_WORK", 0)
    answer = client.ask(R.QUERY_MESSAGE, topic="orders", key="k", maxNum=1, beginTimestamp=0, endTimestamp=1 << 60)
    assert (answer.code, "[OVERLOAD]" in str(answer.remark)) == (C.SYSTEM_BUSY, True)
    monkeypatch.undo()
    answer = client.ask(R.QUERY_MESSAGE, topic="orders", key="k", maxNum=1, beginTimestamp=0, endTimestamp=1 << 60)
    assert answer.code != C.SYSTEM_BUSY


def test_topics_that_clients_make_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above MAX_TOPICS no request makes a topic; those that are there are served, and a deletion makes room."""
    assert client.put("first").code == C.SUCCESS
    monkeypatch.setattr(configuration, "MAX_TOPICS", len(broker._broker.topics.names()))
    refused = [client.put("second"), client.heartbeat("one", "readers", orders="*"), make_topic(client, "second")]
    assert [answer.code for answer in refused] == [C.SYSTEM_BUSY] * 3
    assert all("[OVERLOAD]" in str(answer.remark) for answer in refused)
    assert client.put("first").code == make_topic(client, "first").code == C.SUCCESS
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="first").code == C.SUCCESS
    assert client.put("second").code == C.SUCCESS


def make_topic(client: Client, topic: str) -> Any:
    """Ask for a topic, as administrators do."""
    fields = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "defaultTopic": "TBW102"}
    return client.ask(R.UPDATE_AND_CREATE_TOPIC, topic=topic, topicFilterType="SINGLE_TAG", order=False, **fields)


def test_groups_that_clients_make_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above MAX_GROUPS no request makes a group; those that are there are served."""
    client.make_group("readers")
    monkeypatch.setattr(configuration, "MAX_GROUPS", len(broker._broker.groups))
    body = json.dumps({"groupName": "others"}).encode()
    refused = [
        client.heartbeat("one", "others", orders="*"),
        client.pull("orders", consumerGroup="others"),
        client.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body),
    ]
    assert [answer.code for answer in refused] == [C.SYSTEM_BUSY] * 3
    assert client.heartbeat("one", "readers", orders="*").code == C.SUCCESS
    client.make_group("readers")
    assert client.pull("orders", consumerGroup="readers").code == C.PULL_NOT_FOUND


def test_committed_offsets_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above MAX_OFFSETS no request commits for a further queue; groups go on in theirs, and a deletion makes room."""
    queue = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
    for group in ("readers", "others"):
        client.make_group(group)
    make_topic(client, "first")
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=0, **queue).code == C.SUCCESS
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=0, **{**queue, "topic": "first"}).code == C.SUCCESS
    monkeypatch.setattr(committed, "MAX_OFFSETS", 2)
    progress = broker._broker.store.progress
    further = {**queue, "queueId": 1}
    reset = {"group": "others", "topic": "orders", "timestamp": 0, "isForce": True}
    asked = [
        (R.UPDATE_CONSUMER_OFFSET, {**further, "commitOffset": 0}),
        (R.PULL_MESSAGE, pull_fields("orders", 1, consumerGroup="readers", sysFlag=1 | 4)),
        (R.INVOKE_BROKER_TO_RESET_OFFSET, reset),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "readers", "destGroup": "others", "topic": "orders", "offline": True}),
    ]
    for code, fields in asked:
        refused = client.ask(code, **fields)
        assert (refused.code, "2 committed offsets" in str(refused.remark)) == (C.SYSTEM_BUSY, True)
    assert (progress.count, progress.groups()) == (2, ["readers"])
    assert client.ask(R.UPDATE_CONSUMER_OFFSET, commitOffset=1, **queue).code == C.SUCCESS
    assert client.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, **{**reset, "group": "readers", "queueId": 0}).code == C.SUCCESS
    assert client.pull("orders", 1, consumerGroup="readers").code == C.PULL_NOT_FOUND
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="first").code == C.SUCCESS
    assert [client.ask(code, **fields).code for code, fields in asked[:1]] == [C.SUCCESS]


# --- clients that vanish -------------------------------------------------------------------------


def half_a_frame(client: Client) -> None:
    """Send the begin of a frame."""
    client.socket.sendall(struct.pack(">ii", 1000, 100) + b"{")


def a_held_pull(client: Client) -> None:
    """Wait for a message."""
    client.send(R.PULL_MESSAGE, **pull_fields("orders", sysFlag=2 | 4, suspendTimeoutMillis=30_000))


def sends_without_reading(client: Client) -> None:
    """Send, and read no answer."""
    client.send_all([(R.SEND_MESSAGE_V2, b"x" * 1000, 0, send_fields("orders", 1)) for _ in range(200)])


def pulls_without_reading(client: Client) -> None:
    """Pull, and read no answer."""
    client.put("orders", b"x" * 100_000, 1)
    client.send_all([(R.PULL_MESSAGE, b"", 0, pull_fields("orders", 1)) for _ in range(50)])


def a_member_with_locks(client: Client) -> None:
    """Be a consumer that has locked a queue."""
    client.heartbeat("gone", "readers", orders="*")
    queue = {"brokerName": "reput", "topic": "orders", "queueId": 0}
    body = {"clientId": "gone", "consumerGroup": "readers", "mqSet": [queue]}
    client.ask(R.LOCK_BATCH_MQ, str(body).replace("'", '"').encode())


def a_half_message(client: Client) -> None:
    """Be a producer with a transaction that has no end."""
    client.produce("gone", "writers")
    client.put("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01writers\x02UNIQ_KEY\x01u\x02")


STATES = (half_a_frame, a_held_pull, sends_without_reading, pulls_without_reading, a_member_with_locks, a_half_message)


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("state_of", STATES)
def test_a_client_vanishes(broker: reput.RunningBroker, client: Client, state_of: Any, with_reset: bool) -> None:
    """Nothing of a client that is gone is left in the broker's memory, and the others are served."""
    with Client(broker.address) as gone:
        state_of(gone)
        if with_reset:
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    inside = broker._broker
    wait_until(lambda: broker._server.open_connections == 1)
    assert (len(inside.holds), broker._server.input_bytes, inside.producers.all()) == (0, 0, [])
    assert inside.consumers.find("readers") is None
    assert client.put("orders", b"on").code == C.SUCCESS
    assert bodies(client.pull("orders"))[-1] == b"on"


# --- anything ------------------------------------------------------------------------------------


def frame(code: int, header_type: int, body: bytes) -> bytes:
    """The bytes of a request; a binary header has 16 bits for its code."""
    fields = {name: str(value).lower() for name, value in send_fields("orders").items()}
    header_type = header_type if code < 1 << 15 else frames.JSON_HEADER
    return frames.encode(frames.RemotingFrame(code, 1, 0, None, fields, body, header_type=header_type))


FRAMES = st.builds(frame, st.sampled_from([*R, 0, 9999]), st.sampled_from([0, 1]), st.binary(max_size=200))
HEADS = st.builds(struct.pack, st.just(">iI"), st.integers(-9, 1 << 25), st.integers(0, (1 << 32) - 1))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame with bytes changed, cut off or added."""
    data = bytearray(draw(FRAMES))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=9))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pieces=st.lists(FRAMES | HEADS | damaged() | st.binary(max_size=64), min_size=1, max_size=6))
def test_any_bytes_harm_nobody_else(fuzzed: reput.RunningBroker, pieces: list[bytes]) -> None:
    """Any bytes on a connection, cut anywhere, leave another client served, and nothing is kept of them."""
    with Client(fuzzed.address) as other, Client(fuzzed.address) as wild:
        try:
            for piece in pieces:
                wild.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert other.put("orders").code == C.SUCCESS
    wait_until(lambda: (fuzzed._server.open_connections, fuzzed._server.input_bytes) == (0, 0))
