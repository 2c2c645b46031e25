"""Deleted topics and queues: gone in every kind, their numbers begin again, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reput
from reput.cli.delete import delete
from reput.cli.query import query
from reput.errors import AccessError, ConfigError, DamagedStoreError, StoreLockedError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.store.owner.indexer import CatchUp, CatchUpTask
from support import databases, golden, stores
from support.checked import assert_sound
from support.killed import Killed

pytestmark = pytest.mark.golden

STORES = ("basic", "ext", "double", "rocksdb")
HOSTILE = b'{"version": 1, "queues": [{"topic": "../commitlog", "queue_id": 0, "offset": 9, "done": false}]}'


def spans(store: reput.MessageStore) -> dict[tuple[str, int], tuple[int, int]]:
    """Every queue with its span."""
    return {(info.topic, info.queue_id): (info.min_offset, info.max_offset) for info in store.queues()}


def drop_from_topics(store: Path, topic: str) -> None:
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
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store) == others | {("orders", ids[0]): (0, 3)}
        assert [one.body for one in store.get_message("orders", ids[0], 0)] == [b"0", b"1", b"2"]
    drop_from_topics(path, "orders")
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
    drop_from_topics(path, "orders")
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
    drop_from_topics(path, topic)
    assert_sound(path, stores.GOLDEN)


def test_the_old_name_of_a_deletion_works(tmp_path: Path) -> None:
    """`delete_queues_of` deletes, returns the ids and gives a DeprecationWarning that names the present methods."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        ids = sorted(queue_id for topic, queue_id in spans(store) if topic == "orders")
        with pytest.warns(DeprecationWarning, match="delete_topic"):
            assert sorted(store.delete_queues_of("orders")) == ids
    drop_from_topics(path, "orders")
    assert_sound(path, stores.GOLDEN)


def test_the_earliest_time_of_a_queue_was_gone() -> None:
    """It is the store time of the first message that a queue has; -1 without one."""
    with reput.MessageStore.open(golden.shared("basic"), stores.GOLDEN, read_only=True) as store:
        first = store.get_message("orders", 0, store.min_offset("orders", 0), 1)[0]
        assert store.earliest_time("orders", 0) == first.store_timestamp
        assert store.earliest_time("nothing", 0) == -1


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
    """Messages that were not indexed yet do not come back after the deletion."""
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


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("puts", [1, 99])
def test_a_put_beside_a_deletion_got_a_number_of_before(
    puts: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that comes during a deletion goes with the others; if they come without end, nothing is deleted."""
    path = golden.unpack(name, tmp_path)
    catch_up, left = SparkIndexer.catch_up, [puts]
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        queue_id, before = next(info.queue_id for info in store.queues() if info.topic == "orders"), spans(store)
        end = before["orders", queue_id][1]

        def busy(self: SparkIndexer, task: CatchUpTask) -> CatchUp:
            done = catch_up(self, task)
            if left[0]:
                left[0] -= 1
                store.put_message(reput.Message("orders", b"late"), queue_id)
            return done

        monkeypatch.setattr(SparkIndexer, "catch_up", busy)
        if puts == 1:
            assert queue_id in store.delete_topic("orders")
        else:
            with pytest.raises(reput.ReputError, match="messages are being put to topic orders, so nothing is del"):
                store.delete_topic("orders")
        monkeypatch.undo()
        late = puts - left[0]
        begin = 0 if puts == 1 else end + late
        assert store.put_message(reput.Message("orders", b"next"), queue_id).queue_offset == begin
        if puts > 1:
            assert [one.body for one in store.get_message("orders", queue_id, end)] == [b"late"] * late + [b"next"]
    assert_sound(path, stores.GOLDEN)


def test_a_reader_beside_sees_it(tmp_path: Path) -> None:
    """A reader beside the writer finds the queue gone, and then the new messages."""
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
    """Killed while it deletes, every queue is whole or gone, `check` finds no damage, the next open does the rest."""
    path = golden.unpack("double", tmp_path)

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
    assert ("leftover", "queue-deletion-begun") in (found := rules(path))
    assert not {rule for severity, rule in found if severity == "damage"}
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert [note for note in store.notes if "a deletion had broken off; finished it" in note]
        assert not store.delete_queue(topic, 0)
        assert topic not in {name for name, _ in spans(store)}
    assert stores.leftovers(path) == []
    assert databases.rocksdb(path).is_present()
    assert topic.encode() not in {key.topic for key in databases.entries(databases.rocksdb(path))}


def test_deleting_an_unknown_topic_was_silent(tmp_path: Path) -> None:
    """A topic that nobody knows is an error that names near ones, and nothing is deleted."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        before = spans(store)
        with pytest.raises(ConfigError, match=r"no topic order\. Near it: orders"):
            store.delete_topic("order")
        assert spans(store) == before
    assert_sound(path, stores.GOLDEN)


def test_refused(tmp_path: Path) -> None:
    """Read-only, beside a follower, or with a name that no topic can have."""
    path = golden.unpack("basic", tmp_path)
    with (
        reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as reader,
        pytest.raises(AccessError),
    ):
        reader.delete_topic("orders")
    with (
        reput.MessageStore.open(path, stores.GOLDEN, follow=True, spark=False, create=True) as store,
        pytest.raises(StoreLockedError, match="end it first, then delete them"),
    ):
        store.delete_topic("orders")
    with (
        reput.MessageStore.open(path, stores.GOLDEN, create=True) as store,
        pytest.raises(ConfigError, match="not a valid name of a topic"),
    ):
        store.delete_topic("../commitlog")


def test_from_the_command_line(tmp_path: Path) -> None:
    """The verb says what went; a topic that is not there is an error."""
    path, config = golden.unpack("rocksdb", tmp_path), tmp_path / "broker.conf"
    config.write_text(golden.CONFIG)
    words = [str(path), "--config", str(config), "-t"]
    done = CliRunner().invoke(delete, [*words, "orders", "-q", "0"], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, "deleted 1 queue of topic 'orders': 0\n")
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


def rules(path: Path) -> set[tuple[str, str]]:
    """The findings of `check`: severities and rules, but for strays and the like that the golden stores have."""
    report = reput.check(path, spark=False, config=stores.GOLDEN)
    return {(one.severity, one.rule) for one in report.findings if one.rule.startswith("queue-")}


DELETED = {("note", "queue-deleted")}


@pytest.mark.parametrize("name", STORES)
def test_a_deletion_is_remembered(name: str, tmp_path: Path) -> None:
    """`check` does not miss deleted queues, `info` lists them, a rebuild leaves them out: none comes back unasked."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        ids = store.delete_topic("orders")
        others = spans(store)
    before = rules(path)
    assert before >= DELETED
    assert not {rule for severity, rule in before if severity == "damage"}
    names = [f"orders/{queue_id}" for queue_id in ids]
    assert reput.info(path, config=stores.GOLDEN).own.deleted == names
    report = reput.rebuild(path, spark=False, config=stores.GOLDEN)
    assert [note for note in report.notes if "stay deleted" in note and "reput rebuild --topic orders" in note]
    assert rules(path) >= DELETED
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert spans(store) == others
        store.put_message(reput.Message("orders", b"new"), ids[0])
    assert reput.info(path, config=stores.GOLDEN).own.deleted == names[1:]
    # The whole folder is lost: new messages come back, old ones do not.
    shutil.rmtree(path / paths.CONSUME_QUEUE)
    reput.rebuild(path, spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store) == others | {("orders", ids[0]): (0, 1)}
    assert_sound(path, stores.GOLDEN)


@pytest.mark.parametrize("name", ["ext", "double"])
def test_one_deleted_queue_is_remembered(name: str, tmp_path: Path) -> None:
    """Of one queue that was deleted alone a rebuild brings back nothing, whatever config/topics.json says."""
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        topic, queue_id = next(key for key in spans(store) if sum(key[0] == other for other, _ in spans(store)) > 1)
        assert store.delete_queue(topic, queue_id)
        left = spans(store)
    assert rules(path) >= DELETED
    assert_sound(path, stores.GOLDEN)
    reput.rebuild(path, spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store) == left
    assert_sound(path, stores.GOLDEN)


@pytest.mark.parametrize("name", ["basic", "rocksdb", "batch"])
def test_a_rebuild_that_names_the_topic(name: str, tmp_path: Path) -> None:
    """--topic brings deleted queues back whole and forgets the deletion; so does a later plain rebuild keep them."""
    path = golden.unpack(name, tmp_path)
    topic = "batches" if name == "batch" else "orders"
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        before = spans(store)
        store.delete_topic(topic)
    assert rules(path) >= DELETED
    reput.rebuild(path, spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert topic not in {key[0] for key in spans(store)}
    report = reput.rebuild(path, spark=False, config=stores.GOLDEN, topics=[topic])
    assert [note for note in report.notes if "are back, since --topic names them" in note]
    for _ in range(2):
        with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
            assert spans(store) == before
        assert not (path / "reput" / own.DELETED_NAME).exists()
        reput.rebuild(path, spark=False, config=stores.GOLDEN)
    assert_sound(path, stores.GOLDEN)


def test_committed_offsets_do_not_bring_a_queue_back(tmp_path: Path) -> None:
    """A group's offset in a deleted queue gives it no number in a rebuild: new messages begin at 0."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        store.commit_offset("billing", "orders", 0, 5)
        store.delete_topic("orders")
    topics = {topic: {} for topic, _ in before_names(path)} | {"orders": {}}
    fs.make_dirs(path / paths.CONFIG)
    fs.write_whole(path / paths.CONFIG / "topics.json", json.dumps({"topicConfigTable": topics}).encode())
    reput.rebuild(path, spark=False, config=stores.GOLDEN)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert store.put_message(reput.Message("orders", b"new")).queue_offset == 0


def before_names(path: Path) -> list[tuple[str, int]]:
    """The queues of a store."""
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        return list(spans(store))


def test_a_rebuild_behind_new_messages(tmp_path: Path) -> None:
    """Once a message was put after the deletion a rebuild keeps those alone, even one that names the topic."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN, create=True) as store:
        before = spans(store)["orders", 0]
        store.delete_topic("orders")
        for _ in range(2):
            store.put_message(reput.Message("orders", b"new"))
    report = reput.rebuild(path, spark=False, config=stores.GOLDEN, topics=["orders"])
    assert [(one.restarts, one.dropped) for one in report.out_of_order_queues if one.queue_id == 0] == [(1, before[1])]
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store)["orders", 0] == (0, 2)
    assert_sound(path, stores.GOLDEN)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 1, "queues": [{}]}', HOSTILE])
def test_a_file_of_deletions_that_is_none(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged or hostile `reput/deleted` is named with its remedy, and nothing is deleted or built by it."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN):
        pass
    monkeypatch.chdir(tmp_path)
    file = path / "reput" / own.DELETED_NAME
    file.write_bytes(data)
    before = stores.queue_files(path)
    for call in (reput.check, reput.rebuild):
        with pytest.raises(DamagedStoreError, match="Remove this file, and the store can be read"):
            call(path, spark=False, config=stores.GOLDEN)
    assert [text for text in reput.info(path, config=stores.GOLDEN).damage if str(file) in text]
    assert stores.queue_files(path) == before


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
    """A deletion whose report cannot be written says that the queues are gone."""
    path = golden.unpack("basic", tmp_path)
    words = ["--set", f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}", "-t", "orders"]
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "reput", "delete", str(path), *words]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("The deletion itself is done\n")
    assert not (path / paths.CONSUME_QUEUE / "orders").exists()


def _lose_folders(path: Path) -> None:
    for name in (paths.CONSUME_QUEUE, paths.INDEX):
        shutil.rmtree(path / name)


def _nothing(path: Path) -> None:
    assert path.exists()


def _convert(path: Path, to: str) -> None:
    """Make the queues of a store ones of another kind."""
    report = reput.convert(path, to=to, spark=False, config=stores.GOLDEN)
    assert [note for note in report.notes if "stay deleted" in note]


COMEBACKS: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "convert to rocksdb": ("basic", "orders", partial(_convert, to="rocksdb")),
    "convert to both": ("basic", "orders", partial(_convert, to="both")),
    "a topic of batches": ("batch", "batches", _nothing),
    "lost folders": ("basic", "orders", _lose_folders),
}


@pytest.mark.parametrize("what", COMEBACKS)
def test_an_open_from_below_the_deletion_leaves_it_deleted(what: str, tmp_path: Path) -> None:
    """Reading, a put to another topic, and a put to the deleted one bring nothing back, wherever decoding begins."""
    name, topic, happens = COMEBACKS[what]
    path = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        ids = store.delete_topic(topic)
        others = spans(store)
    happens(path)
    remembered = [f"{topic}/{queue_id}" for queue_id in ids]
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert spans(store) == others
        assert list(store.get_message(topic, ids[0], 0)) == []
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert spans(store) == others
        others["elsewhere", 0] = (0, 1)
        assert store.put_message(reput.Message("elsewhere", b"x")).queue_offset == 0
        store.reput(spark=False)
        assert spans(store) == others
    assert reput.info(path, config=stores.GOLDEN).own.deleted == remembered
    found = rules(path)
    assert found >= DELETED
    assert not {rule for severity, rule in found if severity == "damage"}
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert store.put_message(reput.Message(topic, b"new"), ids[0]).queue_offset == 0
        store.reput(spark=False)
        assert spans(store) == others | {(topic, ids[0]): (0, 1)}
    assert reput.info(path, config=stores.GOLDEN).own.deleted == remembered[1:]
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert [one.body for one in store.get_message(topic, ids[0], 0)] == [b"new"]
    assert_sound(path, stores.GOLDEN)


def test_a_put_without_settings_writes_no_deleted_batches(tmp_path: Path) -> None:
    """A put to another topic makes no file for deleted queues of batches, and `check` with the settings is sound."""
    path = golden.unpack("batch", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        store.delete_topic("batches")
    sizes = reput.StoreConfig(mapped_file_size_consume_queue=golden.QUEUE_FILE_SIZE)
    with reput.MessageStore.open(path, sizes) as store:
        assert "batches" not in {topic for topic, _ in spans(store)}
        store.put_message(reput.Message("orders", b"x"))
        store.reput(spark=False)
    assert [one for one in (path / paths.BATCH_CONSUME_QUEUE).rglob("*") if one.is_file()] == []
    assert_sound(path, stores.GOLDEN)


def test_the_topic_of_the_last_record_came_back_for_scans(tmp_path: Path) -> None:
    """Deleted from a store without a frontier, the topic of the last record is an unknown one to scans."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, stores.SMALL, create=True) as store:
        for topic in ("other", "orders"):
            store.put_messages([reput.Message(topic, b"body", keys="k") for _ in range(25)])
    # As a broker leaves it.
    shutil.rmtree(path / paths.REPUT)
    with reput.MessageStore.open(path, stores.SMALL) as store:
        assert store.delete_topic("orders") == [0]
    with pytest.raises(ConfigError, match="no topic orders"):
        reput.scan(path, topics="orders", config=stores.SMALL)
    assert_sound(path, stores.SMALL)


def test_one_deleted_queue_of_batches_stays_deleted(tmp_path: Path) -> None:
    """A queue of batches that was deleted stays deleted when all are lost and the others come back from the log."""
    path = golden.unpack("batch", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert store.delete_queue("batches", 2)
        left = spans(store)
    _lose_folders(path)
    shutil.rmtree(path / paths.BATCH_CONSUME_QUEUE)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert spans(store) == left
        store.reput(spark=False)
        assert spans(store) == left
    assert_sound(path, stores.GOLDEN)


def test_new_messages_of_a_deleted_queue_are_decoded_again(tmp_path: Path) -> None:
    """With its folders lost, a deleted queue that began again has its new messages and none from before."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        store.delete_topic("orders")
        for number in range(3):
            store.put_message(reput.Message("orders", b"%d" % number))
        store.reput(spark=False)
        expected = spans(store)
    _lose_folders(path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert spans(store) == expected
        assert store.put_message(reput.Message("orders", b"3")).queue_offset == 3
        store.reput(spark=False)
    with reput.MessageStore.open(path, stores.GOLDEN, read_only=True) as store:
        assert [one.body for one in store.get_message("orders", 0, 0)] == [b"0", b"1", b"2", b"3"]
    assert_sound(path, stores.GOLDEN)


def test_a_queue_that_somebody_else_brought_back_stays(tmp_path: Path) -> None:
    """A queue with messages from before the deletion, as a broker's recovery brings it back, is read whole."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        before = spans(store)
        store.delete_topic("orders")
    remembered = (path / "reput" / own.DELETED_NAME).read_bytes()
    reput.rebuild(path, spark=False, config=stores.GOLDEN, topics=["orders"])
    (path / "reput" / own.DELETED_NAME).write_bytes(remembered)
    # The index is read from the log's begin, so the tail is, too.
    shutil.rmtree(path / paths.INDEX)
    with reput.MessageStore.open(path, stores.GOLDEN) as store:
        assert spans(store) == before
        store.reput(spark=False)
        assert spans(store) == before
    assert_sound(path, stores.GOLDEN)
