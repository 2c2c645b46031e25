"""The end of a process, as far as a test can have it in its own."""

from __future__ import annotations


class Killed(BaseException):
    """The process ends here: nothing may clean up after it."""
