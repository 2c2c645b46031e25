"""`check` on IndexFiles: each damaged field is one finding at its place, and nothing else is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.index.index_file import HEADER, HEADER_SIZE, ITEM, ITEM_SIZE, SLOT_SIZE, Header, decode_header
from support import stores
from support.records import LogBuilder
from support.search import part

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.check.report import CheckReport, Finding

SLOTS, ITEMS = 8, 41
CONFIG = StoreConfig(mapped_file_size_consume_queue=400, max_hash_slot_num=SLOTS, max_index_num=ITEMS)
ITEMS_START = HEADER_SIZE + SLOTS * SLOT_SIZE
RULE_OF_FIELD = {
    "key_hash": "index-item-without-record",
    "physical_offset": "index-item-without-record",
    "time_diff_s": "index-item-time",
    "previous_item": "index-chain",
}


def a_store(folder: Path, *, tags: bool = True, messages: int = 25) -> Path:
    """A store whose messages have two keys and a tag each; with a few log files, so that items are of many splits."""
    log = LogBuilder(file_size=2048, tick_ms=900)
    for number in range(messages):
        log.message(keys=f"a{number} b{number}", tags="tag" if number % 3 else "")
    store = stores.with_log(folder, log)
    reput.rebuild(store, spark=False, config=CONFIG, index_tags="on" if tags else "off")
    return store


@pytest.fixture(scope="module", params=[True, False], ids=["tags", "no tags"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A sound store with or without items for tags, and the rules of what is found in it."""
    store = a_store(tmp_path_factory.mktemp("sound"), tags=request.param)
    report = check(store)
    assert report.sound
    assert {one.rule for one in report.findings} == (set() if request.param else {"index-without-tags"})
    return store, {one.rule for one in report.findings}


def check(store: Path) -> CheckReport:
    """Check in this process."""
    return reput.check(store, spark=False, config=CONFIG)


def index_paths(store: Path) -> list[Path]:
    """The IndexFiles, oldest first."""
    return sorted((store / "index").iterdir())


def after_change(store: Path, path: Path, offset: int, changed: bytes) -> CheckReport:
    """The report on a store with some bytes of a file changed; they are put back."""
    data = path.read_bytes()
    path.write_bytes(data[:offset] + changed + data[offset + len(changed) :])
    try:
        return check(store)
    finally:
        path.write_bytes(data)


def only_damage(report: CheckReport, also: set[str]) -> Finding:
    """The one finding that is damage; besides it there is only what the store shows when it is sound."""
    damage = [one for one in report.findings if one.severity == "damage"]
    assert len(damage) == 1, damage
    assert {one.rule for one in report.findings} - {damage[0].rule} == also, report.findings
    return damage[0]


@pytest.mark.parametrize("flip", [0x01, 0x80])
@pytest.mark.parametrize("field", ITEM.fields, ids=lambda field: field.name)
def test_one_damaged_item_is_one_finding(sound: tuple[Path, set[str]], field: object, flip: int) -> None:
    """Whichever field of whichever item is damaged, in its highest or lowest byte, there is one finding, at the item.

    It neither hides the items after it, nor breaks the chain, nor looks like an index without tags.
    """
    store, notes = sound
    name = getattr(field, "name", "")
    last_byte = ITEM.offsets[name] + (7 if name == "physical_offset" else 3)
    for path in index_paths(store):
        header = decode_header(path.read_bytes())
        for number in part(range(1, header.index_count)):
            # The time of item 1 counts from a file that may be gone, and nobody reads it.
            if name == "time_diff_s" and number == 1:
                continue
            start = ITEMS_START + number * ITEM_SIZE
            offset = start + (ITEM.offsets[name] if flip == 0x80 else last_byte)
            old = path.read_bytes()[offset]
            found = only_damage(after_change(store, path, offset, bytes([old ^ flip])), notes)
            assert (found.rule, found.file, found.offset) == (RULE_OF_FIELD[name], str(path), start), number
            assert found.count == 1


def test_damage_in_a_row_is_one_finding(sound: tuple[Path, set[str]]) -> None:
    """Several damaged items side by side are one finding with their number."""
    store, notes = sound
    path = index_paths(store)[0]
    found = only_damage(after_change(store, path, ITEMS_START + 5 * ITEM_SIZE, b"\x7f" * (3 * ITEM_SIZE - 4)), notes)
    assert found.count == 3


@pytest.mark.parametrize("name", Header._fields)
def test_each_header_field_is_checked(sound: tuple[Path, set[str]], name: str) -> None:
    """A header field that is one too high is one finding at that field, in each IndexFile with items."""
    store, _ = sound
    for path in index_paths(store):
        header = decode_header(path.read_bytes())
        wrong = header._replace(**{name: getattr(header, name) + 1})
        report = after_change(store, path, 0, HEADER.struct.pack(*wrong))
        headers = [one for one in report.findings if one.rule == "index-header"]
        assert not report.sound
        if name != "index_count":
            assert [(one.file, one.offset) for one in headers] == [(str(path), HEADER.offsets[name])]


def test_lost_items_are_lost_tags_and_all(sound: tuple[Path, set[str]]) -> None:
    """A lost IndexFile is missing items, and no sign of a broker that wrote no tags."""
    store, notes = sound
    path = index_paths(store)[0]
    data = path.read_bytes()
    path.unlink()
    found = only_damage(check(store), notes)
    path.write_bytes(data)
    assert found.rule == "index-item-missing"
    assert found.count >= ITEMS - 1


def test_items_behind_the_log_are_a_leftover_only_at_the_end(tmp_path: Path) -> None:
    """Items of records that never reached the log are what a crash leaves; amid others such an offset is damage."""
    log = LogBuilder(tick_ms=900)
    placed = [log.message(keys=f"a{number}") for number in range(12)]
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=CONFIG)
    (store / "abort").touch()
    (path,) = index_paths(store)
    far = (1 << 40).to_bytes(8, "big")
    inside = after_change(store, path, ITEMS_START + 4 + 2 * ITEM_SIZE, far)
    (log_path,) = (store / "commitlog").iterdir()
    lost = placed[-2]
    ended = after_change(store, log_path, lost.offset, bytes(lost.size + placed[-1].size))

    assert [one.severity for one in inside.findings if one.file == str(path)] == ["damage"]
    assert ended.sound
    [past] = [one for one in ended.findings if one.rule == "index-item-past-end"]
    assert past.count == 2
    # It named the byte after the begin of the last record as the log's end.
    assert past.detail == f"items after the log's end at {lost.offset}"
    assert ended.log_max_offset == lost.offset


def without_items(folder: Path) -> Path:
    """A store whose last IndexFile has no items: the one before is exactly full, and messages without keys follow."""
    log = LogBuilder(tick_ms=900)
    for number in range((ITEMS - 1) // 2):
        log.message(keys=f"a{number} b{number}")
    log.message()
    store = stores.with_log(folder, log)
    reput.rebuild(store, spark=False, config=CONFIG)
    assert [decode_header(path.read_bytes()).index_count for path in index_paths(store)] == [ITEMS, 1]
    return store


@pytest.mark.parametrize("name", Header._fields)
def test_each_header_field_of_a_file_without_items_is_checked(tmp_path: Path, name: str) -> None:
    """A file without items begins and ends where the one before it ended, and counts nothing."""
    store = without_items(tmp_path)
    last = index_paths(store)[-1]
    header = decode_header(last.read_bytes())
    wrong = header._replace(**{name: getattr(header, name) + 1})
    report = after_change(store, last, 0, HEADER.struct.pack(*wrong))

    assert check(store).sound
    assert not report.sound
    assert {one.file for one in report.findings} == {str(last)}
    if name != "index_count":
        assert HEADER.offsets[name] in {one.offset for one in report.findings if one.rule == "index-header"}


def test_a_file_that_was_never_flushed_counts_nothing(tmp_path: Path) -> None:
    """RocketMQ writes the count 1 when it flushes a new file, and reads the 0 that is there before as 1."""
    store = without_items(tmp_path)
    last = index_paths(store)[-1]
    header = decode_header(last.read_bytes())
    assert after_change(store, last, 0, HEADER.struct.pack(*header._replace(index_count=0))).sound


def test_a_new_file_whose_header_a_power_cut_lost_is_made_anew(tmp_path: Path) -> None:
    """After a crash a last file of zeros is no damage, and the next job makes it anew; after a close it is damage."""
    log = LogBuilder(tick_ms=900)
    for number in range((ITEMS - 1) // 2):
        log.message(keys=f"a{number} b{number}")
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=CONFIG)
    (full,) = index_paths(store)
    last = full.with_name("20991231235959999")
    last.write_bytes(bytes(full.stat().st_size))
    assert {one.rule for one in check(store).findings if one.severity == "damage"} == {"index-header"}
    (store / paths.ABORT).touch()
    assert {(one.rule, one.severity) for one in check(store).findings} == {("index-header", "leftover")}
    with reput.MessageStore.open(store, CONFIG) as opened:
        opened.put_message(reput.Message("topic", b"body", keys="late"))
        opened.reput(spark=False)
        assert len(opened.query_message("topic", "late", 10)) == 1
    assert not last.exists()
    assert decode_header(index_paths(store)[-1].read_bytes()).index_count > 1
    assert check(store).sound


def test_the_first_file_without_items(tmp_path: Path) -> None:
    """A file without items names a record: if the files before are gone, that record proves its time."""
    store = without_items(tmp_path)
    first, last = index_paths(store)
    header = decode_header(last.read_bytes())
    first.unlink()
    late = header._replace(begin_timestamp=header.begin_timestamp + 1, end_timestamp=header.end_timestamp + 1)
    astray = header._replace(begin_physical_offset=5, end_physical_offset=5)

    def rules(said: Header) -> set[str]:
        return {one.rule for one in after_change(store, last, 0, HEADER.struct.pack(*said)).findings}

    assert rules(header) == {"index-item-missing"}
    assert rules(late) == rules(astray) == {"index-item-missing", "index-header"}


def test_the_file_of_a_log_without_keys(tmp_path: Path) -> None:
    """The first file of a store, without items, is all zero but for its count."""
    log = LogBuilder()
    log.message()
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=CONFIG)
    (path,) = index_paths(store)

    assert decode_header(path.read_bytes()) == Header(0, 0, 0, 0, 0, 1)
    assert check(store).sound
    assert not after_change(store, path, HEADER.offsets["begin_physical_offset"], (77).to_bytes(8, "big")).sound
