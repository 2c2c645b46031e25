"""A fixture that tests of queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.files import fs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes that each call of `fs.read_bytes` asks for."""
    asked: list[int] = []
    real = fs.read_bytes

    def noted(path: Path | str, limit: int, offset: int = 0) -> bytes | None:
        asked.append(limit)
        return real(path, limit, offset)

    monkeypatch.setattr(fs, "read_bytes", noted)
    return asked
