"""Queues that a broker has deleted on purpose, though the log still has records of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.formats.topics.lite_topics import NEVER, decode_lite_topic, is_light
from reput.formats.topics.system_topics import SYSTEM_PREFIX
from reput.log.read.reader import good_record
from reput.pipeline.check.rules import NOTE
from reput.pipeline.check.state import Check
from reput.times import now_ms


class Gone(NamedTuple):
    """Entries that a queue lacks: `entries` of a `kind` of queues, found at `place`.

    `offsets`: the queue offsets of the queue's records in the log; None if the queue has no entry at all, which then
    is not looked up.
    `last_record`: the log offset of the last record without an entry.
    `is_in_order`: the numbers of its records are consecutive.
    """

    kind: str
    key: QueueKey
    place: str
    offsets: OffsetRange | None
    entries: int
    last_record: int
    is_in_order: bool = True


def note_gone_on_purpose(check: Check, gone: Gone) -> bool:
    """Note a queue that a broker has deleted, though the log has records of it; return True if it has.

    A broker's configuration lists all topics but light queues. Lite topics are deleted when they expire: those whose
    last record is older than their parent allows. A topic that was deleted may be made again; see
    `_shows_a_deletion`. A broker that starts makes the entries again of records after the last one that has an entry
    in any queue, those of a deleted topic, too. So entries are gone on purpose up to a queue offset: the queue has all
    others, or none. Of a deleted topic of batches it makes plain queues, with one entry after the other for records
    whose numbers are not consecutive, so those are not compared.

    Source: `AdminBrokerProcessor.deleteTopic`, `AbstractLiteLifecycleManager.cleanExpiredLiteTopic`,
    `ConsumeQueueStore.getDispatchFromPhyOffset`.
    """
    key = gone.key
    if key in check.half_deleted:
        return False
    why = _expired(check, key, gone.last_record) if is_light(key.topic) else _deleted(check, key, gone.last_record)
    if why is None or not _lacks_its_begin_alone(check, gone):
        return False
    rule, text = why
    # Numbers that are not consecutive are counted, too.
    messages = f"{gone.entries} of its messages" if gone.is_in_order else "messages of it"
    check.report.remark(NOTE, rule, gone.place, 1, f"{key}: {text}, {messages} are still in the log")
    return True


def _lacks_its_begin_alone(check: Check, gone: Gone) -> bool:
    """Return True if a queue has no entry, or none before its first one, which RocketMQ fills with pre-blanks.

    Nothing fills a queue of batches, so there entries that are gone show only if all are.
    """
    if gone.offsets is None or (not gone.is_in_order and _is_known_deleted(check, gone.key, gone.last_record)):
        return True
    kind = next(kind for kind in check.store.kinds if kind.name == gone.kind)
    if kind.has_batches:
        return False
    try:
        with kind.asked() as ask:
            queue = ask(gone.key)
            there = queue.bounds(check.log.min_offset) if queue is not None else OffsetRange(0, 0)
    except DamagedStoreError:
        return False
    first = there.min_offset if there.min_offset < there.max_offset else gone.offsets.max_offset
    return gone.entries == first - gone.offsets.min_offset


def _deleted(check: Check, key: QueueKey, last_record: int) -> tuple[str, str] | None:
    rule = "queue-of-deleted-topic"
    if _is_known_deleted(check, key, last_record):
        return rule, "the topic was deleted"
    if _shows_a_deletion(check, key, last_record):
        again = " and made again" if key.topic in check.store.topics.names else ""
        return rule, (
            f"the topic was deleted{again} (a topic was made or changed after its last message here, no group has an "
            "offset in this queue, and no queue of the topic has an older message; if nobody deleted the topic, "
            "`reput rebuild --only queue` brings this queue back)"
        )
    return None


def _is_known_deleted(check: Check, key: QueueKey, last_record: int) -> bool:
    """Return True if the broker's topics show that the topic of a queue was deleted.

    A broker with topics in a database of version 2 keeps every topic of batches there, and puts batches to those alone.
    """
    if check.store.topics.was_deleted(key.topic):
        return True
    types = check.store.settings.types
    if not types.others_are_simple or key.topic in types.batch | types.simple:
        return False
    found = good_record(check.log, last_record)
    return found is not None and bool(found.decode().sys_flag & FLAG_INNER_BATCH)


def _shows_a_deletion(check: Check, key: QueueKey, last_record: int) -> bool:
    """Return True if the store shows all that a broker leaves of a topic which it deletes, and perhaps makes again.

    It is asked about topics that the broker has, or may have: one that keeps its topics in a database of version 2 does
    not write all of them there.

    A deletion removes every queue of the topic and every committed offset in it, and each change of the topics dates
    their data version. So a queue is lost, and not deleted, if the last change came before its last record, if a group
    has an offset in it, or if another queue of the topic has a record as old as its own. RocketMQ itself leaves no
    other trace, and begins either queue at 0 again.

    Source: `AdminBrokerProcessor.deleteTopic`, `ConsumerOffsetManager.cleanOffsetByTopic`,
    `TopicConfigManager.deleteTopicConfig`, `DefaultMessageStore.deleteTopics`.
    """
    store, topics = check.store, check.store.topics
    if key.topic.startswith(SYSTEM_PREFIX.encode()) or not 0 <= _store_ms(check, last_record) <= topics.changed_ms:
        return False
    try:
        committed = store.highest_committed
        if committed is None or committed.get(key, 0) > 0:
            return False
        return all(first > last_record for first in _first_records(check, key.topic))
    except DamagedStoreError:
        # Reported by itself; what cannot be read shows nothing.
        return False


def _first_records(check: Check, topic: bytes) -> Iterator[int]:
    """Yield the log offset of the first record of each queue of a topic that is there.

    Raises:
        DamagedStoreError: a queue cannot be read.
    """
    for kind in check.store.kinds:
        for queue in kind.queues(topic):
            begin, end = queue.bounds(check.log.min_offset)
            for _, entry in queue.read(begin, min(begin + 1, end)):
                yield entry.physical_offset


def _expired(check: Check, key: QueueKey, last_record: int) -> tuple[str, str] | None:
    lite = decode_lite_topic(key.topic)
    minutes = check.store.topics.lite_expirations.get(lite.parent, NEVER) if lite is not None else NEVER
    if minutes <= 0 or now_ms() - _store_ms(check, last_record) <= minutes * 60_000:
        return None
    return "queue-of-expired-lite-topic", f"the lite topic expired after {minutes} minutes"


def _store_ms(check: Check, offset: int) -> int:
    with check.store.maps() as maps:
        return maps.store_time(offset)
