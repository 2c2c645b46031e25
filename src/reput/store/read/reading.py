"""The answers of an open store: pulls and look-ups. Each answer covers the log up to the confirmed offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from reput.arguments import Renamed, named_arguments, since_ms, take_renamed, until_ms
from reput.errors import ConfigError
from reput.files.forks import NotPickled
from reput.formats.layout import INT64_MAX
from reput.kernels import SMALL_BYTES, expect_work, lasting_kind, lookup_kernels
from reput.kernels.layouts.lookup import ASK, BUFFER_FULL, COUNT_BITS, COUNT_MASK
from reput.queue.by_time import Boundary, boundary_of
from reput.store.read import keys, many
from reput.store.read.keys import KeyQuestion
from reput.store.read.message import StoredMessage
from reput.store.read.queue_answers import PullQuestion
from reput.store.read.results import MAX_PULL_BYTES, AnswerBuffer, GetResult, GetStatus, QueryResult, QueryResults
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import ALL_MESSAGES, TagFilter
from reput.store.read.topic_messages import TopicQuestion, messages_of_topic, refuse_unknown
from reput.store.read.view import StoreQueue, StoreView, number_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A call takes half a microsecond, so each look-up of an attribute counts, and one in an enum is a tenth of a pull.
_LOWER, _FOUND = Boundary.LOWER, GetStatus.FOUND


class Reading(NotPickled):
    """The reading half of a message store: one kernel call (see `lookup`) answers, or else the view does.

    Safe for threads. `close` drops the prepared look-ups, so the fast path does not test for a closed store.
    """

    _instead = "Send the path, and open the store in the other process: reput.MessageStore.open(path, read_only=True)"

    def __init__(self, view: StoreView) -> None:
        self._closed = False
        self._buffer = AnswerBuffer()
        self._choose_kernels()
        self._read(view)

    def _choose_kernels(self) -> None:
        self._pull_entries, self._seek_time, self._find_key = lookup_kernels(lasting_kind())

    def expect_many(self) -> None:
        """Expect questions about many messages: from now on the compiled kernels serve, inside `small_work`, too."""
        expect_work(SMALL_BYTES)
        self._choose_kernels()

    def _read(self, view: StoreView) -> None:
        """Let this view answer from now on."""
        self.view = view
        self._lookups = view.lookups
        self._queues = view.lookups.queues
        self._topics = view.lookups.topics

    def _open_view(self) -> StoreView:
        """Return the view that answers.

        Raises:
            ClosedError: the store is closed.
        """
        return self.view

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        filter: str | TagFilter | SqlFilter | None = None,  # noqa: A002 - the word that people know
        max_bytes: int = MAX_PULL_BYTES,
    ) -> GetResult:
        """Pull messages of a queue, from an offset on.

        Args:
            topic: The topic.
            queue_id: The queue.
            offset: The first queue offset that is wanted.
            max_messages: The most messages; 0 counts as 1.
            filter: Tags as in a subscription, `paid || sent`, compared by hash as RocketMQ does; or a SqlFilter.
            max_bytes: The most bytes of records, though always one record.

        Returns:
            The messages, a status, and the offset at which the next pull begins.

        Raises:
            ConfigError: No topic or queue can have this name or id, or `max_messages` is below 0.
            ClosedError: The store is closed.
        """
        try:
            queue = self._queues.get((topic, queue_id))
        except TypeError:
            # The topic or queue id is no text or number; `key_of` refuses it by name.
            queue = None
        if type(offset) is not int:
            offset = number_of("offset", offset)
        if type(max_messages) is not int:
            max_messages = number_of("max_messages", max_messages)
        if type(max_bytes) is not int:
            max_bytes = number_of("max_bytes", max_bytes)
        if queue is not None and not filter:
            buffer = self._buffer
            try:
                answer = self._pull_entries(queue.address, offset, max_messages, max_bytes, buffer.address)
            except OverflowError:
                # A number has more than 64 bits; the view answers it.
                answer = ASK
            if answer > 0:
                # The slots are filled here: a function for it takes a twentieth of the look-up.
                result = GetResult()
                # As `answer_count` and `answer_at`, without their calls.
                result.count = count = answer & COUNT_MASK
                result.at, result.words = answer >> COUNT_BITS, buffer.words
                result.status, result.next_offset = _FOUND, offset + count
                result.span, result.queue, result.maps = queue, queue.key, queue.maps
                return result
            if answer == BUFFER_FULL:
                self._buffer = AnswerBuffer(max_messages)
                return self.get_message(topic, queue_id, offset, max_messages, filter, max_bytes)
        if max_messages < 0:
            raise ConfigError(f"max_messages {max_messages}: give 1 or more")
        asked = PullQuestion(topic, queue_id, offset, max_messages, _filter_of(filter), max_bytes)
        return self._open_view().pull(asked)

    @named_arguments(begin_ms="since", end_ms="until")
    def messages(
        self,
        topic: str,
        queue_id: int | Sequence[int] | None = None,
        *,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        filter: str | TagFilter | SqlFilter | None = None,  # noqa: A002 - as of `get_message`
    ) -> Iterator[StoredMessage]:
        """Iterate over the messages of a topic that are stored now, in the order in which they were stored.

        Others may put meanwhile; their messages are not in it.
        Memory does not grow with the number of messages.

        Args:
            topic: The topic. A topic of the broker's without a queue has no message.
            queue_id: Only this queue, or these; all queues by default.
            since: Only messages stored at this time or later: a datetime (local without a zone), or ms since 1970.
            until: Only messages stored at this time or before.
            filter: As for `get_message`.

        Returns:
            The messages.

        Raises:
            ConfigError: The store does not have the topic, or no topic or queue can have this name or id.
            ClosedError: The store is closed.
            DamagedLogError: A record cannot be read.
        """
        view = self._open_view()
        if isinstance(queue_id, Iterable) and not isinstance(queue_id, str | bytes):
            wanted = list(queue_id)
        else:
            wanted = [] if queue_id is None else [cast("int", queue_id)]
        for one in wanted or [0]:
            view.key_of(topic, one)
        begin_ms, end_ms = since_ms(since), until_ms(until)
        _filter_of(filter)
        present = [info.queue_id for info in view.queues(topic)]
        if not present:
            refuse_unknown(view, topic)
        queue_ids = [one for one in present if one in wanted] if queue_id is not None else present

        def first(one: int) -> int:
            if begin_ms is not None:
                return self.offset_by_time(topic, one, begin_ms)
            return self.min_offset(topic, one)

        asked = TopicQuestion(queue_ids, begin_ms, end_ms, view.follower.offset)
        return messages_of_topic(
            asked, first, lambda one, offset, most: self.get_message(topic, one, offset, most, filter)
        )

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary | str = Boundary.LOWER
    ) -> int:
        """Return the queue offset for a time.

        Args:
            topic: The topic.
            queue_id: The queue.
            timestamp_ms: The store time (ms since 1970).
            boundary: `lower` for the first message stored at that time or later, `upper` for the last one stored at
                that time or before.

        Returns:
            The queue offset. If no message answers, `lower` gives the max offset and `upper` the min offset.

        Raises:
            ConfigError: No topic or queue can have this name or id.
            ClosedError: The store is closed.
        """
        # The look-up of an enum's member costs more than the search.
        boundary = boundary if type(boundary) is Boundary else boundary_of(boundary)
        try:
            queue = self._queues.get((topic, queue_id))
        except TypeError:
            queue = None
        timestamp_ms = timestamp_ms if type(timestamp_ms) is int else number_of("timestamp_ms", timestamp_ms)
        if queue is not None and self._lookups.can_seek and -INT64_MAX < timestamp_ms < INT64_MAX:
            above = boundary is not _LOWER
            found = self._seek_time(queue.address, timestamp_ms, above)
            if found < ASK:
                found = self._open_view().seek_time(topic, queue_id, timestamp_ms, above)
                if found >= 0:
                    return found
            # As `StoreView.seek_time`, without the call.
            elif found >= 0 and (found < queue.file_end or queue.file_end == queue.max_offset):
                return found if not above else max(queue.min_offset, found - 1)
        return self._open_view().offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def offsets_by_time(
        self,
        topic: str,
        queue_ids: int | Sequence[int] | NDArray[np.integer],
        timestamps_ms: int | Sequence[int] | NDArray[np.integer],
        boundary: Boundary | str = Boundary.LOWER,
    ) -> NDArray[np.int64]:
        """Return the queue offsets for many times: the answers of `offset_by_time`, much quicker.

        Args:
            topic: The topic.
            queue_ids: A queue for each question, or one for all.
            timestamps_ms: A store time for each question (ms since 1970), or one for all.
            boundary: As for `offset_by_time`.

        Returns:
            A queue offset for each question (int64), in their order.

        Raises:
            ConfigError: No topic or queue can have this name or id, a time is no whole number, or the numbers of queues
                and times differ.
            ClosedError: The store is closed.
        """
        boundary = boundary if type(boundary) is Boundary else boundary_of(boundary)
        view = self._open_view()
        asked = many.time_questions(view, topic, queue_ids, timestamps_ms)
        found = many.seek_times(view, topic, asked, boundary is not _LOWER)

        def single(number: int) -> int:
            queue_id = asked.keys[asked.places[number]].queue_id
            return self.offset_by_time(topic, queue_id, int(asked.given[number]), boundary)

        return many.answer_rest(found, single)

    def query_message(
        self,
        topic: str,
        key: str,
        max_messages: int = 64,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        *,
        before: int | None = None,
        by_tag: bool = False,
        exact: bool = True,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> QueryResult:
        """Find the newest messages of a topic with a key or unique key.

        Args:
            topic: The topic.
            key: The key, or the unique key.
            max_messages: The most messages; `QueryResult.more` says whether there are older ones.
            since: Only messages stored at this time or later: a datetime (local without a zone), or ms since 1970.
            until: Only messages stored at this time or before. The IndexFile knows times to the second; with `exact`
                the record decides.
            before: Only messages before this log offset: to go on where an answer ended.
            by_tag: `key` is a whole TAGS text (RocketMQ 5.4 and later index it).
            exact: Compare topic, key and time with the record. Without it two keys of one hash count as one key, and
                a message may come twice, as RocketMQ answers.
            begin_ms: The old name of `since`, with a DeprecationWarning.
            end_ms: The old name of `until`, with a DeprecationWarning.

        Returns:
            The messages, in log order.

        Raises:
            ConfigError: No topic can have this name, or an argument is not of its type.
            ClosedError: The store is closed.
        """
        # As parameters: a decorator for renamed arguments, or `**renamed`, takes 0.1 us of the 0.8 us of a look-up.
        if begin_ms is not None or end_ms is not None:
            since, until = _renamed_times({"begin_ms": begin_ms, "end_ms": end_ms}, since, until)
        if type(max_messages) is not int:
            max_messages = number_of("max_messages", max_messages)
        if exact and until is None and before is None and not since and not by_tag:
            try:
                prepared = self._topics.get(topic)
            except TypeError:
                # The topic is no text; `key_of` refuses it by name.
                prepared = None
            if prepared is not None and type(key) is str:
                buffer = self._buffer
                try:
                    answer = self._find_key(prepared.address, key.encode(), max_messages, buffer.address)
                except (OverflowError, UnicodeEncodeError):
                    # A number has more than 64 bits, or the key is not UTF-8; the view answers it.
                    answer = ASK
                if answer < ASK:
                    if answer == BUFFER_FULL:
                        buffer = self._buffer = AnswerBuffer(max_messages)
                    answer = keys.find_with_maps(self.view, prepared, key.encode(), max_messages, buffer)
                if answer >= 0:
                    return QueryResult.of_answer(answer, max_messages, prepared.index, buffer)
        number_of("before", 0 if before is None else before)
        begin_ms, end_ms = since_ms(since) or 0, until_ms(until)
        asked = KeyQuestion(topic, key, max_messages, begin_ms, end_ms, before, by_tag, exact)
        return keys.find(self._open_view(), asked)

    def query_messages(
        self,
        topic: str,
        keys: Iterable[str],
        max_messages: int = 64,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        *,
        before: int | None = None,
        by_tag: bool = False,
        exact: bool = True,
    ) -> QueryResults:
        """Find the newest messages of a topic for many keys: the answers of `query_message`, much quicker.

        Args:
            topic: The topic.
            keys: Keys or unique keys.
            max_messages: The most messages for each key.
            since: As for `query_message`, as are the arguments that follow.
            until: See `since`.
            before: See `since`.
            by_tag: See `since`.
            exact: See `since`.

        Returns:
            An answer for each key, in their order; it has the counts and log offsets of all of them as arrays.

        Raises:
            ConfigError: No topic can have this name, or an argument is not of its type.
            ClosedError: The store is closed.
        """
        view, texts, most = self._open_view(), many.key_texts(keys), number_of("max_messages", max_messages)
        view.key_of(topic, 0)
        if exact and until is None and before is None and not since and not by_tag:
            found = many.find_keys(view, topic, texts, most)
        else:
            found = QueryResults(len(texts), most)
        for number in found.open_questions():
            result = self.query_message(
                topic, texts[number], most, since, until, before=before, by_tag=by_tag, exact=exact
            )
            found.take_single(number, result)
        return found

    def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the message whose record starts at a log offset; None if no record starts there."""
        return self._open_view().message_at(physical_offset)

    def queues(self, topic: str | None = None) -> list[StoreQueue]:
        """List all queues, or those of a topic, each with its offsets. This reads every queue that it lists."""
        return self._open_view().queues(topic)

    def topics(self) -> list[str]:
        """List the topics that have queues, sorted. This is quick for any number of topics: it reads no queue."""
        return self._open_view().topics()

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset whose message is there; 0 if there is no such queue."""
        return self._open_view().min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the next queue offset; 0 if there is no such queue."""
        return self._open_view().max_offset(topic, queue_id)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time (ms) of a queue's message; -1 if there is none."""
        return self._open_view().store_time(topic, queue_id, number_of("offset", offset))

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return the store time (ms) of a queue's first message; -1 if there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def estimate(
        self,
        topic: str,
        queue_id: int,
        begin: int,
        end: int,
        filter: str | TagFilter | SqlFilter | None = None,  # noqa: A002
    ) -> int:
        """Count the messages with queue offsets [begin, end) that pulls with this filter give.

        Args:
            topic: The topic.
            queue_id: The queue.
            begin: The first queue offset.
            end: The queue offset after the last one.
            filter: As for `get_message`.

        Returns:
            The number of messages.

        Raises:
            ConfigError: No topic or queue can have this name or id.
            ClosedError: The store is closed.
        """
        view, wanted = self._open_view(), _filter_of(filter)
        return view.estimate(topic, queue_id, number_of("begin", begin), number_of("end", end), wanted)


def _filter_of(given: str | TagFilter | SqlFilter | None) -> TagFilter | SqlFilter:
    if not given:
        return ALL_MESSAGES
    if isinstance(given, str):
        return TagFilter(given)
    if not isinstance(given, TagFilter | SqlFilter):
        raise ConfigError(f"filter {given!r:.80}: give tags as a text, 'paid || sent', or a reput.SqlFilter")
    return given


def _renamed_times(old: dict[str, int | None], since: Any, until: Any) -> tuple[Any, Any]:
    """Return the bounds of a query by key of which some have their old names, `begin_ms` and `end_ms`.

    Raises:
        TypeError: A bound is given by both names.
    """
    given = {name: value for name, value in (("since", since), ("until", until), *old.items()) if value is not None}
    for name, present in (("begin_ms", "since"), ("end_ms", "until")):
        if name in given:
            take_renamed("MessageStore.query_message", given, name, Renamed(present), stacklevel=4)
    return given.get("since"), given.get("until")
