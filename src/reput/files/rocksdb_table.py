"""A writer of tables of queue entries for RocksDB, straight from columns: no entry becomes a Python object.

RocksDB's own writer takes one key and one value for each call, which cost more than all other work of a rebuild.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from reput.files import fs
from reput.formats.database import rocksdb_table as fmt
from reput.formats.database.rocksdb_table import Handle, TableCounts
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE
from reput.kernels import table_kernels
from reput.kernels.layouts.table import (
    KEY_END,
    MOST_ENTRY_BYTES,
    MOST_RESTARTS,
    EntryPieces,
    Prefixes,
    TableBlockAt,
    TableStateAt,
)

_OUT_BYTES = 1 << 20
_MOST_BLOCKS = 2 * _OUT_BYTES // fmt.BLOCK_SIZE
_SESSION_SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SESSION_SIZE = 20


class TableFile:
    """A table on its way to disk. `add` takes entries in the order of their keys; `finish` completes the table.

    Args:
        path: The file; its old content is overwritten.
        compress: Compress blocks by LZ4 if that saves an eighth or more.
    """

    def __init__(self, path: str, prefixes: Prefixes, *, compress: bool = True) -> None:
        self._path = path
        self._prefixes = prefixes
        self._codec = pa.Codec("lz4_raw") if compress else None
        self._compression = fmt.LZ4 if compress else fmt.NOT_COMPRESSED
        self._kernels = table_kernels()
        # Room for at least two entries next to an unfinished block.
        room = 2 * (MOST_ENTRY_BYTES + KEY_END + prefixes.longest()) + fmt.BLOCK_SIZE
        self._out = np.empty(max(_OUT_BYTES, 2 * room), dtype=np.uint8)
        self._restarts = np.zeros(MOST_RESTARTS, dtype=np.uint32)
        self._blocks = np.zeros((_MOST_BLOCKS, len(TableBlockAt)), dtype=np.int64)
        self._state = np.zeros(len(TableStateAt), dtype=np.int64)
        self._state[TableStateAt.last_row] = -1
        self._index: list[tuple[bytes, Handle]] = []
        self._size = 0
        fs.save_array(path)

    @property
    def entries(self) -> int:
        """Number of entries so far."""
        return int(self._state[TableStateAt.entries])

    def add(self, pieces: EntryPieces) -> None:
        """Append entries."""
        state = self._state
        state[TableStateAt.piece] = state[TableStateAt.done] = 0
        while True:
            whole = self._kernels.fill_blocks(self._prefixes, pieces, self._out, self._restarts, self._blocks, state)
            self._write(whole)
            if state[TableStateAt.piece] == len(pieces.row):
                return

    def finish(self) -> None:
        """Complete the table; it must have an entry.

        Raises:
            NoSpaceError, AccessError: The system refuses something.
        """
        self._end_last_block()
        data_size = self._size
        index_block = fmt.encode_index(self._index)
        state = self._state
        counts = TableCounts(
            data_blocks=len(self._index),
            entries=int(state[TableStateAt.entries]),
            raw_key_size=int(state[TableStateAt.key_bytes]),
            raw_value_size=int(state[TableStateAt.entries]) * VALUE_SIZE,
            data_size=data_size,
            index_size=len(index_block) + fmt.TRAILER.size,
        )
        session = "".join(secrets.choice(_SESSION_SIGNS) for _ in range(_SESSION_SIZE))
        tail: list[bytes] = []
        index = self._append(tail, self._stored(index_block))
        properties = self._append(tail, fmt.encode_properties(counts, self._compression, session) + b"\0")
        metaindex = self._append(tail, fmt.encode_metaindex(properties) + b"\0")
        tail.append(fmt.encode_footer(metaindex, index))
        fs.append(self._path, b"".join(tail))

    def _write(self, whole: int) -> None:
        """Write the complete blocks, and move the unfinished one to the start of the buffer."""
        data, found = self._out.data, list[bytes]()
        for begin, end, *last_and_next in self._blocks[:whole].tolist():
            last, following = self._prefixes.key(*last_and_next[:2]), self._prefixes.key(*last_and_next[2:])
            handle = self._append(found, self._stored(data[begin:end]))
            self._index.append((fmt.separator(last, following), handle))
        fs.append(self._path, b"".join(found))
        begin, at = int(self._state[TableStateAt.begin]), int(self._state[TableStateAt.at])
        self._out[: at - begin] = self._out[begin:at].copy()
        self._state[TableStateAt.begin], self._state[TableStateAt.at] = 0, at - begin

    def _end_last_block(self) -> None:
        state = self._state
        at, known = int(state[TableStateAt.at]), int(state[TableStateAt.restarts])
        block = self._out[:at].tobytes() + fmt.encode_restarts(self._restarts[:known].tolist())
        last = self._prefixes.key(int(state[TableStateAt.last_row]), int(state[TableStateAt.last_offset]))
        found: list[bytes] = []
        self._index.append((last, self._append(found, self._stored(block))))
        fs.append(self._path, b"".join(found))

    def _stored(self, block: bytes | memoryview) -> bytes:
        """Return a block as it is stored: compressed if that saves enough, followed by the kind of compression."""
        if self._codec is not None:
            packed = fmt.varint(len(block)) + self._codec.compress(block, asbytes=True)
            if len(packed) < len(block) - len(block) // 8:
                return bytes(packed) + bytes([fmt.LZ4])
        return bytes(block) + bytes([fmt.NOT_COMPRESSED])

    def _append(self, found: list[bytes], stored: bytes) -> Handle:
        """Append a stored block and its checksum."""
        checksum = (self._kernels.hash_bytes(stored) & 0xFFFFFFFF).to_bytes(4, "little")
        found += stored, checksum
        handle = Handle(self._size, len(stored) - 1)
        self._size += len(stored) + len(checksum)
        return handle


def grouped(pieces: EntryPieces, most: int) -> Iterator[EntryPieces]:
    """Yield pieces in groups of about `most` entries: a group ends with the piece that reaches the next multiple."""
    before = np.cumsum(pieces.entries) - pieces.entries
    cuts = np.flatnonzero(np.diff(before // most)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(before)], strict=True):
        yield EntryPieces(*(column[begin:end] for column in pieces))
