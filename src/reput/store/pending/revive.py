"""Messages that pop consumers hold by checkpoints and acks: in the revive topics, or as timer messages on their way.

Source: `PopReviveService`, `PopMessageProcessor.buildCkMsg`, `AckMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reput.formats.log.record import CHECK_NONE
from reput.formats.pending.pop_state import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    PopCheckpoint,
    PopKey,
    decode_pop_ack,
    decode_pop_checkpoint,
)
from reput.formats.topics.system_topics import REVIVE_GROUP, REVIVE_TOPIC_PREFIX
from reput.store.pending.timer_row import PendingTimer
from reput.store.pending.verify import RecordState, verify_queued
from reput.store.progress.progress import ConsumerProgress
from reput.store.read.message import StoredMessage
from reput.store.read.queue_walk import walk_queue
from reput.store.read.view import StoreView

TIMER, REVIVE = "timer", "revive topic"


class Held(NamedTuple):
    """A message that a checkpoint holds."""

    checkpoint: PopCheckpoint
    offset: int
    source: str


class FoundCheckpoint(NamedTuple):
    """A checkpoint, the queue of a revive topic that it is in or goes to, and the offsets of which there are acks."""

    checkpoint: PopCheckpoint
    source: str
    topic: str
    queue_id: int
    acked: frozenset[int] = frozenset()

    @property
    def held(self) -> list[int]:
        """The offsets of the messages that wait for an ack."""
        return [offset for offset in self.checkpoint.offsets if offset not in self.acked]


class Checkpoints:
    """The checkpoints that are not done, and acks. Memory grows with their number.

    A later checkpoint of the same pop takes the place of an earlier one, as in the broker's table.
    """

    def __init__(self, damage: list[str]) -> None:
        self._damage = damage
        self._found: dict[PopKey, FoundCheckpoint] = {}
        self._acked: dict[PopKey, set[int]] = {}

    def add(self, message: StoredMessage, source: str, topic: str, queue_id: int) -> None:
        """Take a message of a revive topic, or one that goes there; one with another tag counts as nothing."""
        tag = message.tags
        if tag == CHECKPOINT_TAG:
            checkpoint = decode_pop_checkpoint(message.body)
            if checkpoint is None:
                self._name(message, "checkpoint")
            else:
                self._found[checkpoint.key] = FoundCheckpoint(checkpoint, source, topic, queue_id)
        elif tag in {ACK_TAG, BATCH_ACK_TAG}:
            ack = decode_pop_ack(message.body, tag)
            if ack is None:
                self._name(message, "ack")
            else:
                self._acked.setdefault(ack.key, set()).update(ack.offsets)

    def _name(self, message: StoredMessage, what: str) -> None:
        self._damage.append(
            f"log offset {message.physical_offset}: the body is no {what} of pop. RocketMQ skips it; "
            f"`reput query --physical-offset {message.physical_offset} --body-bytes 200` shows it"
        )

    def all(self) -> Iterator[FoundCheckpoint]:
        """Yield the checkpoints with their acks, by the time at which their messages become visible again."""
        for found in sorted(self._found.values(), key=lambda one: one.checkpoint.visible_time):
            yield found._replace(acked=frozenset(self._acked.get(found.checkpoint.key, ())))

    def held(self) -> Iterator[Held]:
        """Yield the messages that wait for an ack, by the time at which they become visible again."""
        for found in self.all():
            yield from (Held(found.checkpoint, offset, found.source) for offset in found.held)


def read_checkpoints(
    view: StoreView, progress: ConsumerProgress, timers: Iterable[PendingTimer], damage: list[str]
) -> Checkpoints:
    """Return the checkpoints that are not done, in the revive topics and on their way there.

    Args:
        view: the open store.
        progress: the offset of group CID_RMQ_SYS_REVIVE_GROUP is that of the last checkpoint that was done.
        timers: the timer messages that wait.
        damage: gets bodies that cannot be read.
    """
    checkpoints = Checkpoints(damage)
    for queue in view.queues():
        if queue.topic.startswith(REVIVE_TOPIC_PREFIX):
            done = progress.query(REVIVE_GROUP, queue.topic, queue.queue_id)
            for found in walk_queue(view, queue.topic, queue.queue_id, done + 1):
                if verify_queued(view, found, queue.topic).is_verified:
                    checkpoints.add(found.message, REVIVE, queue.topic, queue.queue_id)
    for timer in timers:
        if timer.topic is not None and timer.topic.startswith(REVIVE_TOPIC_PREFIX) and not _is_lost(timer):
            message = view.examined(timer.physical_offset, CHECK_NONE)
            if isinstance(message, StoredMessage):
                checkpoints.add(message, TIMER, timer.topic, timer.queue_id or 0)
    return checkpoints


def held_by_checkpoints(
    view: StoreView, progress: ConsumerProgress, timers: Iterable[PendingTimer], damage: list[str]
) -> Iterator[Held]:
    """Yield the messages that checkpoints hold, with the arguments of `read_checkpoints`."""
    yield from read_checkpoints(view, progress, timers, damage).held()


def _is_lost(timer: PendingTimer) -> bool:
    return timer.state is not RecordState.VERIFIED
