"""A full disk in the broker's log: a line when it first refuses a message, and one when messages are stored again."""

from __future__ import annotations

import logging

log = logging.getLogger("reput.broker")


class FullDisk:
    """Logs when a disk is full and when it is no more. All methods run in the loop's thread.

    Small messages may be stored while larger ones are refused, so it is full until a second has no refusal.
    """

    def __init__(self) -> None:
        self._is_full = False
        self._has_refused = False
        self._log_end = 0

    def refused(self, reason: str) -> None:
        """Note that a message was refused, and why."""
        self._has_refused = True
        if not self._is_full:
            self._is_full = True
            log.error("messages are refused: %s", reason)

    def look(self, log_end: int) -> None:
        """Note where the store's log ends now; the broker calls it each second."""
        if self._is_full and not self._has_refused and log_end > self._log_end:
            self._is_full = False
            log.warning("messages are stored again: the disk has room")
        self._has_refused, self._log_end = False, log_end
