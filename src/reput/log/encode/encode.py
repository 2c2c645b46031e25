"""The bytes of one record from a message: `reput.formats.log.record.encode_record`, reduced to what a put needs.

The parts that many messages share (hosts, their bits in sysFlag) are prepared once for each kind of host. Then one
`struct.pack` and one join make the record.

Most puts do without: a kernel writes their records (`place_record`), see `LogAppender.append`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from reput.formats.log.record import (
    AFTER_STORE_HOST,
    BEFORE_BODY_V4,
    CRC_PROPERTY_SIZE,
    FLAG_BORN_HOST_V6,
    FLAG_INNER_BATCH,
    FLAG_STORE_HOST_V6,
    FLAGS_V6,
    HEAD,
    HOST_V4,
    HOST_V4_SIZE,
    PROPERTIES_LENGTH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Host,
    crc32,
    crc_property,
)
from reput.kernels import encode_kernels
from reput.kernels.layouts.place import OWN_HOST
from reput.log.encode.message import Message, OwnPathError, illegal
from reput.log.encode.topics import TopicState

_PORT_SIZE = HOST_V4.sizes["port"]
_MOST_FRAMES = 1 << 10
"""Most born hosts whose frames are kept. A frame takes 5 us to make."""
_STORED = BEFORE_BODY_V4.codes("store_timestamp", "store_host")
_BODY_LENGTH = BEFORE_BODY_V4.codes("body_length")
_PACK_LENGTH = PROPERTIES_LENGTH.struct.pack
_LENGTHS = tuple(_PACK_LENGTH(length) for length in range(512))


class Frame(NamedTuple):
    """The parts that messages share if they have one born host and no count of tries.

    `pack` takes the head's fields, born host, store timestamp, `tail` (store host, tries and prepared offset) and the
    body's length; `size` is the length of its result.
    """

    pack: struct.Struct
    size: int
    born_host: bytes
    tail: bytes
    host_bits: int


class RecordParts(NamedTuple):
    """A checked message, with the parts of its record that are known before it has a place.

    `size` is the record's length. `properties` end with room for the CRC property if the log has it.
    """

    message: Message
    frame: Frame
    body: bytes
    properties: bytes
    topic: TopicState
    queue_id: int
    size: int

    @classmethod
    def of(
        cls, message: Message, frame: Frame, body: bytes, properties: bytes, topic: TopicState, queue_id: int
    ) -> RecordParts:
        """Return the parts of a message with the size of its record."""
        size = frame.size + len(body) + len(topic.part) + PROPERTIES_LENGTH.size + len(properties)
        return cls(message, frame, body, properties, topic, queue_id, size)


class RecordEncoder:
    """Makes records of messages that are stored by `store_host`."""

    def __init__(self, store_host: Host, append_crc: bool = False) -> None:
        self._store_host = store_host
        self.append_crc = append_crc
        self._frame = self._make_frame(store_host, 0, 0)
        self._frames: dict[Host, Frame] = {}
        self._crc = encode_kernels().body_crc

    @property
    def host_parts(self) -> tuple[bytes, bytes]:
        """Born host and tail of most records."""
        return self._frame.born_host, self._frame.tail

    @property
    def host_bits(self) -> int:
        """The hosts' bits in sysFlag of most records."""
        return self._frame.host_bits

    def frame(self, message: Message, inner: bool = False) -> Frame:
        """Return the parts that `message` shares with others; `inner`: it may be a batch in one record.

        Raises:
            MessageRefusedError: A number is too large.
            OwnPathError: The message is a batch in one record.
        """
        if message.sys_flag & FLAG_INNER_BATCH and not inner:
            raise OwnPathError(f"a batch in one record (sysFlag {message.sys_flag:#x})")
        if message.born_host is None and not message.reconsume_times and not message.prepared_transaction_offset:
            return self._frame
        born_host = self._store_host if message.born_host is None else message.born_host
        is_first = not message.reconsume_times and not message.prepared_transaction_offset
        if is_first and (known := self._frames.get(born_host)) is not None:
            return known
        if len(born_host.address) not in {4, 16}:
            raise illegal(f"the born host's address has {len(born_host.address)} bytes: give 4 or 16")
        try:
            made = self._make_frame(born_host, message.reconsume_times, message.prepared_transaction_offset)
        except struct.error as error:
            raise illegal(f"born port, reconsume times or prepared offset out of range: {error}") from None
        if is_first:
            if len(self._frames) >= _MOST_FRAMES:
                self._frames = {}
            self._frames[born_host] = made
        return made

    def _make_frame(self, born_host: Host, reconsume_times: int, prepared_offset: int) -> Frame:
        born = born_host.encode()
        tail = self._store_host.encode() + AFTER_STORE_HOST.pack(reconsume_times, prepared_offset)
        bits = FLAG_BORN_HOST_V6 if len(born_host.address) == 16 else 0
        bits |= FLAG_STORE_HOST_V6 if len(self._store_host.address) == 16 else 0
        packer = struct.Struct(f"{HEAD.struct.format}{len(born)}s{_STORED}{len(tail)}s{_BODY_LENGTH}")
        return Frame(packer, packer.size, born, tail, bits)

    def encode(self, parts: RecordParts, queue_offset: int, physical_offset: int, now_ms: int) -> bytes:
        """Return the record.

        Raises:
            MessageRefusedError: A number of the message is out of its field's range.
        """
        message, frame, body, properties, topic, queue_id, size = parts
        born = message.born_timestamp
        try:
            head = frame.pack.pack(
                size,
                topic.magic,
                self._crc(body),
                queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                message.sys_flag & ~FLAGS_V6 | frame.host_bits,
                now_ms if born is None else born,
                frame.born_host,
                now_ms,
                frame.tail,
                len(body),
            )
        except struct.error as error:
            raise illegal(f"flag, sysFlag or born timestamp out of range: {error}") from None
        length = len(properties)
        data = b"".join(
            (head, body, topic.part, _LENGTHS[length] if length < 512 else _PACK_LENGTH(length), properties)
        )
        if self.append_crc:
            data = data[:-CRC_PROPERTY_SIZE]
            data += crc_property(crc32(data))
        return data


def number_of_host(host: Host) -> int | None:
    """Return an IPv4 host as `place_record` takes it; None for any other, which a kernel does not write."""
    if type(host) is not Host or type(host.address) is not bytes or len(host.address) != HOST_V4_SIZE - _PORT_SIZE:
        return None
    try:
        number = int.from_bytes(host.encode(), "big", signed=True)
    except struct.error:
        return None
    return None if number == OWN_HOST else number


class BornHosts:
    """Born hosts as `place_record` takes them; that of the last message is kept."""

    def __init__(self) -> None:
        # Both at once: another thread may put them in.
        self._last: tuple[Host | None, int | None] = None, OWN_HOST

    def number(self, host: Host | None) -> int | None:
        """Return the number of a host, OWN_HOST for None; None for a host that a kernel does not write."""
        if host is None:
            return OWN_HOST
        known, number = self._last
        if known is not host:
            number = number_of_host(host)
            self._last = host, number
        return number


def is_numbered(sys_flag: int) -> bool:
    """Return True if a message takes a number of its queue: plain and committed messages do."""
    return sys_flag & TRANSACTION_MASK in {0, TRANSACTION_COMMIT}
