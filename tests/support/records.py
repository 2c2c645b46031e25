"""Build message records and logs of them, plain ones and hostile ones.

    log = LogBuilder(file_size=4096)
    log.message("orders", queue_id=2, tags="paid", keys="a b")   queue offset and place are assigned
    log.message("orders", queue_id=2, queue_offset=7)            a gap, a repeat, a restart
    log.message("orders", transaction="prepared")                no queue offset
    log.message("SCHEDULE_TOPIC_XXXX", delay=3)
    log.imitation("orders")                                      its body is a record in its place
    log.garbage(b"...")                                          bytes that are no record
    log.roll()                                                   end the file with a blank record
    log.write(store)                                             commitlog/0000..., full files

`log.placed` lists the records; `bytes(log)` is the whole log up to `log.end`, `log.files()` its files.
Below the builder are hypothesis strategies: records, logs, and the ways in which a log can be damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hypothesis import strategies as st

from reput.formats import paths
from reput.formats.log import properties as props
from reput.formats.log.properties import encode_properties
from reput.formats.log.record import (
    BLANK_SIZE,
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Host,
    Record,
    decode_record,
    encode_blank,
    encode_record,
)
from reput.formats.topics.system_topics import SCHEDULE_TOPIC_UTF8
from support.encoders import magic_for_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Transaction = Literal["", "prepared", "commit", "rollback"]
TRANSACTIONS: dict[str, int] = {
    "": 0,
    "prepared": TRANSACTION_PREPARED,
    "commit": TRANSACTION_COMMIT,
    "rollback": TRANSACTION_ROLLBACK,
}
HOST_V4 = Host(bytes((10, 0, 0, 7)), 10911)
HOST_V6 = Host(bytes(range(16)), 10911)
BODY_AT_V4 = MIN_RECORD_SIZE - 3
"""The begin of the body in a record with IPv4 hosts. The lengths of topic (1 byte) and properties (2) come after it."""

START_TIME_MS = 1_700_000_000_000


def text_bytes(value: str | bytes) -> bytes:
    """Text as a record stores it; bytes stay as they are."""
    return value.encode() if isinstance(value, str) else value


def message_properties(
    *,
    unique_key: str | bytes = "",
    keys: str | bytes = "",
    tags: str | bytes = "",
    delay: int | None = None,
    more: Mapping[str, str] | None = None,
) -> bytes:
    """The properties' bytes; what is empty is left out."""
    named = {props.UNIQUE_KEY: unique_key, props.KEYS: keys, props.TAGS: tags}
    values = {name: text_bytes(value) for name, value in named.items() if value}
    if delay is not None:
        values[props.DELAY] = str(delay).encode()
    values |= {name.encode(): value.encode() for name, value in (more or {}).items()}
    return encode_properties(values)


class Placed(NamedTuple):
    """A record in a log: its offset and size in bytes, its values and its bytes."""

    offset: int
    size: int
    record: Record
    data: bytes


@dataclass(slots=True)
class _File:
    start: int
    data: bytearray


class LogBuilder:
    """A CommitLog in memory, written as a broker does it: see the module's docstring.

    `start` is the offset of the first file (the log of a store whose older files are gone starts above 0);
    every message is stored `tick_ms` after the one before.
    """

    def __init__(
        self,
        file_size: int = 1 << 20,
        *,
        start: int = 0,
        store_timestamp: int = START_TIME_MS,
        tick_ms: int = 10,
        append_crc: bool = False,
    ) -> None:
        assert start % file_size == 0, "a log file starts at a multiple of its size"
        self.file_size = file_size
        self.start = start
        self.store_timestamp = store_timestamp
        self.tick_ms = tick_ms
        self.append_crc = append_crc
        self.placed: list[Placed] = []
        self.queue_offsets: dict[tuple[bytes, int], int] = {}
        self._files = [_File(start, bytearray())]

    @property
    def end(self) -> int:
        """Return the offset after the last byte written."""
        return self._files[-1].start + len(self._files[-1].data)

    def message(
        self,
        topic: str | bytes = "topic",
        *,
        queue_id: int = 0,
        body: bytes = b"body",
        unique_key: str | bytes = "",
        keys: str | bytes = "",
        tags: str | bytes = "",
        delay: int | None = None,
        more: Mapping[str, str] | None = None,
        properties: bytes | None = None,
        transaction: Transaction = "",
        sys_flag: int = 0,
        queue_offset: int | None = None,
        **values: Any,
    ) -> Placed:
        """Append a message; `values` are further fields of `Record`. Return its place.

        Its queue offset is the next one of its queue, 0 for a prepared or rolled-back message, or the one
        given, from which the queue then goes on.
        """
        name = text_bytes(topic)
        sys_flag |= TRANSACTIONS[transaction]
        if properties is None:
            properties = message_properties(unique_key=unique_key, keys=keys, tags=tags, delay=delay, more=more)
        if queue_offset is None:
            queue_offset = 0
            if transaction in ("", "commit"):
                queue_offset = self.queue_offsets.get((name, queue_id), 0)
        if transaction in ("", "commit"):
            self.queue_offsets[name, queue_id] = queue_offset + 1
        values.setdefault("magic", magic_for_topic(name))
        values.setdefault("born_host", HOST_V6 if sys_flag & FLAG_BORN_HOST_V6 else HOST_V4)
        values.setdefault("store_host", HOST_V6 if sys_flag & FLAG_STORE_HOST_V6 else HOST_V4)
        values.setdefault("store_timestamp", self._next_time())
        return self.record(
            Record(
                topic=name,
                body=body,
                properties=properties,
                queue_id=queue_id,
                queue_offset=queue_offset,
                sys_flag=sys_flag,
                **values,
            )
        )

    def record(self, record: Record) -> Placed:
        """Append a record as it is, but for the offset of its place; roll first where it does not fit."""
        size = len(encode_record(record, self.append_crc))
        if size + BLANK_SIZE > self.file_size:
            raise ValueError(f"a record of {size} bytes fits no file of {self.file_size} bytes")
        if size + BLANK_SIZE > self.space_left:
            self.roll()
        offset = self.end
        data = encode_record(record._replace(physical_offset=offset), self.append_crc)
        self._files[-1].data += data
        self.placed.append(Placed(offset, size, decode_record(data), data))
        return self.placed[-1]

    def imitation(
        self, topic: str | bytes = "topic", *, before: bytes = b"", after: bytes = b"", **values: Any
    ) -> tuple[Placed, int]:
        """Append a message whose body holds a record that names its own place.

        Returns the message and the offset of the record inside its body.
        """
        name = text_bytes(topic)
        inner = Record(
            topic=name,
            body=b"imitation",
            store_timestamp=self.store_timestamp,
            magic=magic_for_topic(name),
        )
        size = len(before) + len(encode_record(inner)) + len(after)
        if BODY_AT_V4 + size + 1000 > self.space_left:
            self.roll()
        offset = self.end + BODY_AT_V4 + len(before)
        body = before + encode_record(inner._replace(physical_offset=offset)) + after
        placed = self.message(topic, body=body, **values)
        assert placed.offset + BODY_AT_V4 + len(before) == offset, "the body is not where it was expected"
        return placed, offset

    def garbage(self, data: bytes) -> int:
        """Append bytes that are no record, inside this file; returns their offset."""
        assert len(data) <= self.space_left, "the garbage does not fit this file"
        offset = self.end
        self._files[-1].data += data
        return offset

    def roll(self, filling: bytes = b"\0") -> int:
        """End this file with a blank record and begin the next; returns its start offset."""
        left = self.space_left
        blank = encode_blank(left) if left >= BLANK_SIZE else b""
        self._files[-1].data += blank + (filling * left)[: left - len(blank)]
        self._files.append(_File(self._files[-1].start + self.file_size, bytearray()))
        return self._files[-1].start

    @property
    def space_left(self) -> int:
        """Bytes that are left in the last file."""
        return self.file_size - len(self._files[-1].data)

    def files(self) -> Iterator[tuple[int, bytes]]:
        """Start offset and bytes of each file, each filled up to its size with zeros."""
        for file in self._files:
            yield file.start, bytes(file.data).ljust(self.file_size, b"\0")

    def __bytes__(self) -> bytes:
        return b"".join(bytes(file.data) for file in self._files)

    def write(self, store: Path, *, preallocated: bool = False) -> Path:
        """Write the files below `store`, if `preallocated` also an all-zero one after them; return `store`."""
        folder = store / paths.COMMIT_LOG
        folder.mkdir(parents=True, exist_ok=True)
        for start, data in self.files():
            (folder / paths.offset_name(start)).write_bytes(data)
        if preallocated:
            start = self._files[-1].start + self.file_size
            (folder / paths.offset_name(start)).write_bytes(bytes(self.file_size))
        return store

    def _next_time(self) -> int:
        self.store_timestamp += self.tick_ms
        return self.store_timestamp


# --- strategies ----------------------------------------------------------------------------------

GOOD_TOPICS = (
    b"orders",
    b"a",
    "订单-topic".encode(),
    b"%RETRY%group",
    SCHEDULE_TOPIC_UTF8,
    b"t" * 127,
    b"t" * 255,
)
BAD_TOPICS = (
    b"",
    b".",
    b"..",
    b"a/b",
    b"a\0b",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"t" * 256,
    "订单".encode()[:-1],
)

TEXTS = (
    b"a",
    b"key",
    b" ",
    b"  two  spaces  ",
    b"a b c d e f g h",
    "支付".encode(),
    "\N{GRINNING FACE}".encode(),
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xe8\xae a",
    b"\xc3 \xa9",
    b"\xff",
    b"x\x01y",
    b"polygenelubricants",
    b"T#",
    b"x" * 31,
    b"y" * 32,
    b"z" * 33,
)
LEVELS = (b"1", b"3", b"18", b"19", b"0", b"-1", b"+2", b"007", b"00000000000002", b"+", b"-", b"x", b" 1")
HUGE_LEVELS = (b"2147483647", b"2147483648", b"-2147483648", b"99999999999999999999", "\u0661".encode())
NAMES = (
    props.UNIQUE_KEY,
    props.KEYS,
    props.TAGS,
    props.DELAY,
    props.INNER_MULTI_DISPATCH,
    props.INNER_MULTI_QUEUE_OFFSET,
    props.INNER_NUM,
    props.INNER_BASE,
    b"WAIT",
    b"KEYZ",
    b"UNIQ_KEz",
    b"",
    b"x",
)

hosts = st.one_of(
    st.builds(Host, st.binary(min_size=4, max_size=4), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.builds(Host, st.binary(min_size=16, max_size=16), st.integers(-(1 << 31), (1 << 31) - 1)),
)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
sys_flags = st.builds(lambda bits, more: bits | more, st.integers(0, 0x7FF), st.sampled_from((0, 0, 0x800, -(1 << 31))))


@st.composite
def property_bytes(draw: st.DrawFn) -> bytes:
    """Properties as they come: known names again and again, pieces without name, value or separator."""
    pieces = []
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from(NAMES))
        pool = LEVELS + HUGE_LEVELS if name == props.DELAY else TEXTS
        value = draw(st.sampled_from((*pool, b"")) | st.binary(max_size=40))
        separator = draw(st.sampled_from((b"\x01", b"\x01", b"\x01", b"\x01", b"", b"\x01\x01")))
        pieces.append(name + separator + value)
    ending = draw(st.sampled_from((b"\x02", b"", b"\x02\x02")))
    return b"\x02".join(pieces) + ending


good_topics = st.sampled_from(GOOD_TOPICS)


@st.composite
def records(draw: st.DrawFn, topics: st.SearchStrategy[bytes] = good_topics) -> Record:
    """Records with any values in their fields; the queue id and offset are what a queue can have."""
    topic = draw(topics)
    magic = MAGIC_V2 if len(topic) > 127 else draw(st.sampled_from((MAGIC_V1, MAGIC_V2)))
    return Record(
        topic=topic,
        body=draw(st.binary(max_size=100) | st.sampled_from((b"", bytes(2000)))),
        properties=draw(property_bytes()),
        queue_id=draw(st.integers(0, 3) | st.sampled_from((0, (1 << 31) - 1))),
        flag=draw(int32s),
        queue_offset=draw(st.integers(0, 1_000_000)),
        sys_flag=draw(sys_flags),
        born_timestamp=draw(int64s),
        born_host=draw(hosts),
        store_timestamp=draw(st.integers(START_TIME_MS, START_TIME_MS + 100_000) | int64s),
        store_host=draw(hosts),
        reconsume_times=draw(int32s),
        prepared_transaction_offset=draw(int64s),
        magic=magic,
    )


@st.composite
def logs(draw: st.DrawFn, min_records: int = 0, max_records: int = 12) -> LogBuilder:
    """Logs in one file of 64 KiB: records, imitations among them, ended by a blank record or by nothing."""
    log = LogBuilder(1 << 16, start=draw(st.sampled_from((0, 1 << 16, 1 << 40))), append_crc=draw(st.booleans()))
    for record in draw(st.lists(records(), min_size=min_records, max_size=max_records)):
        if draw(st.integers(0, 9)) == 0:
            log.imitation(record.topic, after=record.body, properties=record.properties)
        else:
            log.record(record)
    if draw(st.booleans()):
        log.roll()
    return log


@st.composite
def damages(draw: st.DrawFn, log: LogBuilder) -> bytes:
    """The bytes of a log's first file, damaged in up to four ways (or in none)."""
    data = bytearray(next(log.files())[1][: draw(st.sampled_from((log.end - log.start + 40, log.file_size)))])
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.sampled_from(log.placed)).offset - log.start if log.placed else 0
        near = min(place + draw(st.integers(0, 200)), max(len(data) - 1, 0))
        match draw(st.integers(0, 6)):
            case 0 if data:
                data[near] ^= 1 << draw(st.integers(0, 7))
            case 1:
                length = draw(st.sampled_from((b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x5b")))
                at = place + draw(st.sampled_from((0, 12, 20, 24, 28, 32, 36, 80, 84, 88, 108)))
                data[at : at + 4] = length[: max(len(data) - at, 0)]
            case 2:
                del data[near:]
            case 3:
                data[near:near] = draw(st.binary(max_size=64))
            case 4:
                data[near : near + draw(st.integers(0, 64))] = b""
            case 5:
                stolen = bytes(data[place : place + draw(st.integers(0, 300))])
                data[near : near + len(stolen)] = stolen
            case _:
                data[near : near + 64] = bytes(len(data[near : near + 64]))
    return bytes(data)


@st.composite
def hostile_records(draw: st.DrawFn) -> Record:
    """Records whose topic cannot be a folder's name, whose queue id or whose queue offset is impossible."""
    record = draw(records(st.sampled_from(GOOD_TOPICS + BAD_TOPICS)))
    return record._replace(
        queue_id=draw(st.sampled_from((record.queue_id, -1, -(1 << 31)))),
        queue_offset=draw(st.sampled_from((record.queue_offset, -1, 1_000_000, 1_000_001, (1 << 63) - 1))),
    )
