"""A queue file of no bytes in a store that was closed: its entries are lost, and reads and puts say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import parse_properties
from reput.files import fs
from reput.formats import paths
from reput.queue.file_kind import FileKind
from support import golden
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = reput.StoreConfig.from_properties(parse_properties(golden.CONFIG))
TOPIC = "orders"


def emptied(tmp_path: Path, number: int) -> tuple[Path, Path, int]:
    """A store that a broker closed, one of its queue files without bytes, and the end that the queue had."""
    store = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(store, CONFIG, read_only=True) as reader:
        end = reader.max_offset(TOPIC, 0)
    file = sorted((store / paths.CONSUME_QUEUE / TOPIC / "0").iterdir())[number]
    file.write_bytes(b"")
    return store, file, end


@pytest.mark.golden
@pytest.mark.parametrize("number", [0, -1], ids=["first", "last"])
def test_a_put_after_an_emptied_file_had_the_number_of_another_message(number: int, tmp_path: Path) -> None:
    """A put is refused until a rebuild, which would take the new message for a repeat of one that is lost."""
    store, file, end = emptied(tmp_path, number)
    for _ in range(2):
        with reput.MessageStore.open(store, CONFIG, create=True) as writer:
            refused = writer.put_message(reput.Message(TOPIC, b"new"), 0)
            assert refused.status is reput.PutStatus.MESSAGE_ILLEGAL
            assert f"{file}: an empty file, though the store was closed" in refused.reason
            # The close leaves a frontier of reput: the next open goes by that.
            assert writer.put_message(reput.Message("another", b"new"), 0).status is reput.PutStatus.PUT_OK
    reput.rebuild(store, config=CONFIG, spark=False)
    with reput.MessageStore.open(store, CONFIG, create=True) as writer:
        assert writer.put_message(reput.Message(TOPIC, b"new"), 0).queue_offset == end
    assert_sound(store, CONFIG)


@pytest.mark.golden
@pytest.mark.parametrize("number", [0, -1], ids=["first", "last"])
def test_a_reader_of_a_queue_with_an_emptied_file_reports_it(number: int, tmp_path: Path) -> None:
    """Messages are missing from the answers, so the store's damage names the file, once."""
    store, file, _ = emptied(tmp_path, number)
    with reput.MessageStore.open(store, CONFIG, read_only=True) as reader:
        assert not reader.damage
        for _ in range(2):
            reader.get_message(TOPIC, 0, 0, 32)
        assert [text.startswith(f"{file}: an empty file") for text in reader.damage] == [True]
    reput.rebuild(store, config=CONFIG, spark=False)
    assert_sound(store, CONFIG)


@pytest.mark.golden
def test_an_empty_last_file_after_a_crash_is_none(tmp_path: Path) -> None:
    """A broker that is killed while it makes a file leaves it without bytes: nothing is lost then."""
    store, _, end = emptied(tmp_path, -1)
    (store / paths.ABORT).touch()
    with reput.MessageStore.open(store, CONFIG, create=True) as writer:
        assert not writer.damage
        assert writer.put_message(reput.Message(TOPIC, b"new"), 0).queue_offset == end
    assert_sound(store, CONFIG)


def test_an_empty_file_that_a_crash_left_is_gone_when_the_store_is_closed(tmp_path: Path) -> None:
    """A recovery that puts nothing leaves no file that a later open would take for one that lost its entries.

    A simulation found it: puts to that queue were refused.
    """
    store, config = tmp_path / "store", reput.StoreConfig(mapped_file_size_consume_queue=100)
    with reput.MessageStore.open(store, config, create=True) as writer:
        for _ in range(5):
            writer.put_message(reput.Message(TOPIC, b"old"))
    (store / paths.CONSUME_QUEUE / TOPIC / "0" / paths.offset_name(100)).touch()
    (store / paths.ABORT).touch()
    with reput.MessageStore.open(store, config) as writer:
        assert not writer.damage
    with reput.MessageStore.open(store, config) as writer:
        assert writer.put_message(reput.Message(TOPIC, b"new")).queue_offset == 5
    assert_sound(store, config)


@pytest.mark.golden
def test_an_emptied_file_of_a_closed_store_stays_when_the_log_is_cut(tmp_path: Path) -> None:
    """A put is refused also if the log of the closed store ends with bytes that no record has."""
    store, file, _ = emptied(tmp_path, -1)
    with reput.MessageStore.open(store, CONFIG, read_only=True) as reader:
        end = reader.view.confirmed()
    log = max((store / paths.COMMIT_LOG).iterdir())
    with log.open("r+b") as opened:
        opened.seek(end - int(log.name))
        opened.write(b"torn")
    with reput.MessageStore.open(store, CONFIG, create=True) as writer:
        assert file.exists()
        assert writer.put_message(reput.Message(TOPIC, b"new"), 0).status is reput.PutStatus.MESSAGE_ILLEGAL


def test_a_crash_keeps_the_numbering_of_a_queue_whose_only_file_is_empty(tmp_path: Path) -> None:
    """A lone file that does not begin at byte 0 gets its length; others go at the end, and get theirs before it."""
    folder = tmp_path / "a" / "0"
    folder.mkdir(parents=True)
    kind = FileKind(tmp_path, 100)
    for sizes, left in (((0,), [100]), ((0, 0), [100]), ((100, 0), [100]), ((0, 100, 0, 0), [100, 100])):
        for number, size in enumerate(sizes, 1):
            (folder / paths.offset_name(100 * number)).write_bytes(bytes(size))
        kind.cut(0, fs.owner_of(tmp_path))
        assert [file.stat().st_size for file in sorted(folder.iterdir())] == left
        for file in folder.iterdir():
            file.unlink()
    (folder / paths.offset_name(0)).touch()
    kind.cut(0, fs.owner_of(tmp_path), crashed=False)
    assert [file.stat().st_size for file in folder.iterdir()] == [0]
    kind.cut(0, fs.owner_of(tmp_path))
    assert not list(folder.iterdir())
