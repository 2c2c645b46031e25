"""The writer of new logs: its bytes are the encoder's, its files roll as RocketMQ's do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import NoSpaceError, ReputError
from reput.files import fs
from reput.formats.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V2,
    Host,
    Record,
    Verdict,
    decode_record,
    encode_record,
    examine,
)
from reput.log import writer
from reput.log.files import list_log_files
from reput.log.writer import LogWriter, RecordStamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

V6 = Host(bytes(range(16)), 10911)
SHAPES = {
    "v1": Record(b"orders", b"body", b"KEYS\x01k1\x02", flag=7, sys_flag=0x2),
    "v2": Record("\u8ba2\u5355".encode() * 30, b"body", b"TAGS\x01t\x02", magic=MAGIC_V2),
    "born-v6": Record(b"orders", b"x" * 300, b"KEYS\x01k1\x02", born_host=V6),
    "store-v6": Record(b"orders", b"", b"KEYS\x01k1\x02", store_host=V6, reconsume_times=3),
    "both-v6": Record(b"orders", b"b", b"", born_host=V6, store_host=V6, prepared_transaction_offset=99),
}


def records_of(folder: Path, file_size: int) -> Iterator[tuple[int, Record]]:
    """Log offset and record of each record in a log, as the specification reads it."""
    for file in list_log_files(folder, file_size).files:
        data = file.path.read_bytes()
        position = 0
        while position < len(data):
            verdict, size = examine(data, position, len(data), file.start + position)
            if verdict is not Verdict.GOOD:
                assert verdict in (Verdict.BLANK, Verdict.ZERO)
                break
            yield file.start + position, decode_record(data, position)
            position += size


@pytest.mark.parametrize("record", SHAPES.values(), ids=list(SHAPES))
def test_stamped_records_are_the_encoders(tmp_path: Path, record: Record) -> None:
    """What a stamp writes is, byte for byte, what the encoder makes of the same values."""
    stamp = RecordStamp(record)
    properties = [bytes(reversed(record.properties)), record.properties]
    with LogWriter(tmp_path, 1 << 16) as log:
        for number, data in enumerate(properties):
            log.append_stamped(stamp, number + 3, number + 11, 1_700_000_000_000 + number, data)
        end = log.offset

    expected = b"".join(
        encode_record(
            record._replace(
                queue_id=number + 3,
                queue_offset=number + 11,
                physical_offset=number * stamp.size,
                born_timestamp=1_700_000_000_000 + number,
                store_timestamp=1_700_000_000_000 + number,
                properties=data,
            )
        )
        for number, data in enumerate(properties)
    )
    written = (tmp_path / f"{0:020d}").read_bytes()
    assert (end, written[:end]) == (len(expected), expected)
    assert not any(written[end:])


@given(
    bodies=st.lists(st.integers(0, 700), min_size=1, max_size=40),
    file_size=st.integers(900, 2000),
    block_size=st.integers(100, 3000),
)
def test_every_record_stands_where_it_says(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[int], file_size: int, block_size: int
) -> None:
    """Whatever the sizes of records, files and blocks: all records stand, in order, at the offsets returned."""
    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch, LogWriter(folder, file_size) as log:
        patch.setattr(log, "_block", bytearray(block_size))
        offsets = [log.append(Record(b"t", b"b" * size, queue_id=number)) for number, size in enumerate(bodies)]

    found = list(records_of(folder, file_size))
    assert [offset for offset, _ in found] == offsets
    assert [(record.queue_id, len(record.body)) for _, record in found] == list(enumerate(bodies))


@pytest.mark.parametrize(("spare", "rolls"), [(BLANK_SIZE, False), (BLANK_SIZE - 1, True)])
def test_a_file_ends_with_a_blank_record(tmp_path: Path, spare: int, rolls: bool) -> None:
    """A record stays in its file when 8 bytes are left behind it; with fewer, a blank ends the file."""
    record = Record(b"orders", b"body")
    size = len(encode_record(record))
    file_size = 2 * size + spare
    with LogWriter(tmp_path, file_size) as log:
        log.append(record)
        second = log.append(record)
        assert second == (file_size if rolls else size)

    data = (tmp_path / f"{0:020d}").read_bytes()
    assert len(data) == file_size
    if rolls:
        assert struct.unpack_from(">ii", data, size) == (file_size - size, MAGIC_BLANK)


def test_files_are_holes_where_nothing_is_written(tmp_path: Path) -> None:
    """A file has its full length from the start and takes little space."""
    with LogWriter(tmp_path) as log:
        log.append(Record(b"orders", b"body"))

    status = (tmp_path / f"{0:020d}").stat()
    assert status.st_size == writer.DEFAULT_FILE_SIZE
    assert status.st_blocks * 512 < 1 << 20


def test_no_record_no_file(tmp_path: Path) -> None:
    """A writer that was given nothing leaves an empty folder."""
    with LogWriter(tmp_path / "commitlog"):
        pass

    assert not list((tmp_path / "commitlog").iterdir())


def test_a_log_is_not_written_over(tmp_path: Path) -> None:
    """A folder that holds a log already is refused by name."""
    with LogWriter(tmp_path, 4096) as log:
        log.append(Record(b"orders"))

    with pytest.raises(ReputError, match="there is a log already"):
        LogWriter(tmp_path, 4096)


def test_a_record_fits_its_file(tmp_path: Path) -> None:
    """A record longer than a file is refused, and so is a file too small for any record."""
    with LogWriter(tmp_path, 200) as log, pytest.raises(ValueError, match="too small"):
        log.append(Record(b"orders", bytes(200)))
    with pytest.raises(ValueError, match="smallest record"):
        LogWriter(tmp_path, 90)


def test_a_stamp_holds_to_its_lengths(tmp_path: Path) -> None:
    """Properties of another length than the stamp's would shift what follows: they are refused."""
    stamp = RecordStamp(SHAPES["v1"])
    with LogWriter(tmp_path, 4096) as log, pytest.raises(ValueError, match="properties of 3 bytes"):
        log.append_stamped(stamp, 0, 0, 0, b"abc")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full ends the writer with an error that names the file."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs, "pwrite", full)
    log = LogWriter(tmp_path, 4096)
    log.append(Record(b"orders", b"body"))
    with pytest.raises(NoSpaceError, match=f"{0:020d}"):
        log.close()
