"""`reput put`: put messages from lines of text or JSON."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from reput.cli.put.end import TakenLines
from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.cli.shared.signals import EndingSignals, StoppedError
from reput.errors import ConfigError, FlushError, NoSpaceError, ReputError
from reput.formats.paths import MAX_QUEUE_ID

if TYPE_CHECKING:
    from reput.cli.put.lines import Defaults, Line
    from reput.embedded import MessageStore
    from reput.log.encode.message import PutManyResult, PutResult

_AT_ONCE = 1000
_UNINDEXED_MAX = 512 << 20
"""Bytes of log without indexes after which the indexes catch up: well below the size of the tail."""


@click.command()
@options.store_argument
@click.option("-t", "--topic", help="The topic. Lines of JSON may name their own.")
@click.option(
    "-q", "--queue-id", type=options.WholeNumber(0, MAX_QUEUE_ID), default=0, show_default=True, help="The queue."
)
@click.option("--key", "keys", multiple=True, help="A key of each message. May be given again.")
@click.option("--tags", help="The tag of each message.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property. May be given again.")
@click.option(
    "--json-lines", is_flag=True, help="Each line is a JSON object. The options give the values that it leaves out."
)
@click.option("--any-topic", is_flag=True, help="Take topics whose names RocketMQ's brokers and clients refuse.")
@click.option("--create", is_flag=True, help="Make a new store if there is none.")
@click.option(
    "--sync", is_flag=True, help="Flush before a message is reported, so that it is durable (flushDiskType=SYNC_FLUSH)."
)
@click.option(
    "--skip-lines",
    "skip",
    type=options.WholeNumber(0),
    default=0,
    help="Skip the first lines, which an earlier run has stored.",
)
@click.option(
    "--reput/--no-reput",
    default=True,
    help="Catch up the indexes at the end, or leave that to the next `put` or `follow`.  [default: catch up]",
)
@click.option(
    "--delete-expired/--no-delete-expired",
    default=None,
    help="Delete log files older than fileReservedTime (72 hours), or keep them.  [default: keep, unless --config, "
    "--set or the settings that the store was made with say when log files go]",
)
@options.config_options
@options.force_setting_option
@options.json_lines_option
def put(
    store: str,
    topic: str | None,
    queue_id: int,
    keys: tuple[str, ...],
    tags: str | None,
    properties: tuple[str, ...],
    json_lines: bool,
    any_topic: bool,
    create: bool,
    sync: bool,
    skip: int,
    reput: bool,
    delete_expired: bool | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Put a message into STORE for each line of stdin. This command writes.

    A line is a body, so an empty line is a message with an empty body, as RocketMQ allows. With --json-lines a line is
    an object, and empty lines are skipped. An object has topic, queue_id, body or body_base64, tags, keys, properties,
    born_timestamp, flag, reconsume_times and unique_key. Lines of `reput get --json` are such objects: the compression
    in sys_flag is kept, and a committed transaction becomes a plain message. The store gives new offsets, sizes, store
    times, hosts and message ids.

    stdout has a line for each stored message: topic/queue, queue offset, log offset and size. Without --sync all
    messages are durable when the command ends. At the end the indexes catch up.

    Expired log files are deleted only if --delete-expired or the configuration asks for it. stderr names each one.

    Delayed messages (property DELAY) are refused: only a broker delivers them.

    A line that cannot be stored ends the command with exit code 2. The lines before it are stored, those after it are
    not. If the command ends early, it prints how many lines are stored. The same command with the same input and
    --skip-lines then continues after them, so that each line is stored exactly once.

    \b
    echo "hello" | reput put /data/store -t orders --create
    reput put /data/store -t orders -q 2 --key o-17 --tags paid < bodies.txt
    reput put /data/store --json-lines --sync --json < messages.jsonl
    reput get /data/store -t orders -c 1000000 --json | reput put /data/other --json-lines --create
    """  # noqa: D301 - click wants the control character
    if topic is None and not json_lines:
        raise click.UsageError("give -t TOPIC, or --json-lines whose objects name their topics")
    if sys.stdin is None:
        raise click.UsageError("stdin is closed: give lines to put")
    _refuse_two_keys(keys)
    from reput.cli.put.lines import Defaults

    given = Defaults(topic, queue_id, list(keys), tags, _properties(properties), any_topic)
    if topic is not None and not any_topic:
        _refuse_topic(topic)
    config = options.config_of(config_path, assignments)
    if sync:
        config = config.updated(["flushDiskType=SYNC_FLUSH"])
    if sys.stdin.isatty():
        output.say("reading messages from the terminal, one on each line; Ctrl-D ends")
    opening = stores.writing(store, config, create=create, reput=reput, delete_expired=delete_expired)
    with EndingSignals() as signals:
        return _Put(signals, given, json_lines, as_json, skip, may_reput=reput).run(opening)


def _refuse_topic(topic: str) -> None:
    from reput.cli.put.lines import refuse_topic

    try:
        refuse_topic(topic)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="-t") from None


def _properties(assignments: Sequence[str]) -> dict[str, str]:
    """Return the properties of `--property`."""
    from reput.formats.log.properties import DELAY
    from reput.log.encode.message import NOBODY_DELIVERS

    found = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator:
            raise click.BadParameter(f"{assignment!r}: give NAME=VALUE", param_hint="--property")
        if name == DELAY.decode():
            raise ConfigError(f"--property {assignment}: {NOBODY_DELIVERS}")
        found[name] = value
    return found


def _refuse_two_keys(keys: Sequence[str]) -> None:
    for key in keys:
        if " " in key:
            raise click.BadParameter(f"{key!r}: a key holds no space; give --key again for each", param_hint="--key")


class _Put:
    """Puts lines in batches, reports each message, and reports the end."""

    def __init__(
        self, signals: EndingSignals, given: Defaults, json_lines: bool, as_json: bool, skip: int, *, may_reput: bool
    ) -> None:
        self.signals, self.given, self.json_lines, self.as_json = signals, given, json_lines, as_json
        self.may_reput = may_reput
        self.taken = TakenLines(skip)
        self.store: MessageStore | None = None
        self._mute = False
        self._tail_max = self._waiting = 0

    def run(self, opening: AbstractContextManager[MessageStore]) -> int:
        """Open the store and put all lines of stdin; return the exit code.

        Raises:
            ReputError: With notes and details about the stored lines, and how to continue.
            OSError: stdout cannot be written; with the same notes.
        """
        try:
            with opening as self.store:
                self._put_all(self.store)
        except StoppedError as stop:
            with self.signals.held():
                self._say_stored()
                for sentence in (f"ended by {stop.signal_name}", *self.taken.sentences(self.store)):
                    output.say(sentence)
                if self.as_json:
                    output.emit_failure("Interrupted", f"ended by {stop.signal_name}", self.taken.values(self.store))
            return stop.exit_code
        except Exception as error:
            with self.signals.held():
                if self.store is not None:
                    self._say_stored()
                for sentence in self.taken.sentences(self.store):
                    error.add_note(sentence)
                if isinstance(error, ReputError):
                    error.details = self.taken.values(self.store)
            raise
        self._say_stored()
        return 0

    def _say_stored(self) -> None:
        output.say(f"stored {output.counted(self.taken.messages, 'message')}")
        if self.taken.timed_out:
            output.say(f"note: {self.taken.timed_out} of them were not known to be durable within syncFlushTimeout")

    def _put_all(self, store: MessageStore) -> None:
        """Put line after line.

        Raises:
            RefusedLineError: A line is no message, or the store refuses it. The lines before it are stored.
            NoSpaceError: The disk is full.
        """
        from reput.cli.put.lines import lines_of, parse_lines, skip_lines
        from reput.queue.tail import TAIL_MAX_ENTRIES

        self._tail_max = store.config.tail_max_entries or TAIL_MAX_ENTRIES
        self._waiting = store.view.queues_table.tail.entries
        try:
            begin = skip_lines(self._read, self.taken.skipped)
        except ConfigError:
            # The input is another one than that of the earlier run.
            self.taken.lines = 0
            raise
        for numbered in lines_of(self._read, self.taken.lines + 1, begin):
            lines, refused = parse_lines(numbered, self.given, self.json_lines)
            for first in range(0, len(lines), _AT_ONCE):
                self._put_batch(store, lines[first : first + _AT_ONCE])
            if refused is not None:
                self.taken.refuse(refused.number)
                raise refused
            # Empty lines between objects count as taken.
            self.taken.lines = numbered[-1][0]
        self.taken.at_end = True

    def _read(self, size: int) -> bytes:
        """Read what has come of stdin; a signal ends the wait."""
        stream = sys.stdin.buffer
        self.signals.wait_for_input(stream)
        return getattr(stream, "read1", stream.read)(size)

    def _put_batch(self, store: MessageStore, lines: Sequence[Line]) -> None:
        self._make_room(store)
        queues = [line.queue_id for line in lines]
        with self._counting(store, lines):
            result = store.put_messages([line.message for line in lines], queues)
            self._count(store, lines, result)
        if not result.status.is_stored:
            # The batch was stored as a whole or not at all. One by one, the lines before the refused one are stored.
            for line in lines:
                self._put_one(store, line)

    def _put_one(self, store: MessageStore, line: Line) -> None:
        with self._counting(store, [line]):
            result = store.put_message(line.message, line.queue_id)
            self._count(store, [line], result)
        if not result.status.is_stored:
            raise self._refusal(line, result)

    @contextlib.contextmanager
    def _counting(self, store: MessageStore, lines: Sequence[Line]) -> Iterator[None]:
        """Delay signals between a put, its count and its report.

        A line that is stored but not counted, or not reported, would be stored again.
        """
        with self.signals.held():
            try:
                yield
            except FlushError as error:
                if error.stored is not None:
                    self._count(store, lines, error.stored)
                raise

    def _count(self, store: MessageStore, lines: Sequence[Line], result: PutResult | PutManyResult) -> None:
        """Count and report lines that are stored."""
        if not result.status.is_stored:
            return
        self.taken.add(len(lines), lines[-1].number, result.end_offset, store.flushed_offset)
        self._waiting += len(lines)
        if result.status.name == "FLUSH_DISK_TIMEOUT":
            self.taken.timed_out += len(lines)
        self._report(_places(lines, result))

    def _refusal(self, line: Line, result: PutResult) -> Exception:
        from reput.cli.put.lines import RefusedLineError
        from reput.log.encode.message import PutStatus

        if result.status is PutStatus.DISK_FULL:
            return NoSpaceError(f"line {line.number}: {result.status.name}: {result.reason}")
        self.taken.refuse(line.number)
        return RefusedLineError(line.number, f"{result.status.name}: {result.reason}")

    def _make_room(self, store: MessageStore) -> None:
        """Catch up the indexes before the tail is full: a put would wait, and no other thread indexes.

        Messages are counted here, because the tail follows the log with a delay.
        """
        is_full = self._waiting and self._waiting + _AT_ONCE > self._tail_max
        is_due = self.may_reput and (is_full or store.behind_bytes > _UNINDEXED_MAX)
        if is_due and stores.catch_up(store):
            self._waiting = 0

    def _report(self, places: list[tuple[Line, int, int, int, int]]) -> None:
        if self._mute:
            return
        try:
            if self.as_json:
                output.emit_json_lines(_values(place) for place in places)
            else:
                output.show("\n".join(_text(place) for place in places))
            output.flush()
        except BrokenPipeError:
            # The reader of the report may stop; the messages are stored all the same.
            self._mute = True
            output.silence_stdout()


def _places(lines: Sequence[Line], result: PutResult | PutManyResult) -> list[tuple[Line, int, int, int, int]]:
    """Return each line with its queue offset, log offset, size and store time."""
    from reput.log.encode.message import PutResult as OneResult

    stored_at = result.store_timestamp
    if isinstance(result, OneResult):
        return [(lines[0], result.queue_offset, result.physical_offset, result.size, stored_at)]
    columns = (result.queue_offsets.tolist(), result.physical_offsets.tolist(), result.sizes.tolist())
    return [(line, queue, at, size, stored_at) for line, queue, at, size in zip(lines, *columns, strict=True)]


def _values(place: tuple[Line, int, int, int, int]) -> dict[str, Any]:
    line, queue_offset, physical_offset, size, store_timestamp = place
    return {
        "line": line.number,
        "topic": line.message.topic,
        "queue_id": line.queue_id,
        "queue_offset": queue_offset,
        "physical_offset": physical_offset,
        "size": size,
        "store_timestamp": store_timestamp,
    }


def _text(place: tuple[Line, int, int, int, int]) -> str:
    line, queue_offset, physical_offset, size, _ = place
    topic = line.message.topic.replace("\n", "\\n").replace("\t", "\\t")
    return f"{topic}/{line.queue_id}\t{queue_offset}\t{physical_offset}\t{size}"
