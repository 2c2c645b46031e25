"""The two brokers that clients are run against: RocketMQ's own, with a name server, and ours."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import reput
from broker.remoting import Client
from peer import peer
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.kernels.warm import warm_store_kernels
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_CLUSTER = "DefaultCluster"
NAME = "reput"
"""The name of both brokers: answers that have it agree."""
SETTINGS = {
    "messageDelayLevel": "1s 1s 1s 1s",
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "1000",
    "flushConsumerOffsetInterval": "1000",
    "recallMessageEnable": "true",
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}
"""Settings of both. The levels are those of retries, too: the first one has level 3."""
_OF_ROCKETMQ = {
    "brokerName": NAME,
    "enablePropertyFilter": "true",
    "transactionOpBatchInterval": "10",
    # It refuses a send that waited 200 ms for a thread, as happens on a busy machine.
    "waitTimeMillsInSendQueue": "20000",
    "waitTimeMillsInPullQueue": "20000",
    "waitTimeMillsInHeartbeatQueue": "20000",
    "waitTimeMillsInTransactionQueue": "20000",
}
ROUTE_S = 30.0
PROXY_START_S = 150.0
STOP_S = 60.0


class Serving(NamedTuple):
    """A broker that clients can reach. `namesrv`, `broker`, `grpc`: where its name server, it and its proxy listen."""

    name: str
    namesrv: str
    broker: str
    path: Path
    grpc: str | None = None


@contextlib.contextmanager
def rocketmq(path: Path, home: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Serving]:
    """RocketMQ's broker on a store, with a name server, in a process of its own; it is shut down in the end."""
    with talking_rocketmq(path, home, settings) as (serving, _):
        yield serving


@contextlib.contextmanager
def talking_rocketmq(
    path: Path, home: Path, settings: Mapping[str, str] = SETTINGS, jvm: tuple[str, ...] | None = None
) -> Iterator[tuple[Serving, subprocess.Popen[bytes]]]:
    """The same, with its process, which answers the questions of a turn (see `Turn.java`). `jvm`: options of Java."""
    home.mkdir(parents=True, exist_ok=True)
    words = [f"--set={name}={value}" for name, value in {**_OF_ROCKETMQ, **settings}.items()]
    options = [word for one in words for word in one.split("=", 1)]
    command = peer.turn_words("broker", path, home, "--serve", "true", *options, jvm=jvm)
    with (home / "stderr").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    with process:
        assert process.stdin is not None
        try:
            yield _opened(process, path, home), process
            process.stdin.close()
            process.wait(STOP_S)
        finally:
            process.kill()


def _opened(process: subprocess.Popen[bytes], path: Path, home: Path) -> Serving:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise peer.PeerError(f"RocketMQ's broker does not start: {(home / 'stderr').read_text()}")
    answer = json.loads(line)
    return Serving("RocketMQ", answer["namesrv"], answer["broker"], path)


def ask(process: subprocess.Popen[bytes], question: dict[str, Any]) -> Any:
    """Ask RocketMQ's store, while its broker runs."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@contextlib.contextmanager
def proxied(
    serving: Serving, home: Path, jvm: tuple[str, ...] = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
) -> Iterator[tuple[Serving, subprocess.Popen[bytes]]]:
    """RocketMQ's proxy before its broker, and its process, which is killed in the end. `jvm`: options of Java."""
    home.mkdir(parents=True, exist_ok=True)
    with Client(serving.namesrv) as client:
        # A proxy ends at once if its cluster has no broker yet.
        wait_until(lambda: _CLUSTER.encode() in client.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    grpc_port, remoting_port = _free_ports()
    config = {"rocketMQClusterName": _CLUSTER, "namesrvAddr": serving.namesrv, "localServeAddr": "127.0.0.1"}
    config |= {"grpcServerPort": str(grpc_port), "remotingListenPort": str(remoting_port)}
    (home / "rmq-proxy.json").write_text(json.dumps(config))
    words = [
        *peer.PROGRAMS["proxy"].words,
        "-pm",
        "cluster",
        "-n",
        serving.namesrv,
        "-pc",
        str(home / "rmq-proxy.json"),
    ]
    command = peer.java_words("proxy", home, *words, jvm=(*jvm, f"-Drocketmq.home.dir={home}"))
    with (home / "out").open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            deadline = time.monotonic() + PROXY_START_S
            while not listens(grpc_port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise peer.PeerError(f"RocketMQ's proxy does not start: {(home / 'out').read_text()[-4000:]}")
                time.sleep(0.1)
            yield serving._replace(grpc=f"127.0.0.1:{grpc_port}"), process
        finally:
            process.kill()


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def listens(port: int) -> bool:
    """True if a server of this machine listens at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def config_of(settings: Mapping[str, str] = SETTINGS) -> reput.StoreConfig:
    """Return settings as our stores take them."""
    return reput.StoreConfig.from_properties(dict(settings))


@contextlib.contextmanager
def ours(path: Path, settings: Mapping[str, str] = SETTINGS, *, grpc_port: int | None = None) -> Iterator[Serving]:
    """Our broker on a store, in a thread of this process.

    Its kernels are loaded before: on a busy machine that takes longer than the 3 s that the Go client waits.
    """
    warm_store_kernels()
    with reput.serve(path, config=config_of(settings), grpc_port=grpc_port) as broker:
        yield Serving("reput", broker.address, broker.address, path, broker.grpc_address)


@contextlib.contextmanager
def our_process(
    path: Path, settings: Mapping[str, str] = SETTINGS, further: Sequence[str] = ()
) -> Iterator[tuple[Serving, subprocess.Popen[bytes]]]:
    """`reput serve` on a store, with further options, and its process, which is killed in the end."""
    words = [sys.executable, "-m", "reput", "serve", str(path), "--port", "0", "--json"]
    words += [f"--set={name}={value}" for name, value in settings.items()]
    words += further
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Serving("reput", said["address"], said["address"], path, said.get("grpc")), process
        finally:
            process.kill()


def set_to_pop(serving: Serving, topic: str, group: str) -> None:
    """Let a group pop a topic, as `mqadmin setConsumeMode` does."""
    mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
    with Client(serving.broker) as broker:
        answer = broker.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(mode).encode())
        assert answer.code == ResponseCode.SUCCESS, answer


def make_group(serving: Serving, group: str, **rules: object) -> None:
    """Give a group a configuration. Its attributes have signs before their names, as with mqadmin."""
    with Client(serving.broker) as broker:
        body = json.dumps({"groupName": group, **rules}).encode()
        answer = broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        assert answer.code == ResponseCode.SUCCESS, answer


def make_topics(serving: Serving, topics: Mapping[str, int], types: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make topics, and wait until the name server has their routes. `types`: of messages, where one is wanted."""
    with Client(serving.broker) as broker, Client(serving.namesrv) as name_server:
        for topic, queues in topics.items():
            fields = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6, "order": False}
            fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
            fields |= {"attributes": f"+message.type={types[topic]}"} if topic in types else {}
            assert broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields).code == ResponseCode.SUCCESS
        deadline = time.monotonic() + ROUTE_S
        for topic in topics:
            while name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).code != ResponseCode.SUCCESS:
                assert time.monotonic() < deadline, topic
                time.sleep(0.02)
