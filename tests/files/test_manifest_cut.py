"""MANIFESTs that are cut exactly between two changes: RocksDB takes what is left for an earlier state."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.files.database import DatabaseReader
from reput.store.metadata.tables import Table
from support import golden
from support.metadata import metadata_of

if TYPE_CHECKING:
    from pathlib import Path

METADATA = [
    ("config-v1", "config/consumerOffsets"),
    ("config-v1", "config/topics"),
    ("config-v1-single", "config/metadata"),
    ("config-v1-killed", "config/consumerOffsets"),
    ("config-v2", "config/rdb"),
]
NAMES_A_TABLE = 103
"""The tag of a new table in a change (`VersionEdit`, kNewFile4)."""


def changes(manifest: bytes) -> list[bytes]:
    """The changes of a MANIFEST of one block, each with its 7 bytes of header."""
    found, at = [], 0
    while at + 7 <= len(manifest):
        _, size, _ = struct.unpack_from("<IHB", manifest, at)
        found.append(manifest[at : at + 7 + size])
        at += 7 + size
    return found


def manifest_of(database: Path) -> Path:
    """The MANIFEST that counts."""
    return database / (database / "CURRENT").read_text().strip()


@pytest.mark.golden
@pytest.mark.parametrize(("name", "place"), METADATA)
def test_a_manifest_cut_between_changes_read_as_no_metadata(name: str, place: str, tmp_path: Path) -> None:
    """`info` and `check` name the damage if no table is named any more, and the write-ahead log is empty.

    The rest of the file may be zeros: of a sector that was read wrong RocksDB takes them for unused room.
    """
    store = golden.unpack(name, tmp_path)
    manifest = manifest_of(store / place)
    whole = changes(manifest.read_bytes())
    first = next((number for number, one in enumerate(whole) if bytes([NAMES_A_TABLE]) in one[7:]), None)
    if first is None:
        assert any(log.stat().st_size for log in (store / place).glob("*.log")), "a broker that was killed early"
        return
    table = next(table for table in Table if metadata_of(store).place(table) == store / place)
    assert metadata_of(store).read(table).values
    for count in range(4, first + 1):
        manifest.write_bytes(b"".join(whole[:count]) + bytes(40 * (count % 2)))
        with pytest.raises(DamagedStoreError, match="names no table, the write-ahead log is empty, and there is"):
            metadata_of(store).read(table)
        assert any("names no table" in text for text in reput.info(store).damage)
        found = {one.rule for one in reput.check(store, spark=False).findings if one.severity == "damage"}
        assert "metadata-damaged" in found


def test_a_kill_before_the_first_table_is_named_is_no_damage(tmp_path: Path) -> None:
    """The write-ahead log has what is in a table that is not named yet; a database without one is read as it is."""
    store = golden.unpack("config-v1", tmp_path)
    database = store / "config/consumerOffsets"
    manifest = manifest_of(database)
    manifest.write_bytes(b"".join(changes(manifest.read_bytes())[:4]))
    with DatabaseReader(database, ("default",)):
        pass
    log = next(database.glob("*.log"))
    copy = tmp_path / "copy"
    shutil.copytree(database, copy)
    (copy / log.name).write_bytes(b"\0" * 7)
    with DatabaseReader(copy, ("default",), is_logged=True):
        pass


@pytest.mark.golden
def test_a_cut_manifest_of_queues_is_seen_by_what_the_log_has(tmp_path: Path) -> None:
    """RocketMQ writes queues without a write-ahead log: a kill leaves the same, and `check` says what is missing."""
    store = golden.unpack("separate", tmp_path)
    manifest = manifest_of(store / "consumequeue_rocksdb")
    whole = changes(manifest.read_bytes())
    first = next(number for number, one in enumerate(whole) if bytes([NAMES_A_TABLE]) in one[7:])
    manifest.write_bytes(b"".join(whole[:first]))
    report = reput.check(store, spark=False)
    assert not report.sound
    assert "queue-out-of-date" in {one.rule for one in report.findings}
