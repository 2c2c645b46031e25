"""The end of a `with` or `async with` block as the end of what it has opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Something that its `with` block closes, also after an error."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """Something that its `async with` block closes, also after an error."""

    __slots__ = ()

    @abstractmethod
    async def close(self) -> None:
        """Release what is held."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
