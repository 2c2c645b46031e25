"""A rebuild looks at the indexes that it replaces once, when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

import reput
from reput.formats import paths
from support import golden
from support.listed import headers_read, sizes_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.golden
@pytest.mark.parametrize("only", ["queue", "index", None])
@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean end", "after a crash"])
@pytest.mark.parametrize("has_frontier", [False, True], ids=["the broker's indexes", "our indexes"])
def test_a_rebuild_lists_the_index_files_once(
    only: Literal["queue", "index"] | None,
    is_clean: bool,
    has_frontier: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One rebuild reads the header of each present IndexFile once, whether it replaces the files or leaves them."""
    store = golden.unpack("basic", tmp_path)
    if has_frontier:
        reput.rebuild(store, spark=False)
    if not is_clean:
        (store / paths.ABORT).touch()
    config = sizes_of(store)
    seen = headers_read(store, monkeypatch)
    reput.rebuild(store, spark=False, only=only, config=config)
    assert set(seen.values()) == {1}, seen
