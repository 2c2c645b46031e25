"""Logs over several paths: all of their files are one log, wherever each of them is."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.config import StoreConfig, parse_properties
from reput.errors import ConfigError, DamagedStoreError, NotAStoreError, UnsupportedStoreError
from reput.formats import paths
from support import golden, stores
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path


def spread(tmp_path: Path, name: str = "basic", read_only: bool = False) -> tuple[Path, StoreConfig]:
    """Unpack a golden store and spread its log over two paths, file by file in turn, as RocketMQ does.

    With `read_only` the first file is in a third path, to which the broker writes nothing more.
    """
    store = golden.unpack(name, tmp_path)
    first, second, old = (tmp_path / disk for disk in ("disk1", "disk2", "old"))
    log = store / paths.COMMIT_LOG
    for number, file in enumerate(sorted(log.iterdir())):
        folder = old if read_only and not number else (first, second)[number % 2]
        folder.mkdir(exist_ok=True)
        shutil.move(file, folder / file.name)
    log.rmdir()
    names = {"storePathCommitLog": f"{first},{second}"}
    names |= {"readOnlyCommitLogStorePaths": str(old)} if read_only else {}
    return store, StoreConfig.from_properties({**parse_properties(golden.CONFIG), **names})


@pytest.mark.behaviour("MultiPathMappedFileQueueTest.testLoadReadOnlyMappedFiles")
@pytest.mark.golden
@pytest.mark.parametrize("read_only", [False, True], ids=["two paths", "one more to read"])
def test_a_spread_log_is_the_same_log(tmp_path: Path, read_only: bool) -> None:
    """A store whose log is spread over paths has the same messages, is sound, and rebuilds to the same bytes."""
    store, config = spread(tmp_path, read_only=read_only)
    whole, columns = golden.shared("basic"), ["physicalOffset", "body", "keys"]
    assert reput.scan(store, config=config, columns=columns).read_all() == (
        reput.scan(whole, columns=columns).read_all()
    )
    assert_sound(store, config)
    log = reput.info(store, config=config).log
    assert log.max_offset == golden.facts("basic").log_end
    assert log.folder.split(",")[:2] == [str(tmp_path / "disk1"), str(tmp_path / "disk2")]
    before = stores.indexes(store)
    for name in (paths.CONSUME_QUEUE, paths.INDEX):
        shutil.rmtree(store / name)
    reput.rebuild(store, spark=False, config=config)
    after = stores.indexes(store)
    # The new checkpoint calls more durable.
    assert {**after, paths.CHECKPOINT: b""} == {**before, paths.CHECKPOINT: b""}
    assert_sound(store, config)


@pytest.mark.golden
def test_look_ups_in_a_spread_log_answer_as_rocketmq_did(tmp_path: Path) -> None:
    """Pulls find every message that RocketMQ found in the store when its log was one folder."""
    store, config = spread(tmp_path)
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        for answer in golden.answers("basic"):
            if "get" in answer and answer["get"][4] is None:
                topic, queue_id, offset, count, _ = answer["get"]
                found = opened.get_message(topic, queue_id, offset, count)
                # RocketMQ stops at 256 KiB.
                assert found.physical_offsets.tolist()[: len(answer["phys"])] == answer["phys"]


@pytest.mark.golden
def test_followers_index_a_spread_log(tmp_path: Path) -> None:
    """A follower builds the indexes of a spread log that no broker has."""
    store, config = spread(tmp_path)
    reput.rebuild(store, spark=False, config=config)
    reput.follow(store, spark=False, config=config, until_caught_up=True)
    assert_sound(store, config)


def test_puts_refuse_a_spread_log(tmp_path: Path) -> None:
    """A put into a log over several paths is refused with the reason, and changes nothing."""
    store, config = spread(tmp_path)
    before = stores.digest(store)
    with pytest.raises(UnsupportedStoreError, match=r"the log has 2 paths .* into a log in one folder only"):
        reput.MessageStore.open(store, config)
    assert stores.digest(store) == before


def test_a_file_in_two_paths_is_refused(tmp_path: Path) -> None:
    """RocketMQ loads a file that two paths have twice, and then answers wrongly: both places are named."""
    store, config = spread(tmp_path)
    name = paths.offset_name(0)
    shutil.copy(tmp_path / "disk1" / name, tmp_path / "disk2" / name)
    with pytest.raises(DamagedStoreError, match=rf"disk2/{name}: the log has this file in .*disk1, too"):
        reput.check(store, spark=False, config=config)


def test_a_path_that_is_missing(tmp_path: Path) -> None:
    """Without one of its paths the log has a hole, which names the files beside it; without all there is no log."""
    store, config = spread(tmp_path)
    (tmp_path / "disk2").rename(tmp_path / "unmounted")
    with pytest.raises(DamagedStoreError, match=rf"disk1/{paths.offset_name(0)}: ends at .* bytes of log are missing"):
        reput.rebuild(store, spark=False, config=config, force_setting=True)
    assert not reput.check(store, spark=False, config=config).sound
    (tmp_path / "disk1").rename(tmp_path / "gone")
    with pytest.raises(NotAStoreError, match="none of these folders is there"):
        reput.check(store, spark=False, config=config)


def test_one_folder_by_two_names_counts_once(tmp_path: Path) -> None:
    """Paths that lead to one folder are one path."""
    store, config = spread(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "disk1")
    twice = StoreConfig(store_path_commit_log=f"{config.store_path_commit_log},{tmp_path / 'link'}")
    assert_sound(store, twice)


def test_read_only_paths_need_several_paths(tmp_path: Path) -> None:
    """With one path RocketMQ does not look at readOnlyCommitLogStorePaths, and neither does reput."""
    store = golden.unpack("basic", tmp_path)
    config = StoreConfig(read_only_commit_log_store_paths=str(tmp_path / "nowhere"))
    assert_sound(store, config)


def test_links_to_log_files_are_found_by_look_ups(tmp_path: Path) -> None:
    """A log file may be a link to another disk: its messages are pulled like all others."""
    store = golden.unpack("basic", tmp_path)
    file = sorted((store / paths.COMMIT_LOG).iterdir())[1]
    elsewhere = tmp_path / "disk2"
    elsewhere.mkdir()
    shutil.move(file, elsewhere / file.name)
    file.symlink_to(elsewhere / file.name)
    with reput.MessageStore.open(store, read_only=True) as opened:
        found = opened.message_at(golden.records(golden.shared("basic"))[-1].offset)
        start = int(file.name)
        first = next(one for one in golden.records(golden.shared("basic")) if one.offset >= start)
        assert found is not None
        assert opened.message_at(first.offset) is not None


# --- a path that is missing, or no folder ---------------------------------------------------------


def lacking_end(tmp_path: Path) -> tuple[Path, StoreConfig, Path]:
    """Return a store whose log's last file is in a folder that is not there, its settings and that folder."""
    store = golden.unpack("basic", tmp_path)
    log, gone = store / paths.COMMIT_LOG, tmp_path / "l2"
    newest = max(log.iterdir())
    gone.mkdir()
    shutil.move(newest, gone / newest.name)
    shutil.move(log, tmp_path / "l1")
    gone.rename(tmp_path / "unmounted")
    names = {"storePathCommitLog": f"{tmp_path / 'l1'},{gone}"}
    return store, StoreConfig.from_properties({**parse_properties(golden.CONFIG), **names}), gone


def missing(folder: Path) -> str:
    """Return the sentence that names the folder."""
    return f"storePathCommitLog: {folder} is not there. Is its disk mounted?"


@pytest.mark.golden
def test_a_rebuild_without_a_path_dropped_its_entries(tmp_path: Path) -> None:
    """Every job that builds indexes refuses while a folder of the log is missing, and changes nothing."""
    store, config, gone = lacking_end(tmp_path)
    before = stores.digest(store)
    for change in (
        lambda: reput.rebuild(store, spark=False, config=config),
        lambda: reput.rebuild(store, spark=False, config=config, salvage=True, empty_log=True),
        lambda: reput.convert(store, to="rocksdb", spark=False, config=config),
        lambda: reput.follow(store, spark=False, config=config, until_caught_up=True),
    ):
        with pytest.raises(ConfigError, match=re.escape(missing(gone)) + ".* Nothing was changed.* --force-setting"):
            change()
    assert stores.digest(store) == before
    report = reput.rebuild(store, spark=False, config=config, force_setting=True)
    assert missing(gone) in report.notes
    (tmp_path / "unmounted").rename(gone)
    reput.rebuild(store, spark=False, config=config)
    assert_sound(store, config)


@pytest.mark.golden
def test_a_missing_path_is_named(tmp_path: Path) -> None:
    """Info and check call a missing folder damage, with no advice to rebuild, and reads have a note."""
    store, config, gone = lacking_end(tmp_path)
    assert missing(gone) in reput.info(store, config=config).damage
    report = reput.check(store, spark=False, config=config)
    assert [one.detail for one in report.findings if one.rule == "log-path-missing"] == [missing(gone)]
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        assert missing(gone) in opened.notes
    report = reput.export(store, tmp_path / "exported", spark=False, config=config)
    assert missing(gone) in report.notes
    given = ["--set", f"storePathCommitLog={config.store_path_commit_log}"]
    for verb in (["check"], ["info"], ["dump", "log"], ["dump", "queue"], ["progress"], ["pending", "transactions"]):
        done = CliRunner().invoke(cli, [*verb, str(store), *given], standalone_mode=False)
        assert missing(gone) in done.output, verb
        assert "`reput rebuild` builds" not in done.output


@pytest.mark.golden
def test_a_missing_path_in_the_middle_is_named_before_the_hole(tmp_path: Path) -> None:
    """A reader that refuses the hole says which folder is missing."""
    store, config = spread(tmp_path)
    (tmp_path / "disk2").rename(tmp_path / "unmounted")
    with pytest.raises(DamagedStoreError, match=re.escape(missing(tmp_path / "disk2")) + ".*bytes of log are missing"):
        reput.MessageStore.open(store, config, read_only=True)


def test_a_missing_path_to_read_is_named_by_its_setting(tmp_path: Path) -> None:
    """A folder of readOnlyCommitLogStorePaths that is missing is refused by that name."""
    store, config = spread(tmp_path, read_only=True)
    (tmp_path / "old").rename(tmp_path / "unmounted")
    with pytest.raises(ConfigError, match=f"readOnlyCommitLogStorePaths: {tmp_path / 'old'} is not there"):
        reput.rebuild(store, spark=False, config=config)


def test_a_path_that_is_a_file_was_passed_over(tmp_path: Path) -> None:
    """A given path that is a file is refused by name, whatever is asked."""
    store, config = spread(tmp_path)
    file = store / paths.CHECKPOINT
    wrong = replace(config, store_path_commit_log=f"{config.store_path_commit_log},{file}")
    for ask in (lambda: reput.info(store, config=wrong), lambda: reput.rebuild(store, spark=False, config=wrong)):
        with pytest.raises(ConfigError, match=f"storePathCommitLog: {file} is not a folder"):
            ask()


def test_colons_between_paths_are_named(tmp_path: Path) -> None:
    """Folders with colons between them are refused with the commas that RocketMQ has, unless a path has that name."""
    store, config = spread(tmp_path)
    first, second = tmp_path / "disk1", tmp_path / "disk2"
    wrong = replace(config, store_path_commit_log=f"{first}:{second}")
    with pytest.raises(ConfigError, match=f"Commas separate the paths of a log, not colons: give {first},{second}"):
        reput.info(store, config=wrong)
    log = tmp_path / "a:b"
    log.mkdir()
    for folder in (first, second):
        for file in folder.iterdir():
            shutil.move(file, log / file.name)
    assert_sound(store, replace(config, store_path_commit_log=str(log)))
