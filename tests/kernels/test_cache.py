"""numba's cache: whether it has the kernels of an open store, made of these sources."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reput.kernels.compiled import cache

if TYPE_CHECKING:
    from pathlib import Path


def fill(folder: Path, names: tuple[str, ...] = cache._NEEDED) -> None:
    """Make the files of cached kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}-1.py311.nbi").touch()


def test_a_cache_of_kernels_is_seen_without_numba(tmp_path: Path) -> None:
    """A folder for numba's cache has kernels if it has all that an open store needs; numba is not loaded to see it."""
    code = (
        "import sys; from reput.kernels.compiled.cache import are_cached; print(are_cached(), 'numba' in sys.modules)"
    )
    for names in ((), cache._NEEDED[-1:], cache._NEEDED):
        fill(tmp_path / "reput_1", names)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert run.stdout.split() == [str(names == cache._NEEDED), "False"]


def test_code_of_other_sources_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade the old code counts as none, so a broker compiles before it listens; the new code is kept."""
    folder = tmp_path / "__pycache__"
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(cache, "_COMPILED", tmp_path)
    monkeypatch.setattr(cache, "_STAMP", folder / "sources.sha256")
    fill(folder)
    (folder / "sources.sha256").write_text("0123")
    assert not cache.are_cached()
    cache.drop_stale_code()
    assert not list(folder.glob("*.nbi"))
    fill(folder)
    cache.drop_stale_code()
    assert cache.are_cached()
