"""The further member of the group of the scenario `rebalance`: it comes, is cut off, comes back, and is killed."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from typing import TYPE_CHECKING

from broker.clients.relay import Relay
from broker.remoting import Client
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.clients.brokers import Serving

_PAUSE_S = 1.5
"""Time for the other member to see what has changed."""
_LOOK_S = 0.05


class Member:
    """A consumer in a process of its own (`Member.java`), which reaches the broker through relays.

    Args:
        words: the command of Java without a class.
        serving: the broker.
        prefix: the beginning of the names of topics and groups.
    """

    def __init__(self, words: Sequence[str], serving: Serving, prefix: str) -> None:
        self._words = words
        self._serving = serving
        self._prefix = prefix
        self._stop = threading.Event()

    @contextlib.contextmanager
    def lives(self) -> Iterator[None]:
        """Let it come when one of two other members has gone, in the time of this block."""
        thread = threading.Thread(target=self._live, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _live(self) -> None:
        with Client(self._serving.broker) as client, self._relays() as relays:
            for count in (1, 2):
                self._wait_for_members(client, count, 0)
            self._wait_for_members(client, 1)
            words = [*self._words, "reput.clients.Member", relays[self._serving.namesrv].address, self._prefix]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                self._wait_for_members(client, 2)
                for relay in relays.values():
                    relay.cut()
                self._wait_for_members(client, 1)
                for relay in relays.values():
                    relay.mend()
                self._wait_for_members(client, 2)
                process.kill()

    @contextlib.contextmanager
    def _relays(self) -> Iterator[dict[str, Relay]]:
        """Relays to the name server and to the broker; routes have the relay's address instead of the broker's."""
        with contextlib.ExitStack() as stack:
            addresses = {self._serving.namesrv, self._serving.broker}
            relays = {address: stack.enter_context(Relay(address)) for address in addresses}
            for relay in relays.values():
                relay.renamed = {address.encode(): one.address.encode() for address, one in relays.items()}
            yield relays

    def _wait_for_members(self, client: Client, count: int, pause_s: float = _PAUSE_S) -> None:
        """Wait until the group has this number of members, and then until each of them has seen that."""
        group = f"{self._prefix}rebalance-group"
        while not self._stop.wait(_LOOK_S):
            answer = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
            members = json.loads(answer.body)["consumerIdList"] if answer.code == ResponseCode.SUCCESS else []
            if len(members) == count:
                break
        self._stop.wait(pause_s)
