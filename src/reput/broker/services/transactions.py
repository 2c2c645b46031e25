"""Transactions: half messages, their ends, and questions about those whose end is unknown.

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC. Its end, commit or rollback, is an op message in
RMQ_SYS_TRANS_OP_HALF_TOPIC with its queue offset; a commit puts the message to its topic before. The offsets of group
CID_RMQ_SYS_TRANS say how far both topics are done with. A round of checks goes over the half messages after its offset:
one without an end is put to the half topic again, so that the offset can pass it, and a producer of its group is asked.
After transactionCheckMax questions it goes to TRANS_CHECK_MAX_TIME_TOPIC.

Differences from RocketMQ: an op message is written at once and not after 3 s, so a kill leaves fewer transactions that
are asked about again. A second end of a transaction is taken and does nothing, and an end counts for all copies of its
half message; RocketMQ delivers once more in both cases. A broker that starts does not know the copies of half messages
before its offset, and delivers once more, too.

Source: `TransactionalMessageBridge`, `TransactionalMessageServiceImpl`, `EndTransactionProcessor`,
`AbstractTransactionalMessageCheckListener`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.delivery import NEVER_STORED, copy_of, properties_size, real_place, refuse_wrong_body
from reput.broker.services.due import each_time
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse, refuse_as_busy
from reput.errors import DamagedStoreError, ReputError
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, encode_properties
from reput.formats.log.property_names import (
    CHECK_IMMUNITY_S,
    CHECK_TIMES,
    DELAY,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_OUT_MS,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK, encode_record
from reput.formats.pending.transactions import REMOVE_TAG, encode_ended_offsets, ends_of, first_offset
from reput.formats.topics.system_topics import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.append.settings import DEFAULT_FILE_RESERVED_HOURS
from reput.log.encode.message import Message
from reput.store.read.queue_walk import pulls_of
from reput.times import HOUR_MS, now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from reput.broker.state.state import BrokerState
    from reput.broker.wire.requests import Request
    from reput.log.encode.message import PutResult
    from reput.store.read.message import StoredMessage
    from reput.store.read.results import GetResult

log = logging.getLogger("reput.broker")
DEFAULT_TIME_OUT_MS: Final = 6000
DEFAULT_CHECK_MAX: Final = 15
DEFAULT_CHECK_INTERVAL_MS: Final = 30_000
_OP_BODY_SIZE = 4096
"""The most bytes of queue offsets in an op message (transactionOpMsgMaxSize)."""
_AT_ONCE = 32
_AGAIN_S = 1.0
_STOP_S = 5.0
MAX_DONE: Final = 100_000
"""The most transactions that have ended, and are passed, whose further ends do nothing."""
MAX_ENDING: Final = 100_000
"""The most transactions whose commits are being stored; the end of a further one is refused."""
_MOST_DIGITS = 20
MAX_HALF_PROPERTIES: Final = MAX_PROPERTIES_SIZE - sum(
    len(f"{name}\x01\x02") + _MOST_DIGITS for name in (CHECK_TIMES, PREPARED_QUEUE_OFFSET, TIMER_OUT_MS)
)
"""The most bytes of properties of a transactional message. The others are for what the broker adds when it puts a half
message again, and to a committed message that is due later."""

StoredPlace = Callable[[Message, int], tuple[Message, int]]
"""Returns a message and its queue id as they are stored: those of a message with a delay are the broker's own."""


def is_transactional(message: Message) -> bool:
    """Return True for a message that begins a transaction.

    A message that is tried again begins none: old clients leave the property on it (`SendMessageProcessor`).
    """
    properties = message.properties or {}
    is_retry = message.reconsume_times > 0 and properties.get(DELAY, "0") not in {"0", ""}
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true" and not is_retry


def half_of(message: Message, queue_id: int) -> Message:
    """Return the half message of a transactional message, for queue 0 of the half topic.

    Raises:
        RefusedError: its properties leave no room for those that the broker adds before the transaction ends.
    """
    properties = dict(message.properties or {})
    if properties.get(UNIQUE_KEY):
        properties[TRANSACTION_ID] = properties[UNIQUE_KEY]
    properties |= {REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(queue_id)}
    size = properties_size(properties)
    if size > MAX_HALF_PROPERTIES:
        words = f"its properties and those of the broker are {size} bytes; a transaction has at most"
        refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal, {words} {MAX_HALF_PROPERTIES}")
    return replace(message, topic=HALF_TOPIC, properties=properties, sys_flag=message.sys_flag & ~TRANSACTION_MASK)


class _OpMessage(NamedTuple):
    """An op message: its queue offset, and the half messages that it ends."""

    offset: int
    halves: list[int]


class Transactions:
    """The transactions of a broker. All methods run in the loop's thread.

    Args:
        state: the broker's state.
        loop: its loop.
        place: returns a committed message and its queue as they are stored.
    """

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop, place: StoredPlace) -> None:
        config = state.store.config
        self._state = state
        self._place = place
        self._loop = loop
        self._time_out_ms = config.transaction_time_out or DEFAULT_TIME_OUT_MS
        self._check_max = config.transaction_check_max or DEFAULT_CHECK_MAX
        self._interval_s = (config.transaction_check_interval or DEFAULT_CHECK_INTERVAL_MS) / 1000
        self._reserved_ms = (config.file_reserved_time or DEFAULT_FILE_RESERVED_HOURS) * HOUR_MS
        # Half messages that have ended.
        self._ended: set[int] = set()
        # Those whose committed message is being stored, each with all of its transaction.
        self._ending: dict[int, set[int]] = {}
        # Op messages that name half messages after the offset, and the ends that no op message names yet.
        self._ops: deque[_OpMessage] = deque()
        self._op_offset = 0
        # Half messages that have ended, and are passed: a further end of one does nothing. The first ones go first.
        self._done: dict[int, None] = {}
        self._to_write: list[int] = []
        # The half messages of each transaction that was put again: the first one and its copies, by each of them.
        self._copies: dict[int, list[int]] = {}
        # Half messages that wait for a time of their own: the queue offsets at which they were first.
        self._first_offsets: set[int] = set()
        self._is_loaded = False
        self._checker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look after transactions without an end."""
        self._op_offset = self._offset_of(OP_TOPIC)
        checks = each_time(self._interval_s, self.check, "transactions are not checked now")
        self._checker = self._loop.create_task(checks)

    async def stop(self) -> None:
        """Look no more; wait for commits that are being stored, and note their ends."""
        if self._checker is not None:
            self._checker.cancel()
        deadline = self._loop.time() + _STOP_S
        while self._ending and self._loop.time() < deadline:  # noqa: ASYNC110 - futures of another thread
            await asyncio.sleep(0.01)
        self._write_ends()

    # --- ends ----------------------------------------------------------------------------------

    def end(self, request: Request) -> Answer | None:
        """Serve the end of a transaction."""
        group = request.text("producerGroup")
        queue_offset, physical_offset = request.int64("tranStateTableOffset"), request.int64("commitLogOffset")
        kind, is_checked = request.int32("commitOrRollback"), request.flag("fromTransactionCheck")
        request.text("msgId")
        if kind not in {TRANSACTION_COMMIT, TRANSACTION_ROLLBACK}:
            # The producer does not know the end either. It is asked later.
            return Answer()
        half = self._state.store.message_at(physical_offset)
        if half is None or half.topic != HALF_TOPIC:
            refuse(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        if not is_checked and self._is_late(half):
            refuse(ResponseCode.ILLEGAL_OPERATION, "the transaction is checked, and its end must answer the check")
        if half.properties.get(PRODUCER_GROUP) != group:
            refuse(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != queue_offset:
            refuse(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        offsets = self._with_copies(queue_offset)
        if self._has_end(offsets) or not self._ending.keys().isdisjoint(offsets):
            return Answer()
        if len(self._ending) >= MAX_ENDING:
            refuse_as_busy()
        if kind == TRANSACTION_ROLLBACK:
            self._have_ended(offsets)
            self._state.statistics.transaction_ended(real_place(half.properties)[0], is_commit=False)
            return Answer()
        self._commit(request, half, offsets)
        return None

    def _with_copies(self, queue_offset: int) -> set[int]:
        """Return the queue offsets of all half messages that are about the same transaction."""
        return set(self._copies.get(queue_offset, (queue_offset,)))

    def _has_end(self, offsets: set[int]) -> bool:
        return not (self._ended.isdisjoint(offsets) and self._done.keys().isdisjoint(offsets))

    def _is_late(self, half: StoredMessage) -> bool:
        """Return True for an end that comes after the time for which the sender asked not to be checked."""
        text = half.properties.get(CHECK_IMMUNITY_S)
        if not text:
            return False
        immunity_ms = max((parse_whole(text, 64) or 0) * 1000, self._time_out_ms)
        return now_ms() - half.born_timestamp > immunity_ms

    def _commit(self, request: Request, half: StoredMessage, offsets: set[int]) -> None:
        """Put the message of a half message to its topic, then note the end and answer."""
        self._state.refuse_full_tail()
        topic, queue_id = real_place(half.properties)
        if topic is None or queue_id is None:
            refuse(ResponseCode.SYSTEM_ERROR, f"the half message names no target queue: {half!r}")
        properties = {name: value for name, value in half.properties.items() if name not in {REAL_TOPIC, REAL_QUEUE_ID}}
        message = replace(
            copy_of(half, topic),
            properties=properties,
            sys_flag=half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
            prepared_transaction_offset=half.physical_offset,
        )
        future = self._state.store.put_message_async(*self._place(message, queue_id))
        self._ending.update(dict.fromkeys(offsets, offsets))

        def stored() -> Answer:
            for offset in offsets:
                del self._ending[offset]
            result = future.result()
            if not result.status.is_stored:
                refuse(ResponseCode.SYSTEM_ERROR, f"the message is not stored: {result.status.value}: {result.reason}")
            self._have_ended(offsets)
            self._state.statistics.transaction_ended(topic, is_commit=True)
            return Answer()

        future.add_done_callback(lambda _: self._state.soon(self._state.guarded, request, stored))

    def _have_ended(self, offsets: set[int]) -> None:
        self._ended |= offsets
        if not self._to_write:
            # Ends of one turn of the loop share an op message.
            self._loop.call_soon(self._write_ends)
        self._to_write += sorted(offsets)

    def _write_ends(self) -> None:
        ends, self._to_write = self._to_write, []
        while ends:
            some: list[int] = []
            size = 0
            while ends and (not some or size + len(str(ends[0])) < _OP_BODY_SIZE):
                size += len(str(ends[0])) + 1
                some.append(ends.pop(0))
            if not self._put_op(some):
                self._to_write = some + ends
                self._loop.call_later(_AGAIN_S, self._write_ends)
                return

    def _put_op(self, halves: list[int]) -> bool:
        """Put an op message; return False if the store does not take it now."""
        if not self._state.takes_messages():
            return False
        key = self._state.unique_keys.make()
        message = Message(OP_TOPIC, encode_ended_offsets(halves), tags=REMOVE_TAG, unique_key=key)
        try:
            future = self._state.store.put_message_async(message, 0)
            return not future.done() or future.result().status.is_stored
        except ReputError as error:
            log.error("the end of transactions cannot be stored now: %s", error)  # noqa: TRY400 - the text says it all
            return False

    # --- checks --------------------------------------------------------------------------------

    async def check(self) -> None:
        """Go once over the half messages without an end that nobody has been asked about lately."""
        started_ms, store = now_ms(), self._state.store
        await self._read_ops()
        begin = offset = self._offset_of(HALF_TOPIC)
        if not self._is_loaded:
            await self._read_first_offsets(begin)
            self._is_loaded = True
        try:
            while offset not in self._ending:
                if (offset - begin) % _AT_ONCE == _AT_ONCE - 1:
                    await asyncio.sleep(0)
                if offset in self._ended:
                    offset += 1
                    continue
                found = store.get_message(HALF_TOPIC, 0, offset, 1)
                half = next(iter(found), None)
                if half is None and found.next_offset == offset:
                    break
                if half is not None and not await self._pass(half, started_ms):
                    break
                offset = found.next_offset
        finally:
            # Those before an error are passed, too: the next round would put them again.
            if offset != begin:
                store.commit_offset(TRANSACTION_GROUP, HALF_TOPIC, 0, offset)
            self._forget_below(offset)

    async def _read_first_offsets(self, begin: int) -> None:
        """Find the half messages that wait for a time of their own, and were put again by an earlier broker."""
        for _, found in self._pulls_of(HALF_TOPIC, begin):
            for half in found:
                with contextlib.suppress(DamagedStoreError):
                    self._first_offsets.update({_first_offset(half, -1)} - {-1})
            await asyncio.sleep(0)

    def _pulls_of(self, topic: str, begin: int) -> Iterator[tuple[int, GetResult]]:
        return pulls_of(partial(self._state.store.get_message, topic, 0), begin, at_once=_AT_ONCE)

    def _offset_of(self, topic: str) -> int:
        store = self._state.store
        return max(store.query_offset(TRANSACTION_GROUP, topic, 0), store.min_offset(topic, 0))

    async def _read_ops(self) -> None:
        """Take in the op messages that have come: this broker's own, and before the first round all."""
        for _, found in self._pulls_of(OP_TOPIC, self._op_offset):
            for message in found:
                try:
                    halves = ends_of(message.tags, message.body)
                except DamagedStoreError as error:
                    log.error("the end of transactions is lost: %s", error)  # noqa: TRY400 - the text says it all
                    continue
                self._ended.update(halves)
                self._ops.append(_OpMessage(message.queue_offset, halves))
            self._op_offset = found.next_offset
            await asyncio.sleep(0)

    def _forget_below(self, half_offset: int) -> None:
        """Forget ends below the half topic's offset, and commit how far op messages are done with."""
        needed = self._first_offsets
        while self._ops and all(half < half_offset and half not in needed for half in self._ops[0].halves):
            self._ops.popleft()
        done = {half for half in self._ended if half < half_offset and half not in needed}
        self._ended -= done
        self._done.update(dict.fromkeys(sorted(done)))
        for half in list(islice(self._done, max(len(self._done) - MAX_DONE, 0))):
            del self._done[half]
        self._copies = {half: copies for half, copies in self._copies.items() if copies[-1] >= half_offset}
        op_offset, store = self._ops[0].offset if self._ops else self._op_offset, self._state.store
        if op_offset != store.query_offset(TRANSACTION_GROUP, OP_TOPIC, 0) and op_offset > 0:
            store.commit_offset(TRANSACTION_GROUP, OP_TOPIC, 0, op_offset)

    async def _pass(self, half: StoredMessage, started_ms: int) -> bool:
        """Do what a half message without an end needs now; return False if the round ends before it."""
        try:
            properties, age_ms = half.properties, now_ms() - half.born_timestamp
            refuse_wrong_body(half)
        except DamagedStoreError as error:
            log.error("a transaction is left out: %s", error)  # noqa: TRY400 - the text says it all
            return True
        if _times_asked(half) >= self._check_max or age_ms > self._reserved_ms:
            return await self._give_up(half)
        is_young = half.store_timestamp >= started_ms
        immunity = properties.get(CHECK_IMMUNITY_S)
        if immunity is None:
            is_young = is_young or 0 <= age_ms <= self._time_out_ms
        elif not is_young:
            seconds = parse_whole(immunity, 64)
            if age_ms <= (self._time_out_ms if seconds in {None, -1} else seconds * 1000):
                return await self._wait_on(half)
        return not is_young and await self._ask_about(half)

    async def _ask_about(self, half: StoredMessage) -> bool:
        """Put a half message again, and ask a producer about it; return False if the store does not take it now."""
        first = _first_offset(half, -1)
        self._first_offsets.discard(first)
        if first in self._ended:
            return True
        times = _times_asked(half) + 1
        again = await self._put_half(half, {CHECK_TIMES: str(times)})
        if again is None or not again.status.is_stored:
            return again is not None and await self._give_up(half)
        if again.queue_offset not in self._ended and again.queue_offset not in self._ending:
            self._ask_producer(half, again, times)
        return True

    async def _wait_on(self, half: StoredMessage) -> bool:
        """Put a half message again whose sender wants no check yet, so that the offset can pass it."""
        first = _first_offset(half, half.queue_offset)
        if first in self._ended:
            self._first_offsets.discard(first)
            return True
        again = await self._put_half(half, {PREPARED_QUEUE_OFFSET: str(first)})
        if again is None or not again.status.is_stored:
            return again is not None and await self._give_up(half)
        self._first_offsets.add(first)
        return True

    async def _put_half(self, half: StoredMessage, further: dict[str, str]) -> PutResult | None:
        """Put a half message to the half topic again; return what `_put` returns.

        As in RocketMQ the copy has no flag and no number of tries.
        """
        message = replace(copy_of(half, HALF_TOPIC), properties={**half.properties, **further})
        copy = await self._put(replace(message, flag=0, reconsume_times=0))
        if copy is not None and copy.status.is_stored:
            self._note_copy(half.queue_offset, copy.queue_offset)
        return copy

    def _note_copy(self, half: int, copy: int) -> None:
        """Take a copy for the same transaction, which may have ended while the copy was being put."""
        copies = self._copies.setdefault(half, [half])
        copies.append(copy)
        self._copies[copy] = copies
        if self._has_end({half}):
            self._have_ended({copy})
        elif (ending := self._ending.get(half)) is not None:
            ending.add(copy)
            self._ending[copy] = ending

    async def _put(self, message: Message) -> PutResult | None:
        """Put a message; return its place, or the refusal of what is never stored; None if it is not stored now."""
        if not self._state.takes_messages():
            return None
        future: Future[PutResult] = self._state.store.put_message_async(message, 0)
        result = await asyncio.wrap_future(future)
        return result if result.status.is_stored or result.status in NEVER_STORED else None

    async def _give_up(self, half: StoredMessage) -> bool:
        """Move a half message that nobody ends, or that cannot be put again, to the topic of such messages."""
        if self._state.topics.find(GIVEN_UP_TOPIC) is None:
            self._state.topics.create(GIVEN_UP_TOPIC, 1, 1)
        log.error("a transaction without an end is given up and moved to %s: %r", GIVEN_UP_TOPIC, half)
        moved = await self._put(copy_of(half, GIVEN_UP_TOPIC))
        if moved is not None and not moved.status.is_stored:
            log.error("a transaction is left out: %r: %s", half, moved.reason)
        return moved is not None

    def _ask_producer(self, half: StoredMessage, again: PutResult, times: int) -> None:
        """Ask a producer of the message's group about the end; without one the next round asks again."""
        properties = half.properties | {CHECK_TIMES: str(times)}
        topic, queue_id = real_place(properties)
        group = properties.get(PRODUCER_GROUP, "")
        connection = self._state.producers.next_of(group)
        if connection is None or topic is None or queue_id is None:
            log.warning("nobody of producer group %r is online to be asked about a transaction: %r", group, half)
            return
        record = half.record._replace(
            topic=topic.encode(),
            queue_id=queue_id,
            queue_offset=again.queue_offset,
            physical_offset=again.physical_offset,
            store_timestamp=again.store_timestamp,
            properties=encode_properties({name.encode(): value.encode() for name, value in properties.items()}),
        )
        key = properties.get(UNIQUE_KEY, "")
        fields = {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": str(again.queue_offset),
            "commitLogOffset": str(again.physical_offset),
            "offsetMsgId": self._state.message_id(again.physical_offset),
            "msgId": key,
            "transactionId": key,
            "bname": self._state.name,
        }
        self._state.client_calls.notify(connection, RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(record))


def _first_offset(half: StoredMessage, default: int) -> int:
    """Return the queue offset that a half message had first, if it names one."""
    first = first_offset(half.properties.get(PREPARED_QUEUE_OFFSET))
    return default if first is None else first


def _times_asked(half: StoredMessage) -> int:
    """Return how often a producer was asked about a half message. Source: `TransactionalMessageServiceImpl.getInt`."""
    times = parse_whole(half.properties.get(CHECK_TIMES, "0"), 32)
    return -1 if times is None else times
