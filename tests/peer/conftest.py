"""The fixtures of the peer suite: RocketMQ itself, and golden stores to try it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peer import peer as program
from support import golden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="session")
def peer() -> ModuleType:
    """The peer, ready to run; skips where Maven or Java is missing."""
    reason = program.available()
    if reason is not None:
        pytest.skip(reason)
    return program


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Path]:
    """A function that unpacks a golden store and returns its folder."""
    return lambda name: golden.unpack(name, tmp_path)


@pytest.fixture
def golden_answers() -> Callable[[str], Path]:
    """A function that names the file with RocketMQ's answers about a golden store."""
    return lambda name: golden.folder(name) / f"{name}.jsonl.gz"
