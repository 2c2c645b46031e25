"""`reput put`: messages from lines of text or of JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reput.cli import opened as stores
from reput.cli import options, output

if TYPE_CHECKING:
    from reput.cli.put_lines import Line
    from reput.embedded import MessageStore
    from reput.log.message import PutResult

_AT_ONCE = 1000
_BEHIND_MAX = 512 << 20
"""Bytes of log after which the indexes catch up in between: well below what the tail may hold."""
_INTERRUPTED = 130


@click.command()
@options.store_argument
@click.option("-t", "--topic", help="The topic; lines of JSON may name their own.")
@click.option("-q", "--queue", "queue_id", type=click.IntRange(min=0), default=0, show_default=True, help="The queue.")
@click.option("--key", "keys", multiple=True, help="A key of each message. May be given again.")
@click.option("--tag", help="The tag of each message.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property. May be given again.")
@click.option("--json-lines", is_flag=True, help="Each line is a JSON object; the options are for what it leaves out.")
@click.option("--create", is_flag=True, help="Make a new store where there is none.")
@click.option("--sync", is_flag=True, help="Sync flush: a message that is reported is durable (flushDiskType).")
@click.option("--no-reput", is_flag=True, help="Leave the indexes behind; the next `put`, or a rebuild, catches up.")
@options.config_options
@stores.json_lines_option
def put(
    store: str,
    topic: str | None,
    queue_id: int,
    keys: tuple[str, ...],
    tag: str | None,
    properties: tuple[str, ...],
    json_lines: bool,
    create: bool,
    sync: bool,
    no_reput: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Put a message into STORE for each line of stdin. This verb writes.

    A line is a body, or with --json-lines an object of topic, queue_id, body or body_base64, tags, keys, properties,
    born_timestamp, flag and unique_key. Where each message was stored comes out, a line each: topic/queue, queue
    offset, log offset and size. Without --sync all is durable when the command ends. Then the indexes are caught up.

    Delayed messages (property DELAY) are refused: only a broker delivers them when they are due.

    A line that cannot be stored ends it with exit code 2; the lines in front of it are stored, those behind are not.

    \b
    echo "hello" | reput put /data/store -t orders --create
    reput put /data/store -t orders -q 2 --key o-17 --tag paid < bodies.txt
    reput put /data/store --json-lines --sync --json < messages.jsonl
    """  # noqa: D301 - click wants the control character
    from reput.cli.put_lines import Defaults, lines_of, messages_of

    if topic is None and not json_lines:
        raise click.UsageError("give -t TOPIC, or --json-lines whose objects name their topics")
    _refuse_two_keys(keys)
    given = Defaults(topic, queue_id, list(keys), tag, _properties(properties))
    config = options.config_of(config_path, assignments, store)
    if sync:
        config = config.updated(["flushDiskType=SYNC_FLUSH"])
    if sys.stdin.isatty():
        output.say("reading messages from the terminal, a line each; Ctrl-D ends")
    putter: Putter | None = None
    try:
        with stores.writing(store, config, create=create, reput=not no_reput) as opened:
            putter = Putter(opened, as_json, may_reput=not no_reput)
            for lines in lines_of(sys.stdin.buffer):
                messages, wrong = messages_of(lines, given, json_lines)
                putter.put(messages)
                if wrong is not None:
                    raise wrong
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if putter is not None:
            _say_end(putter)
    return 0


def _properties(assignments: Sequence[str]) -> dict[str, str]:
    """The map that `--property` makes."""
    from reput.errors import ConfigError
    from reput.formats.properties import DELAY
    from reput.log.message import NOBODY_DELIVERS

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


def _say_end(putter: Putter) -> None:
    output.say(f"stored {output.counted(putter.stored, 'message')}")
    if putter.timed_out:
        output.say(f"note: {putter.timed_out} of them were not known to be durable within syncFlushTimeout")


class Putter:
    """Puts lines in batches and reports each message; `stored` counts them."""

    def __init__(self, opened: MessageStore, as_json: bool, *, may_reput: bool) -> None:
        from reput.store.follower import TAIL_MAX_ENTRIES

        self.opened, self.as_json, self.may_reput = opened, as_json, may_reput
        self.stored = 0
        self.timed_out = 0
        self._mute = False
        self._tail_max = opened.config.tail_max_entries or TAIL_MAX_ENTRIES
        self._waiting = opened.view.queues_table.tail.entries

    def put(self, lines: Sequence[Line]) -> None:
        """Store all lines, up to the first that cannot be.

        Raises:
            ConfigError: the store refuses a line; those in front are stored.
            NoSpaceError: the disk is full.
        """
        for begin in range(0, len(lines), _AT_ONCE):
            self._put_batch(lines[begin : begin + _AT_ONCE])

    def _put_batch(self, lines: Sequence[Line]) -> None:
        self._make_room()
        queues = [line.queue_id for line in lines]
        result = self.opened.put_messages([line.message for line in lines], queues)
        if not result.status.is_stored:
            # All or none: one by one all in front of the refused line are stored.
            for line in lines:
                self._put_one(line)
            return
        places = zip(
            lines,
            result.queue_offsets.tolist(),
            result.physical_offsets.tolist(),
            result.sizes.tolist(),
            strict=True,
        )
        self._count(len(lines), result.status.name)
        self._report([(line, queue, at, size, result.store_timestamp) for line, queue, at, size in places])

    def _put_one(self, line: Line) -> None:
        result = self.opened.put_message(line.message, line.queue_id)
        if not result.status.is_stored:
            raise _refusal(line, result)
        self._count(1, result.status.name)
        self._report([(line, result.queue_offset, result.physical_offset, result.size, result.store_timestamp)])

    def _make_room(self) -> None:
        """Index what is there before the tail is full: a put would wait for somebody to do so, and nobody else is here.

        Counted here, since the tail itself follows the log a little later.
        """
        is_full = self._waiting and self._waiting + _AT_ONCE > self._tail_max
        if self.may_reput and (is_full or self.opened.behind_bytes > _BEHIND_MAX) and not self.opened.is_followed:
            self.opened.reput(spark=False)
            self._waiting = 0

    def _count(self, stored: int, status: str) -> None:
        self.stored += stored
        self._waiting += stored
        if status == "FLUSH_DISK_TIMEOUT":
            self.timed_out += stored

    def _report(self, places: list[tuple[Line, int, int, int, int]]) -> None:
        from reput.cli.main import silence_stdout

        if self._mute:
            return
        try:
            if self.as_json:
                output.emit_json_lines(_values(place) for place in places)
            else:
                output.show("\n".join(_text(place) for place in places))
        except BrokenPipeError:
            # Who reads the report may go; the messages are stored all the same.
            self._mute = True
            silence_stdout()


def _refusal(line: Line, result: PutResult) -> Exception:
    from reput.cli.put_lines import in_front
    from reput.errors import ConfigError, NoSpaceError
    from reput.log.message import PutStatus

    kind = NoSpaceError if result.status is PutStatus.DISK_FULL else ConfigError
    return kind(f"line {line.number}: {result.status.name}: {result.reason}. {in_front(line.number)}")


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
