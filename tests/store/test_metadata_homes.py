"""Homes of changes of topics, groups and offsets: where a broker with the settings looks, or nowhere."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.info import info
from reput.cli.main import run
from reput.cli.progress.command import progress
from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.config.consumer_offset import ConsumerOffsets, encode
from reput.formats.config.data_version import DataVersion
from reput.store.metadata.configurations import Configurations
from reput.store.metadata.tables import Table
from support import golden, lite_stores
from support.metadata import homes_of, metadata_of, progress_of

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_800_000_000_000
STORES = ["json", "config-v1", "config-v1-single", "config-v2"]
ROCKSDB = StoreConfig(store_type="defaultRocksDB")
SINGLE, SEPARATE = (StoreConfig(use_single_rocksdb_for_all_configs=is_single) for is_single in (True, False))


def now_ms() -> int:
    """A time after those in the stores."""
    return NOW_MS


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store's configuration."""
    return {str(path.relative_to(store)): path.read_bytes() for path in (store / "config").rglob("*") if path.is_file()}


def with_queues_in_files(store: Path) -> None:
    """Leave a store queues in files alone, as a conversion does."""
    shutil.rmtree(store / "consumequeue")
    (store / "consumequeue" / "orders" / "0").mkdir(parents=True)


@pytest.mark.behaviour(
    "RocksDBSubscriptionGroupManagerTest.testPutSubscriptionGroupConfig",
    "SubscriptionGroupManagerV2Test.testDeleteSubscriptionGroupConfig",
    "RocksDBConsumerOffsetManagerMigrationTest.testNoMigrationWhenDisabled",
    "RocksDBTopicConfigManagerMigrationTest.testNoMigrationWhenDisabled",
    "RocksDBConsumerOffsetManagerMigrationTest.testMigrationWithNoSeparateRocksDB",
    "RocksDBTopicConfigManagerMigrationTest.testMigrationWithNoSeparateRocksDB",
)
@pytest.mark.parametrize("table", [Table.TOPICS, Table.GROUPS])
@pytest.mark.parametrize("name", STORES)
def test_configurations_come_back_from_each_home(name: str, table: Table, tmp_path: Path) -> None:
    """A configuration that is put or removed is what the next reader finds, unknown members included."""
    store = golden.unpack(name, tmp_path)
    before = metadata_of(store).read(table)
    homes = homes_of(store, clock_ms=now_ms)
    found = Configurations.load(homes.home(table), now_ms)
    assert found.values == before.values
    gone, changed = sorted(before.values)[:2]
    found.put(changed, {**before.values[changed], "unknownMember": {"a": [1, "订单"]}})
    found.put("new", {"perm": 6})
    assert found.remove(gone)
    assert not found.remove("never there")
    found.persist()
    found.persist()
    homes.close()
    after = metadata_of(store).read(table)
    wanted = {
        **before.values,
        "new": {"perm": 6},
        changed: {**before.values[changed], "unknownMember": {"a": [1, "订单"]}},
    }
    assert after.values == {key: value for key, value in wanted.items() if key != gone}
    changes = 3 if name == "config-v2" else 1
    assert after.version == DataVersion(before.counter + changes, 0, NOW_MS)
    assert not after.notes


@pytest.mark.behaviour("RocksdbGroupConfigTransferTest.addForbiddenGroupLoadJsonSubscriptionGroupManager")
def test_other_members_of_a_file_are_kept(tmp_path: Path) -> None:
    """Members beside the table, such as those of a newer broker, are written again, and the old file is the backup."""
    store = golden.unpack("json", tmp_path)
    path = store / "config" / "subscriptionGroup.json"
    members = json.loads(path.read_bytes())
    path.write_text(json.dumps({**members, "forbiddenTable": {"g": {"t": 1}}, "laterTable": {"x": 1}}))
    old = path.read_bytes()
    groups = Configurations.load(homes_of(store).home(Table.GROUPS), now_ms)
    groups.put("new", {})
    groups.persist()
    written = json.loads(path.read_bytes())
    assert (written["forbiddenTable"], written["laterTable"]) == ({"g": {"t": 1}}, {"x": 1})
    assert written["subscriptionGroupTable"] == {**members["subscriptionGroupTable"], "new": {}}
    assert path.with_name(f"{path.name}.bak").read_bytes() == old


@pytest.mark.parametrize(
    ("name", "config", "setting"),
    [
        ("config-v1-single", SEPARATE, "useSingleRocksDBForAllConfigs=false"),
        ("config-v2", StoreConfig(config_manager_version="v1"), "configManagerVersion=v1"),
        ("config-v1", StoreConfig(config_manager_version="v2"), "configManagerVersion=v2"),
        ("json", StoreConfig(config_manager_version="v2"), "configManagerVersion=v2"),
    ],
    ids=["separate", "first version", "second version", "second version of JSON"],
)
def test_half_of_the_settings_wrote_offsets_that_no_broker_reads(
    name: str, config: StoreConfig, setting: str, tmp_path: Path
) -> None:
    """Settings that rule out what is there, and name no place that a broker fills from it, refuse a change by name."""
    store = golden.unpack(name, tmp_path)
    before = contents(store)
    changed = progress_of(store, config)
    assert changed.groups()
    changed.commit("billing", "orders", 0, 5)
    with pytest.raises(ConfigError, match="Nothing was changed") as refused:
        changed.persist()
    assert setting in str(refused.value)
    assert metadata_of(store).chosen.settings in str(refused.value)
    assert contents(store) == before
    assert any(setting in note for note in reput.info(store, config=config).notes)


def test_the_command_refuses_half_of_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reput progress --commit` names the setting and the remedy, exits 2 and changes nothing."""
    store = golden.unpack("config-v2", tmp_path)
    before = contents(store)
    asked = ["progress", str(store), "-g", "billing", "-t", "orders", "-q", "0", "--commit", "5"]
    assert run([*asked, "--set", "configManagerVersion=v1"]) == 2
    said = capsys.readouterr().err
    assert "a broker with configManagerVersion=v1 (from --set) looks in" in said
    assert "give the settings of the broker that wrote them (configManagerVersion=v2)" in said
    assert contents(store) == before


def test_queues_in_files_beside_offsets_in_a_database(tmp_path: Path) -> None:
    """The queues show storeType=default, with which a broker reads JSON: only a storeType that is given decides."""
    store = golden.unpack("config-v1", tmp_path)
    with_queues_in_files(store)
    undecided = progress_of(store)
    undecided.commit("billing", "orders", 0, 5)
    with pytest.raises(ConfigError, match="storeType=default, as the queues show"):
        undecided.persist()
    as_database = progress_of(store, ROCKSDB)
    as_database.commit("billing", "orders", 0, 5)
    as_database.persist()
    as_database.close()
    assert not (store / "config" / "consumerOffset.json").exists()
    as_json = progress_of(store, StoreConfig(store_type="default"))
    as_json.commit("billing", "orders", 0, 6)
    as_json.persist()
    assert metadata_of(store, StoreConfig(store_type="default")).read(Table.OFFSETS).values["orders@billing"][0] == 6
    assert metadata_of(store, ROCKSDB).read(Table.OFFSETS).values["orders@billing"][0] == 5


def test_stale_json_took_changes_beside_queues_in_files(tmp_path: Path) -> None:
    """A database that is newer than the JSON beside queues in files refuses a change, until a storeType decides."""
    store = golden.unpack("config-v1", tmp_path)
    with_queues_in_files(store)
    stale = store / "config" / "consumerOffset.json"
    stale.write_bytes(encode(ConsumerOffsets({"orders@billing": {0: 1}}, None, DataVersion(1, 0, 1))))
    two_days_ago = metadata_of(store, ROCKSDB).chosen.written_ms(Table.OFFSETS) / 1000 - 2 * 86_400
    os.utime(stale, (two_days_ago, two_days_ago))
    before = contents(store)
    undecided = progress_of(store)
    undecided.commit("billing", "orders", 0, 5)
    with pytest.raises(ConfigError, match=r"consumerOffsets .*was written later.*--set storeType=default"):
        undecided.persist()
    assert contents(store) == before
    for config in (ROCKSDB, StoreConfig(store_type="default")):
        decided = progress_of(store, config)
        decided.commit("billing", "orders", 0, 5)
        decided.persist()
        decided.close()
        assert metadata_of(store, config).read(Table.OFFSETS).values["orders@billing"][0] == 5


@pytest.mark.behaviour(
    "RocksDBConsumerOffsetManagerMigrationTest.testMigrationFromSeparateToUnifiedRocksDB",
    "RocksDBTopicConfigManagerMigrationTest.testMigrationFromSeparateToUnifiedRocksDB",
)
@pytest.mark.parametrize("counter", [0, 3])
def test_separate_databases_before_the_first_start_with_one(counter: int, tmp_path: Path) -> None:
    """A broker makes the one database, and takes each table in whose data version is not 0; a change goes there."""
    store = golden.unpack("config-v1", tmp_path)
    if counter:
        separate = progress_of(store, version_step=1)
        for number in range(counter):
            separate.commit("billing", "orders", 0, number)
        separate.persist()
        separate.close()
    content = metadata_of(store, SINGLE).read(Table.OFFSETS)
    assert content.values == metadata_of(store).read(Table.OFFSETS).values
    (note,) = content.notes
    lost, kept = "does not take these in: their data version is 0", "takes these in (data version 3)"
    assert (kept if counter else lost) in note
    assert metadata_of(store, SINGLE).read(Table.TOPICS).counter > 0
    changed = progress_of(store, SINGLE)
    changed.commit("billing", "orders", 0, 7)
    changed.persist()
    changed.close()
    after = metadata_of(store, SINGLE).read(Table.OFFSETS)
    assert after.place.name == "metadata"
    assert after.values == {**content.values, "orders@billing": {**content.values["orders@billing"], 0: 7}}
    assert not after.notes
    topics = metadata_of(store, SINGLE).read(Table.TOPICS)
    assert topics.values == metadata_of(store, SEPARATE).read(Table.TOPICS).values


def test_new_stores(tmp_path: Path) -> None:
    """The first offsets of a store are where a broker with its settings finds them."""
    for number, (config, place) in enumerate(
        [
            (StoreConfig(), "consumerOffset.json"),
            (StoreConfig(enable_lmq=True), "lmqConsumerOffset.json"),
            (ROCKSDB, "consumerOffset.json"),
            (StoreConfig(config_manager_version="v2"), "rdb"),
        ]
    ):
        store = tmp_path / str(number)
        with reput.MessageStore.open(store, config, create=True) as opened:
            opened.put_message(reput.Message("orders", b"body"))
            opened.commit_offset("billing", "orders", 0, 1)
        assert [path.name for path in (store / "config").iterdir()] == [place]
        content = metadata_of(store, config).read(Table.OFFSETS)
        assert content.values == {"orders@billing": {0: 1}}
        # A broker takes in no JSON with the version 0 when it makes a database.
        assert content.counter > 0 or config.store_type is None


def test_offsets_of_light_groups_before_the_first_start_on_a_database(tmp_path: Path) -> None:
    """A broker that makes a database takes in consumerOffset.json alone, so a change goes there."""
    store = golden.unpack("json", tmp_path)
    config = store / "config"
    (config / "consumerOffset.json").rename(config / "lmqConsumerOffset.json")
    (config / "consumerOffset.json.bak").unlink(missing_ok=True)
    before = metadata_of(store, ROCKSDB).read(Table.OFFSETS)
    assert "A broker takes nothing in there, and begins without them" in before.notes[0]
    changed = progress_of(store, ROCKSDB)
    changed.commit("billing", "orders", 0, 5)
    changed.persist()
    after = metadata_of(store, ROCKSDB).read(Table.OFFSETS)
    assert after.values == {**before.values, "orders@billing": {**before.values["orders@billing"], 0: 5}}
    assert "takes these in" in after.notes[0]


def newer_json(store: Path, table: dict[str, dict[int, int]]) -> None:
    """Leave JSON that counts more changes than the store's database."""
    data = encode(ConsumerOffsets(table, None, DataVersion(900, 0, NOW_MS)))
    (store / "config" / "consumerOffset.json").write_bytes(data)


def test_info_says_which_place_gave_what(tmp_path: Path) -> None:
    """Each place is shown with its own entries, and how many of them count; merged values are nobody's own."""
    store = golden.unpack("config-v1", tmp_path)
    newer_json(store, {"orders@json": {0: 1}})
    database, file = reput.info(store).metadata.tables["offsets"]
    assert (database.source, database.entries, database.counting_entries) == ("v1", 9, 0)
    assert (file.source, file.entries, file.counting_entries, file.is_taken_in) == ("json", 1, 1, True)
    shown = CliRunner().invoke(info, [str(store)], standalone_mode=False).output
    assert "offsets of 9 pairs of topic and group in config/consumerOffsets (RocksDB, version 1)" in shown
    assert "; 0 of these count\n" in shown
    assert "offsets of 1 pair of topic and group in config/consumerOffset.json (JSON)" in shown
    assert "; a broker takes these in at its start\n" in shown


def test_topics_of_two_places_are_added(tmp_path: Path) -> None:
    """A broker adds the topics of newer JSON to those of the database; a topic of both is that of JSON."""
    store = golden.unpack("config-v1", tmp_path)
    version = DataVersion(900, 0, NOW_MS)
    topics = {"orders": {"topicName": "orders", "perm": 4}, "json": {"topicName": "json"}}
    text = json.dumps({"dataVersion": version.members, "topicConfigTable": topics})
    (store / "config" / "topics.json").write_text(text)
    content = metadata_of(store).read(Table.TOPICS)
    assert {name: content.values[name] for name in topics} == topics
    assert "payments" in content.values
    database, file = reput.info(store).metadata.tables["topics"]
    assert (database.entries, database.counting_entries) == (len(content.values) - 1, len(content.values) - 2)
    assert (file.entries, file.counting_entries) == (2, 2)


@pytest.mark.behaviour("RocksdbTransferOffsetAndCqTest.testTransferOffset")
def test_progress_names_newer_json(tmp_path: Path) -> None:
    """`reput progress` says that offsets come from JSON which a broker takes in, and where else it looked."""
    store = golden.unpack("config-v1", tmp_path)
    newer_json(store, {"orders@json": {0: 1}})
    done = CliRunner().invoke(progress, [str(store), "-g", "json"], standalone_mode=False)
    assert done.exception is None
    assert "consumerOffset.json: its data version 900 is above that of" in done.output
    assert "a broker takes it in at its start, and it counts here" in done.output


def test_absent_tables_are_named(tmp_path: Path) -> None:
    """`info` names a table that is nowhere, beside databases that have the others."""
    store = golden.unpack("config-v1", tmp_path)
    shutil.rmtree(store / "config" / "subscriptionGroups")
    assert reput.info(store).metadata.absent == {"groups": str(store / "config" / "subscriptionGroups")}
    shown = CliRunner().invoke(info, [str(store)], standalone_mode=False).output
    assert "metadata    no groups: config/subscriptionGroups is not there\n" in shown


def test_info_was_silent_about_offsets_that_a_broker_with_light_queues_does_not_read(tmp_path: Path) -> None:
    """With enableLmq a broker looks in lmqConsumerOffset.json alone: `info` says where the offsets are instead."""
    store = golden.unpack("json", tmp_path)
    assert not reput.info(store).metadata.notes
    found = reput.info(store, config=StoreConfig(enable_lmq=True)).metadata
    (note,) = found.notes
    assert "consumerOffset.json: offsets are read here, since there is no" in note
    assert "lmqConsumerOffset.json, where a broker with enableLmq=true (from the configuration) looks" in note


@pytest.mark.parametrize("name", ["config-v1", "config-v1-single"])
def test_info_was_silent_if_all_metadata_was_missing(name: str, tmp_path: Path) -> None:
    """Queues in RocksDB show that a broker had databases of metadata: each table that is nowhere is named."""
    store = golden.unpack(name, tmp_path)
    for place in {metadata_of(store).place(table) for table in Table}:
        shutil.rmtree(place)
    found = reput.info(store).metadata
    assert (list(found.absent), found.tables, found.is_plain) == (["topics", "groups", "offsets"], {}, False)
    shown = CliRunner().invoke(info, [str(store)], standalone_mode=False).output
    assert [line.split(": ")[0] for line in shown.splitlines() if line.startswith("metadata")] == [
        f"metadata    no {table.value}" for table in Table
    ]


def test_a_json_store_without_offsets_is_named(tmp_path: Path) -> None:
    """A broker that has groups writes offsets too; an embedded store has no file of topics, and nothing is said."""
    store = golden.unpack("json", tmp_path)
    for path in (store / "config").glob("consumerOffset.json*"):
        path.unlink()
    shown = CliRunner().invoke(info, [str(store)], standalone_mode=False).output
    assert "metadata    no offsets: config/consumerOffset.json is not there\n" in shown
    with reput.MessageStore.open(tmp_path / "embedded", create=True) as made:
        made.put_message(reput.Message("orders", b"1"))
        made.commit_offset("billing", "orders", 0, 1)
    found = reput.info(tmp_path / "embedded").metadata
    assert {"topics", "groups"} <= found.absent.keys()
    assert found.is_plain
    assert "metadata" not in CliRunner().invoke(info, [str(tmp_path / "embedded")], standalone_mode=False).output


def test_info_named_one_damaged_database_once_a_table(tmp_path: Path) -> None:
    """A database that has all tables is one damage."""
    store = golden.unpack("config-v2", tmp_path)
    place = damaged(store, Table.TOPICS)
    (text,) = reput.info(store).damage
    assert str(place) in text


def damaged(store: Path, table: Table) -> Path:
    """Damage the place of a table; return it."""
    place = metadata_of(store).place(table)
    if place.is_file():
        place.write_bytes(b"no JSON")
        place.with_name(f"{place.name}.bak").unlink(missing_ok=True)
    else:
        (place / "CURRENT").unlink()
    return place


@pytest.mark.parametrize("table", Table)
@pytest.mark.parametrize("name", STORES)
def test_check_was_silent_about_a_damaged_config_database(name: str, table: Table, tmp_path: Path) -> None:
    """Metadata that no broker can load is damage with a rule of its own, once; a sound store has no such finding."""
    store = golden.unpack(name, tmp_path)
    assert reput.check(store, spark=False).exit_code == 0
    place = damaged(store, table)
    report = reput.check(store, spark=False)
    (found,) = report.findings
    assert (found.rule, found.severity, found.file, found.count) == ("metadata-damaged", "damage", str(place), 1)
    assert report.exit_code == 1
    assert report.messages == golden.facts(name).messages


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its data, and the lines of damage and errors."""
    code = run([*words])
    said = capsys.readouterr()
    return code, said.out, "".join(line for line in said.err.splitlines() if line.startswith(("damage:", "error:")))


@pytest.mark.parametrize("name", ["json", "config-v1"])
def test_readers_exited_0_beside_damaged_topics(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that comes upon damage names it and exits 1, with all that it could read; groups are read by none."""
    store = golden.unpack(name, tmp_path)
    commands = [
        ("get", str(store), "-t", "orders", "-q", "0", "-o", "0", "-c", "3", "--json"),
        ("offset", str(store), "-t", "orders", "-q", "0"),
        ("progress", str(store), "-g", "billing", "-t", "orders", "-q", "0"),
        ("pending", "timers", str(store)),
    ]
    sound = [asked(capsys, *words) for words in commands]
    assert {(code, said) for code, _, said in sound} == {(0, "")}
    damaged(store, Table.GROUPS)
    assert [asked(capsys, *words) for words in commands] == sound
    place = damaged(store, Table.TOPICS)
    for words, (_, answer, _) in zip(commands, sound, strict=True):
        code, found, said = asked(capsys, *words)
        assert (code, found) == (1, answer), words
        assert said.startswith(f"damage: {place}"), words
    assert json.loads(asked(capsys, *commands[1], "--json")[1])["ok"] is False


def test_damaged_offsets_hid_lite_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reput lite` shows lite topics without lags, names the damage, and exits 1."""
    store = lite_stores.make(tmp_path / "store")
    with reput.MessageStore.open(store) as opened:
        opened.commit_offset("agents", "%LMQ%$sessions$user-1", 0, 0)
    code, found, _ = asked(capsys, "lite", str(store), "--json")
    sound = [json.loads(line) for line in found.splitlines()]
    assert (code, any(row.get("lag") for row in sound)) == (0, True)
    place = damaged(store, Table.OFFSETS)
    code, found, said = asked(capsys, "lite", str(store), "--json")
    assert (code, said.startswith(f"damage: {place}")) == (1, True)
    *rows, last = [json.loads(line) for line in found.splitlines()]
    assert rows == [{**row, "lag": None, "lags": []} for row in sound[:-1]]
    assert (last["ok"], last["parents"]) == (False, sound[-1]["parents"])


@pytest.mark.parametrize("name", ["pending", "pending-rocksdb"])
def test_damaged_offsets_hid_what_is_pending(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that rest on no committed offset are shown; the damage says what is left out, and the exit code is 1."""
    store = golden.unpack(name, tmp_path)
    timers = asked(capsys, "pending", "timers", str(store), "--json")
    halves = asked(capsys, "pending", "transactions", str(store), "--json")
    place = damaged(store, Table.OFFSETS)
    assert asked(capsys, "pending", "timers", str(store), "--json") == timers
    code, found, said = asked(capsys, "pending", "transactions", str(store), "--json")
    assert (code, "half messages that wait in topics are left out" in said) == (1, True)
    assert said.startswith(f"damage: {place}")
    rows = found.splitlines()[:-1]
    assert set(rows) <= set(halves[1].splitlines())
    assert rows
    code, _, said = asked(capsys, "pending", "pop", str(store))
    assert (code, "messages that checkpoints hold are left out" in said) == (1, True)
    code, _, said = asked(capsys, "progress", str(store))
    assert (code, said.startswith(f"error: {place}")) == (1, True)


def test_check_names_values_that_are_not_the_brokers(tmp_path: Path) -> None:
    """Garbage in values is damage with their number: a broker does not start with it."""
    from reput.files.database_owner import DatabaseOwner
    from reput.files.fs import owner_of

    store = golden.unpack("config-v1", tmp_path)
    place = store / "config" / "consumerOffsets"
    with DatabaseOwner(place, ["default"], tmp_path / "logs", owner_of(place)) as owner:
        batch = owner.batch()
        for key in (b"a@g", b"b@g"):
            batch.put("default", key, b"\xff is garbage")
        owner.write(batch)
    report = reput.check(store, spark=False)
    (found,) = report.findings
    assert (found.rule, found.severity, found.file, found.count) == ("metadata-value-wrong", "damage", str(place), 2)
    assert "a@g" in found.detail
    assert report.exit_code == 1
    # `info` agrees.
    described = reput.info(store)
    assert described.damage == [found.detail]
    assert found.detail not in described.notes
    assert CliRunner().invoke(info, [str(store)], standalone_mode=False).return_value == 1


def test_errors_named_a_folder_of_links(tmp_path: Path) -> None:
    """An error about a file of a database names it in the database's folder, not in a reader's folder of links."""
    store = golden.unpack("config-v1", tmp_path)
    place = store / "config" / "consumerOffsets"
    table = next(path for path in place.iterdir() if path.suffix == ".sst")
    table.unlink()
    (text,) = reput.info(store).damage
    assert str(table) in text
    assert "reput-rocksdb-" not in text


@pytest.mark.parametrize(
    ("name", "words", "missing", "made"),
    [
        ("json", [], "consumerOffset.json", "consumerOffset.json"),
        ("json", ["enableLmq=true"], "consumerOffset.json", "lmqConsumerOffset.json"),
        ("config-v1", [], "consumerOffsets", "consumerOffset.json"),
        ("config-v2", ["configManagerVersion=v2"], "rdb", "rdb"),
    ],
)
def test_a_change_was_silent_about_the_place_that_it_makes(
    name: str, words: list[str], missing: str, made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offsets that are missing are made where a broker finds them: a note names what was not there and what is made."""
    store = golden.unpack(name, tmp_path)
    for path in (store / "config").glob(f"{missing}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    asked = ["progress", str(store), "-g", "billing", "-t", "orders", "-q", "0"]
    settings = [word for one in words for word in ("--set", one)]
    looked, place = store / "config" / (made if words else missing), store / "config" / made
    wanted = f"note: the store has no file or database of committed offsets: {looked} is not there"
    assert run([*asked[:2], *settings]) == 0
    assert f"{wanted}\n" in capsys.readouterr().err
    taken_in = "" if missing != "consumerOffsets" else ", which a broker takes in at its start"
    for note in (f"{wanted}, and the change makes {place}{taken_in}\n", None):
        assert run([*asked, *settings, "--commit", "5"]) == 0
        said = capsys.readouterr().err
        assert place.exists()
        assert "the change makes" not in said if note is None else note in said


def test_a_change_in_a_new_place_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Offsets that move to the place where a broker with the settings looks: the note names that place."""
    store = golden.unpack("json", tmp_path)
    asked = ["progress", str(store), "-g", "billing", "-t", "orders", "-q", "0", "--set", "enableLmq=true"]
    assert run([*asked, "--commit", "5"]) == 0
    said = capsys.readouterr().err
    assert f"note: the change makes {store / 'config' / 'lmqConsumerOffset.json'}\n" in said
    assert "no file or database" not in said


@pytest.mark.parametrize(
    ("name", "words", "emptied", "made"),
    [
        ("config-v1", (), "consumerOffsets", "consumerOffset.json"),
        ("config-v1-single", ("--set", "useSingleRocksDBForAllConfigs=true"), "metadata", "consumerOffset.json"),
        ("config-v2", ("--set", "configManagerVersion=v2"), "rdb", "rdb"),
    ],
)
def test_an_emptied_folder_of_offsets_was_called_missing(
    name: str, words: tuple[str, ...], emptied: str, made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without files is called that, and a change goes where a broker that makes the database there reads it.

    RocksDB makes an empty database of it as of no folder, whose data version is 0: the JSON file's must be above that.
    """
    store = golden.unpack(name, tmp_path)
    place = store / "config" / emptied
    for path in place.iterdir():
        path.unlink()
    assert run(["info", str(store), *words]) == 0
    assert f"metadata    no offsets: config/{emptied} has no files\n" in capsys.readouterr().out
    wanted = f"note: the store has no file or database of committed offsets: {place} has no files"
    asked = ["progress", str(store), *words, "-g", "billing", "-t", "orders", "-q", "0"]
    assert run(asked[:-6]) == 0
    assert f"{wanted}\n" in capsys.readouterr().err
    assert run([*asked, "--commit", "5"]) == 0
    taken_in = "" if made == emptied else ", which a broker takes in at its start"
    assert f"{wanted}, and the change makes {store / 'config' / made}{taken_in}\n" in capsys.readouterr().err
    if made != emptied:
        assert '"counter":1,' in (store / "config" / made).read_text()
        assert [*place.iterdir()] == []
    config = StoreConfig.from_properties(dict(word.split("=") for word in words[1:]))
    assert progress_of(store, config).query("billing", "orders", 0) == 5
