"""The work of `get`, after its options are parsed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli.get.format import delimiter, format_form
from reput.cli.get.names import EARLIEST, MAX_MESSAGES, OFFSETS
from reput.cli.get.read import QueueReader, Reader, keep_last, range_of
from reput.cli.shared import opened as stores
from reput.cli.shared import output
from reput.cli.shared.lines import LineForm, LineWriter, body_form, cells_form, json_form, raw_form
from reput.cli.shared.signals import INTERRUPTED, ended_by_sigterm
from reput.kernels.layouts.lines import WHOLE

if TYPE_CHECKING:
    from reput.cli.shared.bodies import Bodies
    from reput.config import StoreConfig
    from reput.embedded import MessageStore
    from reput.store.read.sql_filter import SqlFilter
    from reput.store.read.view import StoreQueue

_MANY = 2000


class ReadBounds(NamedTuple):
    """The begin and end of reading: a queue offset, or times (ms)."""

    offset: str | int
    since_ms: int | None
    until_ms: int | None

    @classmethod
    def of(cls, offset: str | None, since: int | None, until: int | None, follow: bool) -> ReadBounds:
        """Return the bounds that the options ask for.

        Raises:
            click.UsageError: They contradict each other.
        """
        if offset is not None and since is not None:
            raise click.UsageError("-o and --since both set the begin: give one of them")
        if follow and until is not None:
            raise click.UsageError("--until sets an end, and -f has none: give one of them")
        stores.refuse_no_time(since, until)
        if offset is None or offset in OFFSETS:
            return cls(OFFSETS[offset or EARLIEST], since, until)
        try:
            return cls(int(offset), since, until)
        except ValueError:
            names = ", ".join(OFFSETS)
            raise click.BadParameter(f"{offset!r}: give a number, or one of {names}", param_hint="-o") from None

    def apply(self, readers: Sequence[QueueReader], follow: bool) -> None:
        """Set the begin and end of readers."""
        last = -self.offset if isinstance(self.offset, int) and self.offset < 0 else None
        for reader in readers:
            if self.since_ms is None:
                begin, end = range_of(reader, self.offset)
                reader.begin = reader.offset = begin
                # Another process may put more. The last messages are those before the end that was read.
                reader.end = None if last is None else end
            else:
                found = reader.opened.offset_by_time(reader.topic, reader.queue_id, self.since_ms, "lower")
                reader.begin = reader.offset = found
                reader.begin_time_ms = self.since_ms
        if last is not None:
            keep_last(readers, last)
        for reader in readers:
            if follow:
                reader.end = None
            if self.until_ms is not None:
                reader.until(self.until_ms)


class Question(NamedTuple):
    """The messages that the options ask for.

    `wanted` is a filter by tags or properties. `max_messages` is None if the option is not given. With `follow` the
    command waits for new messages until Ctrl-C or SIGTERM.
    """

    topics: Sequence[str]
    queue_id: int | None
    wanted: str | SqlFilter | None
    bounds: ReadBounds
    max_messages: int | None
    follow: bool

    @property
    def limit(self) -> int | None:
        """The most messages to write; None for all."""
        if self.max_messages is None and not self.follow:
            return MAX_MESSAGES
        return self.max_messages


def get_messages(store: str, config: StoreConfig, question: Question, form: LineForm) -> int:
    """Write messages of a store to stdout, each in the form of a line; return the exit code."""
    writer, limit = LineWriter(form), question.limit
    # SIGTERM may end it before the store is open.
    read_from: list[MessageStore] = []
    try:
        with contextlib.ExitStack() as resources:
            if question.follow:
                resources.enter_context(ended_by_sigterm())
            opened = resources.enter_context(stores.reading(store, config))
            read_from.append(opened)
            queues = [
                (topic, found)
                for topic in dict.fromkeys(question.topics)
                for found in _queues_of(opened, topic, question)
            ]
            readers = [QueueReader(opened, topic, found.queue_id, 0, question.wanted) for topic, found in queues]
            question.bounds.apply(readers, question.follow)
            held = sum(found.max_offset - reader.offset for reader, (_, found) in zip(readers, queues, strict=True))
            if held > _MANY and (limit is None or limit > _MANY):
                opened.expect_many()
            reader = Reader(readers, writer)
            if question.follow:
                reader.follow(limit, _NewQueues(opened, question, readers).found)
                return form.bodies.code(stores.damage_code(opened))
            reader.read(limit)
            if question.max_messages is None and reader.shown == limit:
                _say_what_is_left(reader)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end of --follow.
        return INTERRUPTED
    return form.bodies.code(max(map(stores.damage_code, read_from), default=0))


def _queues_of(opened: MessageStore, topic: str, question: Question) -> Sequence[StoreQueue]:
    """Return the queues of a topic that the question names; a note says if the broker has them, and they are empty.

    Raises:
        ConfigError: There is no such topic, or no such queue.
    """
    if not stores.awaits_messages(opened, topic, question.queue_id):
        return stores.queues_of(opened, topic, question.queue_id)
    queue = "" if question.queue_id is None else f"queue {question.queue_id} of "
    output.say(f"note: {queue}{stores.no_messages_yet(topic)}{', waiting for one' if question.follow else ''}")
    return ()


class _NewQueues(NamedTuple):
    """Finds queues that the topics did not have before."""

    opened: MessageStore
    question: Question
    known: list[QueueReader]

    def found(self) -> list[QueueReader]:
        """Return readers of the new queues, from their first messages on."""
        asked = self.question
        known = {(reader.topic, reader.queue_id) for reader in self.known}
        new = [
            QueueReader(self.opened, topic, info.queue_id, info.min_offset, asked.wanted)
            for topic in dict.fromkeys(asked.topics)
            for info in self.opened.queues(topic)
            if asked.queue_id in {None, info.queue_id} and (topic, info.queue_id) not in known
        ]
        self.known.extend(new)
        return new


def _say_what_is_left(reader: Reader) -> None:
    """Report whether the default limit cut the answer."""
    if len(reader.readers) > 1:
        output.say(f"note: these are {reader.shown} messages, and there may be more: -c takes more")
        return
    (queue,) = reader.readers
    end = stores.queues_of(queue.opened, queue.topic, queue.queue_id)[0].max_offset
    if queue.offset < (end if queue.end is None else queue.end):
        output.say(
            f"note: these are {reader.shown} messages, and the queue goes on to {end - 1}: "
            f"-o {queue.offset} goes on there, -c takes more"
        )


def form_of(
    bodies: Bodies, as_json: bool, with_details: bool, line_format: str | None, raw: bool, delimiter_text: str | None
) -> LineForm:
    """Return the form of a message's line that the options ask for.

    Raises:
        click.UsageError: They ask for several forms.
    """
    ways = {"--json": as_json, "-l": with_details, "--format": line_format is not None, "--raw": raw}
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)}: give one of them")
    if delimiter_text is not None and not raw:
        raise click.UsageError("-D is the text that --raw writes after a body: add --raw")
    if line_format is not None:
        return format_form(line_format, bodies)
    if raw:
        return raw_form(delimiter("\\n" if delimiter_text is None else delimiter_text), bodies)
    if as_json:
        return json_form(bodies=bodies)
    return cells_form(WHOLE, bodies) if with_details else body_form(bodies)


def wanted_by(tags: str | None, sql: str | None) -> str | SqlFilter | None:
    """Return the filter that the options ask for.

    Raises:
        click.UsageError: They ask for both kinds.
    """
    if sql is None:
        return tags
    if tags is not None:
        raise click.UsageError("--tags chooses by tag and --sql by properties: give one of them")
    from reput.store.read.sql_filter import SqlFilter

    return SqlFilter(sql)
