"""The side of a client's connection that requests and services see, whatever protocol the client speaks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from reput.broker.wire.answers import Answer
    from reput.formats.log.record import Host
    from reput.formats.wire.remoting import RemotingFrame

numbers: Final = count(1)
"""The numbers of channels."""


class Channel(Protocol):
    """A client, as the broker answers and asks it: a connection of the remoting protocol, or a client of gRPC."""

    @property
    def number(self) -> int:
        """The number of its connection, from 1 on."""

    @property
    def peer(self) -> Host:
        """The client's address."""

    @property
    def own_address(self) -> str:
        """The address at which the client reaches the broker, `host:port`."""

    @property
    def is_open(self) -> bool:
        """True while the client can be asked."""

    def answer(self, asked: RemotingFrame, answer: Answer) -> None:
        """Answer a request of the client."""

    def send(self, frame: RemotingFrame, pieces: Sequence[bytes | memoryview] = (), size: int = 0) -> None:
        """Send a request to the client; its body is `pieces`, `size` bytes in all."""


def about(channel: Channel, code: int | None = None) -> dict[str, Any]:
    """Return what a structured log has on a connection, and on a request of it."""
    return {"connection": channel.number, "remote": str(channel.peer), "code": code}
