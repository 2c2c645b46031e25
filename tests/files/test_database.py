"""Databases that are damaged or not whole: every error names the database itself, and what helps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reput.errors import DamagedStoreError, NewerDatabaseError, ReputError
from reput.files.database import REBUILD_QUEUES
from reput.files.database_owner import DatabaseOwner, copy_database
from reput.files.fs import owner_of
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


IN_PART = [without("*.sst"), without("MANIFEST-*"), without("CURRENT"), without("*.log")]
DAMAGED = [
    changed("*.sst", lambda data: bytes([data[0] ^ 255]) * 64 + data[64:]),
    changed("*.sst", lambda data: data[:-30]),
    changed("MANIFEST-*", lambda data: data[:10] + bytes(10) + data[20:]),
]


@pytest.mark.golden
@pytest.mark.parametrize("damage", IN_PART, ids=["table", "manifest", "current", "write-ahead log"])
def test_a_copy_in_part_is_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Missing files are an error that advises another copy; for other damage it is a rebuild that helps."""
    folder = damaged_copy(tmp_path, damage)
    with pytest.raises(DamagedStoreError) as raised:
        read_whole(folder)
    assert "Files of this database are missing, as in a copy that is not whole: copy the folder again" in str(
        raised.value
    )
    assert REBUILD_QUEUES in str(raised.value)
    assert "Corruption" not in str(raised.value)
    assert "may be corrupted" not in str(raised.value)


@pytest.mark.golden
@pytest.mark.parametrize("name", [*golden.STORES, *golden.STORES_55])
def test_every_database_of_a_broker_has_a_write_ahead_log(name: str) -> None:
    """A database that a broker left, or that was killed with it, is no copy in part."""
    for current in golden.shared(name).rglob("CURRENT"):
        assert any(current.parent.glob("*.log")), current.parent


@pytest.mark.parametrize("is_written", [False, True])
def test_every_database_of_reput_has_a_write_ahead_log(is_written: bool, tmp_path: Path) -> None:
    """A database that reput makes, fills, opens again or copies can be read."""
    folder, copy = tmp_path / "database", tmp_path / "copy"
    for _ in range(2):
        with DatabaseOwner(folder, ["default"], tmp_path / "logs", owner_of(tmp_path)) as owner:
            if is_written:
                batch = owner.batch()
                batch.put("default", b"key", b"value")
                owner.write(batch)
                owner.compact("default")
        copy_database(folder, copy, owner_of(tmp_path))
        for place in (folder, copy):
            assert databases.content_of(place, ["default"]) == {"default": {b"key": b"value"} if is_written else {}}
        shutil.rmtree(copy)


def of_version(version: int) -> Callable[[bytes], bytes]:
    """Give a table a later format: its version before the last 8 bytes, and the mark that footers have since 6."""
    return lambda data: data[:-52] + b"\x3e\x00\x7a\x00" + data[-48:-12] + version.to_bytes(4, "little") + data[-8:]


@pytest.mark.golden
@pytest.mark.parametrize("at", [9, 10, 11, 12])
def test_a_flipped_byte_in_a_footer_was_called_newer(at: int, tmp_path: Path) -> None:
    """A version that no format has yet, without the mark of later formats, is damage: a rebuild helps."""
    flipped = changed("*.sst", lambda data: data[:-at] + bytes([data[-at] ^ 0x55]) + data[len(data) - at + 1 :])
    with pytest.raises(DamagedStoreError, match=r"format_version.*reput rebuild --only queue") as raised:
        read_whole(damaged_copy(tmp_path, flipped))
    assert not isinstance(raised.value, NewerDatabaseError)


@pytest.mark.golden
@pytest.mark.parametrize("cut", [1, 5, 30, 100])
def test_a_cut_manifest_read_as_an_empty_database(cut: int, tmp_path: Path) -> None:
    """RocksDB goes by the whole changes of a MANIFEST; one that ends in the middle of a change is damage."""
    folder = damaged_copy(tmp_path, changed("MANIFEST-*", lambda data: data[:-cut]))
    with pytest.raises(DamagedStoreError, match=r"MANIFEST-\d+ ends in the middle of a change.*rebuild --only queue"):
        read_whole(folder)


@pytest.mark.golden
def test_tables_of_a_newer_rocksdb_were_called_damaged(tmp_path: Path) -> None:
    """A table in a format that RocksDB does not know is a newer one's: no copy helps."""
    folder = damaged_copy(tmp_path, changed("*.sst", of_version(9)))
    with pytest.raises(NewerDatabaseError, match="written by a newer RocksDB than reput reads") as raised:
        read_whole(folder)
    assert str(raised.value).startswith(f"{folder}: cannot open: ")
    assert REBUILD_QUEUES not in str(raised.value)
    assert "may be corrupted" not in str(raised.value)
    # As `info` and `check` end beside it.
    assert raised.value.exit_code == 1


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
