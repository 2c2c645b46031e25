"""A message to put, the answer to a put, and the message's properties as bytes.

    message = Message("orders", b"body", tags="created", keys=("o-1", "c-7"), properties={"region": "eu"})
    PropertyEncoder().encode(message)

Properties are written in one order: those of the map in its order, then TAGS, KEYS, UNIQ_KEY. (RocketMQ's client
iterates a hash map; the order means nothing to a reader.)

Source: `Message`, `MessageExtBrokerInner`, `MessageDecoder.messageProperties2String`, `PutMessageStatus`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Self, SupportsIndex

from reput.errors import ConfigError, DiskFullError, PutError
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.property_names import (
    CRC32,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    KEYS,
    NAME_END,
    PROPERTY_END,
    TAGS,
    UNIQUE_KEY,
    WAIT,
)
from reput.formats.log.record import CRC_PROPERTY_SIZE, Host

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OWN_NAMES = frozenset({CRC32, INNER_NUM, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET})
"""Names that the store gives, or that make a put take another path."""
_CACHE_MAX = 4096
_SHORT = 4000
"""Tags and keys of fewer characters, with a unique key of fewer, always fit: at most four bytes each."""


@dataclass(slots=True)
class Message:
    """A message as its sender makes it.

    Attributes:
        topic: The topic.
        body: The body.
        tags: The tag; an empty one counts as no tag, as with RocketMQ's client.
        keys: One key, or several in a sequence.
        properties: Further properties.
        flag: The application's own flag.
        sys_flag: RocketMQ's sysFlag bits.
        born_timestamp: Time at which the message was created (ms since 1970); None means the time of the put.
        born_host: Host that created the message; None means the host that stores it.
        unique_key: The sender's own id of the message; the store does not generate one.
        reconsume_times: Number of times that the message was sent back for another try.
        prepared_transaction_offset: The log offset of its prepared message.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | Sequence[str] | None = None
    properties: Mapping[str, str] | None = None
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: Host | None = None
    unique_key: str | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.body!r:.60}, tags={self.tags!r:.60}, keys={self.keys!r:.60})"

    @property
    def waits_for_flush(self) -> bool:
        """True if a put with sync flush waits for this message: always, except with the property WAIT=false."""
        return self.properties is None or self.properties.get(WAIT) != "false"


class PutStatus(Enum):
    """The status of a put; the names are RocketMQ's, except DISK_FULL."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, but not known to be durable yet; readable as soon as it is."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    DISK_FULL = "DISK_FULL"
    """Nothing was written; the next put tries again."""
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"

    @property
    def is_stored(self) -> bool:
        """True if the message is in the log."""
        # Members are hashed in Python: a set of them takes ten times as long.
        return self is PutStatus.PUT_OK or self is PutStatus.FLUSH_DISK_TIMEOUT


class PutResult(NamedTuple):
    """The answer to a put: the place of the stored message; the numbers are -1 if it is not stored.

    Attributes:
        status: The status of the put.
        physical_offset: Log offset of the record (bytes).
        size: The length of the record (bytes).
        queue_offset: The message's number in its queue.
        store_timestamp: Store time (ms since 1970).
        reason: Reason for a refusal, for people.
    """

    status: PutStatus
    physical_offset: int = -1
    size: int = -1
    queue_offset: int = -1
    store_timestamp: int = -1
    reason: str = ""

    def raise_for_status(self) -> PutResult:
        """Return this result if the message is stored. FLUSH_DISK_TIMEOUT does not raise: the message is stored.

        Raises:
            PutError: The message is not stored.
            DiskFullError: The message is not stored because the disk is full.
        """
        _raise_for(self.status, self.reason)
        return self

    @property
    def end_offset(self) -> int:
        """The log offset after the record."""
        return self.physical_offset + self.size


class PutManyResult(NamedTuple):
    """The answer to the put of a batch: the places of its messages in order; empty columns if it is not stored.

    A batch is stored whole or not at all.

    Attributes:
        status: The status of the put.
        physical_offsets: Log offsets of the records (bytes).
        sizes: The lengths of the records (bytes).
        queue_offsets: The messages' numbers in their queues.
        store_timestamp: Store time of all of them (ms since 1970).
        reason: The refused message and the reason, for people.
    """

    status: PutStatus
    physical_offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    queue_offsets: NDArray[np.int64]
    store_timestamp: int = -1
    reason: str = ""

    def __repr__(self) -> str:
        if not len(self.sizes):
            return f"PutManyResult({self.status.value}, 0 messages, reason={self.reason!r})"
        first, last = self.physical_offsets[0], self.physical_offsets[-1]
        return f"PutManyResult({self.status.value}, {len(self.sizes)} messages, physical_offsets {first} to {last})"

    def raise_for_status(self) -> PutManyResult:
        """Return this result if the messages are stored; see `PutResult.raise_for_status`.

        Raises:
            PutError: None of them is stored.
            DiskFullError: None of them is stored because the disk is full.
        """
        _raise_for(self.status, self.reason)
        return self

    @property
    def end_offset(self) -> int:
        """The log offset after the last record; -1 if there is none."""
        return int(self.physical_offsets[-1] + self.sizes[-1]) if len(self.sizes) else -1


def check_message(message: object) -> None:
    """Check the types of a message that could not be encoded.

    Raises:
        ConfigError: It is no Message.
        MessageRefusedError: One of its values has a wrong type.
    """
    if not isinstance(message, Message):
        raise ConfigError(f"message {message!r:.80}: give a reput.Message(topic, body, ...)")
    if not isinstance(message.topic, str):
        raise illegal(f"topic {message.topic!r:.80}: give a text")
    if not isinstance(message.body, bytes):
        raise illegal(f"the body is of type {type(message.body).__name__}: give bytes")
    if message.properties is not None and not isinstance(message.properties, Mapping):
        raise illegal(f"properties {message.properties!r:.80}: give a mapping of texts to texts")
    for name in ("flag", "sys_flag", "reconsume_times", "prepared_transaction_offset", "born_timestamp"):
        value = getattr(message, name)
        if not isinstance(value, SupportsIndex) and not (value is None and name == "born_timestamp"):
            raise illegal(f"{name} {value!r:.80}: give a whole number")
    if message.born_host is not None and not isinstance(message.born_host, Host):
        raise illegal(f"born_host {message.born_host!r:.80}: give a reput.Host(address, port)")


def _raise_for(status: PutStatus, reason: str) -> None:
    if not status.is_stored:
        raise (DiskFullError if status is PutStatus.DISK_FULL else PutError)(status, reason)


class MessageRefusedError(Exception):
    """A message cannot be stored: the status and the reason that the put returns. The log's callers never see it."""

    def __init__(self, status: PutStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class OwnPathError(MessageRefusedError):
    """A message takes more than one number. It is refused in a batch only; put alone, it takes a path of its own."""

    def __init__(self, what: str) -> None:
        super().__init__(PutStatus.MESSAGE_ILLEGAL, f"{what}; such a message is put alone")


NOBODY_DELIVERS = (
    "delayed messages (property DELAY) cannot be written: a broker puts them under SCHEDULE_TOPIC_XXXX and delivers "
    "them when they are due, and nobody does for a store that is written from here. Send them to a broker, or drop "
    "the property"
)
"""The refusal of a delayed message by commands and by Spark. `put_message` stores any property, as RocketMQ's store."""


def illegal(reason: str) -> MessageRefusedError:
    """Return the refusal of a message whose content cannot be stored."""
    return MessageRefusedError(PutStatus.MESSAGE_ILLEGAL, reason)


def too_large_text(size: int, most: int) -> str:
    """Return the reason why records of `size` bytes are refused if a file of the log takes at most `most`."""
    return f"{size} bytes: a file of the log takes at most {most} (mappedFileSizeCommitLog - 8)"


class EncodedProperties(dict[str, str]):
    """Properties of a message with `data`, their bytes in a record. Nobody changes them.

    `of` makes them from text that is in that form already, so that a put need not encode them again.
    """

    __slots__ = ("data",)

    data: bytes

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return the properties of a text; None for one that a record does not hold as it is.

        Such a text has a property without a name or a value, one name twice, half a character, or a name that has a
        meaning for the store.
        """
        if text[-1:] != PROPERTY_END:
            text += PROPERTY_END
        pieces = text[:-1].split(PROPERTY_END)
        try:
            # A piece with more or fewer than one separator is a ValueError.
            made = cls([piece.split(NAME_END) for piece in pieces])
            made.data = text.encode()
        except ValueError:
            return None
        if len(made) < len(pieces) or "" in made or "" in made.values() or not _OWN_NAMES.isdisjoint(made):
            return None
        return made


class PropertyEncoder:
    """Encodes the properties of messages; repeated tags are encoded once.

    `append_crc` leaves room for the CRC property (enabledAppendPropCRC): the last 20 bytes are then zeros.
    """

    def __init__(self, append_crc: bool = False, enable_lmq: bool = False) -> None:
        self._own_path = {INNER_NUM, INNER_MULTI_DISPATCH} if enable_lmq else {INNER_NUM}
        self._append_crc = append_crc
        self._short = 0 if append_crc else _SHORT
        self._tags: dict[str | None, str] = {None: "", "": ""}

    def encode(self, message: Message, inner: bool = False) -> bytes:
        """Encode the properties of `message`; `inner`: those of batches and further queues are allowed.

        Raises:
            MessageRefusedError: No reader could decode them again, or they are too long.
            OwnPathError: The message takes more than one number.
        """
        further, keys, unique = message.properties, message.keys, message.unique_key
        if type(further) is EncodedProperties and not (message.tags or keys or unique):
            data = further.data
            if len(data) < self._short:
                return data
        tags = self._tags.get(message.tags)
        if tags is None:
            tags = self._tags_property(message.tags)
        if keys is None and unique is None and not further and len(tags) < self._short:
            return tags.encode()
        if type(keys) is tuple and len(keys) == 1 and type(keys[0]) is str:
            keys = keys[0]
        if (
            not further
            and type(keys) is str
            and keys
            and " " not in keys
            and "\x01" not in keys
            and "\x02" not in keys
            and len(tags) + len(keys) < self._short
        ):
            # The properties of most messages, at half the cost. Half a character is reported below.
            try:
                if unique is None:
                    return f"{tags}KEYS\x01{keys}\x02".encode()
                if type(unique) is str and 0 < len(unique) < _SHORT and "\x01" not in unique and "\x02" not in unique:
                    return f"{tags}KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02".encode()
            except UnicodeEncodeError:
                pass
        return self._encode_any(message, tags, inner)

    def _encode_any(self, message: Message, tags: str, inner: bool) -> bytes:
        keys = message.keys
        data = tags.encode()
        if keys is not None:
            data += _keys_property((keys,) if type(keys) is str else keys)
        if message.unique_key is not None:
            data += _property(UNIQUE_KEY, message.unique_key)
        if message.properties:
            data = self._map(message, inner) + data
        if self._append_crc:
            data += bytes(CRC_PROPERTY_SIZE)
        if len(data) > MAX_PROPERTIES_SIZE:
            raise MessageRefusedError(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {len(data)} bytes, the CRC's included: a record holds {MAX_PROPERTIES_SIZE}",
            )
        return data

    def _tags_property(self, tags: str | None) -> str:
        data = _property(TAGS, tags).decode()
        if len(self._tags) >= _CACHE_MAX:
            self._tags = {None: "", "": ""}
        self._tags[tags] = data
        return data

    def _map(self, message: Message, inner: bool) -> bytes:
        assert message.properties is not None
        given = {
            TAGS: bool(message.tags),
            KEYS: message.keys is not None,
            UNIQUE_KEY: message.unique_key is not None,
        }
        pieces = []
        for name, value in message.properties.items():
            if given.get(name):
                raise illegal(f"property {name} is given twice: in the properties and as the message's own")
            if name in self._own_path and not inner:
                raise OwnPathError(f"property {name}")
            if name == INNER_MULTI_QUEUE_OFFSET and not inner:
                raise illegal(f"property {name}: the store gives these numbers")
            if name == CRC32 and self._append_crc:
                continue
            pieces.append(_property(name, value))
        return b"".join(pieces)


def _property(name: object, value: object) -> bytes:
    for what, text in (("name", name), ("value", value)):
        if not isinstance(text, str):
            raise illegal(f"property {name!r}: its {what} is {text!r}, not text")
        if not text or "\x01" in text or "\x02" in text:
            raise illegal(f"property {name!r}: its {what} must not be empty nor hold the characters 0x01 and 0x02")
    return _utf8(f"property {name!r}", f"{name}\x01{value}\x02")


def _keys_property(keys: object) -> bytes:
    if not isinstance(keys, (list, tuple)):
        raise illegal(f"keys {keys!r}: give a text, or a list of texts")
    for key in keys:
        if not isinstance(key, str) or not key or " " in key or "\x01" in key or "\x02" in key:
            raise illegal(_why_not_a_key(key))
    return _utf8("keys", f"KEYS\x01{' '.join(keys)}\x02") if keys else b""


def _why_not_a_key(key: object) -> str:
    return f"key {key!r}: a key is not empty and holds no space, no 0x01 and no 0x02; give several keys as a list"


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise illegal(f"{what}: half of a character at {error.start}, which UTF-8 cannot encode") from error
