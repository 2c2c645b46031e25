"""`reput get`: messages of a queue, in its order."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli import opened as stores
from reput.cli import options, output
from reput.cli.dump_parts import body_values

if TYPE_CHECKING:
    from reput.embedded import MessageStore
    from reput.store.message import StoredMessage
    from reput.store.results import GetResult
    from reput.store.sql_filter import SqlFilter
    from reput.store.view import QueueInfo

_COUNT = 32
_AT_ONCE = 500
_POLL_S = 0.1
_INTERRUPTED = 130
_EARLIEST, _LATEST = "earliest", "latest"


@click.command()
@options.store_argument
@stores.topic_option
@stores.queue_option(required=True)
@click.option(
    "-o",
    "--offset",
    default=_EARLIEST,
    show_default=True,
    help="Begin with this queue offset, earliest or latest; a negative one counts from the end.",
)
@click.option("-c", "--count", type=click.IntRange(min=0), help=f"At most so many.  [default: {_COUNT}; with -f all]")
@click.option("--filter", "tags", help='Only messages with one of these tags: "paid || sent", compared by hash.')
@click.option(
    "--sql", help="Only messages whose properties match: \"amount > 100 AND region = 'eu'\" (RocketMQ's SQL92)."
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new messages until Ctrl-C or SIGTERM.")
@click.option("-l", "--long", "with_details", is_flag=True, help="Text: log offset, time, tag and keys in front.")
@options.config_options
@stores.json_lines_option
def get(
    store: str,
    topic: str,
    queue_id: int,
    offset: str,
    count: int | None,
    tags: str | None,
    sql: str | None,
    follow: bool,
    with_details: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show messages of a queue of STORE.

    Nothing is changed, and another process may write the store. Text is a line a body: as it is where it is UTF-8, with
    newlines as \\n, else base64 behind `base64:`. JSON has all of a message, and body_encoding says which of the two. A
    compressed body comes as it is stored.

    What there is no message for is told on stderr with the queue's span.

    \b
    reput get /data/store -t orders -q 2 -c 10
    reput get /data/store -t orders -q 2 -o latest -f --filter "paid || sent"
    reput get /data/store -t orders -q 2 -o -5 --json
    reput get /data/store -t orders -q 2 --sql "amount > 100 AND region = 'eu'"
    """  # noqa: D301 - click wants the control character
    config = options.config_of(config_path, assignments, store)
    wanted = _wanted(tags, sql)
    is_cut = count is None and not follow
    limit = _COUNT if is_cut else count

    def show(message: StoredMessage) -> None:
        if as_json or with_details:
            stores.show_message(message, len(message.body), as_json)
        else:
            output.show(_body_line(message.body))

    try:
        with contextlib.ExitStack() as resources:
            if follow:
                resources.enter_context(_ended_by_sigterm())
            opened = resources.enter_context(stores.reading(store, config))
            source = _Source(opened, topic, queue_id, wanted)
            begin = _begin(offset, source.span())
            reader = _Reader(source, show, follow)
            reader.read(begin, limit)
            if is_cut and reader.shown == limit and reader.offset < source.span().max_offset:
                output.say(
                    f"note: these are {limit} messages, and the queue goes on to {source.span().max_offset - 1}: "
                    f"-o {reader.offset} goes on there, -c takes more"
                )
    except KeyboardInterrupt:
        # The usual end of -f.
        return _INTERRUPTED
    return 0


class _EndedError(BaseException):
    """SIGTERM has come."""


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as its good end: `-f` has no other."""

    def end(_number: int, _frame: object) -> None:
        raise _EndedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _EndedError:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _wanted(tags: str | None, sql: str | None) -> str | SqlFilter | None:
    if sql is None:
        return tags
    if tags is not None:
        raise click.UsageError("--filter asks for tags and --sql for properties: give one of them")
    from reput.store.sql_filter import SqlFilter

    return SqlFilter(sql)


def _body_line(body: bytes) -> str:
    try:
        return body.decode().replace("\n", "\\n")
    except UnicodeDecodeError:
        return f"base64:{body_values(body)['body']}"


def _begin(offset: str, span: QueueInfo) -> int:
    """The queue offset that `-o` asks for."""
    if offset == _EARLIEST:
        return span.min_offset
    if offset == _LATEST:
        return span.max_offset
    try:
        wanted = int(offset)
    except ValueError:
        raise click.BadParameter(f"{offset!r}: give a number, {_EARLIEST} or {_LATEST}", param_hint="-o") from None
    return wanted if wanted >= 0 else max(span.min_offset, span.max_offset + wanted)


class _Source(NamedTuple):
    """One queue of a store that is open read-only, and what is wanted of it."""

    opened: MessageStore
    topic: str
    queue_id: int
    wanted: str | SqlFilter | None

    def span(self) -> QueueInfo:
        """The queue's span now."""
        return stores.queues_of(self.opened, self.topic, self.queue_id)[0]

    def pull(self, offset: int, count: int) -> GetResult:
        """The next messages."""
        return self.opened.get_message(self.topic, self.queue_id, offset, count, self.wanted)


class _Reader:
    """Reads a queue on and on; `shown` messages so far, `offset` is the next one's."""

    def __init__(self, source: _Source, show: Callable[[StoredMessage], None], follow: bool) -> None:
        self.source, self.show, self.follow = source, show, follow
        self.shown = 0
        self.offset = 0

    def read(self, begin: int, count: int | None) -> None:
        """Show messages from `begin` on: `count`, or all there are, or with `follow` all that come."""
        self.offset = begin
        while count is None or self.shown < count:
            result = self.source.pull(self.offset, _AT_ONCE if count is None else min(_AT_ONCE, count - self.shown))
            for message in result:
                self.show(message)
            self.shown += len(result)
            if self._goes_on(result):
                continue
            if not self.follow:
                if not self.shown:
                    self._say_nothing(begin, result)
                return
            output.flush()
            time.sleep(_POLL_S)

    def _goes_on(self, result: GetResult) -> bool:
        """Take over where the next pull begins; whether there may be more now."""
        from reput.store.results import GetStatus

        at, self.offset = self.offset, result.next_offset
        if result.status in {GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE}:
            return self.offset > at
        if result.status in {
            GetStatus.OFFSET_TOO_SMALL,
            GetStatus.OFFSET_FOUND_NULL,
            GetStatus.MESSAGE_WAS_REMOVING,
        }:
            output.say(f"note: {result.status} at {at}: {_span_text(result)}; going on at {self.offset}")
            return self.offset > at
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and self.follow:
            output.say(f"note: {result.status} at {at}: {_span_text(result)}; waiting for {self.offset}")
        return False

    def _say_nothing(self, begin: int, result: GetResult) -> None:
        from reput.store.results import GetStatus

        if result.status is GetStatus.OFFSET_OVERFLOW_ONE and begin < result.max_offset:
            output.say(f"note: no message from {begin} on matches; {_span_text(result)}")
        else:
            output.say(f"note: {result.status} at {begin}: {_span_text(result)}")


def _span_text(result: GetResult) -> str:
    if result.max_offset <= result.min_offset:
        return "the queue holds no message"
    return f"the queue holds {result.min_offset} to {result.max_offset - 1}"
