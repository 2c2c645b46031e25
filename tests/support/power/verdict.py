"""The judgement of a store after the power was cut: all that was durable is there, in order, once, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.errors import NotAStoreError, StoreLockedError
from reput.formats import paths
from reput.formats.own import files as own
from support import stores
from support.checked import assert_sound, digest_of
from support.power.journal import Known
from support.power.scenarios import GROUP, TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from reput.config import StoreConfig
    from support.power.journal import Entry
    from support.power.scenarios import Scenario

_KEYS = ("k0", "k1", "k2")
KEYLESS = "keyless"
"""The promise about messages that a power cut has left without their keys, as `keyless` returns it."""
KEYS_LOST = "keys lost"
"""The promise that RocketMQ has removed IndexFiles: a rebuild brings back the keys that they had."""
LOST_UNSEEN = "lost unseen"
"""The promise that a wrong sector may have taken messages that were acknowledged: who has put them does not know."""
TAGS_LOST = "tags lost"
"""The promise that RocketMQ has kept entries with the tags of records that a power cut has left without theirs."""


class RefusedPutError(AssertionError):
    """A put after the recovery was refused; the store has said why."""


class Promises:
    """The facts that the program knew at a moment of a journal."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._known: dict[str, int] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take in the next entry of the journal."""
        if isinstance(entry, Known):
            self._known[entry.what] = entry.value

    def __repr__(self) -> str:
        return f"Promises({self._known})"

    def changed(self, known: Mapping[str, int]) -> Promises:
        """Return the same with these values in place of those of their kinds."""
        return Promises(Known(*one) for one in (self._known | dict(known)).items())

    def last(self, what: str) -> int:
        """Return the last value of a kind, 0 for none."""
        return self._known.get(what, 0)


def assert_kept(path: Path, promises: Promises, scenario: Scenario) -> None:
    """Fail unless the store keeps what was promised, can be opened, written, indexed and closed, and is sound then."""
    config = scenario.config
    try:
        store = reput.MessageStore.open(path, config)
    except NotAStoreError:
        assert promises.last("durable") == 0, "the store has vanished"
        store = open_empty(path, config)
    if promises.last(KEYS_LOST) or promises.last(TAGS_LOST):
        store.close()
        reput.rebuild(path, only=None if promises.last(TAGS_LOST) else "index", spark=False, config=config)
        store = reput.MessageStore.open(path, config)
    with store:
        first, end, deleted, all_numbers = _assert_messages(store, promises)
        for remainder, key in enumerate(_KEYS) if not deleted else ():
            wanted = [number for number in all_numbers if number % 3 == remainder]
            keyed = [one for topic in TOPICS for one in store.query_message(topic, key, 100)]
            by_key = {int(one.body.split()[0]) for one in keyed}
            # The CRC of a record is that of its body. Of the one at the log's end, which was not acknowledged, sectors
            # with properties may be lost, if these have no CRC.
            # So a later flush makes a message durable that a cut has left without its keys.
            lost = promises.last(KEYLESS)
            durable = range(promises.last("durable"))
            sure = {n for n in wanted if config.enabled_append_prop_crc or (n in durable and not lost >> n & 1)}
            assert len(keyed) == len(by_key), "a key finds a message twice"
            assert sure <= by_key <= set(wanted), "a key finds other messages"
        for queue_id in range(2):
            offset = max(store.query_offset(GROUP, "a", queue_id), 0)
            if queue_id == 0 or not promises.last("rests on messages"):
                assert promises.last("kept") <= offset <= promises.last("committed"), f"progress {offset}"
            if promises.last("rests on messages") and not promises.last(LOST_UNSEEN):
                assert offset <= store.max_offset("a", queue_id), f"progress {offset} is past the queue's end"
        if scenario.again is not None and not promises.last(LOST_UNSEEN):
            end = scenario.again(store, promises.last("durable"))
            found = content(store)
            assert [int(body.split()[0]) for body in found] == list(range(end)), f"run again: {found}"
        _assert_goes_on(store, b"%d more" % (first + end))
    assert_sound(path, config)


def _assert_goes_on(store: reput.MessageStore, body: bytes) -> None:
    """Fail unless the next message gets the next number of its queue, and is read there."""
    following = store.max_offset("a", 0)
    more = store.put_message(reput.Message("a", body))
    if more.status is not reput.PutStatus.PUT_OK:
        raise RefusedPutError(more.reason)
    assert more.queue_offset == following, f"the next message is number {more.queue_offset}, not {following}"
    (read,) = store.get_message("a", 0, following).messages
    assert read.body == body, f"the next message is {read.body!r}"


class _Present(NamedTuple):
    """The messages that are there: the first one, the number of those before the log's end, which topic went."""

    first: int
    end: int
    deleted: bool
    numbers: list[int]


def _assert_messages(store: reput.MessageStore, promises: Promises) -> _Present:
    """Fail unless a store has the messages that were promised, once and in order."""
    found = content(store)
    first, end = int(found[0].split()[0]) if found else 0, len(found)
    numbers = [int(body.split()[0]) for body in found]
    deleted = 1 not in numbers and bool(promises.last("topic may go"))
    assert deleted or not promises.last("topic gone"), "a deleted topic is back"
    if deleted:
        # The last message may be one of those that went.
        end = max(promises.last("durable"), max(numbers, default=-1) + 1)
    all_numbers = [number for number in range(first, first + end) if not (deleted and number % 2)]
    assert numbers == all_numbers, f"messages are lost or doubled: {numbers}"
    if not numbers and promises.last("durable") <= promises.last("may go"):
        # All have expired.
        return _Present(promises.last("may go"), 0, deleted, numbers)
    assert first <= promises.last("may go"), f"the log begins at message {first}"
    assert promises.last("durable") <= first + end <= promises.last("begun"), f"{first + end} messages"
    return _Present(first, end, deleted, all_numbers)


def assert_read_as_it_is(path: Path, promises: Promises, config: StoreConfig) -> None:
    """Fail unless a reader of what a power cut left, before any recovery, has the promised messages.

    A swap under way keeps readers out.
    """
    try:
        store = reput.MessageStore.open(path, config, read_only=True)
    except NotAStoreError:
        assert promises.last("durable") == 0, "the store has vanished"
        return
    except StoreLockedError:
        assert (path / paths.REPUT / own.INTENT_NAME).is_file(), "a reader is kept out"
        return
    with store:
        _assert_messages(store, promises)


def open_empty(path: Path, config: StoreConfig) -> reput.MessageStore:
    """Open a store that has no durable message, and make it if it is not there."""
    try:
        return reput.MessageStore.open(path, config, create=True)
    except NotAStoreError:
        # The log's first file has vanished, and an index has items: as if the log's disk were not mounted.
        reput.rebuild(path, empty_log=True, spark=False, config=config)
        return reput.MessageStore.open(path, config)


_rebuilt: set[bytes] = set()
"""The digests of stores that were compared with a rebuild in this process."""


def assert_built_as_by_rebuild(path: Path, scenario: Scenario) -> None:
    """Fail unless all queue files and IndexFiles of a closed store have the bytes that a rebuild of its log gives them.

    Where these may differ (`Scenario.is_as_rebuilt`) nothing is compared: `reput check` has compared each entry and
    item with the log. Stores of the same bytes are compared once.
    """
    if not scenario.is_as_rebuilt:
        return
    digest = digest_of(path, scenario.config)
    if digest is None or digest not in _rebuilt:
        stores.assert_as_rebuilt(path, path.parent / "twin", scenario.config)
    if digest is not None:
        _rebuilt.add(digest)


def content(store: reput.MessageStore) -> list[bytes]:
    """Return the bodies of all messages in the order of the log."""
    return [one.body for one in _messages(store)]


def keyless(store: reput.MessageStore) -> int:
    """Return the messages without their keys, a bit for the number of each: those whose properties were lost.

    Properties that are cut within the value of the keys leave keys of zero bytes.
    """
    numbers = [int(one.body.split()[0]) for one in _messages(store) if not set(_KEYS).intersection(one.keys)]
    return sum(1 << number for number in numbers)


def _messages(store: reput.MessageStore) -> list[reput.StoredMessage]:
    """Return all messages in the order of the log; fail unless each queue has its numbers without a gap, in order."""
    found = []
    for topic, queue_id, begin, end in store.queues():
        if topic not in TOPICS:
            continue
        offset, of_queue = begin, []
        while offset < end:
            result = store.get_message(topic, queue_id, offset)
            assert result.next_offset > offset, f"{topic}/{queue_id} stops at {offset} of {end}: {result.status}"
            of_queue += list(result)
            offset = result.next_offset
        numbers, places = ([one.queue_offset for one in of_queue], [one.physical_offset for one in of_queue])
        assert numbers == list(range(begin, end)), f"{topic}/{queue_id}: numbers {numbers} for {begin} to {end}"
        assert places == sorted(places), f"{topic}/{queue_id}: not in the order of the log: {places}"
        found += of_queue
    return sorted(found, key=lambda one: one.physical_offset)
