"""What an open store answers: pulls and look-ups, each by a view that is brought up to what is confirmed."""

from __future__ import annotations

from reput.errors import ConfigError
from reput.queue.by_time import Boundary, boundary_of
from reput.store.message import StoredMessage
from reput.store.results import MAX_PULL_BYTES, GetResult, QueryResult
from reput.store.sql_filter import SqlFilter
from reput.store.tag_filter import EVERYTHING, TagFilter
from reput.store.view import QueueInfo, StoreView


class Reading:
    """The reading half of a message store: what answers, and whether the store is closed."""

    view: StoreView
    _closed: bool

    def _open_view(self) -> StoreView:
        """The view that answers.

        Raises:
            ClosedError: the store is closed.
        """
        raise NotImplementedError

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        filter: str | TagFilter | SqlFilter | None = None,  # noqa: A002 - the word that people know
        max_bytes: int = MAX_PULL_BYTES,
    ) -> GetResult:
        """Messages of a queue from an offset on.

        Args:
            topic, queue_id: the queue.
            offset: the first queue offset wanted.
            max_messages: at most so many; at least one is given where there is one.
            filter: tags as in a subscription, `paid || sent`, compared by hash, as RocketMQ does; or a SqlFilter.
            max_bytes: at most so many bytes of records, though always one record.

        Raises:
            ConfigError: no topic or queue can have this name or id.
            ClosedError: the store is closed.
        """
        if self._closed:
            self._open_view()
        wanted = EVERYTHING if not filter else TagFilter(filter) if isinstance(filter, str) else filter
        return self.view.get_message(topic, queue_id, offset, max_messages, wanted, max_bytes)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary | str = Boundary.LOWER
    ) -> int:
        """The queue offset for a time.

        With `lower` that of the first message stored at or after it, with `upper` of the last one at or before it.
        """
        if self._closed:
            self._open_view()
        # To look an enum's member up costs more than the search.
        boundary = boundary if type(boundary) is Boundary else boundary_of(boundary)
        return self.view.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def query_message(
        self,
        topic: str,
        key: str,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        before: int | None = None,
        by_tag: bool = False,
        exact: bool = True,
    ) -> QueryResult:
        """The newest messages of a topic with a key or unique key, stored in [begin_ms, end_ms], in log order.

        Args:
            topic, key: what to look for.
            max_messages: at most so many; `QueryResult.more` says whether there are older ones.
            begin_ms, end_ms: store times. The IndexFile knows them to the second; with `exact` the record tells.
            before: only messages in front of this log offset: to go on where an answer ended.
            by_tag: `key` is a whole TAGS text (RocketMQ 5.4 and later index it).
            exact: hold topic, key and time against the record; without, two keys of one hash are not told apart, and a
                message may come twice, as RocketMQ answers.
        """
        if exact and end_ms is None and before is None and not (begin_ms or by_tag or self._closed):
            found = self.view.newest_with_key(topic, key, max_messages)
            if found is not None:
                return found
        return self._open_view().query_message(
            topic, key, max_messages, begin_ms, end_ms, before=before, by_tag=by_tag, exact=exact
        )

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record starts at a log offset, None where none does."""
        return self._open_view().message_at(physical_offset)

    def queues(self, topic: str | None = None) -> list[QueueInfo]:
        """All queues, or those of a topic, with their spans."""
        return self._open_view().queues(topic)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset whose message is there, 0 for no queue."""
        return self._open_view().min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next queue offset, 0 for no queue."""
        return self._open_view().max_offset(topic, queue_id)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time (ms) of a queue's message, -1 where there is none."""
        return self._open_view().store_time(topic, queue_id, offset)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Store time (ms) of a queue's first message, -1 where there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def estimate(
        self,
        topic: str,
        queue_id: int,
        begin: int,
        end: int,
        filter: str | TagFilter | None = None,  # noqa: A002
    ) -> int:
        """How many messages with queue offsets [begin, end) match: an exact count by their tags' hashes.

        Raises:
            ConfigError: the filter is none by tags.
        """
        if isinstance(filter, SqlFilter):
            raise ConfigError(f"{filter!r}: an estimate counts by tags; pull with this filter and count")
        tags = filter if isinstance(filter, TagFilter) else TagFilter(filter) if filter else EVERYTHING
        return self._open_view().estimate(topic, queue_id, begin, end, tags)
