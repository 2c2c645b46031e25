"""Work that began with `reput serve` ends with RocketMQ's broker, on the same store, after a kill in between."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers
from broker.clients.relay import Relay
from broker.clients.run import java_words
from reput.formats.java.fastjson import parse_fastjson
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

PREFIX = "spanning-"
TOPIC, GROUP = f"{PREFIX}spanning", f"{PREFIX}spanning-group"
COUNT = 10
DUE_S = 20
LIMIT_S = 90.0
SETTINGS = {**brokers.SETTINGS, "messageDelayLevel": f"1s {DUE_S}s 1s 1s", "flushConsumerOffsetInterval": "200"}
PATIENT = {"transactionTimeOut": "600000"}
"""Our broker does not ask about the transactions: it is killed before."""


class Spanning:
    """RocketMQ's clients while brokers come and go (`Spanning.java`), and the lines that they have written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said: list[str] = []

    def listen(self) -> None:
        """Take lines until the clients end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())

    def go_on(self) -> None:
        """Say that another broker serves."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def count(self, beginning: str) -> int:
        """The lines that begin so."""
        return sum(line.startswith(beginning) for line in list(self.said))


@contextlib.contextmanager
def clients(address: str, home: Path) -> Iterator[Spanning]:
    """The clients, with this address as their name server."""
    words = [*java_words("client", home), "reput.clients.Spanning", address, PREFIX, str(DUE_S * 1000)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        spanning = Spanning(process)
        listener = threading.Thread(target=spanning.listen, daemon=True)
        listener.start()
        try:
            yield spanning
        finally:
            process.kill()
            listener.join()


def wait(is_so: Callable[[], bool], spanning: Spanning) -> None:
    """Wait until a condition holds."""
    wait_until(is_so, spanning.said, LIMIT_S)


def committed(store: Path) -> int:
    """The sum of the offsets that the group has committed, as they are on disk."""
    path = store / "config" / "consumerOffset.json"
    table = parse_fastjson(path.read_bytes())["offsetTable"] if path.exists() else {}
    return sum(table.get(f"{TOPIC}@{GROUP}", {}).values())


def pending(store: Path) -> tuple[int, int]:
    """The numbers of timers (with delays) and of transactions that wait in a store."""
    with reput.MessageStore.open(store, brokers.config_of(SETTINGS), read_only=True) as opened:
        return len(list(opened.pending.timers())), len(list(opened.pending.transactions()))


@pytest.mark.usefixtures("programs")
def test_what_waits_when_our_broker_is_killed_comes_from_rocketmq(tmp_path: Path) -> None:
    """A push consumer, transactions, a delay and a timer go on with RocketMQ's broker; each message comes once."""
    store = tmp_path / "store"
    with Relay("") as relay, brokers.our_process(store, {**SETTINGS, **PATIENT}) as (ours, process):
        relay.target = ours.namesrv
        brokers.make_topics(ours, {TOPIC: 2})
        with clients(relay.address, tmp_path / "clients") as spanning:
            wait(lambda: spanning.count("sent") == 1 and committed(store) == COUNT, spanning)
            process.kill()
            process.wait()
            assert_sound(store, brokers.config_of(SETTINGS))
            assert pending(store) == (2, 4)
            assert spanning.count("got delayed") + spanning.count("got timed") + spanning.count("asked") == 0
            with brokers.rocketmq(store, tmp_path / "home", SETTINGS) as theirs:
                relay.target = theirs.namesrv
                spanning.go_on()
                wait(lambda: spanning.count("sent") == 2 and spanning.count("got") >= 2 * COUNT + 4, spanning)
                # Whatever comes twice comes soon.
                time.sleep(3)
    plain = [f"got {kind}-{number}" for kind in ("before", "after") for number in range(COUNT)]
    wanted = Counter([*plain, "got delayed-0", "got timed-0", "got half-0", "got half-2"])
    assert Counter(line for line in spanning.said if line.startswith("got")) == wanted
    asked = {line for line in spanning.said if line.startswith("asked")}
    assert asked == {f"asked half-{number}" for number in range(4)}
    assert pending(store) == (0, 0)
    assert_sound(store, brokers.config_of(SETTINGS))
