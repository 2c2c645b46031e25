"""SIGTERM ends a broker soon, in any state: with clients that wait, read nothing or send nonsense, and at its start."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest

import reput
from broker.remoting import Client, pull_fields, send_fields
from reput.formats.wire.codes import RequestCode
from support.checked import assert_sound
from support.search import cases, takes_long

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STOPS = cases(6, 100)
LATEST_S = cases(2, 5)
"""The latest instant of a signal, after the start, in seconds. The kernels are loaded after one or two."""
MAX_CPU_S = 5.0
"""The processor time from the signal to the end, at most. On a quiet machine it is the time, too: 0.3 to 2 s."""
MAX_S = 18.0
"""The time, at most, also beside other work. After 20 s the broker would kill its follower."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Pestering:
    """Threads that work with the ports of a broker in their way, again and again until the block ends."""

    def __init__(self, ways: list[Callable[[], None]]) -> None:
        self._ways = ways
        self._stop = threading.Event()

    def _work(self, way: Callable[[], None]) -> None:
        while not self._stop.is_set():
            # The broker is not there yet, or not any more.
            with contextlib.suppress(OSError):
                way()
            self._stop.wait(0.05)

    def __enter__(self) -> None:
        self._threads = [threading.Thread(target=self._work, args=[way]) for way in self._ways]
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Ways:
    """Ways to work with a broker; each is one connection."""

    def __init__(self, port: int, metrics_port: int, chance: random.Random) -> None:
        self._address = f"127.0.0.1:{port}"
        self._metrics_port = metrics_port
        self._chance = chance

    def put(self) -> None:
        """Send messages, each after the answer to the one before it."""
        with Client(self._address) as client:
            for number in range(200):
                client.put("orders", b"x" * 1000, number % 4)

    def wait(self) -> None:
        """Let pulls be held."""
        waiting = {"sysFlag": 2 | 4, "suspendTimeoutMillis": 30_000}
        with Client(self._address) as client:
            numbers = [client.send(RequestCode.PULL_MESSAGE, **pull_fields("orders", 3, 0, **waiting))]
            client.socket.settimeout(0.5)
            client.answer(numbers[0])

    def read_nothing(self) -> None:
        """Ask for more than is read."""
        with Client(self._address) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send_all([(RequestCode.SEND_MESSAGE_V2, b"x" * 200_000, 0, send_fields("orders"))] * 4)
            client.send_all([(RequestCode.PULL_MESSAGE, b"", 0, pull_fields("orders"))] * 64)
            time.sleep(1)

    def send_nonsense(self) -> None:
        """Begin TLS, or send bytes."""
        with socket.create_connection(("127.0.0.1", int(self._address.rpartition(":")[2])), 5) as connection:
            connection.sendall(b"\x16\x03\x01\x02\x00" + self._chance.randbytes(200))
            time.sleep(self._chance.random() / 5)

    def ask_for_metrics(self) -> None:
        """Ask for the page of metrics, or half of the way."""
        with socket.create_connection(("127.0.0.1", self._metrics_port), 5) as connection:
            connection.sendall(b"GET /metr")
            time.sleep(self._chance.random() / 5)
            if self._chance.random() < 0.5:
                connection.sendall(b"ics HTTP/1.1\r\n\r\n")
                connection.recv(10)

    def of_kind(self, kind: str) -> list[Callable[[], None]]:
        """The ways of a kind of clients, for as many threads."""
        return {
            "clients": [self.put, self.put, self.wait, self.wait],
            "follower": [self.put],
            "slow readers": [self.put, self.read_nothing, self.read_nothing],
            "sync flush": [self.put, self.put, self.wait],
            "nonsense": [self.send_nonsense, self.send_nonsense, self.ask_for_metrics, self.ask_for_metrics],
        }.get(kind, [])


def assert_ends(process: subprocess.Popen[bytes], codes: set[int]) -> None:
    """Send SIGTERM, and wait for the end, in the time that it may take."""
    cpu_s = sum(psutil.Process(process.pid).cpu_times()[:2])
    process.send_signal(signal.SIGTERM)
    deadline_s, ended = time.monotonic() + MAX_S, 0
    while ended == 0:
        assert time.monotonic() < deadline_s, "it does not end"
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in codes
    assert used.ru_utime + used.ru_stime - cpu_s < MAX_CPU_S


@pytest.mark.parametrize("number", range(STOPS))
def test_a_broker_ends_soon_in_any_state(number: int, tmp_path: Path) -> None:
    """SIGTERM at any instant ends it soon, without a traceback: with 0, or as any program before it has begun."""
    chance = random.Random(number)
    kind = ("clients", "follower", "slow readers", "nonsense", "none", "sync flush")[number % 6]
    port, metrics_port, store = free_port(), free_port(), tmp_path / "store"
    words = [sys.executable, "-m", "reput", "serve", str(store), "--port", str(port), "--topic", "orders:4"]
    words += ["--metrics-port", str(metrics_port)]
    words += ["--follow", "--no-spark"] if kind == "follower" else []
    words += ["--set=flushDiskType=SYNC_FLUSH"] if kind == "sync flush" else []
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            with Pestering(Ways(port, metrics_port, chance).of_kind(kind)):
                time.sleep(chance.random() * LATEST_S)
                assert_ends(process, {0, -signal.SIGTERM})
        finally:
            process.kill()
    assert "Traceback" not in (tmp_path / "errors").read_text()
    if process.returncode == 0:
        assert_sound(store)


@takes_long
def test_a_broker_that_compiles_kernels_ends_at_once(tmp_path: Path) -> None:
    """SIGTERM while kernels are compiled, which takes a minute, ends it; the store is as it was before."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, create=True) as opened:
        assert opened.put_message(reput.Message("orders", b"body"), 0).status.is_stored
    words = [sys.executable, "-m", "reput", "serve", str(store), "--port", "0"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stderr is not None
            assert b"compiling the kernels" in process.stderr.readline()
            time.sleep(1)
            assert_ends(process, {0})
            assert b"Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert_sound(store)


@pytest.mark.spark
def test_a_follower_whose_spark_starts_ends_at_once(tmp_path: Path) -> None:
    """The end of stdin while Spark's JVM starts ends the follower with 0, and leaves no JVM."""
    reput.MessageStore.open(tmp_path / "store", create=True).close()
    words = [sys.executable, "-m", "reput", "follow", str(tmp_path / "store"), "--spark", "--until-stdin-ends"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stderr is not None
            assert b"Starting Spark" in process.stderr.readline()
            time.sleep(0.3)
            children = psutil.Process(process.pid).children(recursive=True)
            process.stdin.close()
            assert process.wait(MAX_S) == 0
            assert b"Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert psutil.wait_procs(children, MAX_S)[1] == []
