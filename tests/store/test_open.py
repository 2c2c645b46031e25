"""A store's beginning: no store by mistake, no more than the tail may hold, and a killed writer loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import reput
from reput.config import parse_properties
from reput.errors import ConfigError, DamagedStoreError, NotAStoreError, TailFullError
from reput.formats import paths
from reput.formats.own import files as own
from support import databases, golden, stores
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put


def test_the_configuration_may_be_a_path(tmp_path: Path) -> None:
    """`open` takes the path of a broker.conf, as a text or a Path; one that is not there is named."""
    path = tmp_path / "broker.conf"
    path.write_text("brokerIP1=10.9.8.7\nlistenPort=7\nmappedFileSizeCommitLog=65536\n")
    for config in (path, str(path)):
        with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
            assert (store.config.listen_port, store.view.log.file_size) == (7, 1 << 16)
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        reput.MessageStore.open(tmp_path / "s", tmp_path / "none.conf", read_only=True)


def test_no_store(tmp_path: Path) -> None:
    """A folder that holds other things is no store, and is not made one."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(NotAStoreError):
        reput.MessageStore.open(tmp_path, CONFIG, create=True)
    with pytest.raises(NotAStoreError):
        reput.MessageStore.open(tmp_path / "none", CONFIG)
    with pytest.raises(NotAStoreError):
        reput.MessageStore.open(tmp_path / "none", CONFIG, read_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_mistyped_path_makes_no_store(tmp_path: Path) -> None:
    """The error names the path, the store that is probably meant, and `create=True`; nothing is made."""
    reput.MessageStore.open(tmp_path / "payments", CONFIG, create=True).close()
    (tmp_path / "payment").mkdir()
    (tmp_path / "paymentz.txt").touch()
    names = sorted(tmp_path.rglob("*"))
    for mistyped in ("paymnets", "payment"):
        with pytest.raises(NotAStoreError) as raised:
            reput.MessageStore.open(tmp_path / mistyped, CONFIG)
        assert str(tmp_path / mistyped) in str(raised.value)
        assert "MessageStore.open(path, create=True) makes a new store there" in str(raised.value)
    with pytest.raises(NotAStoreError, match=f"There is a store in {tmp_path / 'payments'}. "):
        reput.MessageStore.open(tmp_path / "paymnets", CONFIG, read_only=True)
    with pytest.raises(NotAStoreError, match=f"There is a store in {tmp_path / 'payments'}. "):
        reput.check(tmp_path / "paymnets", spark=False)
    assert sorted(tmp_path.rglob("*")) == names


@pytest.mark.parametrize("read_only", [False, True])
def test_more_than_the_tail_may_hold_at_open(read_only: bool, tmp_path: Path) -> None:
    """A log that is long past its indexes is not decoded whole: the error names what builds them, and the bound."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 30)
        image = stores.copy(path, tmp_path / "image")
    few = replace(CONFIG, tail_max_entries=10)
    with pytest.raises(
        TailFullError, match=r"30 messages.*10 \(tail_max_entries\).*--until-caught-up.*store.reput\(\)"
    ):
        reput.MessageStore.open(image, few, read_only=read_only)
    with reput.MessageStore.open(image, replace(CONFIG, tail_max_entries=30), read_only=read_only) as store:
        assert len(bodies(store)) == 30


@pytest.mark.golden
def test_a_log_that_is_too_long_to_be_read_in_place_of_its_queues(tmp_path: Path) -> None:
    """Queues that cannot be read are the error, with what the tail may hold: their log alone would answer."""
    path = golden.unpack("rocksdb", tmp_path)
    config = reput.StoreConfig.from_properties(parse_properties(golden.CONFIG))
    (databases.folder_of(path) / "CURRENT").write_text("MANIFEST-999999\n")
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert store.damage
    with pytest.raises(DamagedStoreError, match=r"MANIFEST-999999.*too long to be read instead: .*tail_max_entries"):
        reput.MessageStore.open(path, replace(config, tail_max_entries=10), read_only=True)


def test_following_catches_up_before_the_store_is_opened(tmp_path: Path) -> None:
    """Opened with a follower, such a log is indexed first; then the store is open, with nothing in its tail."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 30)
        image = stores.copy(path, tmp_path / "image")
    with reput.MessageStore.open(
        image, replace(CONFIG, tail_max_entries=10), follow=True, spark=False, create=True
    ) as store:
        assert store.lag().messages == 0
        put(store, 5)
        assert len(bodies(store)) == 35
    assert_sound(image, CONFIG)


def test_a_reader_beside_is_bounded(tmp_path: Path) -> None:
    """A reader says when more waits for its indexes than it may hold, and reads on when they are built."""
    path = tmp_path / "s"
    few = replace(CONFIG, tail_max_entries=10)
    with (
        reput.MessageStore.open(path, CONFIG, create=True) as store,
        reput.MessageStore.open(path, few, read_only=True) as reader,
    ):
        put(store, 10)
        assert len(bodies(reader)) == 10
        put(store, 10)
        with pytest.raises(TailFullError, match="tail_max_entries"):
            bodies(reader)
        store.reput(spark=False)
        assert len(bodies(reader)) == 20


def test_an_index_file_of_other_sizes_is_told(tmp_path: Path) -> None:
    """An IndexFile that cannot be searched with the store's sizes is named when the store is opened."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 3, keys="k")
    with reput.MessageStore.open(tmp_path / "s", replace(CONFIG, max_hash_slot_num=17), read_only=True) as store:
        assert any("no message is found by key" in note and "maxHashSlotNum" in note for note in store.notes)


def _write_until_killed(path: str, ready: int) -> None:
    store = reput.MessageStore.open(path, CONFIG, create=True)
    number = 0
    while True:
        store.put_message(reput.Message("t", str(number).encode(), keys="k"))
        number += 1
        if number == 300:
            store.reput(spark=False)
        if number == 500:
            os.write(ready, b"x")


@pytest.mark.parametrize("twice", [False, True])
def test_killed_writer_loses_nothing(twice: bool, tmp_path: Path) -> None:
    """A killed writer loses no message: each is there when the store is opened again, in order and once."""
    reading, writing = os.pipe()
    path = tmp_path / "s"
    process = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(str(path), writing))
    process.start()
    # Else nobody would hear of a process that ends by itself.
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert (path / paths.ABORT).exists()
    for _ in range(2 if twice else 1):
        store = reput.MessageStore.open(path, CONFIG, create=True)
        found = bodies(store)
        assert len(found) >= 500
        assert found == [str(number).encode() for number in range(len(found))]
        assert store.put_message(reput.Message("t", str(len(found)).encode())).queue_offset == len(found)
        store.close(reput=not twice)
    store = reput.MessageStore.open(path, CONFIG, create=True)
    store.close()
    assert not (path / paths.ABORT).exists()
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_queue_that_waits_for_its_indexes_is_no_damage(indexed: bool, tmp_path: Path) -> None:
    """A killed store whose new queues have no folder is out of date for `check`; below the frontier it is damage."""
    path = tmp_path / "s"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put(store, 3, topic="old", keys="k")
    if indexed:
        store.reput(spark=False)
    put(store, 3, topic="new")
    image = stores.copy(path, tmp_path / "image")
    store.close()
    report = reput.check(image, spark=False, config=CONFIG)
    assert report.sound
    assert {finding.rule for finding in report.findings} >= {"queue-out-of-date"}
    if indexed:
        # What is named is there; which queue is not, the detail says.
        assert all(Path(finding.file).exists() for finding in report.findings)
        assert any("queues without a folder yet: new/0;" in finding.detail for finding in report.findings)
        shutil.rmtree(image / paths.CONSUME_QUEUE / "old")
        assert not reput.check(image, spark=False, config=CONFIG).sound


@pytest.mark.golden
def test_beside_the_first_writer_of_rocketmqs_indexes_a_reader_decoded_all_of_the_log(tmp_path: Path) -> None:
    """The writer knows that the indexes are complete, and no frontier says so yet: its readers take its word."""
    path = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(path) as store:
        store.put_message(reput.Message("orders", b"new"))
        assert not store.layout.own(own.FRONTIER_NAME).exists()
        with reput.MessageStore.open(path, read_only=True) as reader:
            assert reader.behind_bytes < 1000
            assert reader.max_offset("orders", 0) == store.max_offset("orders", 0)
            assert [message.body for message in reader.messages("orders")] == bodies(store, "orders")
