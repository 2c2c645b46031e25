"""A bound on the bytes that many hold together."""

from __future__ import annotations


class ByteBound:
    """Bytes that are held together, at most `most`. Its methods run in one thread."""

    __slots__ = ("held", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold further bytes; return False if they are too many."""
        if self.held + size > self.most:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        """Hold bytes no more."""
        self.held -= size
