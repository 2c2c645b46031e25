"""Consumer progress: how far each group has read each queue; in memory, and where the broker keeps it.

The rules are the broker's (`ConsumerOffsetManager`): a commit may go backwards, an unknown queue answers -1, and a
reset answers instead of the committed offset until it is taken. These differ, so that nothing is lost:

- A JSON file is replaced at once, and its .bak before it, so each is whole at any instant. The broker renames the
  file and then writes it in place.
- A damaged JSON file is kept under another name; the broker deletes it. If there is no .bak either, the broker goes on
  with nothing, and every group begins again; here that is an error.
- A waiting reset keeps commits of its queue out. In the broker it only hides them.
- Cleaning a group drops its waiting resets too; the broker has one call that does and one that does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import index
from typing import Self, SupportsIndex

from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.config import consumer_offset
from reput.formats.config.consumer_offset import ConsumerOffsets, key_of, split_key
from reput.formats.config.data_version import DataVersion
from reput.formats.layout import INT64_MAX
from reput.formats.paths import MAX_QUEUE_ID
from reput.store.metadata.home import TableHome
from reput.store.metadata.json_homes import is_of_light_group
from reput.times import now_ms

UNKNOWN = -1
"""The answer of a query about an unknown queue, as in the broker."""
PERSIST_INTERVAL_MS = 5000
VERSION_STEP = 500
"""The number of commits between two data versions (`consumerOffsetUpdateVersionStep`)."""


class ConsumerProgress:
    """The table of committed offsets of a store, empty at first; `load` reads it from its home.

    Several threads may call all methods. Changes are in memory only until `persist`.

    Args:
        home: where the offsets are kept.
        clock_ms: returns the time, in milliseconds since 1970.
        persist_interval_ms: how long a change may wait in memory, see `persist_if_due` (flushConsumerOffsetInterval).
        version_step: the number of commits between two data versions (consumerOffsetUpdateVersionStep).
    """

    def __init__(
        self,
        home: TableHome,
        *,
        clock_ms: Callable[[], int] = now_ms,
        persist_interval_ms: int = PERSIST_INTERVAL_MS,
        version_step: int = VERSION_STEP,
    ) -> None:
        self.notes: list[str] = []
        self.damage: tuple[str, ...] = ()
        self.make_durable: Callable[[], object] = str
        """Makes durable what the offsets rest on, before they are."""
        self._home = home
        self._clock_ms = clock_ms
        self._interval_ms = persist_interval_ms
        self._version_step = version_step
        self._lock = threading.Lock()
        self._table: dict[str, dict[int, int]] = {}
        # The keys of the table by topic and by group: a store may have 1,000,000 of them, and clients ask for a few.
        self._of_topic: dict[str, set[str]] = {}
        self._of_group: dict[str, set[str]] = {}
        self._count = 0
        self._resets: dict[str, dict[int, int]] = {}
        self._version = DataVersion(0, 0, clock_ms())
        self._commits = 0
        self._dirty = False
        # One writer of the home at a time. Taken before the table's lock, never after it.
        self._writing = threading.Lock()
        self._tried_ms = clock_ms()

    @classmethod
    def load(
        cls,
        home: TableHome,
        *,
        clock_ms: Callable[[], int] = now_ms,
        persist_interval_ms: int = PERSIST_INTERVAL_MS,
        version_step: int = VERSION_STEP,
    ) -> Self:
        """Read the offsets from their home; JSON from its .bak if it is missing or damaged. Nothing changes there.

        `notes` gets the problems, and `damage` those of them that name offsets which were left out. If the home is
        empty, as in a new store, the table is empty.

        Raises:
            DamagedStoreError: the home is damaged; JSON, and its .bak is missing or damaged too.
            ReputError: the system does not let us read.
        """
        progress = cls(home, clock_ms=clock_ms, persist_interval_ms=persist_interval_ms, version_step=version_step)
        found = home.load()
        for key, queues in found.values.items():
            progress._queues(key).update(queues)
        progress._count = sum(map(len, progress._table.values()))
        progress._version = found.version or progress._version
        progress._dirty = found.must_write
        progress.notes += found.notes
        progress.damage = found.damage
        return progress

    # --- commit and query ------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of committed offsets: one for each queue of a group."""
        return self._count

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Set the offset at which a group continues in a queue; it may be lower than before.

        Returns False if a reset of this queue waits to be taken. The commit is then dropped: the consumer that made it
        does not know of the reset.

        Raises:
            ConfigError: a name that cannot be one, or a negative number (a broker takes both).
        """
        key = _key(group, topic)
        self._check_queue(key, queue_id)
        _check_number("queue offset", offset, INT64_MAX)
        with self._lock:
            if queue_id in self._resets.get(key, ()):
                return False
            queues = self._queues(key)
            before = queues.get(queue_id)
            if before != offset:
                self._count += before is None
                queues[queue_id] = offset
                self._dirty = True
            self._commits += 1
            if self._commits % self._version_step == 0:
                self._version = self._version.next(self._clock_ms())
                self._dirty = True
        return True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return where a group continues in a queue: a waiting reset, otherwise the committed offset, otherwise -1."""
        key = key_of(topic, group)
        with self._lock:
            for table in (self._resets, self._table):
                offset = table.get(key, {}).get(queue_id)
                if offset is not None:
                    return offset
        return UNKNOWN

    def query_all(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offset of each queue of a topic in which the group has one."""
        with self._lock:
            return dict(self._table.get(key_of(topic, group), {}))

    def has(self, group: str, topic: str) -> bool:
        """Return True if a group has progress in a topic."""
        # Usually the key is as we write it, and the search for others is not needed.
        return bool(self.query_all(group, topic)) or group in self.groups_of(topic)

    def groups(self) -> list[str]:
        """Return the groups that have progress, sorted."""
        with self._lock:
            return sorted(self._of_group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with progress in a topic, sorted."""
        with self._lock:
            return sorted({parts[1] for key in self._of_topic.get(topic, ()) if (parts := split_key(key))})

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has progress, sorted."""
        with self._lock:
            return sorted({parts[0] for key in self._of_group.get(group, ()) if (parts := split_key(key))})

    def snapshot(self) -> ConsumerOffsets:
        """Return a copy of the whole table, sorted."""
        with self._lock:
            return self._snapshot()

    # --- resets ----------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send a group to `offset` of a queue: the committed offset from now on, and a reset that waits to be taken.

        The home gets the offset, not the waiting reset.

        Raises:
            ConfigError: a name that cannot be one, or a negative number.
        """
        key = _key(group, topic)
        self._check_queue(key, queue_id)
        _check_number("queue offset", offset, INT64_MAX)
        with self._lock:
            self._resets.setdefault(key, {})[queue_id] = offset
            queues = self._queues(key)
            self._count += queue_id not in queues
            queues[queue_id] = offset
            self._dirty = True

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return the offset of a waiting reset; None if there is none."""
        if not self._resets:
            return None
        key = key_of(topic, group)
        with self._lock:
            resets = self._resets.get(key, {})
            offset = resets.pop(queue_id, None)
            if not resets:
                self._resets.pop(key, None)
        return offset

    # --- whole topics and groups -----------------------------------------------------------------

    def clone(self, from_group: str, to_group: str, topic: str) -> int:
        """Give a group the committed offsets of another group in a topic, in place of its own.

        Return the number of queues.

        If the other group has none, the answer is 0, and nothing changes.

        Raises:
            ConfigError: a name that cannot be one.
        """
        source, target = _key(from_group, topic), _key(to_group, topic)
        with self._lock:
            queues = self._table.get(source)
            if queues is None:
                return 0
            self._count += len(queues) - len(self._queues(target))
            self._table[target] = dict(queues)
            self._dirty = True
            return len(queues)

    def clean_topic(self, topic: str) -> int:
        """Forget all progress in a topic; return the number of groups that had some."""
        with self._lock:
            return self._forget(self._of_topic.get(topic, ()))

    def clean_group(self, group: str) -> int:
        """Forget all progress of a group; return the number of topics in which it had some."""
        with self._lock:
            return self._forget(self._of_group.get(group, ()))

    def remove(self, group: str, topic: str) -> bool:
        """Forget the progress of one group in one topic; return True if there was some."""
        with self._lock:
            return self._forget(key for key in self._of_topic.get(topic, ()) if split_key(key) == (topic, group)) > 0

    def _check_queue(self, key: str, queue_id: int) -> None:
        _check_number("queue id", queue_id, MAX_QUEUE_ID)
        if self._home.has_light_groups and queue_id != consumer_offset.LMQ_QUEUE_ID and is_of_light_group(key):
            raise ConfigError(f"queue id {queue_id}: a light group has one offset in a topic, that of queue 0")

    def _queues(self, key: str) -> dict[int, int]:
        """Return the offsets of a key, to be changed; a key that is not there yet gets none."""
        queues = self._table.get(key)
        if queues is None:
            queues = self._table[key] = {}
            for keys, name in self._names(key):
                keys.setdefault(name, set()).add(key)
        return queues

    def _names(self, key: str) -> tuple[tuple[dict[str, set[str]], str], ...]:
        """Return the tables of keys with the names under which they have a key; a key of another form has none."""
        parts = split_key(key)
        return () if parts is None else ((self._of_topic, parts[0]), (self._of_group, parts[1]))

    def _forget(self, unwanted: Iterable[str]) -> int:
        """Remove keys, with their resets; return their number."""
        unwanted = list(unwanted)
        for key in unwanted:
            self._resets.pop(key, None)
            self._count -= len(self._table.pop(key))
            for keys, name in self._names(key):
                keys[name].remove(key)
                if not keys[name]:
                    del keys[name]
        self._dirty = self._dirty or bool(unwanted)
        return len(unwanted)

    # --- the home --------------------------------------------------------------------------------

    def persist_if_due(self, at_ms: int) -> bool:
        """Call `persist` if the last attempt is an interval ago; return True if the home was written.

        Raises:
            ReputError: as `persist`; the next attempt comes after another interval.
        """
        # A clock that was set back must not delay the next attempt by as much.
        if not self._dirty or 0 <= at_ms - self._tried_ms < self._interval_ms:
            return False
        self._tried_ms = at_ms
        return self.persist()

    def persist(self) -> bool:
        """Make the table durable if it has changed; return True if the home was written.

        A crash at any instant leaves the home whole, with the old table or the new one. The messages that the offsets
        rest on are durable first: offsets that outlive them would pass over the ones that get their numbers.

        Raises:
            ReputError: the log cannot be made durable, the system refuses a call, the disk is full, or no reader would
                take so large a table. The home has the old table, and memory keeps the new one to be persisted later.
        """
        with self._writing:
            with self._lock:
                if not self._dirty:
                    return False
                offsets = self._snapshot()
                self._dirty = False
            try:
                self.make_durable()
                written = self._home.write(offsets.offset_table, offsets.data_version or self._version)
            except BaseException:
                with self._lock:
                    self._dirty = True
                raise
            with self._lock:
                self._version = max(self._version, written)
        return True

    def _snapshot(self) -> ConsumerOffsets:
        table = {key: dict(sorted(queues.items())) for key, queues in sorted(self._table.items())}
        return ConsumerOffsets(table, consumer_offset.group_topics(table), self._version)


def _key(group: str, topic: str) -> str:
    """Return the table's key of a group and a topic, after a check of both names."""
    for what, name in (("group", group), ("topic", topic)):
        # JSON can hold other values.
        if not isinstance(name, str):
            raise ConfigError(f"{what} {name!r:.80}: give a text")
    return _key_of_texts(group, topic)


# Consumers commit with each pull, and to check their names anew takes 3 us.
@lru_cache(maxsize=1 << 12)
def _key_of_texts(group: str, topic: str) -> str:
    for what, name in (("group", group), ("topic", topic)):
        # JSON can hold half a character, which no name can.
        data = name.encode("utf-8", "surrogatepass")
        if consumer_offset.SEPARATOR in name or not paths.is_topic_folder_name(data):
            raise ConfigError(
                f"{what} {name[:80]!r}: give a name of 1 to {paths.MAX_TOPIC_BYTES} bytes without @, / and zero bytes"
            )
    return key_of(topic, group)


def _check_number(what: str, number: object, most: int) -> None:
    # To ask a protocol takes 20 us.
    if type(number) is int and 0 <= number <= most:
        return
    if not isinstance(number, SupportsIndex) or not 0 <= index(number) <= most:
        raise ConfigError(f"{what} {number!r:.80}: a whole number from 0 to {most} is needed")
