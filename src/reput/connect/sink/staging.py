"""Staged messages, which tasks leave in the store's folder for the driver to append.

Each file is a whole Arrow stream of bounded size, written under a name of its own and put in place by a rename, so a
file that is there is whole. Its name ends with the CRC-32 of its bytes: a file that the disk has damaged is not
appended. Only files that a commit names are read; files of failed attempts are removed with them.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from reput.config import StoreConfig
from reput.connect.sink.untrusted_arrow import read_stream
from reput.errors import ConfigError, DamagedStoreError
from reput.files import fs
from reput.formats.log.record import BLANK_SIZE
from reput.log.append.settings import LogSettings
from reput.log.encode.column_batch import ColumnBatches
from reput.log.encode.encode import RecordEncoder
from reput.log.encode.message import MessageRefusedError, too_large_text
from reput.log.encode.queue_directory import QueueDirectory
from reput.log.encode.topics import TopicTable
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk

STAGED_BYTES = 32 << 20
_FILE_LIMIT = 1 << 30
_SUFFIX = ".arrow"
RUN_AGAIN = "Run the query again from its last batch"


class Stager:
    """Stages a task's messages, with the checks of a put."""

    def __init__(self, folder: Path, layout: StoreLayout, config: StoreConfig) -> None:
        self.folder = folder
        self.owner = fs.owner_of(layout.root)
        self.settings = LogSettings()
        self.max_body = config.max_message_size or self.settings.max_message_size
        # Of one that no file holds the driver would append the messages before it, at each run again.
        self.max_record = StoreOnDisk(layout, config, Purpose.LOOK).log.file_size - BLANK_SIZE
        self.files: list[str] = []
        self._tables: list[pa.Table] = []
        self._bytes = 0
        records = RecordEncoder(self.settings.store_host)
        directory = QueueDirectory(TopicTable({}, 0), records, self.max_body)
        self._batches = ColumnBatches(directory, enable_lmq=bool(config.enable_lmq))

    def add(self, table: pa.Table) -> None:
        """Add messages.

        Raises:
            ConfigError: one of them cannot be stored.
        """
        if table.num_rows:
            try:
                self._check(table)
            except MessageRefusedError as error:
                raise ConfigError(str(error)) from error
            self._tables.append(table)
            self._bytes += table.nbytes
            if self._bytes >= STAGED_BYTES:
                self.flush()

    def _check(self, table: pa.Table) -> None:
        """Refuse messages that no put takes, and one that no file of the log holds."""
        size = self._batches.batch(table).size
        if size > self.max_record and table.num_rows == 1:
            raise ConfigError(f"a message takes {too_large_text(size, self.max_record)}")
        if size > self.max_record:
            half = table.num_rows // 2
            self._check(table.slice(0, half))
            self._check(table.slice(half))

    def flush(self) -> None:
        """Write the messages that were added."""
        if not self._tables:
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._tables[0].schema) as stream:
            for table in self._tables:
                stream.write_table(table)
        fs.make_dirs(self.folder, self.owner)
        data = sink.getvalue().to_pybytes()
        path = self.folder / f"{uuid.uuid4().hex}-{zlib.crc32(data):08x}{_SUFFIX}"
        fs.write_whole(path, data, self.owner)
        self.files.append(path.name)
        self._tables, self._bytes = [], 0


def staged_messages(folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of staged files, in order.

    Raises:
        DamagedStoreError: a file is gone or damaged.
    """
    for name in names:
        path = folder / name
        # A name comes from a ledger or a task: it must not lead out of the folder.
        data = fs.read_bytes(path, _FILE_LIMIT) if path.parent == folder and name == Path(name).name else None
        if data is None:
            raise DamagedStoreError(f"{path}: staged messages are gone. {RUN_AGAIN}")
        if not name.endswith(f"-{zlib.crc32(data):08x}{_SUFFIX}"):
            raise DamagedStoreError(f"{path}: staged messages are not what was staged: their CRC differs. {RUN_AGAIN}")
        try:
            yield from read_stream(data)
        except ValueError as error:
            # Somebody else wrote it.
            raise DamagedStoreError(f"{path}: no staged messages: {error}. {RUN_AGAIN}") from error


def count_staged(folder: Path, names: Sequence[str]) -> int:
    """Return the number of messages in staged files.

    Raises:
        DamagedStoreError: a file is gone or damaged.
    """
    return sum(batch.num_rows for batch in staged_messages(folder, names))


def pieces(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the messages in pieces that fit into one file of the log, by their sizes in Arrow.

    Messages may differ much in size, so what is too large is halved until it is one message.
    """
    for batch in batches:
        if batch.nbytes <= most_bytes or batch.num_rows <= 1:
            yield batch
        else:
            half = batch.num_rows // 2
            yield from pieces((batch.slice(0, half), batch.slice(half)), most_bytes)
