"""Requests of the broker to its clients: notices, which nobody answers, and calls, whose answers are awaited.

Source: `Broker2Client`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.wire.channel import about
from reput.formats.wire.remoting import IS_ONE_WAY, FrameError, RemotingFrame, next_opaque

if TYPE_CHECKING:
    from reput.broker.wire.channel import Channel

log = logging.getLogger("reput.broker")
ANSWER_LIMIT_S: Final = 10.0
"""The longest wait for a client's answer (`Broker2Client.callClient`)."""
MAX_WAITING: Final = 1000
"""The most calls that wait for answers at a time."""


class _Call(NamedTuple):
    done: Callable[[RemotingFrame | None], None]
    timer: asyncio.TimerHandle


class ClientCalls:
    """The broker's requests to clients. All methods run in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._opaque = 0
        self._waiting: dict[tuple[Channel, int], _Call] = {}

    def notify(self, connection: Channel, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send a notice; one that no frame holds is logged."""
        try:
            self._send(connection, code, IS_ONE_WAY, fields, body)
        except FrameError as error:
            log.error("%s: notice %d is not sent: %s", connection.peer, code, error, extra=about(connection, code))  # noqa: TRY400 - the text says it all

    def ask(
        self,
        connection: Channel,
        code: int,
        fields: Mapping[str, str],
        body: bytes,
        done: Callable[[RemotingFrame | None], None],
    ) -> bool:
        """Send a request, and call `done` with its answer; with None if none comes in time, or its client disconnects.

        Returns:
            False if too many calls wait: nothing is sent.

        Raises:
            FrameError: no frame holds the request: nothing is sent.
        """
        if len(self._waiting) >= MAX_WAITING:
            return False
        key = (connection, self._send(connection, code, 0, fields, body))
        self._waiting[key] = _Call(done, self._loop.call_later(ANSWER_LIMIT_S, self._end, key, None))
        return True

    def answered(self, connection: Channel, answer: RemotingFrame) -> None:
        """Take a client's answer; one for which nobody waits is dropped."""
        self._end((connection, answer.opaque), answer)

    def connection_lost(self, connection: Channel) -> None:
        """End the calls to a client that is gone."""
        for key in [one for one in self._waiting if one[0] is connection]:
            self._end(key, None)

    def _send(self, connection: Channel, code: int, flag: int, fields: Mapping[str, str], body: bytes) -> int:
        self._opaque = next_opaque(self._opaque)
        connection.send(RemotingFrame(code, self._opaque, flag, None, fields), (body,) if body else (), len(body))
        return self._opaque

    def _end(self, key: tuple[Channel, int], answer: RemotingFrame | None) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()
            waiting.done(answer)
