"""Options of a rebuild: some topics, one kind of index, tags or none, other settings."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.errors import ConfigError, NotAStoreError, UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.checkpoint import decode_checkpoint
from reput.formats.index import index_file
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import decode_entry
from support import golden, stores
from support.records import LogBuilder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A rebuilt store with three topics and some IndexFiles."""
    log = LogBuilder(1 << 14)
    for number in range(60):
        log.message("abc"[number % 3], queue_id=number % 2, keys=f"k{number}", tags=f"t{number % 4}")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    return store


def under(store: Path, *folders: str) -> dict[str, stores.Found]:
    """Everything below these folders of a store, inodes included."""
    found = stores.digest(store, inodes=True)
    return {name: value for name, value in found.items() if name.startswith(folders)}


# --- topics and kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "built"),
    [
        ({"topics": ["a"]}, "a"),
        ({"topics": ["a", "c"]}, "ac"),
        ({"skip_topics": ["a"]}, "bc"),
        ({"topics": ["a", "b"], "skip_topics": ["b"]}, "a"),
    ],
)
def test_other_topics_are_not_touched(options: dict[str, Any], built: str, store: Path) -> None:
    """Queues of topics that are not asked for keep their very files; those asked for are replaced."""
    before = stores.digest(store, inodes=True)
    whole = stores.indexes(store)
    report = stores.rebuild(store, **options)
    after = stores.digest(store, inodes=True)
    for topic in "abc":
        name = f"consumequeue/{topic}/0/{paths.offset_name(0)}"
        assert (before[name] == after[name]) == (topic not in built), topic
    assert stores.indexes(store) == whole
    assert sorted(found.topic for found in report.topics) == sorted(built)


def test_damage_in_a_topic_is_mended_alone(store: Path) -> None:
    """Only the topic that was asked for is mended; another topic's damage stays as it is."""
    whole = stores.indexes(store)
    for topic in "ab":
        (store / "consumequeue" / topic / "0" / paths.offset_name(0)).write_bytes(bytes(200))
    stores.rebuild(store, topics=["a"])
    after = stores.indexes(store)
    assert [name for name in whole if whole[name] != after[name]] == ["b/0/0"]


def test_index_is_for_all_topics(store: Path) -> None:
    """The IndexFiles, which all topics share, are rebuilt for all whatever topics are asked for."""
    for path in (store / paths.INDEX).iterdir():
        path.unlink()
    stores.rebuild(store, topics=["a"])
    assert sum(header.index_count - 1 for header in stores.headers(store)) == 120


@pytest.mark.parametrize("option", ["topics", "skip_topics"])
def test_unknown_topic_is_refused(option: str, store: Path) -> None:
    """A topic that neither log nor queues have is a slip of the pen: an error that names it, and nothing changes."""
    before = stores.digest(store, inodes=True)
    with pytest.raises(ConfigError, match="nobody"):
        stores.rebuild(store, **{option: ["nobody"]})
    assert stores.digest(store, inodes=True) == before


@pytest.mark.parametrize("split_mb", [128, 0.001])
def test_a_topic_without_queues_is_skipped_all_the_same(split_mb: float, store: Path) -> None:
    """--skip-topic keeps a deleted topic from coming back: that only the log still has it is no slip of the pen."""
    shutil.rmtree(store / paths.CONSUME_QUEUE / "a")
    report = stores.rebuild(store, skip_topics=["a"], split_mb=split_mb)
    assert sorted(found.topic for found in report.topics) == ["b", "c"]
    assert not (store / paths.CONSUME_QUEUE / "a").exists()


def test_one_unknown_topic_of_two_is_a_warning(store: Path) -> None:
    """Beside a topic that is there, one without messages gives a warning that names it."""
    report = stores.rebuild(store, topics=["nobody", "a"])
    assert any("nobody" in warning for warning in report.warnings)


LOST_LOGS = {
    "no file": [],
    "an empty file": [b""],
    "zeros": [bytes(1 << 14)],
    "no record": [b"no record at all" * 1024],
    "zeros in two files": [bytes(1 << 14), bytes(1 << 14)],
}


@pytest.mark.parametrize("left", [(paths.CONSUME_QUEUE, paths.INDEX), (paths.CONSUME_QUEUE,), (paths.INDEX,)])
@pytest.mark.parametrize("kind", LOST_LOGS)
def test_lost_log_keeps_the_indexes(kind: str, left: tuple[str, ...], store: Path) -> None:
    """Without a record (a disk that is not mounted) good indexes are not replaced by empty ones, unless asked for."""
    for path in (store / paths.COMMIT_LOG).iterdir():
        path.unlink()
    for number, data in enumerate(LOST_LOGS[kind]):
        (store / paths.COMMIT_LOG / paths.offset_name(number << 14)).write_bytes(data)
    for name in {paths.CONSUME_QUEUE, paths.INDEX} - {*left}:
        shutil.rmtree(store / name)
    before = stores.digest(store, inodes=True)
    for options in ({}, {"only": "queue"}, {"only": "index"}, {"salvage": True}):
        with pytest.raises(NotAStoreError, match=r"commitlog: no .*mounted\? `reput rebuild --empty-log") as caught:
            stores.rebuild(store, **options)
        assert caught.value.exit_code == 2
        assert stores.digest(store, inodes=True) == before
    stores.rebuild(store, empty_log=True)
    assert stores.index_files(store) == []
    stores.rebuild(store)


@pytest.mark.parametrize("name", ["consumequeue", "index", "consumequeue/a", "consumequeue/a/1"])
def test_linked_indexes_are_refused(name: str, store: Path, tmp_path: Path) -> None:
    """A folder of the indexes that is a link to another place is refused by name, not replaced by a folder."""
    (store / name).rename(tmp_path / "elsewhere")
    (store / name).symlink_to(tmp_path / "elsewhere")
    before = stores.digest(store)
    with pytest.raises(UnsupportedStoreError, match=f"{name}: a link to .*elsewhere"):
        stores.rebuild(store)
    assert (store / name).is_symlink()
    assert stores.digest(store) == before


def test_mounted_indexes_are_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index folder on which another file system is mounted is refused before any work: no rename reaches there."""
    before = stores.digest(store, inodes=True)
    monkeypatch.setattr(fs, "device_of", lambda path: 7 if Path(path).name == paths.INDEX else 1)
    with pytest.raises(UnsupportedStoreError, match="index: another file system is mounted"):
        stores.rebuild(store)
    assert stores.digest(store, inodes=True) == before


STRAYS = (
    "consumequeue/notes.txt",
    "index/notes.txt",
    "index/sub/20261121023731573",
    "consumequeue/a/notes.txt",
    "consumequeue/a/backup/00000000000000000000",
    "consumequeue/a/0/00000000000000000000.bak",
    "consumequeue/gone/notes.txt",
)


@pytest.mark.parametrize("options", [{}, {"topics": ["a"]}, {"only": "queue"}, {"only": "index"}])
def test_strays_are_kept(options: dict[str, Any], store: Path) -> None:
    """Files that are not RocketMQ's stay in the index folders, at any depth, and are named."""
    for name in STRAYS:
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_text("mine")
    report = stores.rebuild(store, **options)
    assert [(store / name).read_text() for name in STRAYS] == ["mine"] * len(STRAYS)
    (note,) = [note for note in report.notes if "not RocketMQ's" in note]
    assert "notes.txt" in note
    assert stores.leftovers(store) == []


def test_strays_that_are_links_stay_links(store: Path, tmp_path: Path) -> None:
    """A link to a file is kept as the link that it is, though it leads nowhere."""
    (store / "index" / "elsewhere").symlink_to(tmp_path / "nowhere")
    stores.rebuild(store)
    assert (store / "index" / "elsewhere").readlink() == tmp_path / "nowhere"


def test_only_queue(store: Path) -> None:
    """--only queue keeps the IndexFiles and the checkpoint's word on them."""
    before = under(store, paths.INDEX)
    old = decode_checkpoint((store / paths.CHECKPOINT).read_bytes())
    stale = store / "consumequeue" / "a" / "0" / paths.offset_name(0)
    good = stale.read_bytes()
    stale.write_bytes(bytes(200))
    report = stores.rebuild(store, only="queue")
    assert under(store, paths.INDEX) == before
    assert stale.read_bytes() == good
    assert (report.built, report.index_items, report.index_files) == (["queue"], 0, [])
    assert decode_checkpoint((store / paths.CHECKPOINT).read_bytes()) == old


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("unkeyed", [0, 3])
def test_only_queue_tells_of_an_index_that_ends_earlier(known: bool, unkeyed: int, tmp_path: Path) -> None:
    """A log that has grown since the IndexFiles were built makes --only queue warn; IndexFiles that cover it do not."""
    log = LogBuilder(4096)
    log.message(keys="k")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    end = log.end if known else log.placed[0].offset + 1
    if not known:
        (store / paths.REPUT / own.FRONTIER_NAME).unlink()
    assert stores.rebuild(store, only="queue").warnings == []
    for _ in range(unkeyed):
        log.message()
    stores.with_log(tmp_path, log)
    assert stores.rebuild(store, only="queue").warnings == []
    log.roll()
    log.message(keys="k")
    stores.with_log(tmp_path, log)
    if not known:
        (store / paths.REPUT / own.FRONTIER_NAME).unlink()
    (text,) = stores.rebuild(store, only="queue").warnings
    assert f"end at log offset {end} and the queues at {log.end}" in text
    stores.rebuild(store, only="index")
    assert stores.rebuild(store, only="queue").warnings == []


def test_only_index(store: Path) -> None:
    """--only index keeps the queues, good or not."""
    stale = store / "consumequeue" / "a" / "0" / paths.offset_name(0)
    stale.write_bytes(bytes(200))
    before = under(store, paths.CONSUME_QUEUE)
    index = [data for _, data in stores.index_files(store)]
    for path in (store / paths.INDEX).iterdir():
        path.unlink()
    report = stores.rebuild(store, only="index")
    assert under(store, paths.CONSUME_QUEUE) == before
    assert [data for _, data in stores.index_files(store)] == index
    assert report.built == ["index"]


def test_frontiers_are_kept_apart(tmp_path: Path) -> None:
    """A rebuild of one kind of index moves that kind's frontier alone; of some topics, neither queue frontier."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    log.message("b", keys="k")
    store = stores.with_log(tmp_path, log)

    def frontier() -> own.Frontier:
        return own.decode_frontier((store / paths.REPUT / own.FRONTIER_NAME).read_bytes(), "frontier")

    stores.rebuild(store, topics=["a"], only="queue")
    assert (frontier().queue_offset, frontier().index_offset) == (0, 0)
    stores.rebuild(store, only="index")
    assert (frontier().queue_offset, frontier().index_offset) == (0, log.end)
    stores.rebuild(store, only="queue")
    assert (frontier().queue_offset, frontier().index_offset) == (log.end, log.end)


@pytest.mark.parametrize(
    "options",
    [
        {"only": "both"},
        {"index_tags": "perhaps"},
        {"split_mb": 0},
        {"split_mb": -1},
        {"split_mb": 4096},
        {"split_mb": float("nan")},
        {"topics": ["../x"]},
        {"skip_topics": [""]},
        {"topics": ["a"], "only": "index"},
        {"index_tags": "on", "only": "queue"},
        {"index_tags": "off", "only": "queue"},
    ],
)
def test_wrong_options(options: dict[str, Any], store: Path) -> None:
    """An option that makes no sense is refused before anything happens."""
    before = stores.digest(store, inodes=True)
    with pytest.raises(ConfigError):
        stores.rebuild(store, **options)
    assert stores.digest(store, inodes=True) == before


# --- settings ------------------------------------------------------------------------------------


def test_index_tags(store: Path) -> None:
    """`off` leaves the tags' items out, `auto` then does as the present IndexFiles have it, `on` brings them back."""
    with_tags, without = [120] * 2, [60] * 2
    assert [stores.rebuild(store, index_tags="on").index_items, stores.rebuild(store).index_items] == with_tags
    assert [stores.rebuild(store, index_tags="off").index_items, stores.rebuild(store).index_items] == without
    assert stores.rebuild(store, index_tags="on").index_items == 120


@pytest.mark.golden
def test_index_tags_off_on_golden(tmp_path: Path) -> None:
    """Without tag items the golden store gets as many items less as it has messages with a tag."""
    store = golden.unpack("crash", tmp_path)
    on = stores.rebuild(store, stores.GOLDEN).index_items
    off = stores.rebuild(store, stores.GOLDEN, index_tags="off").index_items
    assert 0 < off < on
    assert stores.rebuild(store, stores.GOLDEN).index_items == off


def test_message_index_off(store: Path) -> None:
    """With messageIndexEnable=false the IndexFiles are left alone, and a note says so."""
    before = under(store, paths.INDEX)
    report = stores.rebuild(store, replace(stores.SMALL, message_index_enable=False))
    assert under(store, paths.INDEX) == before
    assert report.built == ["queue"]
    assert any("messageIndexEnable=false" in note for note in report.notes)


def test_delay_levels(tmp_path: Path) -> None:
    """A delayed message's tags code is its delivery time by the configured levels."""
    log = LogBuilder(4096)
    placed = [log.message("SCHEDULE_TOPIC_XXXX", delay=level) for level in (1, 2, 3)]
    store = stores.with_log(tmp_path, log)

    def delays() -> list[int]:
        _, found = stores.entries(store, "SCHEDULE_TOPIC_XXXX")
        return [e.tags_code - p.record.store_timestamp for e, p in zip(found, placed, strict=True)]

    stores.rebuild(store, replace(stores.SMALL, message_delay_level="7s 2m 3h"))
    assert delays() == [7_000, 120_000, 10_800_000]
    report = stores.rebuild(store)
    assert delays() == [1_000, 5_000, 10_000]
    assert any(text.startswith("messageDelayLevel=1s 5s") for text in report.assumed)
    stores.rebuild(store, replace(stores.SMALL, message_delay_level="7s 2m"))
    assert delays() == [7_000, 120_000, 120_000]


def test_log_in_another_folder(tmp_path: Path) -> None:
    """StorePathCommitLog names the log where it does not lie in the store."""
    log = LogBuilder(4096)
    wanted = [log.message().offset for _ in range(5)]
    store, elsewhere = stores.with_log(tmp_path, log), tmp_path / "elsewhere"
    (store / paths.COMMIT_LOG).rename(elsewhere)
    stores.rebuild(store, replace(stores.SMALL, store_path_commit_log=str(elsewhere)))
    assert stores.positions(store) == wanted


def test_configured_log_file_size(tmp_path: Path) -> None:
    """MappedFileSizeCommitLog is compared with the files; forced, it makes them files of a wrong length."""
    log = LogBuilder(4096)
    log.message()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, replace(stores.SMALL, mapped_file_size_commit_log=4096))
    config = replace(stores.SMALL, mapped_file_size_commit_log=8192)
    with pytest.raises(ConfigError, match=r"mappedFileSizeCommitLog=8192 .* have 4096 bytes"):
        stores.rebuild(store, config)
    with pytest.raises(reput.DamagedStoreError, match="4096 bytes, the log's files have 8192"):
        stores.rebuild(store, config, force_setting=True)


def test_tags_of_any_language(tmp_path: Path) -> None:
    """The tags code is Java's hash over UTF-16 units, sign and all."""
    log = LogBuilder(4096)
    placed = [log.message(tags=tags) for tags in ("A", "支付", "\N{GRINNING FACE}", "polygenelubricants", "")]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    _, found = stores.entries(store)
    assert [entry.tags_code for entry in found] == [stores.tags_code(p.record) for p in placed]
    assert [entry.tags_code for entry in found] == [65, 823177, 1772899, -2147483648, 0]


# --- IndexFiles ----------------------------------------------------------------------------------


def counts(store: Path) -> list[int]:
    """Items in each IndexFile."""
    return [header.index_count - 1 for header in stores.headers(store)]


@pytest.mark.parametrize("split_mb", [128, 0.0002])
@pytest.mark.parametrize(
    ("items", "without", "wanted"),
    [
        (0, 1, [0]),
        (0, 30, [0]),
        (6, 3, [6]),
        (7, 0, [7]),
        (7, 1, [7, 0]),
        (7, 20, [7, 0]),
        (8, 5, [7, 1]),
        (14, 0, [7, 7]),
        (14, 2, [7, 7, 0]),
        (21, 0, [7, 7, 7]),
    ],
)
def test_index_files(items: int, without: int, wanted: list[int], split_mb: float, tmp_path: Path) -> None:
    """RocketMQ makes an IndexFile when a message comes and there is none or the last is full, key or not."""
    log = LogBuilder(4096)
    for number in range(items):
        log.message(keys=f"k{number}")
    for _ in range(without):
        log.message()
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store, split_mb=split_mb)
    assert counts(store) == wanted
    assert report.index_items == items
    size = index_file.file_size(16, 8)
    assert [len(data) for _, data in stores.index_files(store)] == [size] * len(wanted)
    for before, after in zip(stores.headers(store), stores.headers(store)[1:], strict=False):
        if after.index_count == 1:
            # RocketMQ starts a new file with the end of the one before.
            end = (before.end_timestamp, before.end_physical_offset)
            assert (after.begin_timestamp, after.begin_physical_offset) == end
            assert (after.end_timestamp, after.end_physical_offset) == end


def test_messages_without_keys_between(tmp_path: Path) -> None:
    """Messages without keys before the first item, and between items, leave no trace in the IndexFiles."""
    log = LogBuilder(1 << 14)
    for number in range(30):
        log.message(keys=f"k{number // 3}" if number % 3 == 2 else "")
    for split_mb in (128, 0.0001):
        store = stores.with_log(tmp_path / str(split_mb), log)
        stores.rebuild(store, split_mb=split_mb)
        assert counts(store) == [7, 3]
        assert stores.headers(store)[0].begin_physical_offset == log.placed[2].offset


def test_one_message_over_two_index_files(tmp_path: Path) -> None:
    """The items of one message go on in the next IndexFile where the first is full."""
    log = LogBuilder(1 << 14)
    log.message(keys=" ".join(f"k{number}" for number in range(10)))
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    assert counts(store) == [7, 3]
    assert {header.end_physical_offset for header in stores.headers(store)} == {0}


def test_queue_files_of_an_odd_configured_size(tmp_path: Path) -> None:
    """A configured queue file size is rounded up to whole entries, as RocketMQ does."""
    log = LogBuilder(1 << 14)
    for _ in range(25):
        log.message()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, replace(stores.SMALL, mapped_file_size_consume_queue=191))
    assert [len(data) for *_, data in stores.queue_files(store)] == [200] * 3
    assert decode_entry(stores.queue_files(store)[2][3], 4 * 20).physical_offset == log.placed[24].offset
