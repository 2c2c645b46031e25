"""Table of RocksDB (block-based, format version 5): sorted keys in blocks, then an index and properties.

    part          content
    data blocks   entries in the order of their keys
    index block   for each data block a key that is not below its last one and below the next block's, and its handle
    properties    a block of names and values
    metaindex     a block: the name of each part that is not data or index, and its handle
    footer        53 bytes: checksum kind, handles of metaindex and index, format version, magic

A block is entries, the places of its restarts (uint32 each) and their count (uint32). An entry is three varints (bytes
that its key shares with the one before, further bytes of its key, bytes of its value), the key's further bytes, and the
value. At a restart the key is whole. A handle is two varints: where a block begins, and its size without the trailer.
After each block comes a trailer: how it is compressed, and a checksum of block and that byte. All integers are
little-endian, unlike in everything else here.

An internal key, as data blocks have it, is the key and 8 bytes: 56 bits of a sequence number, which is 0 in a table
that is to be ingested, above the kind of the entry. The index has keys without them.

Source: RocksDB's `BlockBasedTableBuilder`, `BlockBuilder`, `FlushBlockBySizePolicy`, `ShortenedIndexBuilder`, `Footer`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FORMAT_VERSION = 5
"""RocketMQ's RocksDB (8.4) takes version 6 for damage."""
MAGIC = 0x88E241B785F4CFF7
CHECKSUM_XXHASH64 = 3
NOT_COMPRESSED, LZ4 = 0, 4
COMPRESSION_NAMES = {NOT_COMPRESSED: "NoCompression", LZ4: "LZ4"}

BLOCK_SIZE = 32 << 10
BLOCK_FULL_FROM = (BLOCK_SIZE * 90 + 99) // 100
"""A block that is larger ends where the next entry might bring it over `BLOCK_SIZE`."""
RESTART_INTERVAL = 16
INTERNAL_END = struct.pack("<Q", 0 << 8 | 1)
"""The suffix of a key that is to be ingested: sequence number 0, an entry that is a value (1)."""

PROPERTIES_NAME = b"rocksdb.properties"
TRAILER = struct.Struct("<BI")
"""The trailer of each block: how it is compressed, and its checksum."""
_FOOTER_HANDLES = 40
_FOOTER_END = struct.Struct("<IQ")
FOOTER_SIZE = 1 + _FOOTER_HANDLES + _FOOTER_END.size
assert FOOTER_SIZE == 53

_SINCE_6 = b"\x3e\x00\x7a\x00"
"""The mark in the footers of format 6 and later, after the kind of checksum (`FooterBuilder::Build`)."""


def is_of_newer_format(footer: bytes) -> bool:
    """Return True if a table's last `FOOTER_SIZE` bytes are those of a format after version 5.

    A damaged footer may have any version, and lacks the mark.
    """
    version, _ = _FOOTER_END.unpack(footer[-_FOOTER_END.size :])
    return bool(version > FORMAT_VERSION and footer[1 : 1 + len(_SINCE_6)] == _SINCE_6)


PROPERTIES: tuple[tuple[str, str, str], ...] = (
    ("rocksdb.block.based.table.index.type", "uint32 0", "one index block, searched by halves"),
    ("rocksdb.block.based.table.prefix.filtering", "`0`", "no filter"),
    ("rocksdb.block.based.table.whole.key.filtering", "`1`", "as RocksDB has it without a filter, too"),
    ("rocksdb.column.family.id", "varint 2147483647", "not known yet"),
    ("rocksdb.comparator", "`leveldb.BytewiseComparator`", "keys are in the order of their bytes"),
    ("rocksdb.compression", "text", "`NoCompression` or `LZ4`"),
    ("rocksdb.compression_options", "text", "RocksDB's defaults"),
    ("rocksdb.creating.db.identity", "`SST Writer`", "made outside of a database"),
    ("rocksdb.creating.session.identity", "20 of 0-9, A-Z", "with the file number it names the table"),
    ("rocksdb.creation.time", "varint 0", "not known"),
    ("rocksdb.data.size", "varint", "bytes of data blocks with their trailers"),
    ("rocksdb.deleted.keys", "varint 0", ""),
    ("rocksdb.external_sst_file.global_seqno", "uint64 0", "the sequence number of all entries; given by who ingests"),
    ("rocksdb.external_sst_file.version", "uint32 2", "may be ingested"),
    ("rocksdb.filter.size", "varint 0", ""),
    ("rocksdb.fixed.key.length", "varint 0", "keys may have any length"),
    ("rocksdb.format.version", "varint 5", ""),
    ("rocksdb.index.key.is.user.key", "varint 1", "the index has keys without the 8 bytes"),
    ("rocksdb.index.size", "varint", "bytes of the index block with its trailer"),
    ("rocksdb.index.value.is.delta.encoded", "varint 1", "values in the index have no length in front"),
    ("rocksdb.key.largest.seqno", "varint 0", "no entry has a sequence number of its own"),
    ("rocksdb.merge.operands", "varint 0", ""),
    ("rocksdb.merge.operator", "`nullptr`", ""),
    ("rocksdb.num.data.blocks", "varint", "how many data blocks"),
    ("rocksdb.num.entries", "varint", "how many entries"),
    ("rocksdb.num.filter_entries", "varint 0", ""),
    ("rocksdb.num.range-deletions", "varint 0", ""),
    ("rocksdb.oldest.key.time", "varint 0", "not known"),
    ("rocksdb.original.file.number", "varint 1", "see the session's identity"),
    ("rocksdb.prefix.extractor.name", "`nullptr`", ""),
    ("rocksdb.property.collectors", "`[]`", ""),
    ("rocksdb.raw.key.size", "varint", "bytes of all internal keys"),
    ("rocksdb.raw.value.size", "varint", "bytes of all values"),
    ("rocksdb.tail.start.offset", "varint", "where the data blocks end"),
)  # fmt: skip


class Handle(NamedTuple):
    """The place of a block: its first byte, and its size without the trailer."""

    offset: int
    size: int


class TableCounts(NamedTuple):
    """The values of a table's properties: sizes in bytes, as in `PROPERTIES`."""

    data_blocks: int
    entries: int
    raw_key_size: int
    raw_value_size: int
    data_size: int
    index_size: int


def varint(value: int) -> bytes:
    """Return seven bits a byte, the lowest first; the last byte is below 128."""
    encoded = bytearray()
    while value >= 1 << 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_handle(handle: Handle) -> bytes:
    """Return a handle as in index, metaindex and footer."""
    return varint(handle.offset) + varint(handle.size)


def encode_block(entries: Iterable[tuple[bytes, bytes]], restart_interval: int = RESTART_INTERVAL) -> bytes:
    """Return a block of entries with ascending keys."""
    block, restarts, last = bytearray(), [0], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number and number % restart_interval == 0:
            restarts.append(len(block))
        else:
            shared = shared_bytes(last, key)
        block += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return bytes(block) + encode_restarts(restarts)


def shared_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two keys share at their beginning."""
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def encode_index(blocks: Iterable[tuple[bytes, Handle]]) -> bytes:
    """Return the index block: a restart at each entry, so every key and every handle is whole."""
    block, restarts = bytearray(), []
    for key, handle in blocks:
        restarts.append(len(block))
        block += b"\0" + varint(len(key)) + key + encode_handle(handle)
    return bytes(block) + encode_restarts(restarts or [0])


def encode_restarts(places: Sequence[int]) -> bytes:
    """Return the end of a block: the places of its restarts, and their number."""
    return struct.pack(f"<{len(places) + 1}I", *places, len(places))


def separator(last: bytes, following: bytes) -> bytes:
    """Return a short key that is not below `last`, and below `following`.

    Source: `BytewiseComparatorImpl::FindShortestSeparator`; its answer is used only if it is no longer than `last`.
    """
    at = shared_bytes(last, following)
    if at == min(len(last), len(following)) or last[at] >= following[at]:
        return last
    if at == len(following) - 1 and last[at] + 1 == following[at]:
        # One more would be `following` itself: the next byte that can be raised is used.
        at = next((place for place in range(at + 1, len(last)) if last[place] < 0xFF), -1)
        if at < 0:
            return last
    return last[:at] + bytes([last[at] + 1])


def encode_properties(counts: TableCounts, compression: int, session: str) -> bytes:
    """Return the properties block of a table that was made by `session` (20 of 0-9 and A-Z)."""
    varying = {
        b"rocksdb.compression": COMPRESSION_NAMES[compression].encode(),
        b"rocksdb.compression_options": _COMPRESSION_OPTIONS,
        b"rocksdb.creating.session.identity": session.encode(),
        b"rocksdb.data.size": varint(counts.data_size),
        b"rocksdb.index.size": varint(counts.index_size),
        b"rocksdb.num.data.blocks": varint(counts.data_blocks),
        b"rocksdb.num.entries": varint(counts.entries),
        b"rocksdb.raw.key.size": varint(counts.raw_key_size),
        b"rocksdb.raw.value.size": varint(counts.raw_value_size),
        b"rocksdb.tail.start.offset": varint(counts.data_size),
    }
    # One restart, at the front, as in RocksDB.
    return encode_block(sorted((_constant_properties() | varying).items()), 1 << 30)


def _constant_properties() -> dict[bytes, bytes]:
    encoded = {}
    for name, meaning, _ in PROPERTIES:
        kind, _, value = meaning.partition(" ")
        if meaning.startswith("`"):
            encoded[name.encode()] = meaning.strip("`").encode()
        elif kind == "varint" and value:
            encoded[name.encode()] = varint(int(value))
        elif kind in _FIXED:
            encoded[name.encode()] = _FIXED[kind].pack(int(value))
    return encoded


_COMPRESSION_OPTIONS = (
    b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; "
    b"max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; "
)
_FIXED = {"uint32": struct.Struct("<I"), "uint64": struct.Struct("<Q")}


def encode_metaindex(properties: Handle) -> bytes:
    """Return the metaindex of a table that has only properties."""
    return encode_block([(PROPERTIES_NAME, encode_handle(properties))], 1)


def encode_footer(metaindex: Handle, index: Handle) -> bytes:
    """Return the last bytes of a table."""
    handles = encode_handle(metaindex) + encode_handle(index)
    return bytes([CHECKSUM_XXHASH64]) + handles.ljust(_FOOTER_HANDLES, b"\0") + _FOOTER_END.pack(FORMAT_VERSION, MAGIC)
