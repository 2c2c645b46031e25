"""convert: the index by key in files, in RocksDB, and in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

import reput
from reput.errors import ConfigError
from reput.files import fs
from reput.formats import paths
from reput.formats.index import index_database as fmt
from support import golden
from support.checked import assert_sound
from support.opened import assert_keys_found
from support.search import takes_long
from tests.formats.index.test_index_entry_keys import given_by_log
from tests.pipeline.build.index.test_database import ALONE, BOTH, families

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


ORDERS = (("file", "rocksdb", "both"), ("both", "file", "rocksdb"), ("rocksdb", "file", "both"))
"""From each kind to each other one, with the stores that they begin with."""


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "targets"),
    [
        pytest.param(name, order, id=f"{name}-{'-'.join(order)}", marks=() if order in bounded else takes_long)
        for name, bounded in ((BOTH, ORDERS), (ALONE, ORDERS), ("json", ORDERS[:1]), ("separate", ORDERS[:1]))
        for order in ORDERS
    ],
)
def test_all_kinds(name: str, targets: Sequence[Literal["file", "rocksdb", "both"]], tmp_path: Path) -> None:
    """From each store to each kind and back: the store is sound, answers the same, and has no other kind."""
    store = golden.unpack(name, tmp_path)
    wanted = {**families(store), fmt.FAMILY: given_by_log(store)}
    has_database = name in {BOTH, ALONE}
    assert families(store)[fmt.FAMILY] == (wanted[fmt.FAMILY] if has_database else {})
    for target in targets:
        if target == {BOTH: "both", ALONE: "rocksdb"}.get(name, "file") and target == targets[0]:
            assert not reput.convert(store, index=target, spark=False).built
            continue
        has_files, has_database = target != "rocksdb", target != "file"
        report = reput.convert(store, index=target, spark=False)
        assert report.built == ["index"]
        assert any("a broker uses this index if its broker.conf says" in note for note in report.notes)
        assert bool(fs.list_dir(store / paths.INDEX)) == has_files
        assert families(store) == (wanted if has_database else {**wanted, fmt.FAMILY: {}})
        with reput.MessageStore.open(store, read_only=True) as opened:
            assert_keys_found(opened, name)
        assert_sound(store)
        again = reput.convert(store, index=target, spark=False)
        assert not again.built
        assert "nothing to do" in again.notes[0]


def test_pending_timers_stay(tmp_path: Path) -> None:
    """Timers in the database stay where the index comes and goes."""
    store = golden.unpack("pending-rocksdb", tmp_path)
    before = families(store)["timer"]
    for target in ("both", "file"):
        reput.convert(store, index=target, spark=False)  # type: ignore[arg-type]
        assert families(store)["timer"] == before


def test_one_of_two(tmp_path: Path) -> None:
    """A conversion changes the queues or the index, by one of the targets, and an index comes from the log."""
    for arguments in ({}, {"to": "file", "index": "file"}, {"index": "other"}, {"index": "file", "source": "queues"}):
        with pytest.raises(ConfigError):
            reput.convert(tmp_path, spark=False, **arguments)  # type: ignore[arg-type]
