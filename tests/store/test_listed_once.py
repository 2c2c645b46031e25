"""A store's IndexFiles are listed once for one purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from support import golden
from support.listed import headers_read, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.config import StoreConfig

CALLS: dict[str, Callable[[Path, StoreConfig | None], object]] = {
    "read": lambda path, config: reput.MessageStore.open(path, config, read_only=True).close(),
    "write": lambda path, config: reput.MessageStore.open(path, config).close(),
    "info": lambda path, config: reput.info(path, config=config),
}


@pytest.mark.golden
@pytest.mark.parametrize("is_given", [False, True], ids=["sizes found", "sizes given"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_lists_the_index_files_once(
    call: str, is_given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a store, or its description, reads the header of each IndexFile once, also if sizes are compared."""
    store = golden.unpack("basic", tmp_path)
    config = sizes_of(store) if is_given else None
    seen = headers_read(store, monkeypatch)
    CALLS[call](store, config)
    assert set(seen.values()) == {1}, seen
