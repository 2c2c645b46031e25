"""The brokers of `bench/broker.py` and `bench/client.py`, each in a process of its own, and runs of clients."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import machine
import psutil

from broker.clients.brokers import Serving, talking_rocketmq
from broker.remoting import Client
from peer import peer
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOPICS = {"load-send": 8, "load-batch": 8, "load-poll": 2}
START_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 600


@contextlib.contextmanager
def rocketmq_side(folder: Path) -> Iterator[tuple[Serving, subprocess.Popen[bytes], float]]:
    """RocketMQ's broker on a store below `folder`, its process, and the seconds of its start."""
    begin = time.perf_counter()
    jvm = (f"-Xms{machine.peer_heap()}", f"-Xmx{machine.peer_heap()}")
    with talking_rocketmq(folder / "store", folder / "home", {}, jvm) as (serving, process):
        yield serving, process, _answered(serving, begin)


@contextlib.contextmanager
def reput_side(folder: Path) -> Iterator[tuple[Serving, subprocess.Popen[bytes], float]]:
    """`reput serve` on a store below `folder`, its process, and the seconds of its start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begin = time.perf_counter()
    words = [sys.executable, "-m", "reput", "serve", str(folder / "store"), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    serving = Serving("reput", address, address, folder / "store")
    try:
        yield serving, process, _answered(serving, begin)
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


def _answered(serving: Serving, begin: float) -> float:
    """Wait for the answer about a route; return the seconds since `begin`."""
    while time.perf_counter() < begin + START_TIMEOUT_S:
        with contextlib.suppress(OSError), Client(serving.namesrv) as client:
            if client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.SUCCESS:
                return round(time.perf_counter() - begin, 3)
        time.sleep(0.005)
    raise RuntimeError(f"{serving.name} does not answer")


def java_words(folder: Path) -> list[str]:
    """The command of the Java client, without its arguments."""
    program = peer.PROGRAMS["client"]
    words = ["java", "-Xmx1g", f"-Duser.home={folder}", f"-Drocketmq.client.logRoot={folder}", "-cp", program.classpath]
    return [*words, "reput.clients.Load"]


def measured(serving: Serving, broker: int, folder: Path, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run a client; yield a line a measurement, with the broker's processor time for each message."""
    errors = folder / "client-stderr"
    with errors.open("wb") as stderr, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr) as process:
        end = threading.Timer(RUN_TIMEOUT_S, process.kill)
        end.start()
        assert process.stdout is not None
        before_s = _processor_s(broker)
        for text in process.stdout:
            if text.startswith(b'{"name"'):
                now_s, line = _processor_s(broker), json.loads(text)
                yield line | {"cpu_us": round((now_s - before_s) / line.pop("count") * 1e6, 2)}
                before_s = now_s
        end.cancel()
    if process.returncode != 0:
        raise RuntimeError(f"the client of {serving.name} failed: {errors.read_text(errors='replace')[-4000:]}")


def _processor_s(process_id: int) -> float:
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)
