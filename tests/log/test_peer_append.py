"""RocketMQ's own tests of its log, records and mapped files: one of ours for each behaviour that shows on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.files import fs
from reput.formats import paths
from reput.formats.log.properties import decode_properties
from reput.formats.log.record import BLANK_SIZE, CHECK_PROPERTY, Host, Verdict, decode_record, encode_blank, examine
from reput.log.append.clean import AgedFile, decide_removal
from reput.log.append.settings import LogSettings
from reput.log.encode.message import Message, PutStatus
from reput.log.read.files import list_log_files
from reput.log.read.reader import file_of, record_at
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from pathlib import Path

V4, V6 = Host(b"\x7f\0\0\1", 10911), Host(bytes(range(16)), 10911)
HOSTS = pytest.mark.parametrize(("host", "id_length"), [(V4, 32), (V6, 56)], ids=["v4", "v6"])
FILE_SIZE = 1024


def batch(count: int = 10, size: int = 20) -> list[Message]:
    """Messages of one queue with a tag and a property."""
    return [Message("orders", bytes([n]) * size, tags="t", properties={"n": str(n)}) for n in range(count)]


@pytest.mark.behaviour(
    "AppendCallbackTest.testAppendMessageBatchEndOfFile",
    "AppendCallbackTest.testAppendIPv6HostMessageBatchEndOfFile",
)
@HOSTS
def test_append_message_batch_end_of_file(host: Host, id_length: int, tmp_path: Path) -> None:
    """A batch that does not fit what is left writes the 8 bytes of a blank there, and lies whole in the next file."""
    with open_log(tmp_path, file_size=4096, store_host=host) as log:
        first = log.append(Message("orders", bytes(3000)))
        left = 4096 - first.end_offset
        result = log.append_many(batch())
        assert result.status is PutStatus.PUT_OK
        assert result.queue_offsets.tolist() == list(range(1, 11))
        assert result.physical_offsets[0] == 4096
    data = (tmp_path / paths.offset_name(0)).read_bytes()
    assert data[first.end_offset : first.end_offset + BLANK_SIZE] == encode_blank(left)
    assert not any(data[first.end_offset + BLANK_SIZE :])


@pytest.mark.behaviour(
    "AppendCallbackTest.testAppendMessageBatchEndOfFile",
    "AppendCallbackTest.testAppendIPv6HostMessageBatchEndOfFile",
)
@HOSTS
def test_a_batch_that_fits_no_file_takes_no_offset(host: Host, id_length: int, tmp_path: Path) -> None:
    """A batch that is longer than a whole file is refused, and its queue goes on at its number."""
    with open_log(tmp_path, file_size=1000, store_host=host) as log:
        assert log.append_many(batch()).status is PutStatus.MESSAGE_ILLEGAL
        assert log.append(batch()[0]).queue_offset == 0


@pytest.mark.behaviour(
    "AppendCallbackTest.testAppendMessageBatchSucc",
    "AppendCallbackTest.testAppendIPv6HostMessageBatchSucc",
    "BatchPutMessageTest.testPutMessages",
    "BatchPutMessageTest.testPutIPv6HostMessages",
)
@HOSTS
def test_append_message_batch_succ(host: Host, id_length: int, tmp_path: Path) -> None:
    """Ten messages have ten ids and one store time, and are read at the places that their sizes give."""
    messages = batch()
    with open_log(tmp_path, store_host=host) as log:
        result = log.append_many(messages)
        assert (result.status, len(result.sizes)) == (PutStatus.PUT_OK, 10)
    data = (tmp_path / paths.offset_name(0)).read_bytes()
    places = [sum(result.sizes[:number]) for number in range(10)]
    assert result.physical_offsets.tolist() == places
    records = [decode_record(data, place) for place in places]
    assert len({record.message_id for record in records}) == 10
    assert {len(record.message_id) for record in records} == {id_length}
    assert {record.store_timestamp for record in records} == {result.store_timestamp}
    assert [record.queue_offset for record in records] == list(range(10))
    for number, record in enumerate(records):
        assert (record.topic, record.body) == (b"orders", messages[number].body)
        assert decode_properties(record.properties) == {b"TAGS": b"t", b"n": str(number).encode()}


@pytest.mark.behaviour("AppendPropCRCTest.testAppendMessageSucc", "AppendPropCRCTest.testAppendMessageBatchSucc")
@pytest.mark.parametrize("count", [1, 10])
def test_append_with_crc_property(count: int, tmp_path: Path) -> None:
    """With the CRC property an untouched record passes, and one of its properties' bytes flipped fails."""
    with open_log(tmp_path, enabled_append_prop_crc=True) as log:
        places = [log.append(batch(1)[0]).physical_offset] if count == 1 else log.append_many(batch()).physical_offsets
        end = log.wrote
    data = bytearray((tmp_path / paths.offset_name(0)).read_bytes())
    for place in [int(place) for place in places]:
        assert examine(data, place, end, place, CHECK_PROPERTY)[0] is Verdict.GOOD
        at = data.index(b"TAGS\x01t", place) + 5
        data[at] ^= 1
        assert examine(data, place, end, place, CHECK_PROPERTY)[0] is Verdict.BAD_CRC
        data[at] ^= 1


# --- MappedFileQueueTest, DefaultMappedFileErrorHandlingTest -----------------------------------------


def log_of(folder: Path, starts: range) -> Path:
    """A folder with log files of FILE_SIZE bytes that begin there."""
    folder.mkdir()
    for start in starts:
        (folder / paths.offset_name(start)).write_bytes(bytes(FILE_SIZE))
    return folder


@pytest.mark.behaviour("MappedFileQueueTest.testFindMappedFileByOffset")
def test_find_mapped_file_by_offset(tmp_path: Path) -> None:
    """A place finds the file that holds it, from its first byte to its last; past the last file there is none."""
    log = list_log_files(log_of(tmp_path / "log", range(0, 4 * FILE_SIZE, FILE_SIZE)))
    for number in range(4):
        for inside in (0, 100, FILE_SIZE - 1):
            found = file_of(log, number * FILE_SIZE + inside)
            assert found is not None
            assert found.start == number * FILE_SIZE
    assert file_of(log, 4 * FILE_SIZE) is None
    assert file_of(log, 4 * FILE_SIZE + 100) is None


@pytest.mark.behaviour("MappedFileQueueTest.testFindMappedFileByOffset_StartOffsetIsNonZero")
def test_find_mapped_file_by_offset_start_offset_is_non_zero(tmp_path: Path) -> None:
    """An offset below the first file's beginning, above 0, finds no file; the log's min is that beginning."""
    log = list_log_files(log_of(tmp_path / "log", range(FILE_SIZE, 2 * FILE_SIZE, FILE_SIZE)))
    assert log.min_offset == FILE_SIZE
    assert [file_of(log, offset) for offset in (0, 123, FILE_SIZE - 1)] == [None] * 3
    assert file_of(log, FILE_SIZE + 1) == log.files[0]


@pytest.mark.behaviour("MappedFileQueueTest.testGetLastMappedFile", "MappedFileQueueTest.testAppendMessage")
def test_append_rolls_and_a_flush_takes_all_files(tmp_path: Path) -> None:
    """Appending goes from file to file; a flush makes each of them durable, and says where it ended."""
    with open_log(tmp_path, file_size=FILE_SIZE) as log:
        ends = [log.append(Message("orders", bytes(400))).end_offset for _ in range(10)]
        assert log.flushed == 0
        log.flush()
        assert log.flushed == ends[-1]
        log.flush()
        assert log.flushed == ends[-1]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [paths.offset_name(start) for start in range(0, 5 * FILE_SIZE, FILE_SIZE)]
    assert len(read_log(tmp_path)) == 10


@pytest.mark.behaviour("MappedFileQueueTest.testDeleteExpiredFileByOffset")
def test_a_file_that_is_read_may_be_deleted(tmp_path: Path) -> None:
    """A file that is being read is deleted, and its reader keeps its bytes: RocketMQ waits for the reader instead."""
    with open_log(tmp_path, file_size=FILE_SIZE) as log:
        for _ in range(6):
            log.append(Message("orders", bytes(400)))
    first = tmp_path / paths.offset_name(0)
    with fs.mapped(first, 0, FILE_SIZE) as view:
        before = view.tobytes()
        fs.remove_file(first)
        assert view.tobytes() == before
    log_files = list_log_files(tmp_path)
    assert log_files.min_offset == FILE_SIZE
    assert record_at(log_files, 0) is Verdict.ZERO


@pytest.mark.behaviour("MappedFileQueueTest.testDeleteExpiredFileByTime")
def test_delete_expired_file_by_time() -> None:
    """Of 50 files, the first five and those after the twentieth old, five go: deletion ends at the first young one."""
    hour_ms, now_ms = 3_600_000, 1_700_000_000_000
    old, young = now_ms - 100 * hour_ms, now_ms
    files = [AgedFile(n * FILE_SIZE, old if n < 5 or n > 20 else young) for n in range(50)]
    settings = LogSettings(delete_file_batch_max=50)
    assert decide_removal(files, now_ms, 4, 10, settings).remove == tuple(range(0, 5 * FILE_SIZE, FILE_SIZE))


@pytest.mark.behaviour("DefaultMappedFileErrorHandlingTest.testWriteBeyondFileSize")
def test_write_beyond_file_size(tmp_path: Path) -> None:
    """A record that is longer than a file is refused, and one that goes over its file's end is not written there."""
    with open_log(tmp_path, file_size=FILE_SIZE) as log:
        assert log.append(Message("orders", bytes(FILE_SIZE))).status is PutStatus.MESSAGE_ILLEGAL
        assert log.append(Message("orders", bytes(600))).physical_offset == 0
        assert log.append(Message("orders", bytes(600))).physical_offset == FILE_SIZE
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {FILE_SIZE}
