"""A table of RocksDB taken apart, and the same made by RocksDB's own writer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import rocksdict
from hypothesis import strategies as st

from reput.formats.database import rocksdb_table as fmt
from reput.formats.database.rocksdb_table import Handle
from reput.formats.database.xxhash import xxhash64
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, entry_key, queue_prefix
from reput.kernels.layouts.table import EntryPieces
from reput.pipeline.split.parts import key_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Parts:
    """The content of a table: `data` has the bytes of each data block as stored, `kinds` how each is compressed."""

    checksum: int
    version: int
    properties: dict[str, bytes]
    metaindex: list[str]
    index: list[tuple[bytes, Handle]]
    index_block: bytes
    data: list[bytes]
    kinds: list[int]

    def plain_data(self) -> list[bytes]:
        """The data blocks as they were before they were compressed."""
        return [decompressed(b) if kind else b for b, kind in zip(self.data, self.kinds, strict=True)]


def take_apart(table: bytes) -> Parts:
    """Take a table apart by its footer; every block's checksum is checked where the table has XXH64."""
    end = len(table) - fmt.FOOTER_SIZE
    checksum = table[end]
    version, magic = struct.unpack_from("<IQ", table, len(table) - 12)
    assert magic == fmt.MAGIC
    metaindex, at = handle(table, end + 1)
    index, _ = handle(table, at)

    def stored(where: Handle) -> tuple[bytes, int]:
        block = table[where.offset : where.offset + where.size]
        kind, sum_ = fmt.TRAILER.unpack_from(table, where.offset + where.size)
        assert checksum != fmt.CHECKSUM_XXHASH64 or sum_ == xxhash64(block + bytes([kind])) & 0xFFFFFFFF
        return block, kind

    def plain(where: Handle) -> bytes:
        block, kind = stored(where)
        return block if kind == fmt.NOT_COMPRESSED else decompressed(block)

    parts = {key.decode(): handle(value, 0)[0] for key, value in block_entries(plain(metaindex))}
    properties = {key.decode(): value for key, value in block_entries(plain(parts["rocksdb.properties"]))}
    blocks = list(index_entries(plain(index)))
    found = [stored(where) for _, where in blocks]
    return Parts(
        checksum, version, properties, [*parts], blocks, plain(index), [b for b, _ in found], [k for _, k in found]
    )


def decompressed(block: bytes) -> bytes:
    """A block that is compressed by LZ4: its size as a varint, then the raw LZ4 stream."""
    import pyarrow as pa

    size, at = varint(block, 0)
    return bytes(pa.decompress(block[at:], decompressed_size=size, codec="lz4_raw", asbytes=True))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the place after it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def handle(data: bytes, at: int) -> tuple[Handle, int]:
    """Return a handle and the place after it."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return Handle(offset, size), at


def block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block."""
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    at, end, key = 0, len(block) - 4 - 4 * restarts, b""
    while at < end:
        shared, at = varint(block, at)
        further, at = varint(block, at)
        size, at = varint(block, at)
        key = key[:shared] + block[at : at + further]
        at += further
        yield key, block[at : at + size]
        at += size


def index_entries(block: bytes) -> Iterator[tuple[bytes, Handle]]:
    """Keys and handles of an index block with a restart at each entry."""
    restarts = struct.unpack_from("<I", block, len(block) - 4)[0]
    for at in struct.unpack_from(f"<{restarts}I", block, len(block) - 4 - 4 * restarts):
        size, begin = varint(block, at + 1)
        yield block[begin : begin + size], handle(block, begin + size)[0]


def write_by_rocksdb(path: Path, entries: Iterable[tuple[bytes, bytes]], *, compress: bool, alike: bool = True) -> None:
    """Let RocksDB write a table with the settings that reput's database has; `alike` with reput's checksum too."""
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(fmt.FORMAT_VERSION)
    table.set_block_size(fmt.BLOCK_SIZE)
    if alike:
        table.set_checksum_type(rocksdict.ChecksumType.xxhash64())
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    kind = rocksdict.DBCompressionType
    options.set_compression_type(kind.lz4() if compress else kind.none())
    writer = rocksdict.SstFileWriter(options)
    writer.open(str(path))
    for key, value in entries:
        writer[key] = value
    writer.finish()


@dataclass(frozen=True)
class Queues:
    """Queues in the order of their keys, each with the offset that it begins at and its values; cut into pieces."""

    keys: list[QueueKey]
    firsts: list[int]
    values: list[NDArray[np.uint8]]
    cuts: list[int]

    @property
    def prefixes(self) -> list[bytes]:
        """Return the prefix of the keys of each queue."""
        return [queue_prefix(key) for key in self.keys]

    @property
    def entries(self) -> int:
        """Return the number of all entries."""
        return sum(map(len, self.values))

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """All keys and values, in order."""
        return [
            (entry_key(key, first + at), value.tobytes())
            for key, first, values in zip(self.keys, self.firsts, self.values, strict=True)
            for at, value in enumerate(values)
        ]

    def pieces(self) -> EntryPieces:
        """The entries as columns; good as long as this lives."""
        rows = []
        for row, (first, values, cut) in enumerate(zip(self.firsts, self.values, self.cuts, strict=True)):
            for begin, end in ((0, cut), (cut, len(values))):
                if begin < end:
                    rows.append((row, first + begin, end - begin, values.ctypes.data + begin * VALUE_SIZE))
        return EntryPieces(*np.array(rows, dtype=np.int64).T.copy())


@st.composite
def queues(draw: st.DrawFn) -> Queues:
    """Some queues, most of them short, with offsets of all sizes; values may be like one another, as those of a log."""
    topics = st.binary(min_size=1, max_size=8) | st.binary(min_size=120, max_size=255)
    key = st.builds(QueueKey, topics, st.integers(0, 3) | st.integers(0, (1 << 31) - 1))
    keys = sorted(draw(st.lists(key, min_size=1, max_size=12, unique=True)), key=key_order)
    short, long = st.integers(1, 40), st.integers(800, 3000)
    counts = [draw(long if draw(st.integers(0, 5)) == 0 else short) for _ in keys]
    starts = st.just(0) | st.integers(0, 1 << 17) | st.integers((1 << 32) - 2000, 1 << 32) | st.integers(0, 1 << 62)
    chance = np.random.default_rng(draw(st.integers(0, 1000)))
    noisy = draw(st.booleans())
    values = []
    for count in counts:
        found = chance.integers(0, 256, (count, VALUE_SIZE), dtype=np.uint8)
        if not noisy:
            found[:, 8:] = found[0, 8:]
        values.append(found)
    return Queues(keys, [draw(starts) for _ in keys], values, [draw(st.integers(0, count)) for count in counts])
