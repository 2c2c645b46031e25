"""Databases that are damaged or not whole: every error names the database itself, and what helps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError, ReputError
from reput.files.database import REBUILD_QUEUES
from reput.queue.rocksdb_kind import open_reader
from support import databases, golden

if TYPE_CHECKING:
    from collections.abc import Callable


def damaged_copy(tmp_path: Path, damage: Callable[[Path], None]) -> Path:
    """A copy of a broker's database of queues, with this damage."""
    folder = shutil.copytree(databases.folder_of(golden.shared("separate")), tmp_path / "copy")
    damage(folder)
    return folder


def read_whole(folder: Path) -> None:
    """Read every key of a database of queues."""
    with open_reader(folder) as reader:
        for family in reader.families.values():
            for _ in family.walk():
                pass


def without(pattern: str) -> Callable[[Path], None]:
    """Remove one file of this name."""
    return lambda folder: min(folder.glob(pattern)).unlink()


def changed(pattern: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change the bytes of each file of this name."""

    def damage(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.write_bytes(change(path.read_bytes()))

    return damage


IN_PART = [without("*.sst"), without("MANIFEST-*"), without("CURRENT")]
DAMAGED = [
    changed("*.sst", lambda data: bytes([data[0] ^ 255]) * 64 + data[64:]),
    changed("*.sst", lambda data: data[:-30]),
    changed("MANIFEST-*", lambda data: data[:10] + bytes(10) + data[20:]),
]


@pytest.mark.golden
@pytest.mark.parametrize("damage", IN_PART, ids=["table", "manifest", "current"])
def test_a_copy_in_part_is_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """If files are missing, the error says so and advises another copy; a rebuild is what helps otherwise."""
    folder = damaged_copy(tmp_path, damage)
    with pytest.raises(DamagedStoreError) as raised:
        read_whole(folder)
    assert "Files of this database are missing, as in a copy that is not whole: copy the folder again" in str(
        raised.value
    )
    assert REBUILD_QUEUES in str(raised.value)


@pytest.mark.golden
@pytest.mark.parametrize("damage", DAMAGED, ids=["block", "cut table", "manifest"])
def test_damage_is_no_copy_in_part(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Wrong bytes have other words: a rebuild helps, not another copy."""
    folder = damaged_copy(tmp_path, damage)
    with pytest.raises(DamagedStoreError, match="reput rebuild --only queue") as raised:
        read_whole(folder)
    assert "not whole" not in str(raised.value)


@pytest.mark.golden
@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("damage", IN_PART + DAMAGED)
def test_no_error_names_the_folder_of_links(
    damage: Callable[[Path], None], is_relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error names the files of the database, not the links through which they are read."""
    folder = damaged_copy(tmp_path, damage)
    if is_relative:
        monkeypatch.chdir(tmp_path)
        folder = Path(os.path.relpath(folder))
    with pytest.raises(ReputError) as raised:
        read_whole(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    assert "reput-rocksdb-" not in str(raised.value)
