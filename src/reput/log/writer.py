"""A writer of new CommitLogs, for demonstrations and tests; its bytes are those of `encode_record`.

    with LogWriter(store / paths.COMMIT_LOG) as log:
        log.append(Record(b"orders", b"body"))                             any record, one after the other
        stamp = RecordStamp(Record(b"orders", b"body", properties))        many of one shape, fast:
        log.append_stamped(stamp, queue_id, queue_offset, now_ms, properties)

A file is made at its full size, a hole where nothing is written yet. A record goes into a file only when the
blank record still fits behind it; else the blank ends the file and the record opens the next one.

Source: `CommitLog.DefaultAppendMessageCallback.doAppend`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from reput.errors import ReputError
from reput.files import fs
from reput.formats import paths
from reput.formats.record import (
    BLANK_SIZE,
    HEAD,
    HEAD_SIZE,
    MIN_RECORD_SIZE,
    Record,
    encode_blank,
    encode_record,
    host_sizes,
)

DEFAULT_FILE_SIZE = 1 << 30
"""mappedFileSizeCommitLog as RocketMQ has it, in bytes."""

_BLOCK_BYTES = 4 << 20
_QUEUE_ID_AT = HEAD.offsets["queue_id"]
_FLAG_AT = HEAD.offsets["flag"]
_QUEUE_OFFSET_AT = HEAD.offsets["queue_offset"]
_SYS_FLAG_AT = HEAD.offsets["sys_flag"]
_BORN_TIMESTAMP_AT = HEAD.offsets["born_timestamp"]


class RecordStamp:
    """The parts that many records share, encoded once; one `struct.pack` adds what differs.

    What differs: queue id, queue offset, place in the log, both timestamps, and properties of one length. The
    rest (body and its CRC, topic, hosts, flags) is that of `record`.

    Raises:
        ValueError: a part of `record` is longer than its length field can say.
    """

    __slots__ = ("body_and_topic", "born_host", "flag", "packer", "properties_size", "size", "size_to_crc", "sys_flag")

    def __init__(self, record: Record) -> None:
        data = encode_record(record)
        self.size = len(data)
        self.properties_size = len(record.properties)
        (sys_flag,) = struct.unpack_from(">i", data, _SYS_FLAG_AT)
        born_size, _ = host_sizes(sys_flag)
        store_timestamp_at = HEAD_SIZE + born_size
        properties_at = self.size - self.properties_size
        self.size_to_crc = data[:_QUEUE_ID_AT]
        self.flag = data[_FLAG_AT:_QUEUE_OFFSET_AT]
        self.sys_flag = data[_SYS_FLAG_AT:_BORN_TIMESTAMP_AT]
        self.born_host = data[HEAD_SIZE:store_timestamp_at]
        self.body_and_topic = data[store_timestamp_at + 8 : properties_at]
        self.packer = struct.Struct(
            f">{len(self.size_to_crc)}si{len(self.flag)}sqq{len(self.sys_flag)}sq{born_size}sq"
            f"{len(self.body_and_topic)}s{self.properties_size}s"
        )
        assert self.packer.size == self.size


class LogWriter:
    """Appends records to a CommitLog that it makes; on disk, and durable, when it is closed.

    Args:
        folder: the commitlog folder; made when it is not there, and refused when it holds log files.
        file_size: bytes of each file (mappedFileSizeCommitLog).

    Raises:
        ReputError: `folder` holds a log already.
        NoSpaceError, AccessError: from any call that writes.
    """

    def __init__(self, folder: Path, file_size: int = DEFAULT_FILE_SIZE) -> None:
        if file_size < MIN_RECORD_SIZE + BLANK_SIZE:
            raise ValueError(f"log files of {file_size} bytes: not even the smallest record fits")
        for entry in fs.list_dir(folder):
            if paths.parse_offset_name(entry.name) is not None:
                raise ReputError(f"{folder / entry.name}: there is a log already; give a new folder")
        fs.make_dirs(folder)
        self.folder = folder
        self.file_size = file_size
        self.offset = 0
        """Log offset behind the last record: where the next one goes, unless it opens a new file."""
        self._owner = fs.owner_of(folder)
        self._file_start = 0
        self._descriptor: int | None = None
        self._block = bytearray(min(_BLOCK_BYTES, file_size))
        self._filled = 0
        self._room = 0

    def append(self, record: Record) -> int:
        """Append any record at its place in the log; returns that log offset.

        Raises:
            ValueError: it fits no file, or a part is longer than its length field can say.
        """
        size = len(encode_record(record))
        if size > self._room:
            self._make_room(size)
        offset = self.offset
        self._block[self._filled : self._filled + size] = encode_record(record._replace(physical_offset=offset))
        self._advance(size)
        return offset

    def append_stamped(
        self, stamp: RecordStamp, queue_id: int, queue_offset: int, timestamp_ms: int, properties: bytes
    ) -> int:
        """Append one of many records of a shape, born and stored at one time; returns its log offset.

        Raises:
            ValueError: the properties are not as long as those of the stamp's record, or it fits no file.
        """
        if len(properties) != stamp.properties_size:
            raise ValueError(f"properties of {len(properties)} bytes: this stamp has {stamp.properties_size}")
        size = stamp.size
        if size > self._room:
            self._make_room(size)
        offset = self.offset
        stamp.packer.pack_into(
            self._block,
            self._filled,
            stamp.size_to_crc,
            queue_id,
            stamp.flag,
            queue_offset,
            offset,
            stamp.sys_flag,
            timestamp_ms,
            stamp.born_host,
            timestamp_ms,
            stamp.body_and_topic,
            properties,
        )
        self._filled += size
        self._room -= size
        self.offset = offset + size
        return offset

    def close(self) -> None:
        """Write what is left and make the log durable."""
        self._write_block()
        self._close_file()
        fs.sync_path(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._descriptor is not None:
            # What failed is told by its own error; a second try to write would only hide it.
            fs.close(self._descriptor)
            self._descriptor = None

    def _advance(self, size: int) -> None:
        self._filled += size
        self._room -= size
        self.offset += size

    def _make_room(self, size: int) -> None:
        """Empty the block, and go to the next file where this one has no place for record and blank."""
        if size + BLANK_SIZE > self.file_size:
            raise ValueError(f"record of {size} bytes: log files of {self.file_size} bytes are too small for it")
        self._write_block()
        left = self._file_start + self.file_size - self.offset
        if size + BLANK_SIZE > left:
            self._end_file(left)
            left = self.file_size
        if self._descriptor is None:
            path = self.folder / paths.offset_name(self._file_start)
            self._descriptor = fs.open_sized(str(path), self.file_size, self._owner)
        if size > len(self._block):
            self._block = bytearray(size)
        self._room = min(len(self._block), left - BLANK_SIZE)

    def _end_file(self, left: int) -> None:
        self._block[:BLANK_SIZE] = encode_blank(left)
        self._filled = BLANK_SIZE
        self.offset += BLANK_SIZE
        self._write_block()
        self._close_file()
        self._file_start += self.file_size
        self.offset = self._file_start

    def _write_block(self) -> None:
        """Write the filled part of the block, whose end is the log's end."""
        if self._filled and self._descriptor is not None:
            begin = self.offset - self._filled - self._file_start
            path = self.folder / paths.offset_name(self._file_start)
            with fs.errors_named(path, f"write {self._filled} bytes at {begin}"):
                fs.pwrite(self._descriptor, memoryview(self._block)[: self._filled], begin)
            fs.start_writeback(self._descriptor)
        self._filled = self._room = 0

    def _close_file(self) -> None:
        if self._descriptor is None:
            return
        with fs.errors_named(self.folder / paths.offset_name(self._file_start), "sync"):
            fs.sync(self._descriptor)
        fs.close(self._descriptor)
        self._descriptor = None
