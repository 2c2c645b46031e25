"""Requests that wait for messages: bounded in number and in bytes, each until its deadline or its connection's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

MAX_WAIT_MS: Final = 60_000
"""The longest wait of a request."""
MAX_WAITING_BYTES: Final = 256 << 20
"""The most bytes of requests of one kind that wait."""


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request that waits: the connection that it came from as `owner`, and its bytes as `size`."""

    owner: object
    size: int
    timer: asyncio.TimerHandle | None = field(default=None, init=False)


R = TypeVar("R", bound=WaitingRequest)


class WaitingRequests(Generic[R]):
    """The requests of one kind that wait, the oldest first. All methods run in the loop's thread.

    Args:
        loop: the broker's loop.
        end: takes a request at its deadline; it removes the request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[R], None]) -> None:
        self._loop = loop
        self._end = end
        self._requests: dict[R, None] = {}
        self._bytes = 0
        # By connection: thousands of clients may go at once.
        self._of_owner: dict[object, dict[R, None]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[R]:
        return iter(self._requests)

    def add(self, request: R, most: int, wait_ms: int) -> bool:
        """Let a request wait, at most for a time; return False if `most` requests wait, or too many bytes."""
        if len(self._requests) >= most or self._bytes + request.size > MAX_WAITING_BYTES:
            return False
        self._requests[request] = None
        self._bytes += request.size
        self._of_owner.setdefault(request.owner, {})[request] = None
        request.timer = self._loop.call_later(min(wait_ms, MAX_WAIT_MS) / 1000, self._end, request)
        return True

    def remove(self, request: R) -> bool:
        """Let a request wait no more; return False if it does not wait."""
        if request not in self._requests:
            return False
        del self._requests[request]
        self._bytes -= request.size
        own = self._of_owner[request.owner]
        del own[request]
        if not own:
            del self._of_owner[request.owner]
        if request.timer is not None:
            request.timer.cancel()
        return True

    def of_owner(self, owner: object) -> list[R]:
        """Return the requests of a connection, the oldest first."""
        return list(self._of_owner.get(owner, ()))
