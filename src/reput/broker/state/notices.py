"""Notices to consumer groups that have changed: one for all changes of a turn of the loop, and few in a second.

RocketMQ sends one for each change, so members that vanish together cost the square of their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

NOTICE_INTERVAL_S: Final = 0.1
"""The time from a notice of a group to the next one, for all changes in between."""


class GroupNotices:
    """The notices. All methods run in the loop's thread.

    Args:
        loop: the loop that serves connections.
        send: sends a notice to the members that a group has now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[str], None]) -> None:
        self._loop = loop
        self._send = send
        # Groups that had a notice just now, or get one in the next turn; True if they have changed since.
        self._changed: dict[str, bool] = {}

    def changed(self, group: str) -> None:
        """Send a notice soon."""
        if group not in self._changed:
            self._loop.call_soon(self._look, group)
        self._changed[group] = True

    def _look(self, group: str) -> None:
        if not self._changed[group]:
            del self._changed[group]
            return
        self._changed[group] = False
        self._loop.call_later(NOTICE_INTERVAL_S, self._look, group)
        self._send(group)
