"""Messages by key from the index in RocksDB."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.log import properties as props
from reput.formats.log.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from reput.index.database import DatabaseIndex
from reput.index.search import FileIndex
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support import golden
from support.opened import assert_keys_found

BOTH, ALONE = "index-both", "index-rocksdb"
IN_ROCKSDB, IN_FILES = DatabaseIndex.words, FileIndex.words
FROM_DATABASE = StoreConfig(index_file_read_enable=False)
SIZES = StoreConfig(
    mapped_file_size_commit_log=golden.LOG_FILE_SIZE,
    mapped_file_size_consume_queue=golden.QUEUE_FILE_SIZE,
    max_hash_slot_num=golden.INDEX_SLOTS,
    max_index_num=golden.INDEX_ITEMS,
)


def by_text(store: Path, name: bytes) -> dict[tuple[str, str], list[int]]:
    """The log offsets of the messages with each value of a property, in log order, found by a walk through the log."""
    found = defaultdict(list)
    log = list_log_files(store / paths.COMMIT_LOG)
    for one in LogWalk(log, log.min_offset):
        record = one.decode()
        value = props.decode_properties(record.properties).get(name, b"").decode()
        if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            continue
        for text in dict.fromkeys(value.split() if name == props.KEYS else [value]):
            if text:
                found[record.topic.decode(), text].append(one.offset)
    return found


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "config"), [(BOTH, None), (BOTH, FROM_DATABASE), (ALONE, None), (ALONE, FROM_DATABASE)]
)
def test_queries_as_a_broker_answers_them(name: str, config: StoreConfig | None) -> None:
    """All questions by key are answered as the broker answered them, from IndexFiles and from the database."""
    asked = [line for line in golden.answers(name) if "key" in line]
    assert asked
    with reput.MessageStore.open(golden.shared(name), config, read_only=True) as store:
        assert store.view.index.words == (IN_ROCKSDB if name == ALONE or config is not None else IN_FILES)
        for line in asked:
            topic, key, most = line["key"]
            for exact in (True, False):
                found = store.query_message(topic, key, most, exact=exact)
                assert [message.physical_offset for message in found] == line["phys"], line


@pytest.mark.golden
@pytest.mark.parametrize("name", [BOTH, ALONE])
def test_every_message_is_found(name: str) -> None:
    """A walk through the log and the database know the same messages by key, by tag and by unique key."""
    path = golden.shared(name)
    with reput.MessageStore.open(path, FROM_DATABASE, read_only=True) as store:
        assert store.view.index.words == IN_ROCKSDB
        for (topic, key), offsets in by_text(path, props.KEYS).items():
            found = store.query_message(topic, key, 1000)
            assert [message.physical_offset for message in found] == offsets
        for (topic, key), offsets in by_text(path, props.TAGS).items():
            found = store.query_message(topic, key, 10_000, by_tag=True)
            assert [message.physical_offset for message in found] == offsets
        for (topic, key), offsets in by_text(path, props.UNIQUE_KEY).items():
            found = store.query_message(topic, key)
            assert [message.physical_offset for message in found] == offsets


@pytest.mark.golden
def test_times_and_pages() -> None:
    """Times, the number of messages and the offset to go on from narrow an answer down; the newest come first."""
    path = golden.shared(ALONE)
    (topic, tag), offsets = max(by_text(path, props.TAGS).items(), key=lambda one: len(one[1]))
    with reput.MessageStore.open(path, read_only=True) as store:
        pages: list[int] = []
        before = None
        while len(page := store.query_message(topic, tag, 7, by_tag=True, before=before)):
            pages = [message.physical_offset for message in page] + pages
            before = page[0].physical_offset
            assert page.more == (len(pages) < len(offsets))
        assert pages == offsets
        middle = store.message_at(offsets[len(offsets) // 2])
        assert middle is not None
        time = middle.store_timestamp
        for since, until in ((time, None), (0, time), (time, time)):
            found = store.query_message(topic, tag, 10_000, since, until, by_tag=True)
            wanted = [
                offset
                for offset in offsets
                if since <= (message := store.message_at(offset)).store_timestamp  # type: ignore[union-attr]
                and (until is None or message.store_timestamp <= until)  # type: ignore[union-attr]
            ]
            assert [message.physical_offset for message in found] == wanted


def test_a_damaged_database_leaves_the_rest_readable(tmp_path: Path) -> None:
    """A search in a damaged database names it and the remedy; the queues are read as before."""
    path = golden.unpack(ALONE, tmp_path)
    (manifest,) = (path / paths.INDEX_DATABASE).glob("MANIFEST-*")
    manifest.write_bytes(b"garbage" * 100)
    (line,) = [line for line in golden.answers(ALONE) if "get" in line][:1]
    topic, queue_id, offset, count, _ = line["get"]
    with reput.MessageStore.open(path, read_only=True) as store:
        assert [one.physical_offset for one in store.get_message(topic, queue_id, offset, count)] == line["phys"]
        with pytest.raises(DamagedStoreError, match=r"rocksdbstore: cannot open.*rebuild --only index"):
            store.query_message(topic, "k0")


def test_info_named_a_damaged_database_out_of_date_too(tmp_path: Path) -> None:
    """The damage says what helps; nothing is known of how far such a database goes."""
    path = golden.unpack(ALONE, tmp_path)
    (path / paths.INDEX_DATABASE / "CURRENT").unlink()
    found = reput.info(path)
    assert len(found.damage) == 1
    assert str(path / paths.INDEX_DATABASE) in found.damage[0]
    assert not [text for text in found.out_of_date if text.startswith("index")]


def test_reading_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    """A search changes no file of the database and adds none."""
    path = golden.unpack(ALONE, tmp_path)
    before = {file: file.read_bytes() for file in (path / paths.INDEX_DATABASE).iterdir()}
    with reput.MessageStore.open(path, read_only=True) as store:
        assert len(store.query_message("orders", "k7"))
    assert {file: file.read_bytes() for file in (path / paths.INDEX_DATABASE).iterdir()} == before


def test_lost_index_files_are_no_reason_to_look_into_an_empty_database(tmp_path: Path) -> None:
    """A broker makes the database even if nothing uses it; then a store without IndexFiles is read from its log."""
    path = golden.unpack("json", tmp_path)
    shutil.rmtree(path / paths.INDEX)
    with reput.MessageStore.open(path, read_only=True) as store:
        assert store.view.index.words == IN_FILES
        assert_keys_found(store, "json")


def test_a_lost_database_is_no_empty_answer(tmp_path: Path) -> None:
    """A deleted database of a rebuild hides no key: keys are found in the log, though reput's frontier is above.

    Neither kind of index is there then, and nothing else says which one it was.
    """
    path = golden.unpack(ALONE, tmp_path)
    reput.rebuild(path, only="index", spark=False)
    shutil.rmtree(path / paths.INDEX_DATABASE)
    with reput.MessageStore.open(path, read_only=True) as store:
        assert_keys_found(store, ALONE)
