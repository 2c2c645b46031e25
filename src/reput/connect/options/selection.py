"""Selection of the wanted messages: one test for all plans, over columns and never message by message.

A `Selection` joins the options with the filters that Spark pushed down. It is small and goes to every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from reput.connect.options.edges import EARLIEST, LATEST, Edge, Kind, QueueId
from reput.connect.options.options import ReadOptions, TopicChoice
from reput.formats.java.hashing import index_key_hash, java_string_hash
from reput.formats.layout import INT64_MAX
from reput.formats.stored_text import stored_bytes
from reput.formats.topics.lite_topics import is_light


@dataclass(frozen=True)
class NumberRange:
    """Numbers [begin, end)."""

    begin: int = 0
    end: int = INT64_MAX

    def cut(self, begin: int = 0, end: int = INT64_MAX) -> NumberRange:
        """Return the part that also lies in [begin, end)."""
        return NumberRange(max(self.begin, begin), min(self.end, end))

    @property
    def is_empty(self) -> bool:
        """True if nothing lies in it."""
        return self.end <= self.begin

    @property
    def is_everything(self) -> bool:
        """True if it leaves nothing out."""
        return self.begin <= 0 and self.end == INT64_MAX


ALL_NUMBERS = NumberRange()


@dataclass(frozen=True)
class Selection:
    """The messages that are read.

    `topics` is what the options choose, `topic_names` and `queue_ids` what filters leave of it (None: all). `offsets`
    bounds the queue offsets of single queues, and `times` their store times (ms). `queue_offset`, `stored_ms` and
    `position` (log offsets) bound those of all queues. `tags` are exact; `sql` is a SQL92 filter. A message must have
    one of the `keys`. It must have one of the `key_hints`, too, or a filter that Spark evaluates cannot hold.
    """

    topics: TopicChoice
    topic_names: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    offsets: Mapping[QueueId, NumberRange] = field(default_factory=dict)
    times: Mapping[QueueId, NumberRange] = field(default_factory=dict)
    queue_offset: NumberRange = NumberRange()
    stored_ms: NumberRange = NumberRange()
    position: NumberRange = NumberRange()
    tags: tuple[str, ...] = ()
    sql: str = ""
    keys: tuple[str, ...] = ()
    key_hints: tuple[str, ...] = ()

    @property
    def is_whole_log(self) -> bool:
        """True if no topic, queue, offset or store time is left out."""
        return (
            self.topics.is_everything
            and self.topic_names is None
            and self.queue_ids is None
            and not self.offsets
            and not self.times
            and self.queue_offset.is_everything
            and self.stored_ms.is_everything
        )

    def wants(self, topic: str, queue_id: int) -> bool:
        """Return True if messages of a queue may be wanted."""
        if self.topic_names is not None and topic not in self.topic_names:
            return False
        if self.queue_ids is not None and queue_id not in self.queue_ids:
            return False
        return self.topics.wants(topic, queue_id)

    @property
    def named_topics(self) -> frozenset[str] | None:
        """The topics that are asked for by name, with light queues; None if topics are chosen in another way."""
        chosen = self.topics.named
        if chosen is None:
            return self.topic_names
        if self.topic_names is None:
            return chosen
        return (chosen & self.topic_names) | self.light_topics

    @property
    def light_topics(self) -> frozenset[str]:
        """The light queues that are asked for by name."""
        return frozenset(name for name in self.topics.named or () if is_light(name))

    def wants_light(self, topic: str, queue_id: int) -> bool:
        """Return True for a light queue that is asked for by name.

        Its messages are records of other topics, so filters on topic, queue and number mean those.
        """
        return topic in self.light_topics and self.topics.wants(topic, queue_id)

    def entries_of(self, queue: QueueId) -> NumberRange:
        """Return the queue offsets that are read in a queue on disk."""
        return self.offsets.get(queue, NumberRange()) if self.wants_light(*queue) else self.offsets_of(queue)

    def offsets_of(self, queue: QueueId) -> NumberRange:
        """Return the queue offsets that are wanted of a queue."""
        span = self.offsets.get(queue, NumberRange())
        return self.queue_offset.cut(span.begin, span.end)

    def times_of(self, queue: QueueId) -> NumberRange:
        """Return the store times that are wanted of a queue."""
        span = self.times.get(queue, NumberRange())
        return self.stored_ms.cut(span.begin, span.end)

    @property
    def by_properties(self) -> bool:
        """True if the properties of a message decide."""
        return bool(self.tags or self.keys or self.sql)

    @property
    def tag_codes(self) -> NDArray[np.int64]:
        """The hashes of the tags, as a ConsumeQueue holds them; empty for all."""
        return np.array(sorted({java_string_hash(tag) for tag in self.tags}), dtype=np.int64)

    @property
    def searched_keys(self) -> tuple[str, ...]:
        """Keys of which each wanted message has one; empty if keys do not matter."""
        return self.keys or self.key_hints

    def key_hashes(self, topic: str) -> list[int]:
        """Return the IndexFile's hashes of the searched keys."""
        name = stored_bytes(topic)
        return [index_key_hash(name + b"#" + stored_bytes(key)) for key in self.searched_keys]


def selection_of(options: ReadOptions) -> Selection:
    """Return the messages that the options ask for."""
    selection = Selection(
        options.topics,
        position=NumberRange(options.log_begin, options.log_end),
        tags=options.tags,
        sql=options.sql,
        keys=options.keys,
    )
    selection = _bounded(selection, options.starting, starting=True)
    return _bounded(selection, options.ending, starting=False)


def _bounded(selection: Selection, edge: Edge, *, starting: bool) -> Selection:
    if edge.kind is Kind.TIMESTAMP:
        span = NumberRange(begin=edge.timestamp_ms) if starting else NumberRange(end=edge.timestamp_ms)
        return replace(selection, stored_ms=selection.stored_ms.cut(span.begin, span.end))
    if edge.kind is Kind.TIMESTAMPS:
        times = dict(selection.times)
        for queue, time in edge.queues.items():
            times[queue] = times.get(queue, NumberRange()).cut(*((time,) if starting else (0, time)))
        return replace(selection, times=times)
    offsets = dict(selection.offsets)
    for queue, offset in edge.queues.items():
        if offset == EARLIEST:
            cut = (0,) if starting else (0, 0)
        elif offset == LATEST:
            # Messages after the snapshot are not read anyway.
            cut = (INT64_MAX,) if starting else (0,)
        else:
            cut = (offset,) if starting else (0, offset)
        offsets[queue] = offsets.get(queue, NumberRange()).cut(*cut)
    return replace(selection, offsets=offsets)
