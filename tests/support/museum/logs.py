"""Exhibits about the log: records that are lost, stale, torn, or taken for what they are not."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from reput.formats import paths
from reput.formats.log.record import CRC_PROPERTY_SIZE, MIN_RECORD_SIZE, Record, crc_property, encode_record
from support import golden, stores
from support.museum.made import FILE_SIZE, built, crashed, golden_store, orders
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.records import Placed

DAY_MS = 86_400_000
KEPT, NEW, OLD = 10, 5, 20
"""Of OLD messages a truncation keeps KEPT; then NEW ones come, and the rest of the old ones stays on the disk."""
FLIPPED = 1000
"""The record of the golden store whose body gets a wrong bit."""
EMPTY_CRC_BODY = bytes.fromhex("9d0ad96d")
"""Four bytes whose CRC-32 is 0."""


def stale_tail(folder: Path) -> None:
    """Truncate a log in memory alone: new records come, and the old ones after them are still good records."""
    old, new = LogBuilder(FILE_SIZE), LogBuilder(FILE_SIZE)
    orders(old, OLD)
    orders(new, KEPT)
    new.store_timestamp += DAY_MS
    orders(new, NEW)
    data = bytes(new) + bytes(old)[len(bytes(new)) :]
    store = stores.with_log(folder, new)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).write_bytes(data.ljust(FILE_SIZE, b"\0"))
    crashed(store)


def reused_file(folder: Path) -> None:
    """Let the second log file be an old one: whole records with right CRCs, of another place."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 200)
    assert len(list(log.files())) > 1
    first = next(log.files())[1]
    alone = LogBuilder(FILE_SIZE)
    orders(alone, sum(placed.offset < FILE_SIZE for placed in log.placed))
    alone.roll()
    store = built(folder, alone)
    (store / paths.COMMIT_LOG / paths.offset_name(FILE_SIZE)).write_bytes(first)
    crashed(store)


def torn_properties(folder: Path, *, with_crc: bool = False) -> Placed:
    """Lose the properties of the last record: its body and body CRC are whole."""
    log = LogBuilder(FILE_SIZE, append_crc=with_crc)
    orders(log, 10)
    store = crashed(stores.with_log(folder, log))
    last = log.placed[-1]
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    begin = last.offset + MIN_RECORD_SIZE + len(last.record.body) + len(last.record.topic)
    data[begin : last.offset + last.size] = bytes(last.offset + last.size - begin)
    path.write_bytes(data)
    return last


def crc_of_zero(folder: Path) -> None:
    """Store messages whose CRCs are 0: that of a body, and that of a whole record."""
    assert zlib.crc32(EMPTY_CRC_BODY) == 0
    log = LogBuilder(FILE_SIZE, append_crc=True)
    orders(log, 3)
    log.message("orders", body=EMPTY_CRC_BODY, keys="body")
    plain = Record(b"orders", b"whole", queue_offset=4, store_timestamp=log.store_timestamp, physical_offset=log.end)
    placed = log.record(plain._replace(flag=_flag_for_crc_zero(plain)))
    assert placed.data.endswith(crc_property(0))
    log.queue_offsets[b"orders", 0] = 5
    orders(log, 3)
    crashed(stores.with_log(folder, log))


def _flag_for_crc_zero(record: Record) -> int:
    """Return the flag with which the CRC of a whole record is 0, but for its sign bit.

    A CRC is linear: each bit of the flag changes it by a constant. Gaussian elimination finds the bits.
    """

    def crc(flag: int) -> int:
        return zlib.crc32(encode_record(record._replace(flag=flag), append_crc=True)[:-CRC_PROPERTY_SIZE]) & 0x7FFFFFFF

    rows = [(crc(1 << bit) ^ crc(0), 1 << bit) for bit in range(31)]
    wanted, flag = crc(0), 0
    for top in reversed(range(31)):
        pivot = next((row for row in rows if row[0].bit_length() == top + 1), None)
        if pivot is None:
            continue
        rows = [(one ^ pivot[0], bits ^ pivot[1]) if one >> top & 1 else (one, bits) for one, bits in rows]
        if wanted >> top & 1:
            wanted, flag = wanted ^ pivot[0], flag ^ pivot[1]
    assert wanted == 0
    return flag


def zero_crc_of_batches(folder: Path) -> None:
    """Store a client's batch with a body CRC of 0 in each record, as another broker did."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 4)
    begin = log.end
    orders(log, 3)
    end = log.end
    orders(log, 3)
    store = stores.with_log(folder, log)
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    for placed in log.placed:
        if begin <= placed.offset < end:
            data[placed.offset + 8 : placed.offset + 12] = bytes(4)
    path.write_bytes(data)
    crashed(store)


def lost_log_file(folder: Path) -> None:
    """Remove one file in the middle of the log."""
    store = golden_store(folder, "basic")
    (store / paths.COMMIT_LOG / paths.offset_name(golden.LOG_FILE_SIZE)).unlink()


def flipped_bit(folder: Path) -> None:
    """Turn over one bit of one body, in the middle of the log."""
    store = golden_store(folder, "basic")
    record = golden.with_body(golden.records(store)[FLIPPED:])
    place, position = golden.place(store, record.body.start)
    data = bytearray(place.read_bytes())
    data[position] ^= 1
    place.write_bytes(data)


def file_in_two_paths(folder: Path) -> None:
    """Let both folders of a log have a file of one name: the second one is empty."""
    store = golden_store(folder, "basic")
    other = folder / "disk2"
    other.mkdir()
    (other / paths.offset_name(golden.LOG_FILE_SIZE)).write_bytes(bytes(golden.LOG_FILE_SIZE))
    paths_of_log = f"{store / paths.COMMIT_LOG},{other}"
    (folder / "broker.conf").write_text(f"{golden.CONFIG}storePathCommitLog={paths_of_log}\n")


EXHIBITS: dict[str, Callable[[Path], object]] = {
    "10666": stale_tail,
    "10017": reused_file,
    "7437": torn_properties,
    "9121": crc_of_zero,
    "10758": zero_crc_of_batches,
    "2140": lost_log_file,
    "7549": flipped_bit,
    "8859": file_in_two_paths,
}
