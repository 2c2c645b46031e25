"""Deleted topics and queues: gone in every kind, their numbers begin again, and nothing else is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reput
from reput.cli.delete import delete
from reput.cli.query import query
from reput.errors import AccessError, ConfigError, StoreLockedError
from reput.files import fs
from reput.formats import paths
from support import databases, golden, stores
from support.checked import assert_sound

pytestmark = pytest.mark.golden

STORES = ("basic", "ext", "double", "rocksdb")


def spans(store: reput.MessageStore) -> dict[tuple[str, int], tuple[int, int]]:
    """Every queue with its span."""
    return {(info.topic, info.queue_id): (info.min_offset, info.max_offset) for info in store.queues()}


def told_only(store: Path, topic: str) -> None:
    """Let topics.json, as the broker does, no longer have a topic; `check` then knows that it was deleted."""
    path = store / paths.CONFIG / "topics.json"
    fs.make_dirs(path.parent)
    fs.write_whole(path, b'{"topicConfigTable":{"nothing":{}}}')
    assert topic != "nothing"


@pytest.mark.parametrize("name", STORES)
def test_a_topic_begins_again(name: str, tmp_path: Path) -> None:
    """A deleted topic has no queue in any kind, new messages begin at 0, and the other queues are as they were."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        before = spans(store)
        ids = sorted(queue for topic, queue in before if topic == "orders")
        assert store.delete_topic("orders") == ids != []
        others = {key: span for key, span in before.items() if key[0] != "orders"}
        assert spans(store) == others
        assert store.max_offset("orders", ids[0]) == 0
        assert list(store.get_message("orders", ids[0], 0)) == []
        put = [store.put_message(reput.Message("orders", b"%d" % number), ids[0]) for number in range(3)]
        assert [one.queue_offset for one in put] == [0, 1, 2]
        assert [one.body for one in store.get_message("orders", ids[0], 0)] == [b"0", b"1", b"2"]
        assert store.delete_topic("unheard of") == []
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store) == others | {("orders", ids[0]): (0, 3)}
        assert [one.body for one in store.get_message("orders", ids[0], 0)] == [b"0", b"1", b"2"]
    told_only(path, "orders")
    assert_sound(path, stores.GOLDEN)
    if name == "double":
        assert list(reput.diff(path, config=stores.GOLDEN)) == []
    assert stores.leftovers(path) == []


@pytest.mark.parametrize("options", [{"skip_topics": ["orders"]}, {"topics": ["clicks"]}, {"only": "index"}])
@pytest.mark.parametrize("name", ["basic", "rocksdb"])
def test_a_partial_rebuild_does_not_bring_it_back(options: dict[str, Any], name: str, tmp_path: Path) -> None:
    """Of queues that RocketMQ built, those that a rebuild leaves alone stay as complete as they were, and no more."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        store.delete_topic("orders")
        others = spans(store)
    reput.rebuild(path, spark=False, config=stores.GOLDEN, **options)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        assert spans(store) == others
        assert store.put_message(reput.Message("clicks", b"x"), 0).queue_offset == others["clicks", 0][1]
        store.reput(spark=False)
        assert store.put_message(reput.Message("orders", b"x"), 0).queue_offset == 0
    told_only(path, "orders")
    assert_sound(path, stores.GOLDEN)


@pytest.mark.parametrize("name", ["ext", "double"])
def test_one_queue(name: str, tmp_path: Path) -> None:
    """One queue of a topic goes, with what only it has: the others' files, keys and units are as they were."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        topic, queue_id = next(key for key in spans(store) if sum(key[0] == other for other, _ in spans(store)) > 1)
        before = spans(store)
        assert store.delete_queue(topic, queue_id)
        assert not store.delete_queue(topic, queue_id)
        assert spans(store) == {key: span for key, span in before.items() if key != (topic, queue_id)}
    for folder in (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT):
        assert not (path / folder / topic / str(queue_id)).exists()
    told_only(path, topic)
    assert_sound(path, stores.GOLDEN)


def test_batches(tmp_path: Path) -> None:
    """Queues of batches go as the others do."""
    path = golden.unpack("batch", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        batches = next(entry.name for entry in (path / paths.BATCH_CONSUME_QUEUE).iterdir())
        assert store.delete_topic(batches)
        assert not [topic for topic, _ in spans(store) if topic == batches]
    # The last topic keeps its folder: without any, queues would count as lost.
    assert not list((path / paths.BATCH_CONSUME_QUEUE / batches).iterdir())


def test_what_waits_in_the_tail_goes_too(tmp_path: Path) -> None:
    """Messages that were not indexed yet do not come back behind the deletion."""
    with reput.MessageStore.open(tmp_path / "store", stores.SMALL, create=True) as store:
        for number in range(5):
            store.put_message(reput.Message("orders", b"%d" % number), number % 2)
            store.put_message(reput.Message("others", b"%d" % number))
        assert store.delete_topic("orders") == [0, 1]
        store.reput(spark=False)
        assert spans(store) == {("others", 0): (0, 5)}
        assert store.put_message(reput.Message("orders", b"new")).queue_offset == 0
    with reput.MessageStore.open(tmp_path / "store", stores.SMALL, create=True) as store:
        assert [one.body for one in store.get_message("orders", 0, 0)] == [b"new"]


def test_a_reader_beside_sees_it(tmp_path: Path) -> None:
    """Who reads beside the writer finds the queue gone, and then the new messages."""
    path = golden.unpack("basic", tmp_path)
    with (
        reput.MessageStore.open(path, stores.GOLDEN, create=True) as store,
        reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as reader,
    ):
        assert reader.max_offset("orders", 0) > 1
        store.delete_topic("orders")
        assert reader.max_offset("orders", 0) == 0
        store.put_message(reput.Message("orders", b"new"))
        assert [one.body for one in reader.get_message("orders", 0, 0)] == [b"new"]


def test_killed_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it deletes, the store opens, every queue is whole or gone, and the next call does the rest."""
    path = golden.unpack("double", tmp_path)

    class Killed(BaseException):
        """Stands for the end of the process."""

    real, moves = fs.rename, 0

    def rename(source: Any, target: Any) -> None:
        nonlocal moves
        if "aside-" in str(target):
            moves += 1
            if moves == 2:
                raise Killed
        real(source, target)

    store = reput.MessageStore.open(path, stores.GOLDEN, create=True)
    topic = max(spans(store), key=lambda key: sum(key[0] == other for other, _ in spans(store)))[0]
    with monkeypatch.context() as patched:
        patched.setattr(fs, "rename", rename)
        with pytest.raises(Killed):
            store.delete_topic(topic)
    super(reput.MessageStore, store).close()
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        store.delete_topic(topic)
        assert topic not in {name for name, _ in spans(store)}
    assert stores.leftovers(path) == []
    assert databases.rocksdb(path).is_present()
    assert topic.encode() not in {key.topic for key in databases.entries(databases.rocksdb(path))}


def test_refused(tmp_path: Path) -> None:
    """Read-only, beside a follower, or with a name that no topic can have."""
    path = golden.unpack("basic", tmp_path)
    with (
        reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as reader,
        pytest.raises(AccessError),
    ):
        reader.delete_topic("orders")
    with (
        reput.MessageStore.open(path, stores.GOLDEN, follow="loop", create=True) as store,
        pytest.raises(StoreLockedError, match="end it first, then delete them"),
    ):
        store.delete_topic("orders")
    with (
        reput.MessageStore.open(path, stores.GOLDEN, create=True) as store,
        pytest.raises(ConfigError, match="no name of a topic"),
    ):
        store.delete_topic("../commitlog")


def test_from_the_command_line(tmp_path: Path) -> None:
    """The verb says what went; a topic that is not there is an error."""
    path, config = golden.unpack("rocksdb", tmp_path), tmp_path / "broker.conf"
    config.write_text(golden.CONFIG)
    words = [str(path), "--config", str(config), "-t"]
    done = CliRunner().invoke(delete, [*words, "orders", "-q", "0"], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, "deleted 1 queue of orders: 0\n")
    again = CliRunner().invoke(delete, [*words, "orders", "-q", "0"], standalone_mode=False)
    assert isinstance(again.exception, ConfigError)


def test_deleted_messages_are_found_by_key(tmp_path: Path) -> None:
    """`reput query` finds what only the index and the log still know, and says that the topic has no queues."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        store.delete_topic("orders")
        wanted = [one.physical_offset for one in store.query_message("orders", "k30")]
    words = [str(path), "--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}", "-t", "orders", "--key"]
    done = CliRunner().invoke(query, [*words, "k30", "--json"], standalone_mode=False)
    assert done.exception is None
    assert [json.loads(line)["physical_offset"] for line in done.stdout.splitlines()] == wanted != []
    assert "note: topic orders has no queues" in done.stderr
    unknown = CliRunner().invoke(query, [*words, "unheard of"], standalone_mode=False)
    assert "no topic orders" in str(unknown.exception)


def test_a_rebuild_behind_new_messages(tmp_path: Path) -> None:
    """A rebuild brings a deleted queue back whole; once a message was put behind the deletion, those alone."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        before = spans(store)["orders", 0]
        store.delete_topic("orders")
    reput.rebuild(path, spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        assert spans(store)["orders", 0] == before
        store.delete_topic("orders")
        for _ in range(2):
            store.put_message(reput.Message("orders", b"new"))
    report = reput.rebuild(path, spark=False, config=stores.GOLDEN)
    assert [(one.restarts, one.dropped) for one in report.crooked_queues if one.queue_id == 0] == [(1, before[1])]
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store)["orders", 0] == (0, 2)


def test_a_name_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`reput delete` says like the other verbs which store it is and what is near; what is there stays."""
    path = golden.unpack("basic", tmp_path)
    monkeypatch.chdir(path.parent)
    words = ["--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}"]
    before = stores.queue_files(path)
    for asked, said in (
        (["-t", "order"], f"{path}: no topic order. Near it: orders"),
        (["-t", "orders", "-q", "9"], f"{path}: topic orders has no queue 9. There are: 0"),
    ):
        error = CliRunner().invoke(delete, [path.name, *asked, *words], standalone_mode=False).exception
        assert isinstance(error, ConfigError)
        assert str(error).startswith(said)
    assert stores.queue_files(path) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_lost_report_is_no_failed_deletion(tmp_path: Path) -> None:
    """Where only the report cannot be written, the error says that the queues are gone."""
    path = golden.unpack("basic", tmp_path)
    words = ["--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}", "-t", "orders"]
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "reput", "delete", str(path), *words]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("The deletion itself is done\n")
    assert not (path / paths.CONSUME_QUEUE / "orders").exists()
