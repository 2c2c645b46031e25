"""Links in a store that somebody hands over: nothing is written or removed where they lead."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import reput
from reput.connect.writer import RocketmqWriter, Staged
from reput.errors import AccessError, ReputError, UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from support import databases, golden, stores
from support.users import NOBODY

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes in stores of others")


def content(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lead_out(store: Path, inside: str, target: Path) -> None:
    """Move a part of a store to `target`, and let a link in its place lead there."""
    shutil.move(store / inside, target)
    (store / inside).symlink_to(target)


@pytest.mark.parametrize("inside", [f"{paths.CONSUME_QUEUE}/orders", f"{paths.CONSUME_QUEUE}/orders/0"])
def test_queues_behind_a_link_are_not_written(tmp_path: Path, inside: str) -> None:
    """A put whose entries would go through a link is an error at the catch-up; what the link leads to stays."""
    store = golden.unpack("basic", tmp_path)
    lead_out(store, inside, tmp_path / "target")
    before = content(tmp_path / "target")
    with pytest.raises(ReputError):
        _put_and_index(store)
    assert content(tmp_path / "target") == before
    for build in (reput.rebuild, lambda path, **options: reput.convert(path, to="rocksdb", **options)):
        with pytest.raises(UnsupportedStoreError, match="a link to"):
            build(store, spark=False)
    assert content(tmp_path / "target") == before


def _put_and_index(store: Path) -> None:
    with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
        for _ in range(golden.QUEUE_FILE_ENTRIES):
            opened.put_message(reput.Message("orders", b"body"))
        opened.reput(spark=False)


@as_root
def test_a_folder_behind_a_new_link_got_the_owner_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that takes the place of a folder that root has just made is an error; what it leads to keeps its owner."""
    target, mkdir = tmp_path / "target", os.mkdir
    target.mkdir()

    def replaced(path: Path | str, *mode: int) -> None:
        mkdir(path, *mode)
        Path(path).rmdir()
        Path(path).symlink_to(target)

    monkeypatch.setattr(os, "mkdir", replaced)
    with pytest.raises(ReputError):
        fs.make_dirs(tmp_path / "new", fs.Owner(NOBODY, NOBODY, 0o600, 0o700))
    assert target.stat().st_uid == os.geteuid()


def test_a_deletion_does_not_follow(tmp_path: Path) -> None:
    """The deletion of a topic whose folder is a link is refused, and no file is removed where it leads."""
    store = golden.unpack("basic", tmp_path)
    lead_out(store, f"{paths.CONSUME_QUEUE}/orders", tmp_path / "target")
    before = content(tmp_path / "target")
    with pytest.raises(ReputError), reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
        opened.delete_topic("orders")
    assert content(tmp_path / "target") == before


def test_an_expired_log_file_that_is_a_link(tmp_path: Path) -> None:
    """An expired log file that is a link loses its name in the store; the file that it leads to stays."""
    store = golden.unpack("basic", tmp_path)
    first = f"{paths.COMMIT_LOG}/{paths.offset_name(0)}"
    lead_out(store, first, tmp_path / "target")
    os.utime(tmp_path / "target", (0, 0))

    with reput.MessageStore.open(store, replace(stores.GOLDEN, file_reserved_time=1), create=True) as opened:
        gone = opened.delete_expired(manual=True)
    assert [name for name in gone if name.endswith(paths.offset_name(0))] != []
    assert not (store / first).is_symlink()
    assert (tmp_path / "target").stat().st_size == golden.LOG_FILE_SIZE


def test_a_database_with_links_is_not_written(tmp_path: Path) -> None:
    """RocksDB would write through a link among its files: such a database is not opened to write."""
    store = golden.unpack("rocksdb", tmp_path)
    folder = store / databases.rocksdb(store).folder.relative_to(store)
    table = next(folder.glob("*.sst"))
    lead_out(store, str(table.relative_to(store)), tmp_path / "target")
    before = (tmp_path / "target").read_bytes()
    with pytest.raises(AccessError, match="a link to"):
        _put_and_index(store)
    assert (tmp_path / "target").read_bytes() == before


@as_root
@pytest.mark.parametrize("part", [paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.INDEX, paths.CONFIG])
def test_root_does_not_follow_links_of_others(tmp_path: Path, part: str) -> None:
    """Root writes through no link that another user has made; a link of root's own is a choice of root's."""
    store = golden.unpack("basic", tmp_path)
    (store / part).mkdir(exist_ok=True)
    lead_out(store, part, tmp_path / "target")
    os.lchown(store / part, NOBODY, NOBODY)
    before = content(tmp_path / "target")
    with pytest.raises(AccessError, match="root writes through no link of others"):
        reput.MessageStore.open(store, stores.GOLDEN, create=True)
    assert content(tmp_path / "target") == before
    os.lchown(store / part, 0, 0)
    with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
        opened.put_message(reput.Message("orders", b"body"))


@pytest.mark.parametrize("inside", ["", "/{folder}", "/{folder}/staged"])
def test_a_sink_behind_a_link_is_not_written(tmp_path: Path, inside: str) -> None:
    """Tasks stage nothing through a link among a sink's folders, and neither a commit nor an abort removes anything."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, create=True) as opened:
        opened.put_message(reput.Message("orders", b"body"))
    schema = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])
    writer = RocketmqWriter({"path": str(store), "writeId": "job"}, schema)
    target = tmp_path / "target"
    (target / "staged").mkdir(parents=True)
    (target / "staged" / "precious").write_bytes(b"precious")
    link = Path(f"{store}/reput/sinks{inside.format(folder=writer.target.sink)}")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    before = content(target)
    row = pa.record_batch({"topic": ["orders"], "body": [b"new"]})
    for act in (
        lambda: writer.write(iter([row])),
        lambda: writer.commit([Staged(["x.arrow"])]),
        lambda: writer.abort([Staged(["precious"])]),
    ):
        with pytest.raises(AccessError, match="a link to"):
            act()
    assert content(target) == before


@pytest.mark.parametrize("folder", ["", paths.CONFIG, paths.REPUT])
def test_a_link_that_is_none_of_the_stores_names_matters_to_nobody(tmp_path: Path, folder: str) -> None:
    """A link to itself, and one to a place without rights, are no reason to refuse a store that does not use them."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, stores.SMALL, create=True) as opened:
        opened.put_message(reput.Message("t", b"body"))
    (store / folder).mkdir(exist_ok=True)
    (store / folder / "loop").symlink_to("loop")
    secret = tmp_path / "secret"
    secret.mkdir(mode=0)
    (store / folder / "backup").symlink_to(secret / "x")
    # reput writes beside no link in its own folder.
    for read_only in (True,) if folder == paths.REPUT else (True, False):
        with reput.MessageStore.open(store, stores.SMALL, read_only=read_only) as opened:
            assert [message.body for message in opened.messages("t")] == [b"body"]
