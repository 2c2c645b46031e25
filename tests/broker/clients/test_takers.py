"""Consumers of gRPC come and go, and so does the broker: nothing is lost, and nothing that was acked comes again."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers, grpc_client, java5_client
from broker.clients.takers import TOPIC, Taker
from peer import peer
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.clients

COUNT = 60
LEASE_S = 10.0
KILLED = 3
"""The acks that may have been under way at the two kills: one of the killed consumer, one of each with the broker."""
LIMIT_S = 60.0
BATCHES = 60


def send(address: str, begin: int) -> set[str]:
    """Send some messages; return their bodies."""
    bodies = {f"m{number}" for number in range(begin, begin + COUNT)}
    with reput.Producer("senders", address, timeout_s=20) as producer:
        for body in bodies:
            producer.send(reput.Message(TOPIC, body.encode()))
    return bodies


def is_settled(takers: Iterable[Taker], bodies: set[str], killed_ms: int) -> bool:
    """True if each message has come, and was acked after it came last, but for acks that a kill left without answer."""
    last = {line.body: line for line in sorted(line for taker in takers for line in list(taker.lines))}
    open_ones = [line for line in last.values() if line.what == "got"]
    return last.keys() == bodies and len(open_ones) <= KILLED and all(one.at_ms <= killed_ms for one in open_ones)


def acked(takers: Iterable[Taker]) -> set[str]:
    """The bodies of the messages whose acks the broker has taken."""
    return {one.body for taker in takers for one in list(taker.lines) if one.what == "acked"}


@pytest.mark.parametrize("languages", [("java", "python"), ("python", "java")], ids=lambda both: both[0])
def test_nothing_is_lost_while_consumers_and_the_broker_come_and_go(languages: tuple[str, str], tmp_path: Path) -> None:
    """One is killed while it holds messages, one joins, leases end, and the broker is killed and starts again."""
    killed, stays = languages
    for reason in (peer.available(java5_client.PROGRAM), grpc_client.unavailable()):
        if reason is not None:
            pytest.skip(reason)
    store, further = tmp_path / "store", ["--grpc-port=0", f"--topic={TOPIC}:4"]
    with ExitStack() as stack:
        serving, process = stack.enter_context(brokers.our_process(store, further=further))
        assert serving.grpc is not None

        def join(language: str) -> Taker:
            assert serving.grpc is not None
            return stack.enter_context(Taker(language, serving.grpc, tmp_path / f"{language}-{len(takers)}"))

        takers: list[Taker] = []
        takers += [join(killed), join(stays)]
        bodies = send(serving.namesrv, 0)
        wait_until(lambda: all(len(one.lines) > 10 for one in takers) or acked(takers) >= bodies, most_s=LIMIT_S)
        bodies |= send(serving.namesrv, COUNT)
        takers[0].kill()
        takers.append(join(killed))
        for number in range(2, BATCHES):
            if takers[-1].lines:
                break
            bodies |= send(serving.namesrv, number * COUNT)
            time.sleep(1)
        assert takers[-1].lines
        process.kill()
        process.wait()
        killed_ms = time.time_ns() // 1_000_000
        ports = [f"--port={serving.broker.rpartition(':')[2]}", f"--grpc-port={serving.grpc.rpartition(':')[2]}"]
        stack.enter_context(brokers.our_process(store, further=ports))
        bodies |= send(serving.namesrv, BATCHES * COUNT)
        wait_until(lambda: is_settled(takers, bodies, killed_ms), most_s=LIMIT_S)
        # What is left, or comes twice, comes when its lease ends.
        time.sleep(LEASE_S + 2)
        wait_until(lambda: is_settled(takers, bodies, killed_ms), most_s=LIMIT_S)
        lines = [line for taker in takers for line in taker.lines]
    first_acked: dict[str, int] = {}
    for line in sorted(lines):
        if line.what == "acked":
            first_acked.setdefault(line.body, line.at_ms)
        else:
            assert line.at_ms <= first_acked.get(line.body, line.at_ms), line
    again = {line.body for line in lines if line.what == "got" and line.attempt > 1}
    assert again >= {body for body in bodies if body.endswith("7")}
    assert_sound(store, brokers.config_of())
