"""Messages that orderly pop consumers hold: a queue gives no further message to a group until all of them are acked.

The committed offset of the group stays at the first message without an ack. A message whose time is over is given again
first of all, with the count of times. `config/consumerOrderInfo.json` has this state, as in RocketMQ's broker; it is
written every second if it has changed (there every 10 seconds), and an ack is answered when it is written: acks that
come together share a write. What is held of light queues is in memory alone, as there.

Differences from RocketMQ: an ack, or a change of the time, of a message that the group does not hold is refused. Pops
of the group that ask for no order get none of the held messages. A start takes the group's offset from the acks of the
file, if they are newer.

Source: `ConsumerOrderInfoManager`, `MemoryConsumerOrderInfoManager`, `AckMessageProcessor.ackOrderly`,
`ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForOrder`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.services.due import rest_of_wait
from reput.broker.state.kept import kept_table
from reput.broker.wire.refusals import refuse
from reput.errors import ReputError
from reput.files.backed_up import BackedUpFile, BackedUpKind
from reput.formats import paths
from reput.formats.pending import order_info
from reput.formats.pending.order_info import OrderInfo, OrderTable, decode_order_table, encode_order_table
from reput.formats.topics.lite_topics import is_light
from reput.formats.wire.codes import ResponseCode
from reput.log.append.flush import PutFuture
from reput.log.encode.message import PutResult, PutStatus
from reput.times import HOUR_MS, now_ms

if TYPE_CHECKING:
    import asyncio

    from reput.broker.state.state import BrokerState

log = logging.getLogger("reput.broker")
KEPT_MS: Final = 24 * HOUR_MS
"""The time after which a queue whose messages nobody asks for is forgotten."""
_LONGEST_WAIT_S = 3600.0
_KEPT = PutResult(PutStatus.PUT_OK)
_KIND: BackedUpKind[OrderTable] = BackedUpKind(
    decode_order_table,
    {},
    order_info.SIZE_LIMIT,
    "Messages that orderly consumers hold were read from {}, which is older",
    "messages that orderly consumers hold are given again at once",
)


@dataclass(slots=True, eq=False)
class _Block:
    """Messages of a queue that a group holds, and when each message becomes visible, by the monotonic clock (s)."""

    info: OrderInfo
    visible_s: dict[int, float] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None

    def free_s(self) -> float:
        """Return when the queue may be read again; 0 if all messages are acked."""
        return max((self.visible_s.get(offset, 0.0) for offset in self.info.not_acked()), default=0.0)


class OrderBlocks:
    """The messages that orderly consumers hold. All methods but `persist` run in the loop's thread.

    Args:
        state: the broker's state.
        loop: its loop.
        freed: is called with a group and a topic when a queue may be read again.
        in_thread: runs a function in the one thread that may call `persist`.
    """

    def __init__(
        self,
        state: BrokerState,
        loop: asyncio.AbstractEventLoop,
        freed: Callable[[str, str], object],
        in_thread: Callable[[Callable[[], None]], asyncio.Future[None]],
    ) -> None:
        self._state = state
        self._loop = loop
        self._freed, self._in_thread = freed, in_thread
        self._next: PutFuture[PutResult] | None = None
        self._is_writing = False
        self._lock = threading.Lock()
        self._is_changed = False
        self._file = BackedUpFile(state.store.layout.root / paths.CONFIG / order_info.FILE_NAME, _KIND)
        self._blocks: dict[tuple[str, str], dict[int, _Block]] = {}

    def start(self) -> None:
        """Take over what the store has."""
        at_ms, at_s = now_ms(), self._loop.time()
        for names, queues in (kept_table(self._file) or {}).items():
            for queue_id, info in queues.items():
                block = _Block(info)
                for offset in info.offsets:
                    wait_ms = rest_of_wait(info.pop_time, info.visible_time(offset), at_ms)
                    block.visible_s[offset] = at_s + wait_ms / 1000
                self._blocks.setdefault(names, {})[queue_id] = block
                self._go_on(*names, queue_id, info)
                self._wait(*names, block)

    def _go_on(self, topic: str, group: str, queue_id: int, info: OrderInfo) -> None:
        """Move a group's offset past acks that are known here: a kill may have come before the offset was written.

        A group that was sent to an offset before these messages stays there.
        """
        if not info.offsets:
            return
        store = self._state.store
        before, offset = store.query_offset(group, topic, queue_id), info.next_offset
        if store.store_time(topic, queue_id, info.offsets[-1]) > info.pop_time:
            # The topic was deleted, and made again.
            return
        if before < 0 or info.offsets[0] <= before < offset:
            store.commit_offset(group, topic, queue_id, offset)

    def stop(self) -> None:
        """Wait for nothing more."""
        for queues in self._blocks.values():
            for block in queues.values():
                if block.timer is not None:
                    block.timer.cancel()

    def is_blocked(self, topic: str, group: str, queue_id: int, attempt_id: str | None) -> bool:
        """Return True if a group holds messages of a queue, and the attempt is not the one that has got them."""
        block = self._find(topic, group, queue_id)
        if block is None or (attempt_id is not None and block.info.attempt_id == attempt_id):
            return False
        return block.free_s() > self._loop.time()

    def give(
        self,
        topic: str,
        group: str,
        queue_id: int,
        pop_time: int,
        invisible_ms: int,
        offsets: Sequence[int],
        attempt_id: str | None,
    ) -> dict[int, int]:
        """Note the messages that a pop gives; return how often each was given before, if it was."""
        before = self._find(topic, group, queue_id)
        info = OrderInfo(pop_time, invisible_ms, list(offsets), last_used=now_ms(), attempt_id=attempt_id)
        if before is not None:
            earlier = before.info
            if attempt_id is not None and earlier.attempt_id == attempt_id:
                info.counts = dict(earlier.counts)
            else:
                known = set(earlier.offsets)
                info.counts = {one: earlier.counts.get(one, 0) + 1 for one in offsets if one in known}
            if before.timer is not None:
                before.timer.cancel()
        deadline_s = self._loop.time() + invisible_ms / 1000
        block = _Block(info, dict.fromkeys(offsets, deadline_s))
        with self._lock:
            self._blocks.setdefault((topic, group), {})[queue_id] = block
            self._is_changed = True
        self._wait(topic, group, block)
        return info.counts

    def holds(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> bool:
        """Return True if a group holds a message, and has not acked it."""
        block = self._find(topic, group, queue_id)
        return block is not None and block.info.pop_time == pop_time and offset in block.info.not_acked()

    def ack(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> PutFuture[PutResult] | None:
        """Take the ack of a message, and move the group's offset; one before that is acked already.

        The future is done when the ack is written; None for no such wait.

        Raises:
            RefusedError: the group holds no such message.
        """
        store = self._state.store
        if offset < store.query_offset(group, topic, queue_id):
            return None
        block = self._held(topic, group, queue_id, offset, pop_time)
        with self._lock:
            block.info.acked_bits |= 1 << block.info.offsets.index(offset)
            self._is_changed = True
        store.commit_offset(group, topic, queue_id, block.info.next_offset)
        self._wait(topic, group, block)
        return None if is_light(topic) else self._kept()

    def _kept(self) -> PutFuture[PutResult]:
        """Return a future that is done when the present state is written."""
        if self._next is None:
            self._next = PutFuture(_KEPT)
            if not self._is_writing:
                self._is_writing = True
                # Other acks of this turn of the loop are in it, too.
                self._loop.call_soon(self._write)
        return self._next

    def _write(self) -> None:
        future, self._next = self._next, None
        assert future is not None
        self._in_thread(self._persist).add_done_callback(partial(self._written, future, self._loop.time()))

    def _written(self, kept: PutFuture[PutResult], begun_s: float, done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is None:
            kept.set_result(_KEPT)
        else:
            kept.set_exception(error)
        if self._next is None:
            self._is_writing = False
        else:
            # As long as a write takes: a large table must not keep the thread busy.
            self._loop.call_later(self._loop.time() - begun_s, self._write)

    def change(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_ms: int) -> int:
        """Let a message become visible a time from now on; return when that is (ms).

        Raises:
            RefusedError: the group holds no such message.
        """
        block = self._held(topic, group, queue_id, offset, pop_time)
        visible_ms = now_ms() + invisible_ms
        with self._lock:
            block.info.next_visible[offset] = visible_ms
            self._is_changed = True
        block.visible_s[offset] = self._loop.time() + invisible_ms / 1000
        self._wait(topic, group, block)
        return visible_ms

    def suspend(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_ms: int) -> int:
        """Let all messages of a queue become visible a time from now on, and not count; return when that is (ms).

        Raises:
            RefusedError: the group holds no such message.
        """
        block = self._held(topic, group, queue_id, offset, pop_time)
        info, visible_ms = block.info, now_ms() + invisible_ms
        with self._lock:
            info.counts = {one: max(count - 1, 0) for one, count in info.counts.items()}
            info.next_visible = {}
            info.invisible_time = visible_ms - info.pop_time
            self._is_changed = True
        block.visible_s = dict.fromkeys(info.offsets, self._loop.time() + invisible_ms / 1000)
        self._wait(topic, group, block)
        return visible_ms

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Forget what a group holds of a queue: it was sent to another offset."""
        with self._lock:
            block = self._blocks.get((topic, group), {}).pop(queue_id, None)
            self._is_changed = self._is_changed or block is not None
        if block is not None and block.timer is not None:
            block.timer.cancel()

    def forget_topic(self, topic: str) -> None:
        """Forget what all groups hold of a topic: it is deleted."""
        with self._lock:
            gone = [self._blocks.pop(names) for names in list(self._blocks) if names[0] == topic]
            self._is_changed = self._is_changed or bool(gone)
        for block in (block for queues in gone for block in queues.values()):
            if block.timer is not None:
                block.timer.cancel()

    def _find(self, topic: str, group: str, queue_id: int) -> _Block | None:
        return self._blocks.get((topic, group), {}).get(queue_id)

    def _held(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> _Block:
        block = self._find(topic, group, queue_id)
        if block is None or block.info.pop_time != pop_time:
            refuse(ResponseCode.NO_MESSAGE, "the handle is of no message that the group holds in order")
        if offset not in block.info.offsets:
            refuse(ResponseCode.MESSAGE_ILLEGAL, f"offset is illegal, key:{topic}@{group}@{queue_id}, commit:{offset}")
        return block

    def _wait(self, topic: str, group: str, block: _Block) -> None:
        """Let those who wait try again when the queue may be read again."""
        if block.timer is not None:
            block.timer.cancel()
        wait_s = min(max(block.free_s() - self._loop.time(), 0.0), _LONGEST_WAIT_S)
        block.timer = self._loop.call_later(wait_s, self._look, topic, group, block)

    def _look(self, topic: str, group: str, block: _Block) -> None:
        """Let those who wait try again, unless the wait was cut at the longest one."""
        if block.free_s() > self._loop.time():
            self._wait(topic, group, block)
        else:
            self._freed(group, topic)

    def persist(self) -> None:
        """Write the state if it has changed; any thread may call it, one at a time. An error is logged."""
        try:
            self._persist()
        except ReputError as error:
            log.error("orderly messages are given, but consumerOrderInfo.json cannot be written: %s", error)  # noqa: TRY400 - the text says it all

    def _persist(self) -> None:
        """Write the state if it has changed.

        Raises:
            ReputError: The file cannot be written, and the next call tries again.
        """
        with self._lock:
            if not self._is_changed:
                return
            self._forget_unused()
            table = {
                names: {one: block.info for one, block in queues.items()}
                for names, queues in self._blocks.items()
                if not is_light(names[0])
            }
            data = encode_order_table(table)
            self._is_changed = False
        try:
            self._file.replace(data, now_ms())
        except ReputError:
            with self._lock:
                self._is_changed = True
            raise

    def _forget_unused(self) -> None:
        """Drop queues that are gone, and those that nobody has asked for lately (`autoClean`)."""
        state, at_ms = self._state, now_ms()
        for (topic, group), queues in list(self._blocks.items()):
            if state.topics.is_deleting(topic):
                # If the deletion fails, the group holds its messages as before.
                continue
            count = 1 if is_light(topic) else state.topics.queues(topic)
            count = count if state.groups.find(group) is not None else 0
            for queue_id, block in list(queues.items()):
                # A clock that was set ahead frees no message that is held.
                is_old = at_ms - block.info.last_used > KEPT_MS and block.free_s() <= self._loop.time()
                if queue_id >= count or is_old:
                    del queues[queue_id]
            if not queues:
                del self._blocks[topic, group]
