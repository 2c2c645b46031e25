"""A rebuild looks at the indexes that it replaces once, when it begins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.formats import paths
from reput.index import files
from tests.support import golden

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.golden
@pytest.mark.parametrize("only", ["queue", "index", None])
@pytest.mark.parametrize("is_clean", [True, False], ids=["after a broker's clean end", "after a crash"])
@pytest.mark.parametrize("has_frontier", [False, True], ids=["the broker's indexes", "our indexes"])
def test_a_rebuild_reads_the_header_of_each_index_file_once(
    only: str | None, is_clean: bool, has_frontier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rebuild reads the header of each present IndexFile once, whether it replaces the files or leaves them."""
    store = golden.unpack("basic", tmp_path)
    if has_frontier:
        reput.rebuild(store, spark=False)
    if not is_clean:
        (store / paths.ABORT).touch()
    present = {*(store / paths.INDEX).iterdir()}
    assert present
    seen: Counter[Path] = Counter()
    read_header = files.read_header

    def read(path: Path) -> Any:
        seen[path] += 1
        return read_header(path)

    monkeypatch.setattr(files, "read_header", read)
    reput.rebuild(store, spark=False, only=only)
    assert {path: seen[path] for path in present} == dict.fromkeys(present, 1)
