"""Files of others, in a store and beside it, which reput leaves as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats import paths

if TYPE_CHECKING:
    from pathlib import Path

    from support.power.disk import Tree

NAME = "notes.txt"
_DATA = b"not of reput\n"
_FOLDERS = ("", "store/", "store/config/", f"store/{paths.CONSUME_QUEUE}/", f"store/{paths.REPUT}/")


def add(disk: Path) -> None:
    """Add such a file to each of the folders that is there."""
    for folder in _FOLDERS:
        if (disk / folder).is_dir():
            (disk / folder / NAME).write_bytes(_DATA)


def assert_kept(before: Tree, disk: Path) -> None:
    """Fail unless the files that were there `before` have the bytes that they had."""
    for path in (f"{folder}{NAME}" for folder in _FOLDERS):
        if path in before:
            assert (disk / path).exists(), f"{path} is gone, and it is not reput's"
            assert (disk / path).read_bytes() == _DATA, f"{path} has changed, and it is not reput's"
