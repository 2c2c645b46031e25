"""Messages on their way to a broker: properties, compression and header as RocketMQ's Java client makes them.

Source: `DefaultMQProducerImpl.sendKernelImpl`, `MessageClientIDSetter`, `MessageBatch`, `MQClientAPIImpl.sendMessage`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.errors import ConfigError, PutError
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, properties_text, with_further
from reput.formats.log.property_names import (
    DELAY,
    PRODUCER_GROUP,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
)
from reput.formats.log.record import COMPRESSION_ZLIB, FLAG_COMPRESSED
from reput.formats.log.record import TRANSACTION_PREPARED as PREPARED_FLAG
from reput.formats.topics.system_topics import CREATE_TOPIC, RETRY_PREFIX
from reput.formats.topics.topic_names import topic_fault
from reput.formats.wire.headers import SHORT_NAMES
from reput.log.encode.message import MessageRefusedError, PropertyEncoder, PutStatus, check_message
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.formats.wire.bodies import QueueName
    from reput.log.encode.message import Message
    from reput.log.encode.unique_keys import UniqueKeys

COMPRESS_FROM: Final = 4096
"""Bodies of this length and longer ones are compressed (`compressMsgBodyOverHowmuch`)."""
COMPRESS_LEVEL: Final = 5
MAX_MESSAGE_SIZE: Final = 4 << 20
"""The longest body, and the longest batch (`maxMessageSize`)."""
BATCH_BYTES: Final = 1 << 20
"""A list of messages leaves in batches of about this length."""
_TRUE = "true"


class Delivery(NamedTuple):
    """The time at which consumers get a message; now if all are None.

    Attributes:
        delay_level: A delay level of the broker, from 1 on (1 s, 5 s, 10 s, 30 s, 1 min and so on).
        deliver_at_ms: A time (ms since 1970).
        delay_ms: A time after the send (ms).
    """

    delay_level: int | None = None
    deliver_at_ms: int | None = None
    delay_ms: int | None = None

    def properties(self) -> dict[str, str]:
        """Return the properties that ask for it.

        Raises:
            ConfigError: more than one of the three is given, or one is no such number.
        """
        named = {DELAY: self.delay_level, TIMER_DELIVER_MS: self.deliver_at_ms, TIMER_DELAY_MS: self.delay_ms}
        given = {name: value for name, value in named.items() if value is not None}
        if len(given) > 1:
            raise ConfigError("delay_level, deliver_at_ms, delay_ms: give at most one of them")
        for name, value in given.items():
            if type(value) is not int or value < 0:
                raise ConfigError(f"{name} {value!r:.40}: give a whole number from 0 on")
        return {name: str(value) for name, value in given.items()}


AT_ONCE: Final = Delivery()


class Outgoing(NamedTuple):
    """A message, or a batch of one topic, as it is sent to any queue of the topic.

    `keys`: the unique keys of its messages.
    """

    topic: str
    body: bytes
    properties: str
    sys_flag: int
    flag: int
    born_ms: int
    keys: Sequence[str]
    is_batch: bool = False

    def fields(self, group: str, queue: QueueName, topic_queues: int) -> dict[str, str]:
        """Return the header of its send; `topic_queues`: queues that the topic gets if the broker makes it."""
        return {
            SHORT_NAMES["producerGroup"]: group,
            SHORT_NAMES["topic"]: self.topic,
            SHORT_NAMES["defaultTopic"]: CREATE_TOPIC,
            SHORT_NAMES["defaultTopicQueueNums"]: str(topic_queues),
            SHORT_NAMES["queueId"]: str(queue.queue_id),
            SHORT_NAMES["sysFlag"]: str(self.sys_flag),
            SHORT_NAMES["bornTimestamp"]: str(self.born_ms),
            SHORT_NAMES["flag"]: str(self.flag),
            SHORT_NAMES["properties"]: self.properties,
            SHORT_NAMES["reconsumeTimes"]: "0",
            SHORT_NAMES["unitMode"]: "false",
            SHORT_NAMES["batch"]: _TRUE if self.is_batch else "false",
            SHORT_NAMES["brokerName"]: queue.broker_name,
        }


class OutgoingEncoder:
    """Makes what is sent of messages.

    Args:
        group: the producer group.
        unique_keys: makes the unique keys of messages that have none.
        max_message_size: the longest body, and the longest batch (bytes).
        compress_from: bodies of this length and longer ones are compressed (bytes); 0 to compress none.
    """

    def __init__(self, group: str, unique_keys: UniqueKeys, max_message_size: int, compress_from: int) -> None:
        self._group = group
        self._unique_keys = unique_keys
        self._most = max_message_size
        self._compress_from = compress_from
        self._properties = PropertyEncoder()

    def single(self, message: Message, delivery: Delivery = AT_ONCE, *, is_half: bool = False) -> Outgoing:
        """Return a message as it is sent; `is_half`: as the half message of a transaction.

        Raises:
            PutError: the message cannot be sent; the reason says why.
            ConfigError: it is no message, or has no such delivery.
        """
        further = delivery.properties()
        if is_half:
            # As with the Java client a half message has no delay of its own.
            further = {TRANSACTION_PREPARED: _TRUE, PRODUCER_GROUP: self._group}
        text, key = self._checked(message, further)
        body, sys_flag = self._compressed(message.body, message.sys_flag)
        sys_flag |= PREPARED_FLAG if is_half else 0
        return Outgoing(message.topic, body, text, sys_flag, message.flag, _born_ms(message), (key,))

    def batches(self, messages: Iterable[Message]) -> list[tuple[list[int], Outgoing]]:
        """Return messages as batches, each of one topic, with the places of its messages among all.

        Raises:
            PutError: one of them cannot be in a batch; the reason says which and why.
            ConfigError: one of them is no message.
        """
        open_batches: dict[str, tuple[list[int], list[InnerMessage], list[str]]] = {}
        sizes: dict[str, int] = {}
        done: list[tuple[list[int], Outgoing]] = []
        for number, message in enumerate(messages):
            try:
                text, key = self._checked(message, {})
                _refuse_in_batch(message)
            except PutError as error:
                raise PutError(error.status, f"message {number} of the batch: {error.reason}") from None
            inner = InnerMessage(message.flag, message.body, text.encode())
            size = len(inner.body) + len(inner.properties)
            if message.topic in sizes and sizes[message.topic] + size > min(BATCH_BYTES, self._most):
                done.append(self._batch(message.topic, open_batches.pop(message.topic)))
                sizes.pop(message.topic)
            places, inners, keys = open_batches.setdefault(message.topic, ([], [], []))
            places.append(number)
            inners.append(inner)
            keys.append(key)
            sizes[message.topic] = sizes.get(message.topic, 0) + size
        done += [self._batch(topic, one) for topic, one in open_batches.items()]
        return done

    def _batch(self, topic: str, parts: tuple[list[int], list[InnerMessage], list[str]]) -> tuple[list[int], Outgoing]:
        places, inners, keys = parts
        own = properties_text({WAIT: _TRUE, UNIQUE_KEY: self._unique_keys.make()})
        return places, Outgoing(topic, encode_messages(inners), own, 0, 0, now_ms(), keys, is_batch=True)

    def _checked(self, message: Message, further: Mapping[str, str]) -> tuple[str, str]:
        """Return the text of a message's properties, and its unique key."""
        try:
            data = self._properties.encode(message)
            size = len(message.body)
        except MessageRefusedError as error:
            raise PutError(error.status, error.reason) from None
        except (AttributeError, TypeError, ValueError):
            # Its types are wrong: this says which.
            _refuse_types(message)
            raise
        if type(message.topic) is not str or not isinstance(message.body, bytes):
            _refuse_types(message)
        fault = topic_fault(message.topic)
        if fault is not None:
            raise PutError(PutStatus.MESSAGE_ILLEGAL, fault)
        if size > self._most:
            words = f"a body of {size} bytes: at most {self._most}; give a larger max_message_size if the broker has"
            raise PutError(PutStatus.MESSAGE_ILLEGAL, f"{words} one")
        return self._with_own(message, data.decode(), further)

    def _with_own(self, message: Message, text: str, further: Mapping[str, str]) -> tuple[str, str]:
        given = message.properties or {}
        own = dict(further)
        if WAIT not in given:
            own[WAIT] = _TRUE
        key = message.unique_key or given.get(UNIQUE_KEY)
        if key is None:
            own[UNIQUE_KEY] = key = self._unique_keys.make()
        twice = given.keys() & own.keys()
        if twice:
            words = f"property {min(twice)} is given twice: in the properties, and by an argument"
            raise PutError(PutStatus.MESSAGE_ILLEGAL, words)
        text = with_further(text, properties_text(own))
        if len(text) * 4 > MAX_PROPERTIES_SIZE and len(text.encode()) > MAX_PROPERTIES_SIZE:
            words = f"properties of {len(text.encode())} bytes, the client's own included: at most"
            raise PutError(PutStatus.PROPERTIES_SIZE_EXCEEDED, f"{words} {MAX_PROPERTIES_SIZE}")
        return text, key

    def _compressed(self, body: bytes, sys_flag: int) -> tuple[bytes, int]:
        if not self._compress_from or len(body) < self._compress_from or sys_flag & FLAG_COMPRESSED:
            return body, sys_flag
        return zlib.compress(body, COMPRESS_LEVEL), sys_flag | FLAG_COMPRESSED | COMPRESSION_ZLIB


def _born_ms(message: Message) -> int:
    return now_ms() if message.born_timestamp is None else message.born_timestamp


def _refuse_types(message: object) -> None:
    try:
        check_message(message)
    except MessageRefusedError as error:
        raise PutError(error.status, error.reason) from None


_SINGLE_ONLY: Final = (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC, TRANSACTION_PREPARED)


def _refuse_in_batch(message: Message) -> None:
    given = message.properties or {}
    for name in _SINGLE_ONLY:
        if name in given:
            raise PutError(PutStatus.MESSAGE_ILLEGAL, f"property {name}: such a message is sent alone")
    if message.topic.startswith(RETRY_PREFIX):
        raise PutError(PutStatus.MESSAGE_ILLEGAL, f"topic {message.topic}: messages of a retry topic are sent alone")
    if message.sys_flag:
        words = f"sys_flag {message.sys_flag:#x}: the messages of a batch share one, so such a message is sent alone"
        raise PutError(PutStatus.MESSAGE_ILLEGAL, words)
