"""The calls of an open store about consumer progress: those of `ConsumerProgress`, while the store is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from reput.errors import ConfigError

if TYPE_CHECKING:
    from reput.store.progress.progress import ConsumerProgress


class ProgressCalls(ABC):
    """Consumer progress of an open store. Changes are durable at the next persist: every 5 s, and at close."""

    @property
    @abstractmethod
    def progress(self) -> ConsumerProgress:
        """The committed offsets of all groups."""

    @abstractmethod
    def _check_open(self, *, to_write: bool) -> None:
        """Raise ClosedError if the store is closed, and AccessError if it must be written and cannot."""

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commit how far a group has read a queue.

        Args:
            group: The consumer group.
            topic: The topic.
            queue_id: The queue.
            offset: The next queue offset that the group wants. It may be lower than before.
                It may also be past the queue's end, as with a broker: the queue's last messages may be lost, or the
                store an older copy, and the group must not lose its place. `reput progress` names such an offset.

        Returns:
            False if a reset of this queue waits for `take_reset`: the commit is then dropped.

        Raises:
            ConfigError: A name that no group or topic can have, or a negative number.
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
        """
        self._check_open(to_write=True)
        return self.progress.commit(group, topic, queue_id, offset)

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return how far a group has read a queue, a waiting reset first; -1 if it is not known.

        A store that is open read-only returns the state of its file when progress was first asked for.

        Raises:
            ClosedError: The store is closed.
        """
        self._check_open(to_write=False)
        return self.progress.query(group, topic, queue_id)

    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send a group to `offset` of a queue; its commits are dropped until `take_reset` is called.

        Raises:
            ConfigError: A name that no group or topic can have, or a negative number.
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
        """
        self._check_open(to_write=True)
        self.progress.reset(group, topic, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset to which a consumer of the group was sent, once; None if no reset waits.

        Raises:
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
        """
        self._check_open(to_write=True)
        return self.progress.take_reset(group, topic, queue_id)

    def clone_offsets(self, from_group: str, to_group: str, topic: str) -> int:
        """Give a group the offsets of another group in a topic, in place of its own.

        Returns:
            The number of queues.

        Raises:
            ConfigError: A name that no group or topic can have.
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
        """
        self._check_open(to_write=True)
        return self.progress.clone(from_group, to_group, topic)

    def clean_offsets(self, *, group: str | None = None, topic: str | None = None) -> int:
        """Forget the progress of a group, of a topic, or of one group in one topic.

        Returns:
            The number of pairs of group and topic that were forgotten.

        Raises:
            ConfigError: Neither a group nor a topic is given.
            AccessError: The store is open read-only.
            ClosedError: The store is closed.
        """
        self._check_open(to_write=True)
        if group is not None and topic is not None:
            return int(self.progress.remove(group, topic))
        if topic is not None:
            return self.progress.clean_topic(topic)
        if group is None:
            raise ConfigError("clean_offsets: give a group, a topic, or both; nothing was forgotten")
        return self.progress.clean_group(group)
