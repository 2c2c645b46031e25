"""The source of metadata that counts, how old the others are, and bad input in each of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.info import info
from reput.cli.progress.command import progress
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, NewerDatabaseError, StoreLockedError
from reput.files.database_owner import DatabaseOwner
from reput.files.fs import owner_of
from reput.formats.config import metadata_v1, metadata_v2
from reput.formats.config.consumer_offset import ConsumerOffsets, encode
from reput.formats.config.data_version import DataVersion
from reput.formats.config.metadata_v2 import CommittedKey, TableId
from reput.store.disk.layout import find_store
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.metadata.state import metadata_state
from reput.store.metadata.tables import Table
from reput.store.metadata.topics import topics_of
from support import golden
from support.metadata import metadata_of, progress_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATABASES = {"config-v1": "consumerOffsets", "config-v1-single": "metadata", "config-v2": "rdb"}
ROCKSDB = StoreConfig(store_type="defaultRocksDB")


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A golden store of one's own, config-v1 unless a test names another."""
    return golden.unpack(getattr(request, "param", "config-v1"), tmp_path)


def all_kinds(test: object) -> object:
    """Run a test on a store with each kind of database."""
    return pytest.mark.parametrize("store", DATABASES, indirect=True)(test)  # type: ignore[arg-type]


def database(store: Path, table: Table = Table.OFFSETS) -> Path:
    """The database that counts."""
    return metadata_of(store).place(table)


def stale_json(store: Path, table: dict[str, dict[int, int]], counter: int = 0) -> Path:
    """A JSON file of offsets that an earlier broker left there, newer by its time than the database."""
    path = store / "config" / "consumerOffset.json"
    path.write_bytes(encode(ConsumerOffsets(table, None, DataVersion(counter, 0, 1))))
    return path


@contextmanager
def opened_to_write(folder: Path, families: list[str], logs: Path) -> Iterator[DatabaseOwner]:
    """A database as its broker has it."""
    with DatabaseOwner(folder, families, logs, owner_of(folder)) as owner:
        yield owner


@all_kinds
def test_json_that_is_left_over_does_not_count(store: Path) -> None:
    """Queues in RocksDB show that the broker keeps metadata there, whatever time JSON has; `info` names both."""
    before = dict(metadata_of(store).read(Table.OFFSETS).values)
    stale = stale_json(store, {"orders@billing": {1: 999}})
    assert dict(metadata_of(store).read(Table.OFFSETS).values) == before
    assert reput.info(store).metadata.tables["offsets"][1].place == str(stale)
    (note,) = [note for note in reput.info(store).notes if note.startswith("offsets differ between")]
    assert f"and {stale} (written " in note
    assert note.endswith(f"{database(store)} counts")


@all_kinds
def test_settings_decide(store: Path) -> None:
    """With storeType=default a broker reads JSON, however old, and in v2 nothing but config/rdb."""
    path = stale_json(store, {"orders@billing": {1: 999}})
    os.utime(path, (1, 1))
    plain = StoreConfig(store_type="default", config_manager_version="v1")
    assert metadata_of(store, plain).read(Table.OFFSETS).values == {"orders@billing": {1: 999}}
    second = StoreConfig(config_manager_version="v2")
    found = metadata_of(store, second)
    assert found.is_as_expected == (database(store).name == "rdb")


def test_times_decide_without_queues(store: Path) -> None:
    """The source that was written last counts if neither settings nor queues show one."""
    shutil.rmtree(store / "consumequeue")
    path = stale_json(store, {"orders@billing": {1: 999}})
    assert metadata_of(store).chosen.name == "json"
    os.utime(path, (1, 1))
    assert metadata_of(store).chosen.name == "v1"


def test_copies_that_lost_their_times(store: Path) -> None:
    """Within a minute data versions decide: here the database's is later."""
    shutil.rmtree(store / "consumequeue")
    stale_json(store, {"orders@billing": {1: 999}})
    for folder in ("topics", "subscriptionGroups", "consumerOffsets"):
        for path in (store / "config" / folder).iterdir():
            os.utime(path)
    assert metadata_of(store).chosen.name == "v1"


@all_kinds
def test_a_live_broker(store: Path) -> None:
    """A database that another process has open is read as far as that has flushed, without a trace; changes wait."""
    place = database(store)
    code = (
        "import sys; from pathlib import Path; from reput.files.database_owner import DatabaseOwner; "
        "from reput.files.fs import owner_of; place = Path(sys.argv[1]); "
        "owner = DatabaseOwner(place, ['default'], Path(sys.argv[2]), owner_of(place)); print('open', flush=True); "
        "sys.stdin.read(); owner.close()"
    )
    words = [sys.executable, "-c", code, str(place), str(store.parent / "logs")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        names = sorted(place.iterdir())
        state = metadata_state(metadata_of(store)).tables["offsets"][0]
        assert (state.is_held, state.entries) == (True, 9)
        changed = progress_of(store)
        changed.commit("billing", "orders", 0, 5)
        with pytest.raises(StoreLockedError, match=r"A broker or another reput process has it open"):
            changed.persist()
        assert sorted(place.iterdir()) == names
        holder.communicate()
    assert changed.persist()
    changed.close()
    assert progress_of(store).query("billing", "orders", 0) == 5


@all_kinds
@pytest.mark.parametrize("missing", ["CURRENT", "MANIFEST", ".sst", ".log"])
def test_half_a_database(store: Path, missing: str) -> None:
    """A database that is only half there is damage with its name; the messages can be read, and nothing is written."""
    place = database(store)
    for path in [path for path in place.iterdir() if missing in path.name]:
        path.unlink()
    with pytest.raises(DamagedStoreError, match=str(place)):
        metadata_of(store).read(Table.OFFSETS)
    info = reput.info(store)
    assert [text for text in info.damage if str(place) in text]
    assert info.queue_messages > 0
    with reput.MessageStore.open(store, read_only=True) as opened:
        topic = opened.topics()[0]
        assert opened.queues(topic)
        with pytest.raises(DamagedStoreError, match=r"[Pp]ut a copy in its place"):
            _ = opened.progress


@all_kinds
def test_garbage_in_one_value(store: Path) -> None:
    """A value that is not the broker's is left out by name; the others count, and a change keeps it as it is."""
    place = database(store)
    family, key = _some_key(store)
    with opened_to_write(place, [family], store.parent / "logs") as owner:
        batch = owner.batch()
        batch.put(family, key, b"\xff is garbage")
        owner.write(batch)
    content = metadata_of(store).read(Table.OFFSETS)
    (note,) = content.notes
    assert str(place) in note
    assert "left out" in note
    assert len(content.values) == 9
    changed = progress_of(store)
    changed.commit("billing", "orders", 0, 5)
    changed.persist()
    changed.close()
    assert progress_of(store).query("billing", "orders", 0) == 5
    assert metadata_of(store).read(Table.OFFSETS).notes == (note,)


def _some_key(store: Path) -> tuple[str, bytes]:
    name = metadata_of(store).chosen.name
    if name == "v2":
        return "default", metadata_v2.offset_key(TableId.OFFSETS, CommittedKey(b"group", b"topic", 0))
    return ("consumerOffset" if name == "v1-single" else "default"), b"topic@group"


@pytest.mark.parametrize("name", ["config-v1", "config-v2"])
def test_a_garbage_data_version_hid_the_whole_table(name: str, tmp_path: Path) -> None:
    """A data version that is not the broker's is left out with a note, and the table still counts."""
    store = golden.unpack(name, tmp_path)
    before = metadata_of(store).read(Table.TOPICS)
    second = name == "config-v2"
    place = database(store) if second else store / "config" / "topics"
    family = "default" if second else metadata_v1.OWN_VERSION_FAMILY
    key = metadata_v2.version_key(TableId.TOPICS) if second else metadata_v1.VERSION_KEY
    with opened_to_write(place, ["default"] if second else ["default", family], tmp_path / "logs") as owner:
        batch = owner.batch()
        batch.put(family, key, b"garbage")
        owner.write(batch)
    content = metadata_of(store).read(Table.TOPICS)
    assert (content.values, content.version) == (before.values, None)
    (note,) = content.notes
    assert "its data version" in note
    assert "left out" in note


def test_a_newer_layout(tmp_path: Path) -> None:
    """A topic in a form that this RocketMQ does not write is left out by name, and with the remedy."""
    store = golden.unpack("config-v2", tmp_path)
    with opened_to_write(database(store), ["default"], tmp_path / "logs") as owner:
        batch = owner.batch()
        batch.put("default", metadata_v2.name_key(TableId.TOPICS, b"orders"), b"\x02protobuf")
        owner.write(batch)
    content = metadata_of(store).read(Table.TOPICS)
    assert "orders" not in content.values
    assert "orders: its value has type 2; RocketMQ 5.5.1 writes type 1 (JSON)" in content.notes[0]
    assert "payments" in content.values


def test_keys_of_another_layout_were_passed_over_in_silence(tmp_path: Path) -> None:
    """Keys that no table has are named once for the whole database; the tables are read all the same."""
    store = golden.unpack("config-v2", tmp_path)
    before = {table: dict(metadata_of(store).read(table).values) for table in Table}
    keys = [b"", b"\x01", b"\x01\x00\x03\x07key", b"\x01\x00\x09\x02key", b"\x09\x00\x01\x01key"]
    with opened_to_write(database(store), ["default"], tmp_path / "logs") as owner:
        batch = owner.batch()
        batch.put_all("default", keys, [b"value"] * len(keys))
        owner.write(batch)
    assert {table: dict(metadata_of(store).read(table).values) for table in Table} == before
    (note,) = [note for note in reput.info(store).notes if "layout" in note]
    assert note.startswith(
        f"{database(store)}: 5 keys of a layout that reput does not know, such as b''; a newer broker"
    )
    # Topics and offsets are in one database: it was named once for each.
    with reput.MessageStore.open(store, read_only=True) as opened:
        opened.query_offset("billing", "orders", 0)
        assert [text for text in opened.notes if "layout" in text] == [note]


def test_info_did_not_name_the_store_type_that_a_rebuild_assumes(tmp_path: Path) -> None:
    """Without queues, metadata of version 1 says that they were in RocksDB, and `info` says so as a rebuild does."""
    store = golden.unpack("config-v1", tmp_path)
    assert not any("assumes" in note for note in reput.info(store).notes)
    shutil.rmtree(store / "consumequeue")
    assert any("assumes storeType=defaultRocksDB (no queues" in note for note in reput.info(store).notes)
    given = StoreConfig(store_type="defaultRocksDB")
    assert not any("assumes" in note for note in reput.info(store, config=given).notes)


def test_a_database_of_another_layout_was_read_as_empty(tmp_path: Path) -> None:
    """A database of version 2 without any key of a table is a newer broker's; the messages can be read."""
    store = golden.unpack("config-v2", tmp_path)
    records = _records(store)
    place = database(store)
    with opened_to_write(place, ["default"], tmp_path / "logs") as owner:
        batch = owner.batch()
        for key, value in records.items():
            batch.delete("default", key)
            batch.put("default", b"\x02" + key[1:], value)
        owner.write(batch)
    for table in Table:
        with pytest.raises(NewerDatabaseError, match=f"{place}: {len(records)} keys of a layout"):
            metadata_of(store).read(table)
    info = reput.info(store)
    assert [str(place) in text for text in info.damage] == [True]
    assert info.queue_messages > 0


def test_both_are_missing(tmp_path: Path) -> None:
    """Without JSON and without a database there is nothing, and nothing to say."""
    store = golden.unpack("json", tmp_path)
    for path in (store / "config").glob("*.json*"):
        path.unlink()
    metadata = metadata_of(store)
    assert [dict(metadata.read(table).values) for table in Table] == [{}, {}, {}]
    assert metadata_state(metadata).tables == {}
    assert reput.info(store).damage == []


def test_no_database_where_v2_is_set(tmp_path: Path) -> None:
    """With configManagerVersion=v2 a broker takes JSON in nowhere: offsets are shown with a note, and not changed."""
    store = golden.unpack("json", tmp_path)
    config = StoreConfig(config_manager_version="v2")
    note = metadata_of(store, config).read(Table.OFFSETS).notes[0]
    assert "offsets are read here, since there is no" in note
    assert "A broker takes nothing in there, and begins without them" in note
    changed = progress_of(store, config)
    before = (store / "config" / "consumerOffset.json").read_bytes()
    changed.commit("billing", "orders", 0, 5)
    with pytest.raises(ConfigError, match="Nothing was changed"):
        changed.persist()
    assert (store / "config" / "consumerOffset.json").read_bytes() == before


def test_light_queues_turned_on(tmp_path: Path) -> None:
    """With enableLmq a broker reads lmqConsumerOffset.json: a change writes the whole table there."""
    store = golden.unpack("json", tmp_path)
    config = StoreConfig(enable_lmq=True)
    before = metadata_of(store, config).read(Table.OFFSETS)
    assert "since there is no" in before.notes[0]
    changed = progress_of(store, config)
    changed.commit("billing", "orders", 0, 5)
    with pytest.raises(ConfigError, match="a light group has one offset in a topic"):
        changed.commit("%LMQ%group", "orders", 1, 5)
    changed.persist()
    again = metadata_of(store, config).read(Table.OFFSETS)
    assert again.place.name == "lmqConsumerOffset.json"
    assert again.values == {**before.values, "orders@billing": {**before.values["orders@billing"], 0: 5}}
    assert not again.notes


@all_kinds
def test_bytes_are_the_brokers(store: Path) -> None:
    """A table that reput writes again has the bytes that the broker wrote."""
    changed = progress_of(store)
    key, queues = next(iter(changed.snapshot().offset_table.items()))
    topic, group = key.split("@")
    records = _records(store)
    for value in (12345, queues[min(queues)]):
        changed.commit(group, topic, min(queues), value)
        changed.persist()
    changed.close()
    again = _records(store)
    changed = {key for key in again if again[key] != records.get(key)}
    assert all(b"ersion" in key or b"data_version" in key for key in changed)


def _records(store: Path) -> dict[bytes, bytes]:
    from reput.files.database import DatabaseReader

    metadata = metadata_of(store)
    families = ("consumerOffset", metadata_v1.OWN_VERSION_FAMILY, "consumerOffsetVersion")
    with DatabaseReader(metadata.place(Table.OFFSETS), ("default",), optional=families) as reader:
        return {key: value for family in reader.families.values() for key, value in family.walk()}


def test_a_store_in_json_says_nothing_new(tmp_path: Path) -> None:
    """A store in JSON makes `info` say nothing of it, and no library of databases is loaded to find that."""
    store = golden.unpack("json", tmp_path)
    code = (
        "import sys; from reput.config import StoreConfig; from reput.store.disk.purpose import Purpose; "
        "from reput.store.disk.store import StoreOnDisk; "
        "from reput.store.metadata.state import metadata_state; "
        "store = StoreOnDisk.find(sys.argv[1], StoreConfig(), Purpose.LOOK); "
        "assert metadata_state(store.metadata).is_plain; print('rocksdict' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    shown = CliRunner().invoke(info, [str(store)], standalone_mode=False)
    assert "metadata" not in shown.output
    assert json.loads(json.dumps(reput.info(store).to_dict()["metadata"]))["tables"].keys() == {
        "topics",
        "groups",
        "offsets",
    }


@pytest.mark.behaviour("RocksDBConsumerOffsetManagerMigrationTest.testMigrationFromSeparateToUnifiedRocksDB")
@pytest.mark.parametrize("counter", [0, 3])
def test_databases_that_one_takes_in(counter: int, tmp_path: Path) -> None:
    """With one database for all a broker takes in those of a table each if they count more changes."""
    store = golden.unpack("config-v1-single", tmp_path)
    other = golden.unpack("config-v1", tmp_path)
    shutil.copytree(other / "config" / "consumerOffsets", store / "config" / "consumerOffsets")
    each, one = (StoreConfig(use_single_rocksdb_for_all_configs=is_single) for is_single in (False, True))
    before = dict(metadata_of(store, one).read(Table.OFFSETS).values)
    if counter:
        separate = progress_of(store, each, version_step=1)
        for number in range(counter):
            separate.commit("separate", "orders", 0, number)
        separate.persist()
        separate.close()
    found = metadata_of(store, one).read(Table.OFFSETS)
    added = dict(metadata_of(store, each).read(Table.OFFSETS).values) if counter else {}
    assert found.values == before | added
    assert bool(found.notes) == bool(counter)


@all_kinds
def test_the_command_changes_what_counts(store: Path) -> None:
    """`reput progress --commit` on a stopped broker's store: the offset is where the broker reads it, and is shown."""
    topic = "orders"
    asked = [str(store), "-g", "billing", "-t", topic, "-q", "0", "--json"]
    done = CliRunner().invoke(progress, [*asked, "--commit", "5"], standalone_mode=False)
    assert done.exception is None, done.output
    assert metadata_of(store).read(Table.OFFSETS).values[f"{topic}@billing"][0] == 5
    shown = CliRunner().invoke(progress, asked, standalone_mode=False)
    (group,) = json.loads(shown.stdout)["groups"]
    assert [queue["offset"] for queue in group["queues"]] == [5]
    assert not (store / "config" / "consumerOffset.json").exists()
    assert reput.check(store, spark=False).exit_code == 0


@all_kinds
def test_a_rebuild_keeps_numbers_by_the_database(store: Path) -> None:
    """A queue without records and without files goes on at the highest offset that the database has."""
    changed = progress_of(store)
    changed.commit("billing", "quiet", 1, 3)
    changed.commit("shipping", "quiet", 1, 7)
    changed.persist()
    changed.close()
    place = database(store)
    report = reput.rebuild(store, spark=False)
    assert [line for line in report.retained_queues if line.startswith("quiet/1")] == [
        f"quiet/1 goes on at 7 (from config/{place.name})"
    ]
    assert any(f"the highest committed offset in config/{place.name}" in text for text in report.warnings)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert opened.max_offset("quiet", 1) == 7
    assert reput.check(store, spark=False).exit_code == 0


@all_kinds
def test_queue_types_come_from_the_database(store: Path) -> None:
    """A topic's attribute queue.type counts wherever the topic is kept; one that RocketMQ does not know is refused."""
    metadata = metadata_of(store)
    place, name = metadata.place(Table.TOPICS), metadata.chosen.name
    family = "topic" if name == "v1-single" else "default"
    for kind in ("BatchCQ", "OddCQ"):
        value = json.dumps({"topicName": "batches", "attributes": {"queue.type": kind}}).encode()
        key = metadata_v2.name_key(TableId.TOPICS, b"batches") if name == "v2" else b"batches"
        with opened_to_write(place, [family], store.parent / "logs") as owner:
            batch = owner.batch()
            batch.put(family, key, b"\x01" + value if name == "v2" else value)
            owner.write(batch)
        on_disk = StoreOnDisk(find_store(store, StoreConfig()), StoreConfig(), Purpose.LOOK)
        if kind == "BatchCQ":
            assert on_disk.settings.types.batch == {b"batches"}
        else:
            with pytest.raises(ConfigError, match=f"{place}: topic batches: queue.type=OddCQ"):
                _ = on_disk.settings


def test_deleted_topics_are_judged_by_whole_tables(tmp_path: Path) -> None:
    """A database of version 2 lacks topics that a broker makes by itself, so nothing there counts as deleted."""
    first, second = (topics_of(metadata_of(golden.unpack(name, tmp_path))) for name in ("config-v1", "config-v2"))
    assert first.was_deleted(b"gone")
    assert not first.was_deleted(b"orders")
    assert not first.was_deleted(b"rmq_sys_wheel_timer")
    assert not second.was_deleted(b"gone")


@all_kinds
def test_check_names_a_damaged_database(store: Path) -> None:
    """The log, queues and index are checked all the same, and a finding says once what is unknown."""
    place = database(store, Table.TOPICS)
    (place / "CURRENT").unlink()
    report = reput.check(store, spark=False)
    assert [found.file for found in report.findings if str(place) in found.detail] == [str(place)]
    assert not any(str(place) in text for text in report.notes)
    assert not any(str(place) in text for text in report.assumed)
    assert report.messages == golden.facts(store.name).messages


def test_a_conversion_says_what_becomes_of_offsets(tmp_path: Path) -> None:
    """A broker that finds queues in RocksDB looks for offsets there, too; a change by reput makes it take JSON in."""
    store = golden.unpack("json", tmp_path)
    report = reput.convert(store, to="rocksdb", spark=False)
    assert any("does not take these in: their data version is 0" in note for note in report.warnings)
    asked = [str(store), "-g", "billing", "-t", "orders", "-q", "0", "--commit", "1"]
    done = CliRunner().invoke(progress, [*asked, "--set", "storeType=defaultRocksDB"], standalone_mode=False)
    assert done.exception is None, done.output
    note = metadata_of(store, ROCKSDB).read(Table.OFFSETS).notes[0]
    assert "A broker makes that at its start and takes these in (data version 1)" in note
    back = reput.convert(store, to="file", spark=False)
    assert not any("A broker" in note for note in back.warnings)
