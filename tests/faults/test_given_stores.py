"""Root at work on another user's store: all that is in it afterwards is that user's, who can go on.

A bug once: `reput/follower`, `reput/follow-checkpoint/**` and `reput/rocksdb-log/*` were root's, and the owner's next
`put` failed.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import AccessError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from support import golden
from support.checked import assert_sound
from support.users import NOBODY, as_another_user, put_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark import SparkContext

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
]
OWNER, GROUP = 12345, 23456
THIRD = NOBODY
CONF = golden.CONFIG
PUT_TWICE = "PUT_OK PUT_OK"
KINDS = ("basic", "rocksdb", "ext")


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """The strictest mask that root may have: modes must not lock the owner out."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def given(name: str, folder: Path, mode: int = 0o750) -> Path:
    """A store of RocketMQ's that is somebody's and, unless the mode says otherwise, closed to others."""
    store = golden.unpack(name, folder)
    for path in (store, *store.rglob("*")):
        os.chown(path, OWNER, GROUP)
        path.chmod(mode if path.is_dir() else mode & 0o666)
    return store


def strange(store: Path) -> list[str]:
    """The files of a store that are not its owner's, or that its owner may not use."""
    found = []
    for path in (store, *store.rglob("*")):
        status = path.lstat()
        needed = 0o700 if path.is_dir() else 0o600
        if (status.st_uid, status.st_gid) != (OWNER, GROUP) or status.st_mode & needed != needed:
            found.append(f"{path.relative_to(store)}: {status.st_uid}:{status.st_gid} {status.st_mode:o}")
    return sorted(found)


def called(*arguments: object, text: str = "") -> None:
    """Run a command as root; it must succeed."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=text)
    assert done.exit_code == 0, (arguments, done.stderr, done.exception)


def put_as_owner(store: Path) -> str:
    """Put, index and close as the store's owner."""
    return put_as(store, OWNER, GROUP)


@pytest.mark.parametrize("name", KINDS)
def test_all_that_root_made_is_the_owners(name: str, open_folder: Path) -> None:
    """After every command that writes nothing in the store is root's, and the owner can put."""
    store = given(name, open_folder)
    conf = open_folder / "broker.conf"
    conf.write_text(CONF)
    engine = ("--no-spark", "--config", conf)
    steps: list[tuple[tuple[object, ...], str]] = [
        (("info", store), ""),
        (("check", store, *engine), ""),
        (("put", store, "-t", "orders"), "one\ntwo\n"),
        (("rebuild", store, *engine), ""),
        (("rebuild", store, "--topic", "orders", *engine), ""),
        (("follow", store, "--until-caught-up", "--no-spark"), ""),
        (("progress", store, "-g", "new", "-t", "orders", "-q", "0", "--commit", "1"), ""),
        (("put", store, "-t", "new", "--no-reput"), "three\n"),
        (("follow", store, "--until-caught-up", "--no-spark"), ""),
        (("delete", store, "-t", "new"), ""),
    ]
    if name == "basic":
        steps += [(("convert", store, "--to", kind, *engine), "") for kind in ("rocksdb", "both", "file")]
    for arguments, text in steps:
        called(*arguments, text=text)
        assert strange(store) == [], arguments
    assert put_as_owner(store) == PUT_TWICE


def test_a_new_store_is_the_folders_owners(open_folder: Path) -> None:
    """A store that root makes in somebody's folder is that user's from the first file on."""
    home = open_folder / "home"
    home.mkdir(mode=0o750)
    os.chown(home, OWNER, GROUP)
    called("put", home / "store", "-t", "orders", "--create", "--set", "fileReservedTime=1000", text="one\n")
    assert strange(home / "store") == []
    assert (home / "store" / paths.REPUT / own.EXPIRY_NAME).exists()
    assert put_as_owner(home / "store") == PUT_TWICE
    assert_sound(home / "store")


def test_exported_files_are_the_folders_owners(open_folder: Path) -> None:
    """An export by root into a user's folder is that user's."""
    store, lake = given("basic", open_folder), open_folder / "lake"
    lake.mkdir(mode=0o750)
    os.chown(lake, OWNER, GROUP)
    called("export", store, "--folder", lake, "--no-spark")
    assert list(lake.glob("topic=orders/*/*"))
    assert strange(lake) == []


@pytest.mark.spark
def test_what_spark_made_is_the_owners(spark: SparkContext, open_folder: Path) -> None:
    """The files of Spark's own query, and those of a sink, are the owner's, too, who can put."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    store = given("rocksdb", open_folder)
    called("put", store, "-t", "orders", "--no-reput", text="one\n")
    with reput.follow(store, spark=session, until_caught_up=True) as follower:
        follower.wait()
    assert (store / paths.REPUT / own.FOLLOW_CHECKPOINT_NAME / "metadata").exists()
    assert strange(store) == []
    reput.register(session)
    frame = session.createDataFrame([(bytearray(b"four"),)], "body binary")
    for write in ("", "orders-1"):
        writer = frame.write.format("rocketmq").option("topic", "orders").mode("append")
        (writer.option("writeId", write) if write else writer).save(str(store))
        assert strange(store) == []
    reput.rebuild(store, spark=session, config=golden_config(open_folder))
    assert strange(store) == []
    assert put_as_owner(store) == PUT_TWICE
    assert_sound(store)


def golden_config(folder: Path) -> Path:
    """A broker.conf of the golden stores."""
    conf = folder / "broker.conf"
    conf.write_text(CONF)
    return conf


@pytest.mark.parametrize("name", ["rocksdb", "basic"])
def test_a_killed_root_leaves_the_owner_a_store(name: str, open_folder: Path) -> None:
    """Root that is killed with the store open leaves no file that keeps the owner out."""
    store = given(name, open_folder)

    assert put_as(store, 0, 0, is_killed=True) == PUT_TWICE
    assert put_as_owner(store) == PUT_TWICE
    assert_sound(store)


# --- a third user ---------------------------------------------------------------------------------


def writing(store: Path) -> dict[str, Callable[[], object]]:
    """Ways to write a store, by name."""
    return {
        "put": lambda: reput.MessageStore.open(store).close(),
        "rebuild": lambda: reput.rebuild(store, spark=False),
        "follow": lambda: reput.follow(store, spark=False, until_caught_up=True).wait(),
        "convert": lambda: reput.convert(store, to="rocksdb", spark=False),
    }


@pytest.mark.parametrize("mode", [0o755, 0o777])
@pytest.mark.parametrize("way", ["put", "rebuild", "follow", "convert"])
def test_a_third_user_is_refused_with_the_owners_name(way: str, mode: int, open_folder: Path) -> None:
    """A user who is neither the owner nor root gets the owner's name; nothing is made, even if the rights suffice."""
    store = given("basic", open_folder, mode)
    before = sorted(store.rglob("*"))
    for module in ("build.rebuild", "follow.follow", "convert.convert", "follow.catch_up"):
        # Where Python finds them the third user may not look.
        import_module(f"reput.pipeline.{module}")

    def refused() -> str:
        try:
            writing(store)[way]()
        except AccessError as error:
            return str(error)
        return "done"

    said = as_another_user(refused)
    assert "Run as its owner" in said
    assert f"uid {OWNER}" in said
    assert f"uid {THIRD}" in said
    assert sorted(store.rglob("*")) == before


def test_a_file_system_with_one_owner_is_no_stranger(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that gives all files one owner, as shares do, lets any user write that has the rights."""
    store = given("basic", open_folder, 0o777)
    monkeypatch.setattr(os, "geteuid", lambda: THIRD)
    status = store.stat()
    monkeypatch.setattr(os, "fstat", lambda _descriptor: status)
    fs.refuse_strangers(store)
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: THIRD)
    with pytest.raises(AccessError, match=f"belongs to uid {OWNER}"):
        fs.refuse_strangers(store)


def test_a_file_with_a_second_name_keeps_its_owner(open_folder: Path) -> None:
    """A folder's owner cannot have root give away another user's file by a link to it."""
    folder, secret = open_folder / "folder", open_folder / "secret"
    (folder / "below").mkdir(parents=True)
    secret.write_text("root's")
    os.link(secret, folder / "below" / "hard")
    (folder / "below" / "soft").symlink_to(secret)
    (folder / "below" / "own").touch()
    fs.give_tree(folder, fs.Owner(OWNER, GROUP, 0o600, 0o700))
    assert secret.stat().st_uid == 0
    assert (folder / "below" / "own").stat().st_uid == OWNER
    assert folder.stat().st_uid == OWNER
