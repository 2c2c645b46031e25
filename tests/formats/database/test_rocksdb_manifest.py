"""MANIFEST: a database that never held a table differs from every other one."""

from __future__ import annotations

import pytest

from reput.formats import paths
from reput.formats.database.rocksdb_manifest import manifest_name, never_had_a_table
from support import golden

pytestmark = pytest.mark.golden


def manifest(name: str) -> bytes:
    """The MANIFEST of the index database of a golden store."""
    folder = golden.shared(name) / paths.INDEX_DATABASE
    return (folder / manifest_name((folder / "CURRENT").read_bytes())).read_bytes()


def test_a_broker_makes_an_empty_database() -> None:
    """An empty database of a broker without the index in RocksDB has no table, one with the index has."""
    assert never_had_a_table(manifest("json"))
    assert not never_had_a_table(manifest("index-rocksdb"))
    for zeros in (1, 7, 8, 500):
        assert never_had_a_table(manifest("json") + bytes(zeros))
        assert not never_had_a_table(bytes(zeros))


def test_every_change_is_seen() -> None:
    """No byte of it can change, and only whole changes at its end can be missing, without being seen."""
    data = manifest("json")
    for at in range(len(data)):
        assert not never_had_a_table(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
    ends = [at for at in range(len(data) + 1) if never_had_a_table(data[:at])]
    assert ends[-1] == len(data)
    assert len(ends) < 9


@pytest.mark.parametrize("current", [b"", b"MANIFEST-000005", b"MANIFEST-x\n", b"../MANIFEST-000005\n", b"\xff\n"])
def test_no_other_file_is_named(current: bytes) -> None:
    """A CURRENT that names no MANIFEST names nothing."""
    assert manifest_name(b"MANIFEST-000005\n") == "MANIFEST-000005"
    assert manifest_name(current) == ""
