"""Committed offsets in RocksDB between RocketMQ and reput: the broker's own managers start with what reput set."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.formats.config.consumer_offset import ConsumerOffsets, encode
from reput.formats.config.data_version import DataVersion
from reput.store.metadata.tables import Table
from support import golden
from support.metadata import StoreProgress, metadata_of, progress_of

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer

KINDS = {"config-v1": "v1", "config-v1-killed": "v1", "config-v1-single": "v1-single", "config-v2": "v2", "lmq": "lmq"}
NOW_MS = 1_800_000_000_000


def clock_ms() -> int:
    """A time after those in the stores."""
    return NOW_MS


def opened(store: Path, config: StoreConfig | None = None, step: int = 500) -> StoreProgress:
    """The progress of a store."""
    return progress_of(store, config, clock_ms=clock_ms, version_step=step)


def as_json(table: Any) -> dict[str, dict[str, int]]:
    """A table as the peer prints it."""
    return {key: {str(queue): offset for queue, offset in queues.items()} for key, queues in table.items()}


def asked_of_a_copy(store: Path, kind: str, peer: ModuleType) -> Any:
    """The broker's answer about a copy of a store's configuration: a start may change it."""
    copy = store.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store / "config", copy / "config")
    return peer.run("metadata", copy, kind)


@pytest.mark.parametrize("name", KINDS)
def test_a_broker_starts_with_what_was_set(name: str, tmp_path: Path, peer: ModuleType) -> None:
    """Commits, resets, clones and removals are what the broker's manager loads, data version included."""
    store = golden.unpack(name, tmp_path)
    progress = opened(store, step=3)
    group, other = progress.groups()[:2]
    topic = progress.topics_of(group)[0]
    progress.commit(group, topic, 3, 0)
    progress.commit(group, "new topic", 0, (1 << 63) - 1)
    progress.commit("新", "订单-topic", 2, 1 << 53)
    progress.reset(group, topic, 0, 7)
    progress.clone(group, "clone", topic)
    progress.clean_group(other)
    assert progress.persist()
    progress.commit("新", "订单-topic", 2, 5)
    progress.remove("clone", topic)
    assert progress.persist()
    progress.close()
    wanted = progress.snapshot()
    answer = asked_of_a_copy(store, KINDS[name], peer)
    assert answer["load"]
    assert answer["offsets"] == as_json(wanted.offset_table)
    if name != "lmq":
        # A broker does not read the data version of lmqConsumerOffset.json.
        assert wanted.data_version is not None
        assert (answer["counter"], answer["timestamp"]) == (wanted.data_version.counter, NOW_MS)
    again = opened(store).snapshot()
    assert again == wanted
    assert not again.offset_table.keys() & {f"{topic}@clone"}


def test_light_groups(tmp_path: Path, peer: ModuleType) -> None:
    """A light group has one offset in a topic, where the broker's manager of light queues keeps it."""
    store = golden.unpack("lmq", tmp_path)
    progress = opened(store)
    progress.commit("%LMQ%group", "%LMQ%topic", 0, 12)
    progress.persist()
    answer = asked_of_a_copy(store, "lmq", peer)
    assert answer["light"] == {"%LMQ%topic@%LMQ%group": 12}
    assert opened(store).query("%LMQ%group", "%LMQ%topic", 0) == 12


@pytest.mark.parametrize("counter", [0, 1])
@pytest.mark.parametrize("name", ["config-v1", "config-v1-single"])
def test_json_that_a_broker_takes_in(name: str, counter: int, tmp_path: Path, peer: ModuleType) -> None:
    """A broker starts with JSON that counts more changes than the database, and reput reads and changes that."""
    store = golden.unpack(name, tmp_path)
    json = encode(ConsumerOffsets({"orders@json": {0: 5}}, None, DataVersion(counter, 0, NOW_MS)))
    (store / "config" / "consumerOffset.json").write_bytes(json)
    metadata = metadata_of(store, StoreConfig(store_type="defaultRocksDB"))
    found = metadata.read(Table.OFFSETS)
    answer = asked_of_a_copy(store, KINDS[name], peer)
    assert answer["offsets"] == as_json(found.values)
    assert (list(found.values) == ["orders@json"]) == (counter > 0)
    assert bool(found.notes) == (counter > 0)

    progress = opened(store, StoreConfig(store_type="defaultRocksDB"))
    progress.commit("json", "orders", 0, 6)
    progress.persist()
    progress.close()
    answer = asked_of_a_copy(store, KINDS[name], peer)
    assert answer["offsets"] == as_json(progress.snapshot().offset_table)
    assert answer["offsets"]["orders@json"] == {"0": 6}


def test_json_where_there_is_no_database_yet(tmp_path: Path, peer: ModuleType) -> None:
    """A change before the first start on RocksDB makes JSON count, so that the broker takes it in."""
    store = golden.unpack("json", tmp_path)
    config = StoreConfig(store_type="defaultRocksDB")
    before = metadata_of(store, config).read(Table.OFFSETS)
    assert asked_of_a_copy(store, "v1", peer)["offsets"] == {}
    assert "does not take these in: their data version is 0" in before.notes[0]
    progress = opened(store, config)
    progress.commit("billing", "orders", 1, 4)
    progress.persist()
    assert asked_of_a_copy(store, "v1", peer)["offsets"] == as_json(progress.snapshot().offset_table)
    assert "takes these in (data version 1)" in metadata_of(store, config).read(Table.OFFSETS).notes[0]


@pytest.mark.parametrize("counter", [0, 3])
def test_separate_databases_that_a_broker_with_one_takes_in(counter: int, tmp_path: Path, peer: ModuleType) -> None:
    """At its first start with one database a broker takes the others in if they count changes, as reput reads them."""
    store = golden.unpack("config-v1", tmp_path)
    config = StoreConfig(use_single_rocksdb_for_all_configs=True)
    if counter:
        separate = opened(store, step=1)
        for number in range(counter):
            separate.commit("billing", "orders", 0, number)
        separate.persist()
        separate.close()
    found = metadata_of(store, config).read(Table.OFFSETS)
    answer = asked_of_a_copy(store, "v1-single", peer)
    assert answer["load"]
    assert answer["offsets"] == (as_json(found.values) if counter else {})
    assert ("takes these in" if counter else "does not take these in") in found.notes[0]

    changed = opened(store, config)
    changed.commit("billing", "orders", 0, 7)
    changed.persist()
    changed.close()
    assert asked_of_a_copy(store, "v1-single", peer)["offsets"] == as_json(changed.snapshot().offset_table)


def test_the_first_offsets_of_a_store(tmp_path: Path, peer: ModuleType) -> None:
    """A broker finds the offsets of a store that reput has made with its settings."""
    for kind, config in [
        ("v1", StoreConfig(store_type="defaultRocksDB")),
        ("v2", StoreConfig(config_manager_version="v2")),
    ]:
        store = tmp_path / kind
        with reput.MessageStore.open(store, config, create=True) as made:
            made.put_message(reput.Message("orders", b"body"))
            made.commit_offset("billing", "orders", 0, 1)
        answer = asked_of_a_copy(store, kind, peer)
        assert (answer["load"], answer["offsets"]) == (True, {"orders@billing": {"0": 1}})


@pytest.mark.parametrize("name", ["config-v1", "config-v1-single", "config-v2"])
def test_a_broker_has_the_topics_that_were_made(name: str, tmp_path: Path, peer: ModuleType) -> None:
    """Topics that `reput.serve` puts into a database are what the broker's manager loads, data version included."""
    store = golden.unpack(name, tmp_path)
    with reput.serve(store, topics={"served": 3, "served_too": 5}):
        pass
    found = metadata_of(store).read(Table.TOPICS)
    answer = asked_of_a_copy(store, f"topics-{KINDS[name]}", peer)
    assert answer["load"]
    assert (answer["topics"]["served"], answer["topics"]["served_too"]) == (3, 5)
    wanted = {topic: values["writeQueueNums"] for topic, values in found.values.items()}
    assert {topic: answer["topics"][topic] for topic in wanted} == wanted
    assert answer["counter"] == found.counter
