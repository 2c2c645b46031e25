"""Owner and modes of rebuilt files: they are the store's, since the broker must be able to use the files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from support import golden

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_consume_queue=golden.QUEUE_FILE_SIZE,
    max_hash_slot_num=golden.INDEX_SLOTS,
    max_index_num=golden.INDEX_ITEMS,
)
SOMEBODY = 12345

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
]


def give(store: Path) -> None:
    """Give the whole store to somebody, closed to others."""
    for path in (store, *store.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
        path.chmod(0o750 if path.is_dir() else 0o640)


def test_everything_is_given_to_the_stores_owner(tmp_path: Path) -> None:
    """New indexes, the checkpoint and reput's own files get the store's owner and modes."""
    store = golden.unpack("basic", tmp_path)
    (store / "lock").unlink()
    give(store)
    reput.rebuild(store, spark=False, config=CONFIG)

    made = [store / "lock", store / "checkpoint", *(store / "consumequeue").rglob("*"), *(store / "index").rglob("*")]
    for path in (*made, *(store / "reput").rglob("*")):
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (SOMEBODY, SOMEBODY), path
    for path in made[1:]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path
