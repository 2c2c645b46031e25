"""The fixtures of the peer suite: RocketMQ itself, and golden stores to try it on."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peer import peer as program

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

GOLDEN_DIR = Path(os.environ.get("REPUT_GOLDEN", Path(__file__).parents[1] / "golden"))


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

    def unpack_store(name: str) -> Path:
        with tarfile.open(GOLDEN_DIR / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / name

    return unpack_store


@pytest.fixture
def golden_answers() -> Callable[[str], Path]:
    """A function that names the file with RocketMQ's answers about a golden store."""
    return lambda name: GOLDEN_DIR / f"{name}.jsonl.gz"
