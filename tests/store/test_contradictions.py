"""Settings that contradict a store's files: writers stop and say both sides, `info` and `check` report them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats import paths
from reput.store.disk.contradictions import contradictions
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from support import golden, stores
from support.checked import assert_sound
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUEUES, LOG = golden.QUEUE_FILE_SIZE, golden.LOG_FILE_SIZE
WRONG = [
    ("mapped_file_size_consume_queue", 8000, QUEUES),
    ("mapped_file_size_commit_log", 2 * LOG, LOG),
    ("max_hash_slot_num", 7, golden.INDEX_SLOTS),
    ("max_index_num", 7, golden.INDEX_ITEMS),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that RocketMQ wrote."""
    return golden.unpack("basic", tmp_path)


def found(store: Path, config: StoreConfig) -> list[str]:
    """List what contradicts the store, as sentences."""
    return [one.text for one in contradictions(StoreOnDisk.find(store, config, Purpose.LOOK))]


@pytest.mark.parametrize(("name", "given", "present"), WRONG)
def test_a_wrong_size_is_taken_in_silence(name: str, given: int, present: int, store: Path) -> None:
    """Every call that writes refuses a size that the files have not, names both, and changes nothing."""
    config, before = StoreConfig(**{name: given}), stores.indexes(store)  # type: ignore[arg-type]
    calls: list[Callable[[], Any]] = [
        lambda: reput.rebuild(store, spark=False, config=config),
        lambda: reput.convert(store, to="rocksdb", spark=False, config=config),
        lambda: reput.follow(store, spark=False, config=config),
        lambda: reput.MessageStore.open(store, config),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=rf"={given} \(from the configuration\).* {present} .*--force-setting"):
            call()
    (sentence,) = found(store, config)
    assert sentence in reput.info(store, config=config).notes
    assert stores.indexes(store) == before


def test_what_is_forced_wins(store: Path) -> None:
    """A rebuild with another size of queue files says so with the flag, and its queues have that size."""
    config = replace(stores.GOLDEN, mapped_file_size_consume_queue=8000)
    report = reput.rebuild(store, spark=False, config=config, force_setting=True)
    assert report.queues
    sizes = {file.stat().st_size for file in (store / "consumequeue").rglob("0*") if file.is_file()}
    assert sizes == {8000}
    assert found(store, config) == []
    assert_sound(store, config)


def test_the_commands_say_where_a_setting_comes_from(store: Path, tmp_path: Path) -> None:
    """`--set` and a broker.conf are named apart; exit code 2 stops, `--force-setting` continues."""
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeConsumeQueue=8000\nmaxIndexNum=9\n")
    run = CliRunner().invoke
    words = ["rebuild", str(store), "--no-spark", "--config", str(conf), "--set", "maxIndexNum=8"]
    error = run(cli, words).exception
    assert isinstance(error, ConfigError)
    assert error.exit_code == 2
    assert f"mappedFileSizeConsumeQueue=8000 (from {conf})" in str(error)
    assert "maxIndexNum=8 (from --set)" in str(error)
    assert run(cli, [*words, "--force-setting"], standalone_mode=False).return_value == 0
    shown = run(cli, ["info", str(store), "--set", "mappedFileSizeConsumeQueue=400"], standalone_mode=False)
    assert shown.return_value == 0
    assert "mappedFileSizeConsumeQueue=400 (from --set), and the files of" in shown.output


@pytest.mark.parametrize(("name", "given", "present"), WRONG)
def test_check_calls_a_sound_store_damaged_by_a_wrong_setting(name: str, given: int, present: int, store: Path) -> None:
    """`check` reports a size that the files contradict as its first and only finding, and judges by their own size."""
    config = replace(StoreConfig(), **{name: given})
    (sentence,) = found(store, config)
    assert str(present) in sentence
    report = reput.check(store, spark=False, config=config)
    (finding,) = [one for one in report.findings if one.severity != "note"]
    assert report.findings[0] == finding
    assert (finding.severity, finding.rule, finding.detail) == (
        "setting",
        "setting-contradicted",
        f"{sentence}: correct the setting",
    )
    assert (report.sound, report.exit_code) == (True, 1)
    assert report.messages
    forced = reput.check(store, spark=False, config=replace(stores.GOLDEN, max_index_num=7, force_setting=True))
    assert any("maxIndexNum=7" in note for note in forced.notes)
    assert not forced.wrong_settings


def test_check_advises_the_setting_before_a_rebuild(store: Path) -> None:
    """The setting comes first in the output, no rebuild is advised, and real damage is still found beside it."""
    words = ["check", str(store), "--no-spark", "--set", "mappedFileSizeConsumeQueue=8000"]
    shown = CliRunner().invoke(cli, words, standalone_mode=False)
    assert shown.return_value == 1
    assert "reput rebuild" not in shown.output
    assert "a setting contradicts the files: correct it" in shown.output.splitlines()[-1]
    as_json = CliRunner().invoke(cli, [*words, "--json"], standalone_mode=False)
    assert json.loads(as_json.stdout)["ok"] is False
    file = next(file for file in sorted((store / "consumequeue").rglob("0*")) if file.is_file())
    data = bytearray(file.read_bytes())
    data[8] ^= 0xFF
    file.write_bytes(data)
    damaged = reput.check(store, spark=False, config=StoreConfig(mapped_file_size_consume_queue=8000))
    assert [one.severity for one in damaged.findings if one.severity != "note"] == ["setting", "damage"]


def test_queue_file_sizes_are_rounded_as_rocketmq_does(store: Path) -> None:
    """A size counts as the next multiple of 20, so one that rounds to the files' does not contradict them."""
    assert found(store, StoreConfig(mapped_file_size_consume_queue=QUEUES - 19)) == []
    (sentence,) = found(store, StoreConfig(mapped_file_size_consume_queue=QUEUES + 1))
    assert f"which RocketMQ rounds up to {QUEUES + 20}, whole entries" in sentence
    report = reput.rebuild(store, spark=False, config=StoreConfig(mapped_file_size_consume_queue=QUEUES - 19))
    assert any(f"counts as {QUEUES}, whole entries" in text for text in report.assumed)


def test_a_configuration_of_another_store(store: Path, tmp_path: Path) -> None:
    """StorePathRootDir and storePathCommitLog of a broker.conf are compared with the store that is given."""
    conf, other = tmp_path / "broker.conf", tmp_path / "other"
    conf.write_text(f"storePathRootDir={other}\n")
    with pytest.raises(ConfigError, match=rf"storePathRootDir={other} \(from {conf}\), and the store given is {store}"):
        reput.rebuild(store, spark=False, config=conf)
    # A copy of a store with the broker's own file.
    assert reput.rebuild(store, spark=False, config=conf, force_setting=True).messages
    link = tmp_path / "link"
    link.symlink_to(store)
    for given in (str(store), str(link), "store", "", "~/store"):
        conf.write_text(f"storePathRootDir={given}\n")
        assert found(store, StoreConfig.from_file(conf)) == [], given
    (other / "commitlog").mkdir(parents=True)
    config = StoreConfig(store_path_commit_log=str(other / "commitlog"))
    (sentence,) = found(store, config)
    assert f"has a log of its own in {store / 'commitlog'}" in sentence
    (store / "commitlog").rename(tmp_path / "moved")
    assert found(store, config) == []


def test_files_that_tell_nothing_contradict_nothing(tmp_path: Path) -> None:
    """A new store takes any size, and goes on with it."""
    path = tmp_path / "new"
    with reput.MessageStore.open(path, stores.SMALL, create=True) as opened:
        opened.put_message(reput.Message("t", b"x", keys="k"))
    with reput.MessageStore.open(path, stores.SMALL, create=True) as opened:
        opened.put_message(reput.Message("t", b"y", keys="k"))
    assert_sound(path, stores.SMALL)


def test_names_of_files_without_bytes_contradict_no_size_that_fits_them(tmp_path: Path) -> None:
    """Of four files a power cut has left two, and no bytes: the given size is believed if both names may have it."""
    queue = tmp_path / "consumequeue" / "t" / "0"
    queue.mkdir(parents=True)
    (tmp_path / "commitlog").mkdir()
    for start in (0, 300):
        (queue / paths.offset_name(start)).touch()
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=100)) == []
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=80))


def test_one_file_of_another_size_does_not_outvote_the_others(tmp_path: Path) -> None:
    """A given size that one file of eight queues has is refused: the others would all be called damaged."""
    (tmp_path / "commitlog").mkdir()
    for number in range(8):
        queue = tmp_path / "consumequeue" / "t" / f"{number}"
        queue.mkdir(parents=True)
        (queue / paths.offset_name(0)).write_bytes(bytes(2000 if number == 3 else 200))
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=200)) == []
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=2000))


@pytest.mark.parametrize("given", [100, 200])
def test_beside_a_lost_file_names_contradict_no_size_that_a_file_has(given: int, tmp_path: Path) -> None:
    """Of files that lie two sizes apart, the first one without its length, a file of the given size is believed.

    A power cut left them so (make power-cuts, scenario flush). Without such a file the distance of names counts.
    """
    queue = tmp_path / "consumequeue" / "t" / "0"
    queue.mkdir(parents=True)
    (tmp_path / "commitlog").mkdir()
    (queue / paths.offset_name(0)).touch()
    (queue / paths.offset_name(200)).write_bytes(bytes(100))
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=given)) == []
    assert found(tmp_path, StoreConfig(mapped_file_size_consume_queue=40))


@pytest.mark.parametrize("kind", ["double", "separate-double", "ext-double"])
def test_a_writer_that_has_just_begun_lacks_no_kind(kind: str, tmp_path: Path) -> None:
    """A reader that looked for files before a writer made them, and for a database after, misses no kind of queues."""
    path, config = tmp_path / "store", config_of(kind, stores.SMALL)
    with reput.MessageStore.open(path, config, create=True) as opened:
        opened.put_message(reput.Message("t", b"x"))
        opened.reput(spark=False)
        reader = StoreOnDisk.find(path, config, Purpose.LOOK)
        vars(reader)["present"] = [one for one in reader.present if one.name == "rocksdb"]
        assert [one.name for one in reader.present] == ["rocksdb"]
        assert reader.contradicted == []
    assert_sound(path, config)


def test_put_stops_before_it_reads_a_line(store: Path) -> None:
    """`reput put` with a wrong size ends with exit code 2, and stores nothing."""
    command = [sys.executable, "-m", "reput", "put", store, "-t", "t", "--set", "mappedFileSizeConsumeQueue=8000"]
    done = subprocess.run(command, input="line\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"and the files of {store / 'consumequeue'} have {QUEUES} bytes" in done.stderr
    assert "--force-setting" in done.stderr
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert not opened.queues("t")


def test_an_index_file_without_items_tells_its_length(tmp_path: Path) -> None:
    """Without items only an IndexFile's length speaks, and it speaks against sizes that make another one."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, stores.SMALL, create=True) as opened:
        opened.put_message(reput.Message("t", b"x"))
    assert found(path, stores.SMALL) == []
    (sentence,) = found(path, replace(stores.SMALL, max_hash_slot_num=32))
    assert "maxHashSlotNum=32" in sentence
    assert "which make files of 328 bytes" in sentence
    assert sentence.endswith("have 264 bytes")
