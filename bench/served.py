"""The brokers that benchmarks send to, each in a process of its own on the loopback address, and runs of clients."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import asked
import machine
import psutil
from lines import Line, keep
from machine import say

from broker.clients.brokers import Serving, talking_rocketmq
from broker.remoting import Client
from peer import peer
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

Side = tuple[Serving, subprocess.Popen[bytes], float]
"""A broker that answers, its process, and the seconds of its start."""
TOPICS = {"load-send": 8, "load-batch": 8, "load-poll": 2}
START_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 600
CLUSTER_ID = "cmVwdXQtYmVuY2gtY2x1cw"


def rounds_of_both(name: str, measure: Callable[[str, Path], dict[str, Any]]) -> tuple[int, dict[str, Line]]:
    """Measure RocketMQ (`peer`) and `reput` in turn, each in a folder of its own; return the rounds and the lines."""
    rounds = asked.rounds()
    lines: dict[str, Line] = {}
    with asked.work_folder(name) as work:
        for number in range(1, rounds + 1):
            for side in ("peer", "reput"):
                values = measure(side, work / f"{side}-{number}")
                keep(lines, values, is_peer=side == "peer")
                say(f"round {number} of {rounds}: {side}: {json.dumps(values)}")
    return rounds, lines


@contextlib.contextmanager
def rocketmq_side(folder: Path, settings: Mapping[str, str] | None = None, *, has_pages: bool = True) -> Iterator[Side]:
    """RocketMQ's broker on a store below `folder`, its process, and the seconds of its start.

    `has_pages`: its heap is there from the start, as its start script has it; this takes longer, and shows as memory in
    use.
    """
    begin, heap = time.perf_counter(), machine.peer_heap()
    jvm = peer.measured_jvm(heap) if has_pages else (f"-Xms{heap}", f"-Xmx{heap}")
    with talking_rocketmq(folder / "store", folder / "home", settings or {}, jvm) as (serving, process):
        yield serving, process, _answered(serving, begin)


@contextlib.contextmanager
def reput_side(folder: Path, settings: Mapping[str, str] | None = None, *, has_grpc: bool = False) -> Iterator[Side]:
    """`reput serve` on a store below a folder, its process, the seconds of its start. `has_grpc`: with a gRPC port."""
    port, grpc_port = free_port(), free_port() if has_grpc else None
    begin = time.perf_counter()
    words = [sys.executable, "-m", "reput", "serve", str(folder / "store"), "--port", str(port)]
    words += [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")]
    words += [] if grpc_port is None else [f"--grpc-port={grpc_port}"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, grpc = f"127.0.0.1:{port}", None if grpc_port is None else f"127.0.0.1:{grpc_port}"
    serving = Serving("reput", address, address, folder / "store", grpc)
    try:
        yield serving, process, _answered(serving, begin)
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


@contextlib.contextmanager
def kafka_side(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Kafka's broker in KRaft mode, broker and controller in one process; its address."""
    broker, controller = (f"127.0.0.1:{free_port()}" for _ in range(2))
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "store"),
        "offsets.topic.replication.factor": "1",
        "auto.create.topics.enable": "false",
        **settings,
    }
    home = folder / "home"
    home.mkdir(parents=True)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    jvm = peer.measured_jvm(machine.peer_heap())
    words = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
    done = subprocess.run(peer.java_words("kafka", home, *words), capture_output=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"Kafka's folder is not made: {done.stdout[-2000:]!r} {done.stderr[-2000:]!r}")
    command = peer.java_words("kafka", home, "kafka.Kafka", str(properties), jvm=jvm)
    log = folder / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        _listening(broker, process, log)
        yield broker
    finally:
        process.kill()
        process.wait(START_TIMEOUT_S)


def free_port() -> int:
    """Return a free port of the loopback address, below those that Linux gives to clients."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _listening(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    end = time.perf_counter() + START_TIMEOUT_S
    while time.perf_counter() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Kafka's broker does not start: {log.read_text(errors='replace')[-4000:]}")


def _answered(serving: Serving, begin: float) -> float:
    """Wait for the answer about a route; return the seconds since `begin`."""
    while time.perf_counter() < begin + START_TIMEOUT_S:
        with contextlib.suppress(OSError), Client(serving.namesrv) as client:
            if client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.SUCCESS:
                return round(time.perf_counter() - begin, 3)
        time.sleep(0.005)
    raise RuntimeError(f"{serving.name} does not answer")


def java_words(folder: Path, program: str = "client", load: str = "reput.clients.Load") -> list[str]:
    """The command of a Java client, without its arguments."""
    words = ["java", "-Xmx1g", f"-Duser.home={folder}", f"-Drocketmq.client.logRoot={folder}"]
    return [*words, "-cp", peer.PROGRAMS[program].classpath, load]


def load_words(serving: Serving) -> list[str]:
    """The arguments of a client: name server, prefix of `TOPICS`, seconds of each way to send, messages consumed."""
    seconds, consumed = asked.amount("SECONDS", 5, 1), asked.amount("CONSUMED", 200_000, 20_000)
    return [serving.namesrv, "load-", f"{seconds:.0f}", f"{consumed:.0f}"]


def measured(serving: Serving, brokers: Sequence[int], folder: Path, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run a client; yield a line a measurement, with the processor time of the broker's processes for each message."""
    errors = folder / "client-stderr"
    with errors.open("wb") as stderr, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr) as process:
        end = threading.Timer(RUN_TIMEOUT_S, process.kill)
        end.start()
        assert process.stdout is not None
        before_s = _processor_s(brokers)
        for text in process.stdout:
            if text.startswith(b'{"name"'):
                now_s, line = _processor_s(brokers), json.loads(text)
                yield line | {"cpu_us": round((now_s - before_s) / line.pop("count") * 1e6, 2)}
                before_s = now_s
        end.cancel()
    if process.returncode != 0:
        raise RuntimeError(f"the client of {serving.name} failed: {errors.read_text(errors='replace')[-4000:]}")


def _processor_s(process_ids: Sequence[int]) -> float:
    times = [psutil.Process(one).cpu_times() for one in process_ids]
    return float(sum(one.user + one.system for one in times))
