"""Placement of queues: each one that a broker writes is found, checked, built and converted."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.topics.lite_topics import is_light
from reput.pipeline.build.rebuild.dry_run import dry_rebuild
from reput.pipeline.build.rebuild.options import RebuildOptions
from reput.queue.file_kind import FileKind
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from support import databases, golden, lite_stores
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

ROCKSDB_ALONE = ["storeType=defaultRocksDB"]
SEPARATE = "useSeparateStorePathForRocksdbCQ=true"
TOGETHER = "useSeparateStorePathForRocksdbCQ=false"
MOVES = pytest.mark.parametrize("source", ["log", "queues"])


def settings(*given: str) -> StoreConfig:
    """Settings as `--set` gives them."""
    return StoreConfig().updated(given)


def queues_of(store: Path) -> list[dict[bytes, bytes]]:
    """The entries of a store's database of queues and the ends of its queues, wherever it is.

    RocketMQ notes the begin of a queue when a client asks for it, also of a queue without messages.
    """
    found = databases.queues_content(store)
    ends = {key: value for key, value in found[fmt.OFFSET_FAMILY].items() if fmt.decode_offset_key(key).kind == fmt.MAX}
    return [found[fmt.ENTRY_FAMILY], ends]


def names_in(folder: Path) -> set[str]:
    """The names in a folder; none if there is no such folder."""
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.golden
def test_a_database_in_its_own_folder_is_sound(tmp_path: Path) -> None:
    """`check` and `info` find queues in consumequeue_rocksdb, without any setting."""
    store = golden.unpack("separate", tmp_path)
    assert_sound(store)
    found = reput.info(store)
    assert found.damage == []
    assert found.queue_entries == golden.facts("separate").queue_entries
    assert [note for note in found.notes if "not RocketMQ's" in note] == []


@pytest.mark.golden
@pytest.mark.parametrize("lost", [False, True])
def test_a_rebuild_keeps_the_folder(lost: bool, tmp_path: Path) -> None:
    """A rebuild writes the database where it was, or where the setting names it, with what RocketMQ had there."""
    store = golden.unpack("separate", tmp_path)
    wanted = queues_of(store)
    if lost:
        shutil.rmtree(store / paths.SEPARATE_QUEUE_FOLDER)
    config = settings(*ROCKSDB_ALONE, SEPARATE) if lost else None
    reput.rebuild(store, spark=False, config=config)
    assert queues_of(store) == wanted
    assert not names_in(store / paths.CONSUME_QUEUE)
    assert_sound(store)


@pytest.mark.golden
@MOVES
def test_a_conversion_moves_the_database(source: Any, tmp_path: Path) -> None:
    """The setting says where `convert` puts the database; the old folder is empty then."""
    store = golden.unpack("separate", tmp_path)
    wanted = queues_of(store)
    together, separate = settings(*ROCKSDB_ALONE, TOGETHER), settings(*ROCKSDB_ALONE, SEPARATE)
    report = reput.convert(store, to="rocksdb", spark=False, config=together, source=source)
    assert not (store / paths.SEPARATE_QUEUE_FOLDER).exists()
    assert "CURRENT" in names_in(store / paths.CONSUME_QUEUE)
    assert queues_of(store) == wanted
    assert any(TOGETHER in note for note in report.notes)
    assert_sound(store)
    reput.convert(store, to="rocksdb", spark=False, config=separate, source=source)
    assert "CURRENT" in names_in(store / paths.SEPARATE_QUEUE_FOLDER)
    assert queues_of(store) == wanted
    assert not names_in(store / paths.CONSUME_QUEUE)
    assert_sound(store)
    again = reput.convert(store, to="rocksdb", spark=False, config=separate)
    assert any("nothing to do" in note for note in again.notes)


@pytest.mark.golden
def test_both_kinds_in_folders_of_their_own(tmp_path: Path) -> None:
    """Files go to consumequeue and the database to consumequeue_rocksdb; back in RocksDB alone no file is left."""
    store = golden.unpack("separate", tmp_path)
    wanted = queues_of(store)
    reput.convert(store, to="both", spark=False)
    assert "CURRENT" in names_in(store / paths.SEPARATE_QUEUE_FOLDER)
    assert "CURRENT" not in names_in(store / paths.CONSUME_QUEUE)
    assert list(reput.diff(store)) == []
    assert queues_of(store) == wanted
    assert_sound(store)
    reput.rebuild(store, spark=False, topics=["orders"])
    assert list(reput.diff(store)) == []
    assert_sound(store)
    reput.convert(store, to="file", spark=False)
    assert not (store / paths.SEPARATE_QUEUE_FOLDER).exists()
    assert_sound(store)
    reput.convert(store, to="rocksdb", spark=False, config=settings(SEPARATE))
    assert queues_of(store) == wanted
    assert not names_in(store / paths.CONSUME_QUEUE)


@pytest.mark.golden
def test_a_setting_that_names_the_other_folder_is_refused(tmp_path: Path) -> None:
    """Readers and partial rebuilds name the folder, as RocketMQ refuses it; `check` judges what is there."""
    store = golden.unpack("separate", tmp_path)
    wrong = settings(TOGETHER)
    with pytest.raises(UnsupportedStoreError, match=r"consumequeue_rocksdb.*reput convert"):
        reput.MessageStore.open(store, wrong, read_only=True)
    with pytest.raises(UnsupportedStoreError, match="consumequeue_rocksdb"):
        reput.scan(store, topics="orders", config=wrong)
    with pytest.raises(ConfigError, match="some topics"):
        reput.rebuild(store, spark=False, config=wrong, topics=["orders"])
    assert reput.check(store, spark=False, config=wrong).sound


@pytest.mark.golden
def test_two_databases_are_refused(tmp_path: Path) -> None:
    """Two databases of queues are named by every reader, and a rebuild with the setting leaves one."""
    store = golden.unpack("separate", tmp_path)
    shutil.copytree(store / paths.SEPARATE_QUEUE_FOLDER, store / paths.CONSUME_QUEUE, dirs_exist_ok=True)
    with pytest.raises(UnsupportedStoreError, match="two"):
        reput.MessageStore.open(store, read_only=True)
    assert any("two" in one for one in reput.info(store).damage)
    report = reput.check(store, spark=False)
    assert [one.rule for one in report.findings if one.severity == "damage"] == ["two-databases"]
    reput.rebuild(store, spark=False, config=settings(*ROCKSDB_ALONE, SEPARATE), only="queue")
    assert not names_in(store / paths.CONSUME_QUEUE)
    assert_sound(store)


DOUBLE = "rocksdbCQDoubleWriteEnable=true"
LIGHT_ALONE = "combineCQUseRocksdbForLmq=true"
SELECTIVE = "rocksdbCQSelectiveDoubleWriteEnable=true"
PLACEMENTS = {
    "all in both": (DOUBLE,),
    "light alone": (DOUBLE, LIGHT_ALONE),
    "selective": (DOUBLE, SELECTIVE),
    "light alone and selective": (DOUBLE, LIGHT_ALONE, SELECTIVE),
}


def in_files(store: Path) -> set[bytes]:
    """The topics that have queue files."""
    return {queue.key.topic for queue in FileKind(store / paths.CONSUME_QUEUE, 0).queues()}


def in_database(store: Path) -> set[bytes]:
    """The topics that have queues in the database."""
    return {queue.key.topic for queue in databases.rocksdb(store).queues()}


def files_of(store: Path) -> dict[tuple[str, int, int], bytes]:
    """The bytes of each queue file."""
    return {(topic, queue, start): data for topic, queue, start, data in golden.queue_files(store)}


@pytest.mark.golden
def test_light_queues_in_rocksdb_alone_are_sound(tmp_path: Path) -> None:
    """`check` misses nothing and finds nothing where light queues have no files; `info` names the setting."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    report = reput.check(store, spark=False)
    assert report.findings == []
    assert any(text.startswith(LIGHT_ALONE) for text in report.assumed)
    found = reput.info(store)
    assert found.placement == [LIGHT_ALONE]
    assert found.out_of_date == []
    assert found.queue_entries == golden.facts("lmq-rocksdb").queue_entries
    assert list(reput.diff(store)) == []


@pytest.mark.golden
def test_a_rebuild_places_light_queues(tmp_path: Path) -> None:
    """From the log alone, with the broker's settings, the files and the database are RocketMQ's."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    files, database = files_of(store), queues_of(store)
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    sizes = golden.CONFIG.splitlines()
    report = reput.rebuild(store, spark=False, config=settings(DOUBLE, LIGHT_ALONE, *sizes))
    assert not any("%LMQ%" in note for note in report.notes), "no topics.json lists light queues"
    assert files_of(store) == files
    assert queues_of(store) == database
    assert_sound(store)
    reput.rebuild(store, spark=False)
    assert files_of(store) == files
    assert queues_of(store) == database


@pytest.mark.golden
@MOVES
def test_conversions_of_light_queues(source: Any, tmp_path: Path) -> None:
    """To files, to both kinds, and back to light queues in RocksDB alone: each holds all that belongs there."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    files, database = files_of(store), queues_of(store)
    light = {topic for topic in in_database(store) if topic.startswith(b"%LMQ%")}
    assert light
    assert not light & in_files(store)
    reput.convert(store, to="file", spark=False, source=source)
    assert light < in_files(store)
    assert_sound(store)
    reput.convert(store, to="both", spark=False, source=source)
    assert light < in_files(store) & in_database(store)
    databases.assert_same_queues(store)
    assert_sound(store)
    report = reput.convert(store, to="both", spark=False, config=settings(LIGHT_ALONE), source=source)
    assert any(LIGHT_ALONE in note for note in report.notes)
    assert files_of(store) == files
    assert queues_of(store) == database
    assert_sound(store)
    reput.convert(store, to="rocksdb", spark=False, source=source)
    assert queues_of(store) == database
    assert_sound(store)


@pytest.mark.golden
def test_settings_say_what_must_be_there(tmp_path: Path) -> None:
    """By the files a lost database is no loss; with broker.conf it is, and so are light queues that have no files."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    report = reput.check(store, spark=False, config=settings(DOUBLE, "combineCQUseRocksdbForLmq=false"))
    assert {one.rule for one in report.findings} == {"queue-missing", "setting-contradicted"}
    reput.convert(store, to="file", spark=False)
    report = reput.check(store, spark=False, config=settings(DOUBLE, LIGHT_ALONE))
    assert report.sound
    assert report.exit_code == 1
    assert [one.rule for one in report.wrong_settings] == ["setting-contradicted"]


def cut_tables(folder: Path) -> None:
    """Cut the tables of a database: it cannot be opened."""
    for table in folder.glob("*.sst"):
        table.write_bytes(table.read_bytes()[:-30])


def half_copy(folder: Path) -> None:
    """Take the first files of a database away, as a copy in part does."""
    for name in ("CURRENT", "IDENTITY"):
        (folder / name).unlink()


DAMAGES = pytest.mark.parametrize(
    ("damage", "rule"), [(cut_tables, "rocksdb-unreadable"), (half_copy, "database-in-part")]
)


@pytest.mark.golden
@DAMAGES
@pytest.mark.parametrize("given", [(), (DOUBLE,), (DOUBLE, LIGHT_ALONE)])
def test_the_remedy_of_a_damaged_database_put_light_queues_into_files(
    given: tuple[str, ...], damage: Any, rule: str, tmp_path: Path
) -> None:
    """`check` names the database alone, and the rebuild that it advises gives RocketMQ's files and database again."""
    store, config = golden.unpack("lmq-rocksdb", tmp_path), settings(*given)
    files, database = files_of(store), queues_of(store)
    damage(store / paths.CONSUME_QUEUE)
    report = reput.check(store, spark=False, config=config)
    assert [(one.rule, one.severity) for one in report.findings] == [(rule, "damage")]
    assert "reput rebuild --only queue" in report.findings[0].detail
    asked = (line["queue"][0] for line in golden.answers("lmq-rocksdb") if "queue" in line)
    light = next(topic for topic in asked if is_light(topic.encode()))
    with (
        reput.MessageStore.open(store, config, read_only=True) as opened,
        pytest.raises(DamagedStoreError, match="reput rebuild --only queue"),
    ):
        opened.get_message(light, 0, 0)
    with pytest.raises(ConfigError, match="--source log"):
        reput.convert(store, to="file", spark=False, source="queues", config=config)
    reput.rebuild(store, spark=False, only="queue", config=config)
    assert files_of(store) == files
    assert queues_of(store) == database
    assert reput.check(store, spark=False, config=config).findings == []


@pytest.mark.golden
@DAMAGES
def test_files_with_light_queues_keep_them(damage: Any, rule: str, tmp_path: Path) -> None:
    """Beside a damaged database, light queues in files show that both kinds have all queues."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    reput.convert(store, to="both", spark=False, config=settings("combineCQUseRocksdbForLmq=false"))
    files, database = files_of(store), queues_of(store)
    damage(store / paths.CONSUME_QUEUE)
    assert [one.rule for one in reput.check(store, spark=False).findings] == [rule]
    reput.rebuild(store, spark=False, only="queue")
    assert files_of(store) == files
    assert queues_of(store) == database
    assert_sound(store)


@pytest.mark.golden
@pytest.mark.parametrize("left", ["half a copy", "an empty folder"])
def test_a_rebuild_put_a_lost_database_into_another_folder(left: str, tmp_path: Path) -> None:
    """The folder that is left of a database says where it was, if no setting does."""
    store = golden.unpack("separate", tmp_path)
    wanted, folder = queues_of(store), store / paths.SEPARATE_QUEUE_FOLDER
    half_copy(folder)
    if left == "an empty folder":
        shutil.rmtree(folder)
        folder.mkdir()
    reput.rebuild(store, spark=False, only="queue")
    assert queues_of(store) == wanted
    assert "CURRENT" in names_in(folder)
    assert not names_in(store / paths.CONSUME_QUEUE)
    assert_sound(store)


@pytest.mark.golden
def test_a_guess_beside_a_setting_left_light_queues_nowhere(tmp_path: Path) -> None:
    """With selective double write given, light queues belong to the files: check misses them, rebuild makes them."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    given = settings(DOUBLE, SELECTIVE)
    light = {topic for topic in in_database(store) if is_light(topic)}
    found = reput.check(store, spark=False, config=given)
    assert not found.sound
    assert "queue-missing" in {one.rule for one in found.findings}
    reput.rebuild(store, spark=False, config=given, only="queue")
    assert light <= in_files(store)
    assert in_database(store) == set()
    assert reput.check(store, spark=False, config=given).sound


@pytest.mark.golden
def test_light_queues_that_a_broker_would_not_see(tmp_path: Path) -> None:
    """Without double write RocketMQ loads files alone: the store is not sound for it, and a writer is refused.

    A rebuild with these settings puts all queues into files.
    """
    store = golden.unpack("lmq-rocksdb", tmp_path)
    light = {topic for topic in in_database(store) if is_light(topic)}
    alone = settings("rocksdbCQDoubleWriteEnable=false")
    report = reput.check(store, spark=False, config=alone)
    assert [one.rule for one in report.wrong_settings] == ["setting-contradicted"]
    assert "does not see them, and numbers their messages from 0 again" in report.wrong_settings[0].detail
    assert not report.sound
    with pytest.raises(ConfigError, match="combineCQUseRocksdbForLmq=true"):
        reput.MessageStore.open(store, alone)
    reput.rebuild(store, spark=False, config=alone, only="queue")
    assert light <= in_files(store)
    assert in_database(store) == set()
    assert_sound(store, alone)


@pytest.mark.golden
@pytest.mark.parametrize("name", golden.STORES_55)
def test_the_placement_has_one_answer(name: str) -> None:
    """A store without settings shows one placement for every purpose; the settings of a job say the same."""
    light = name == "lmq-rocksdb"
    for purpose in Purpose:
        store = StoreOnDisk.find(golden.shared(name), None, purpose)
        assert store.placement == store.placement_shown.placement == store.settings.placement
        assert [bool(store.placement.light_kind), bool(store.placement.part_kind)] == [light, False]
        assert store.contradicted == []


@pytest.mark.golden
def test_a_rebuild_says_where_queues_will_be(tmp_path: Path) -> None:
    """A dry run names the folder of each kind, and the settings with which one gets less than all queues."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    run = dry_rebuild(store, StoreConfig(), RebuildOptions(only="queue"))
    assert run.queue_folders == {"file": "consumequeue", "rocksdb": "consumequeue"}
    assert run.placement == [LIGHT_ALONE]
    run = dry_rebuild(store, settings(DOUBLE, SEPARATE), RebuildOptions(only="queue"))
    assert run.queue_folders == {"file": "consumequeue", "rocksdb": "consumequeue_rocksdb"}


@pytest.mark.golden
def test_a_lost_database_is_no_copy_in_part(tmp_path: Path) -> None:
    """A database that the settings name and that is not there has other words than one of which files are left."""
    store = golden.unpack("separate", tmp_path)
    folder = store / paths.SEPARATE_QUEUE_FOLDER
    for name in ("CURRENT", "IDENTITY"):
        (folder / name).unlink()
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert ["consumequeue_rocksdb: " in text and "copied in part" in text for text in opened.damage] == [True]
    assert "database-in-part" in {one.rule for one in reput.check(store, spark=False).findings}
    assert any("copied in part" in text for text in reput.info(store).damage)
    with pytest.raises(DamagedStoreError, match="copied in part"):
        reput.MessageStore.open(store)
    shutil.rmtree(folder)
    config = settings(*ROCKSDB_ALONE, SEPARATE)
    lost = "consumequeue_rocksdb: there is no database of queues, which the settings name"
    assert any(lost in note for note in reput.info(store, config=config).notes)
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        assert opened.damage == []
        assert any(lost in note for note in opened.notes)
    assert any(lost in one.detail for one in reput.check(store, spark=False, config=config).wrong_settings)
    reput.rebuild(store, spark=False, config=config)
    assert_sound(store, config)


@pytest.mark.golden
def test_a_store_with_metadata_in_rocksdb_got_queue_files(tmp_path: Path) -> None:
    """Queues that were lost come back in RocksDB where the metadata is."""
    store = golden.unpack("separate", tmp_path)
    wanted = queues_of(store)
    shutil.rmtree(store / paths.SEPARATE_QUEUE_FOLDER)
    assert (store / "config" / "consumerOffsets").exists()
    run = dry_rebuild(store, StoreConfig(), RebuildOptions(only="queue"))
    assert any("storeType=defaultRocksDB (no queues are there" in text for text in run.assumed)
    report = reput.rebuild(store, spark=False, only="queue")
    assert any("storeType=defaultRocksDB (no queues are there" in text for text in report.assumed)
    assert queues_of(store) == wanted
    assert_sound(store)


@pytest.mark.golden
def test_a_writer_made_queue_files_beside_metadata_in_rocksdb(tmp_path: Path) -> None:
    """A writer of such a store makes a database, too."""
    store = golden.unpack("separate", tmp_path)
    shutil.rmtree(store / paths.SEPARATE_QUEUE_FOLDER)
    with reput.MessageStore.open(store) as opened:
        assert opened.put_message(reput.Message("orders", b"next")).end_offset
    assert (store / paths.CONSUME_QUEUE / "CURRENT").exists()
    assert not (store / paths.CONSUME_QUEUE / "orders").exists()


@pytest.mark.golden
def test_lost_light_queues_are_missed(tmp_path: Path) -> None:
    """A light queue that lost its entries is damage: no list of topics says that it was deleted."""
    store = golden.unpack("lmq-rocksdb", tmp_path)
    lost = min(queue.key for queue in databases.rocksdb(store).queues() if queue.key.topic.startswith(b"%LMQ%"))
    owner = fs.owner_of(store)
    databases.rocksdb(store).delete(lost.topic, None, owner, tmp_path)
    report = reput.check(store, spark=False)
    assert [(one.rule, one.count) for one in report.findings if one.severity == "damage"] == [("queue-missing", 1)]
    reput.rebuild(store, spark=False, only="queue")
    assert_sound(store)


@pytest.mark.golden
def test_an_empty_database_is_a_leftover_of_a_kill(tmp_path: Path) -> None:
    """RocketMQ loses what it has not flushed: `check` calls it a leftover, readers say so, and a rebuild fills it."""
    store = golden.unpack("config-v1-killed", tmp_path)
    report = reput.check(store, spark=False)
    assert report.sound
    assert "queue-out-of-date" in {one.rule for one in report.findings if one.severity == "leftover"}
    assert any("empty" in one and "kill" in one for one in reput.info(store).out_of_date)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert any("consumequeue: the database of queues is empty" in note for note in opened.notes)
    reput.rebuild(store, spark=False)
    assert sum(span.entries for span in reput.info(store).topics) == golden.facts("config-v1-killed").queue_entries
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert opened.notes == []


@pytest.mark.parametrize("placed", PLACEMENTS)
def test_our_writer_places_queues(placed: str, tmp_path: Path) -> None:
    """A store that we write has each queue where the settings say, and so has one that is built again or grown."""
    config = settings(*PLACEMENTS[placed])
    store = lite_stores.make(tmp_path / "store", config)
    expected = where_queues_are(PLACEMENTS[placed])
    assert (in_files(store), in_database(store)) == expected
    assert_sound(store, config)
    assert reput.check(store, spark=False).findings == []
    answers = lite_stores.answers(store, config)
    assert answers == lite_stores.answers(store)
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    reput.rebuild(store, spark=False, config=config)
    assert (in_files(store), in_database(store)) == expected
    assert lite_stores.answers(store, config) == answers
    assert_sound(store, config)
    lite_stores.put_more(store, config)
    assert (in_files(store), in_database(store)) == expected
    assert_sound(store, config)


def where_queues_are(given: tuple[str, ...]) -> tuple[set[bytes], set[bytes]]:
    """The topics that files and database must have."""
    parents = {name.encode() for name in lite_stores.LITE_TOPICS}
    everything = {b"orders", *parents, *lite_stores.LIGHT}
    files = {b"orders", *parents} if LIGHT_ALONE in given else everything
    return files, {*parents, *lite_stores.LITE_QUEUES} if SELECTIVE in given else everything


def test_settings_that_rocketmq_refuses(tmp_path: Path) -> None:
    """Settings with which a broker does not start are refused by name."""
    store = lite_stores.make(tmp_path / "store", settings(DOUBLE))
    for given, named in (
        (("combineCQLoadingCQTypes=default", LIGHT_ALONE), "combineCQLoadingCQTypes"),
        (("combineCQPreferCQType=defaultRocksDB", SELECTIVE), "combineCQPreferCQType"),
        (("combineAssignOffsetCQType=defaultRocksDB", LIGHT_ALONE), "combineAssignOffsetCQType"),
        (("combineCQLoadingCQTypes=defaultRocksDB",), "combineCQPreferCQType=default"),
        (("combineCQLoadingCQTypes=nothing",), "combineCQPreferCQType"),
        (
            ("combineCQPreferCQType=nothing",),
            "combineCQPreferCQType=nothing: .*=default;defaultRocksDB .the default. does",
        ),
    ):
        with pytest.raises(ConfigError, match=named):
            reput.MessageStore.open(store, settings(DOUBLE, *given), read_only=True)


def test_the_preferred_kind_answers(tmp_path: Path) -> None:
    """CombineCQPreferCQType says which kind answers reads."""
    store = lite_stores.make(tmp_path / "store", settings(DOUBLE))
    for kind, name in (("default", "file"), ("defaultRocksDB", "rocksdb")):
        config = settings(DOUBLE, f"combineCQPreferCQType={kind}")
        with reput.MessageStore.open(store, config, read_only=True) as opened:
            assert opened.view.queues_table.durable.name == name


def test_queues_outside_their_place_are_noted(tmp_path: Path) -> None:
    """Queues that a broker wrote before its settings changed are noted and not compared; a rebuild removes them."""
    store = lite_stores.make(tmp_path / "store", settings(DOUBLE))
    config = settings(DOUBLE, LIGHT_ALONE, SELECTIVE)
    report = reput.check(store, spark=False, config=config)
    assert report.sound
    assert [one.rule for one in report.findings] == ["queue-not-used", "queue-not-used"]
    reput.rebuild(store, spark=False, config=config)
    assert reput.check(store, spark=False).findings == []
    assert (in_files(store), in_database(store)) == where_queues_are((LIGHT_ALONE, SELECTIVE))


def test_expired_lite_topics_are_no_damage(tmp_path: Path) -> None:
    """A lite topic that a broker deleted when it expired is noted; one that cannot have expired is missed."""
    config = settings(DOUBLE, LIGHT_ALONE)
    store = lite_stores.make(tmp_path / "store", config, days_ago=2)
    owner = fs.owner_of(store)
    for topic in (b"%LMQ%$sessions$user-1", b"%LMQ%$forever$user-1"):
        assert databases.rocksdb(store).delete(topic, None, owner, tmp_path)
    report = reput.check(store, spark=False)
    assert sorted((one.rule, one.severity) for one in report.findings) == [
        ("queue-missing", "damage"),
        ("queue-of-expired-lite-topic", "note"),
    ]
