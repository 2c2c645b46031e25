"""ConsumeQueueExt is built from the log: by a rebuild, by catch-up in pieces, and again the same after a crash."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig, parse_properties
from reput.dispatch.sql import compile as compile_filter
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.consume_queue_ext import Unit, decode_unit, is_address, offset_of
from reput.queue.files import list_queues
from reput.queue.reader import queue_span, read_entries
from reput.times import now_ms
from support import golden, stores
from support.bloom import BloomFilter, filter_key
from support.checked import assert_sound
from support.encoders import encode_ext_unit
from support.inner import write_further
from support.kinds import messages
from support.opened import forget_known_good
from support.registry import FilterRegistry

if TYPE_CHECKING:
    from pathlib import Path

    from reput.queue.files import QueueFolder

EXT_FILE_SIZE = 1000
CONFIG = StoreConfig.from_properties(
    parse_properties(
        golden.CONFIG
        + f"enableConsumeQueueExt=true\nmappedFileSizeConsumeQueueExt={EXT_FILE_SIZE}\nenableCalcFilterBitMap=true\n"
    )
)
GOLDEN_CONFIG = StoreConfig.from_properties(parse_properties(golden.CONFIG))
SQL = "region = 'eu' AND TAGS IS NOT NULL"
BLOOM = BloomFilter()


def units_of(store: Path, file_size: int) -> dict[tuple[str, int], list[tuple[int, Unit]]]:
    """Of each queue the queue offsets of its entries with their units; every one must have one."""
    found = {}
    for queue in list_queues(store / paths.CONSUME_QUEUE):
        found[queue.topic, queue.queue_id] = units_of_queue(store, queue, file_size)
    return found


def units_of_queue(store: Path, queue: QueueFolder, file_size: int = 1 << 16) -> list[tuple[int, Unit]]:
    """The queue offsets of a queue's entries with their units; every one must have one."""
    span, units = queue_span(queue), []
    files = {
        path.name: path.read_bytes()
        for path in (store / paths.CONSUME_QUEUE_EXT / queue.topic / str(queue.queue_id)).glob("*")
    }
    for offset, entry in read_entries(queue, span.min_offset, span.max_offset):
        if entry.is_pre_blank:
            continue
        assert is_address(entry.tags_code)
        number, place = divmod(offset_of(entry.tags_code), file_size)
        unit = decode_unit(files[paths.offset_name(number * file_size)], place)
        assert unit is not None
        units.append((offset, unit))
    return units


def tree(store: Path) -> dict[str, bytes]:
    """Every queue and ext file with its bytes."""
    folders = (store / paths.CONSUME_QUEUE, store / paths.CONSUME_QUEUE_EXT)
    return {
        str(path.relative_to(store)): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def put(store: reput.MessageStore, begin: int, count: int) -> None:
    """Put the messages [begin, begin + count) of seed 1."""
    for number, (message, queue_id) in enumerate(messages(seed=1)):
        if number >= begin + count:
            break
        if number >= begin:
            assert store.put_message(message, queue_id).status is reput.PutStatus.PUT_OK


def register(store: Path, *groups: str) -> None:
    """Register a filter on all topics for these groups."""
    for name in (paths.CONFIG, paths.COMMIT_LOG):
        (store / name).mkdir(parents=True, exist_ok=True)
    filters = FilterRegistry.load(store / paths.CONFIG, BLOOM, clock_ms=lambda: 1000)
    for group in groups:
        for topic in ("orders", "订单-topic"):
            filters.register(topic, group, SQL, 1)
    filters.persist()


def without_bitmaps(units: dict[Any, list[tuple[int, Unit]]]) -> dict[Any, list[tuple[int, Unit]]]:
    """The same units without their bitmaps."""
    return {key: [(offset, unit._replace(bitmap=b"")) for offset, unit in each] for key, each in units.items()}


@pytest.mark.golden
@pytest.mark.parametrize("without_indexes", [False, True])
def test_rebuild_of_golden(without_indexes: bool, tmp_path: Path) -> None:
    """A rebuilt ext store has RocketMQ's units: tags code and store time of every message, and no other unit."""
    store = golden.unpack("ext", tmp_path)
    theirs = units_of(store, 1 << 16)
    config = GOLDEN_CONFIG
    if without_indexes:
        for name in (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT, paths.INDEX):
            shutil.rmtree(store / name)
        config = GOLDEN_CONFIG.updated(["enableConsumeQueueExt=true", "mappedFileSizeConsumeQueueExt=65536"])
    report = reput.rebuild(store, spark=False, config=config, split_mb=0.2)
    assert not report.warnings
    ours = units_of(store, 1 << 16)
    assert ours == without_bitmaps(theirs)
    assert_sound(store, config)


def test_bitmaps(tmp_path: Path) -> None:
    """A message of a topic with filters gets the bits of those that match, by their evaluation."""
    store = tmp_path / "store"
    register(store, "group-a", "group-b")
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 800)
        opened.reput(spark=False)
        queues = {(topic, queue_id): opened for topic, queue_id, _, _ in opened.queues()}
        wanted, matched = compile_filter(SQL), 0
        for (topic, queue_id), units in units_of(store, EXT_FILE_SIZE).items():
            assert (topic, queue_id) in queues
            for offset, unit in units:
                message = opened.get_message(topic, queue_id, offset, 1)[0]
                assert unit.store_timestamp == message.store_timestamp
                if topic not in ("orders", "订单-topic"):
                    assert unit.bitmap == b""
                    continue
                bits = [BLOOM.positions(filter_key(group, topic)) for group in ("group-a", "group-b")]
                matches = wanted.matches(message.properties)
                assert unit.bitmap == (BLOOM.bitmap(bits) if matches else bytes(14))
                matched += bool(matches)
        assert matched > 20
    assert_sound(store, CONFIG)


def test_pull_by_bitmaps(tmp_path: Path) -> None:
    """A pull of a registered group finds the same with bitmaps as without, and bitmaps are what it believes."""
    store = tmp_path / "store"
    register(store, "group-a")
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 800)
        opened.reput(spark=False)
        plain, registered = reput.SqlFilter(SQL), reput.SqlFilter(SQL, group="group-a")
        found = [message.queue_offset for message in opened.get_message("orders", 0, 0, 800, plain)]
        assert found
        assert [message.queue_offset for message in opened.get_message("orders", 0, 0, 800, registered)] == found
    path = store / paths.CONSUME_QUEUE_EXT / "orders" / "0" / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    first = decode_unit(data)
    assert first is not None
    place = 0
    while (unit := decode_unit(data, place)) is not None:
        data[place : place + unit.size] = encode_ext_unit(unit._replace(bitmap=bytes(14)))
        place += unit.size
    path.write_bytes(data)
    with reput.MessageStore.open(store, CONFIG, read_only=True) as opened:
        believing = [message.queue_offset for message in opened.get_message("orders", 0, 0, 800, registered)]
        assert [message.queue_offset for message in opened.get_message("orders", 0, 0, 800, plain)] == found
    assert believing == [offset for offset in found if offset >= EXT_FILE_SIZE // 34]


def test_in_pieces(tmp_path: Path) -> None:
    """Caught up in pieces, with the store opened anew between them, it has the bytes that a rebuild gives."""
    store = tmp_path / "store"
    register(store, "group-a")
    for begin in range(0, 600, 150):
        with reput.MessageStore.open(store, CONFIG, create=True) as opened:
            put(opened, begin, 150)
            if begin % 300:
                opened.reput(spark=False)
    grown = tree(store)
    assert len([name for name in grown if name.startswith(paths.CONSUME_QUEUE_EXT)]) > 20
    assert_sound(store, CONFIG)
    reput.rebuild(store, spark=False, config=CONFIG)
    assert tree(store) == grown


@pytest.mark.parametrize("changed", [False, True], ids=["same-filters", "filters-changed"])
def test_again_after_a_crash(changed: bool, tmp_path: Path) -> None:
    """Units that were built and not confirmed are built again in the same places: each is reached by an entry."""
    store = tmp_path / "store"
    register(store, "group-a")
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 300)
        opened.reput(spark=False)
        put(opened, 300, 200)
        frontier = (store / paths.REPUT / own.FRONTIER_NAME).read_bytes()
        opened.reput(spark=False)
    built = tree(store)
    (store / paths.REPUT / own.FRONTIER_NAME).write_bytes(frontier)
    if changed:
        shutil.rmtree(store / paths.CONFIG)
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        assert opened.view.follower.records
        opened.reput(spark=False)
    assert_sound(store, CONFIG)
    assert "ext-orphans" not in {finding.rule for finding in reput.check(store, spark=False, config=CONFIG).findings}
    if not changed:
        assert tree(store) == built
    assert without_bitmaps(units_of(store, EXT_FILE_SIZE))


def test_only_some_topics(tmp_path: Path) -> None:
    """A rebuild of one topic's queues leaves the ext files of the others alone."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 300)
    before = tree(store)
    shutil.rmtree(store / paths.CONSUME_QUEUE_EXT / "orders")
    reput.rebuild(store, spark=False, config=CONFIG, only="queue", topics=["orders"])
    assert tree(store) == before
    assert_sound(store, CONFIG)


def test_cut_log(tmp_path: Path) -> None:
    """With a log's torn end the units of the cut entries go."""
    alive, store = tmp_path / "alive", tmp_path / "store"
    with reput.MessageStore.open(alive, CONFIG, create=True) as opened:
        put(opened, 0, 300)
        opened.reput(spark=False)
        stores.copy(alive, store)
        put(opened, 300, 10)
        opened.reput(spark=False)
        last = opened.view.follower.last_record
        # What nobody has called durable, but came to the disk.
        for name in (paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT):
            stores.copy(alive / name, store / name, dirs_exist_ok=True)
    path = store / paths.COMMIT_LOG / paths.offset_name(last // golden.LOG_FILE_SIZE * golden.LOG_FILE_SIZE)
    data = bytearray(path.read_bytes())
    data[last % golden.LOG_FILE_SIZE + 60 :] = bytes(len(data) - last % golden.LOG_FILE_SIZE - 60)
    path.write_bytes(data)
    forget_known_good(store)
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        (note,) = (note for note in opened.notes if "cut the log" in note)
        assert not note.endswith("none")
    assert_sound(store, CONFIG)


def key_with_units(store: Path) -> tuple[QueueKey, Path, Path]:
    """A queue with its first queue file and its first ext file."""
    queue, ext = store / paths.CONSUME_QUEUE / "orders" / "0", store / paths.CONSUME_QUEUE_EXT / "orders" / "0"
    return QueueKey(b"orders", 0), queue / paths.offset_name(0), ext / paths.offset_name(0)


@pytest.mark.parametrize("damage", ["nowhere", "unit", "time", "orphan", "gone", "size"])
def test_damage(damage: str, tmp_path: Path) -> None:
    """A check reports addresses that lead nowhere and damaged units, pulls continue, and a rebuild mends them."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 300)
        opened.reput(spark=False)
        found = [message.queue_offset for message in opened.get_message("orders", 0, 0, 500)]
    _, queue, ext = key_with_units(store)
    entries, units = bytearray(queue.read_bytes()), bytearray(ext.read_bytes())
    if damage == "nowhere":
        entries[12:20] = (-(1 << 63) + (1 << 40)).to_bytes(8, signed=True)
    elif damage == "unit":
        units[0:2] = b"\x7f\xff"
    elif damage == "time":
        units[10:18] = bytes(8)
    queue.write_bytes(entries)
    ext.write_bytes(units[:-1] if damage == "size" else units)
    if damage == "gone":
        ext.unlink()
    elif damage == "orphan":
        last = max(ext.parent.iterdir())
        data = bytearray(last.read_bytes())
        assert len(data.rstrip(b"\0")) < len(data) - 30
        data[-20:] = encode_ext_unit(Unit(5, 5))
        last.write_bytes(data)
    report = reput.check(store, spark=False, config=CONFIG)
    rules = {finding.rule for finding in report.findings if finding.rule.startswith("ext-")}
    expected = {"time": "ext-store-time", "orphan": "ext-orphans", "size": "ext-file-size"}
    assert rules == {expected.get(damage, "ext-address")}
    with reput.MessageStore.open(store, CONFIG, read_only=True) as opened:
        assert [message.queue_offset for message in opened.get_message("orders", 0, 0, 500)] == found
        for wanted in ("paid", reput.SqlFilter("TAGS = 'paid'", group="nobody")):
            opened.get_message("orders", 0, 0, 500, wanted)
    reput.rebuild(store, spark=False, config=CONFIG, only="queue")
    assert_sound(store, CONFIG)


def without_addresses(store: Path, chosen: slice) -> int:
    """Give these entries of each queue the tags codes of their units back; returns how many entries."""
    changed = 0
    for queue in list_queues(store / paths.CONSUME_QUEUE):
        units = dict(units_of_queue(store, queue)[chosen])
        for file in queue.files:
            data = bytearray(file.path.read_bytes())
            for offset, unit in units.items():
                at = offset * 20 - file.start
                if 0 <= at < len(data):
                    data[at + 12 : at + 20] = unit.tags_code.to_bytes(8, signed=True)
                    changed += 1
            file.path.write_bytes(data)
    return changed


@pytest.mark.golden
@pytest.mark.parametrize("chosen", [slice(None), slice(10), slice(-5, None), slice(7, 8), slice(3, None, 2)], ids=str)
def test_entries_that_lost_their_addresses(chosen: slice, tmp_path: Path) -> None:
    """Entries of RocketMQ's ext store without the addresses of their units are damage; a rebuild mends it."""
    store = golden.unpack("ext", tmp_path)
    assert rules_of(store, GOLDEN_CONFIG) == {}
    count = without_addresses(store, chosen)
    reported = rules_of(store, GOLDEN_CONFIG)
    assert reported["damage", "ext-missing"] == count
    reput.rebuild(store, spark=False, config=GOLDEN_CONFIG)
    assert rules_of(store, GOLDEN_CONFIG) == {}


def test_ext_switched_on_later(tmp_path: Path) -> None:
    """Messages from a time without ext have no units: that is reported, and is no damage."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, GOLDEN_CONFIG, create=True) as opened:
        put(opened, 0, 300)
        opened.reput(spark=False)
    before = reput.check(store, spark=False, config=GOLDEN_CONFIG).queue_entries
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 300, 300)
        opened.reput(spark=False)
    report = reput.check(store, spark=False, config=CONFIG)
    assert report.sound
    assert rules_of(store, CONFIG) == {("note", "ext-without-unit"): before}


def test_units_that_no_entry_leads_to(tmp_path: Path) -> None:
    """Units of a queue whose entries lead to no unit are reported as left over."""
    store = tmp_path / "store"
    with reput.MessageStore.open(store, GOLDEN_CONFIG, create=True) as opened:
        put(opened, 0, 50)
        opened.reput(spark=False)
    queues = list(list_queues(store / paths.CONSUME_QUEUE))
    for queue in queues:
        folder = store / paths.CONSUME_QUEUE_EXT / queue.topic / str(queue.queue_id)
        folder.mkdir(parents=True)
        (folder / paths.offset_name(0)).write_bytes(encode_ext_unit(Unit(5, 5)).ljust(EXT_FILE_SIZE, b"\0"))
    entries = reput.check(store, spark=False, config=CONFIG).queue_entries
    assert rules_of(store, CONFIG) == {("note", "ext-without-unit"): entries, ("leftover", "ext-orphans"): len(queues)}


def rules_of(store: Path, config: StoreConfig) -> dict[tuple[str, str], int]:
    """Return a check's findings about ext, counted by severity and rule."""
    found = Counter[tuple[str, str]]()
    for finding in reput.check(store, spark=False, config=config).findings:
        if finding.rule.startswith("ext-"):
            found[finding.severity, finding.rule] += finding.count
    return dict(found)


def change_bitmap(path: Path, which: int, change: bytes) -> int:
    """Turn over these bits of one unit's bitmap; returns the unit's place."""
    data, place = bytearray(path.read_bytes()), 0
    for _ in range(which):
        unit = decode_unit(data, place)
        assert unit is not None
        place += unit.size
    unit = decode_unit(data, place)
    assert unit is not None
    bitmap = bytes(one ^ other for one, other in zip(unit.bitmap, change, strict=True))
    data[place : place + unit.size] = encode_ext_unit(unit._replace(bitmap=bitmap))
    path.write_bytes(data)
    return place


def bitmap_findings(store: Path) -> list[tuple[str, str, str, int | None, int]]:
    """Return a check's findings about bitmaps: severity, rule, file, offset, count."""
    report = reput.check(store, spark=False, config=CONFIG)
    return [
        (one.severity, one.rule, one.file, one.offset, one.count)
        for one in report.findings
        if one.rule.startswith("ext-bitmap")
    ]


def with_bitmaps(store: Path, *groups: str) -> tuple[Path, int, int]:
    """A store with bitmaps; orders/0's first ext file, and which units in it are of a matching and another message."""
    register(store, *groups)
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        put(opened, 0, 800)
        opened.reput(spark=False)
        matches = {message.queue_offset for message in opened.get_message("orders", 0, 0, 20, reput.SqlFilter(SQL))}
    _, _, path = key_with_units(store)
    in_file = EXT_FILE_SIZE // 34
    return path, min(matches), min(set(range(in_file)) - matches)


def test_a_bitmap_that_hides_a_message(tmp_path: Path) -> None:
    """A bit that is missing though the message matches a registered filter is damage, reported with file and place."""
    store = tmp_path / "store"
    path, matching, _ = with_bitmaps(store, "group-a")
    assert bitmap_findings(store) == []
    bits = BLOOM.positions(filter_key("group-a", "orders"))
    place = change_bitmap(path, matching, BLOOM.bitmap([bits[:1]]))
    assert bitmap_findings(store) == [("damage", "ext-bitmap-missing", str(path), place, 1)]
    reput.rebuild(store, spark=False, config=CONFIG, only="queue")
    assert bitmap_findings(store) == []


def test_bits_of_nobody(tmp_path: Path) -> None:
    """Bits that no registered filter gives cost a look at the log, and are no damage: a group may have gone."""
    store = tmp_path / "store"
    path, _, other = with_bitmaps(store, "group-a")
    change_bitmap(path, other, BLOOM.bitmap([BLOOM.positions(filter_key("group-a", "orders"))]))
    assert bitmap_findings(store) == [("note", "ext-bitmap-stray", str(path), None, 1)]
    assert_sound(store, CONFIG)


def test_bitmaps_from_before_a_filter(tmp_path: Path) -> None:
    """Of messages stored before a filter was born bitmaps need not have its bits: no pull believes them."""
    store = tmp_path / "store"
    with_bitmaps(store, "group-a")
    filters = FilterRegistry.load(store / paths.CONFIG, BLOOM, clock_ms=lambda: now_ms() + 1000)
    filters.register("orders", "late", SQL, 1)
    filters.persist()
    assert bitmap_findings(store) == []
    # A filter that had been there all along would have to have its bits everywhere.
    register(store, "group-c")
    assert {rule for _, rule, _, _, _ in bitmap_findings(store)} == {"ext-bitmap-missing"}


@pytest.mark.parametrize("why", ["crash", "damaged"])
def test_bitmaps_that_cannot_be_judged(why: str, tmp_path: Path) -> None:
    """After a crash, or with a damaged registry, nobody knows what bitmaps must be: nothing is said of them."""
    store = tmp_path / "store"
    path, matching, _ = with_bitmaps(store, "group-a")
    change_bitmap(path, matching, BLOOM.bitmap([BLOOM.positions(filter_key("group-a", "orders"))]))
    if why == "crash":
        (store / paths.ABORT).write_bytes(b"")
    else:
        (store / paths.CONFIG / "consumerFilter.json").write_bytes(b"{")
    report = reput.check(store, spark=False, config=CONFIG)
    assert not [one for one in report.findings if one.rule.startswith("ext-bitmap")]
    assert any("bitmaps were not checked" in note for note in report.notes) == (why == "damaged")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("mappedFileSizeConsumeQueueExt=37", "from 38 bytes on"), ("expectConsumerNumUseFilter=1000000", "are allowed")],
)
def test_sizes_without_room(setting: str, reason: str, tmp_path: Path) -> None:
    """Sizes that no unit fits are refused when the store is opened, not when the first one is built."""
    with pytest.raises(reput.ConfigError, match=reason):
        reput.MessageStore.open(tmp_path / "store", CONFIG.updated([setting]), create=True)


@pytest.mark.spark
@pytest.mark.golden
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """Spark's tasks build the bytes that the loop builds."""
    trees = []
    for engine in (spark, False):
        store = golden.unpack("ext", tmp_path / str(bool(engine)))
        reput.rebuild(store, spark=engine, config=GOLDEN_CONFIG, split_mb=0.2)
        trees.append(tree(store))
    assert trees[0] == trees[1]


def test_entries_of_other_topics_have_no_units(tmp_path: Path) -> None:
    """A record's entries in further queues, whatever their names, have its plain tags code, as in RocketMQ."""
    store = write_further(tmp_path, 200)
    with reput.MessageStore.open(store, CONFIG, create=True):
        # Closing catches up from the log's begin.
        pass
    assert_sound(store, CONFIG)
    grown = tree(store)
    reput.rebuild(store, spark=False, config=CONFIG, split_mb=0.005)
    assert tree(store) == grown
    (queue,) = [queue for queue in list_queues(store / paths.CONSUME_QUEUE) if queue.topic == "side"]
    span = queue_span(queue)
    found = {True: 0, False: 0}
    with reput.MessageStore.open(store, CONFIG, read_only=True) as opened:
        for offset, entry in read_entries(queue, span.min_offset, span.max_offset):
            (message,) = opened.get_message("side", 0, offset, 1)
            assert is_address(entry.tags_code) == (message.topic == "side")
            found[message.topic == "side"] += 1
        assert len(opened.get_message("side", 0, 0, 32, "paid")) == 32
    assert found == {True: 100, False: 100}
    assert not (store / paths.CONSUME_QUEUE_EXT / "%LMQ%a").exists()


def test_last_unit_is_gone(tmp_path: Path) -> None:
    """Catch-up does not guess where units go on: it names the entry and the remedy."""
    store = tmp_path / "store"
    opened = reput.MessageStore.open(store, CONFIG, create=True)
    put(opened, 0, 300)
    opened.reput(spark=False)
    shutil.rmtree(store / paths.CONSUME_QUEUE_EXT)
    put(opened, 300, 100)
    with pytest.raises(reput.DamagedStoreError, match=r"there is no unit\. Run `reput rebuild --only queue`"):
        opened.reput(spark=False)
    with pytest.raises(reput.DamagedStoreError):
        opened.close()
