"""`reput query`: find messages by key, unique key or tag, by message id, or by log offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.cli.shared.bodies import Bodies, body_form_option
from reput.nearest import quoted
from reput.texts import time_text

if TYPE_CHECKING:
    from reput.embedded import MessageStore
    from reput.store.read.message import StoredMessage

_MAX_MESSAGES = 64


class _Wanted(NamedTuple):
    """A query by key, of one of three kinds, within store times [begin_ms, end_ms]."""

    kind: str
    topic: str
    key: str
    begin_ms: int
    end_ms: int | None
    before: int | None


@click.command()
@options.store_argument
@click.option(
    "-t", "--topic", help="The topic. --key, --unique-key and --tags need it. A message of another topic is refused."
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Messages with this key or unique key. May be given again, for any of the keys.",
)
@click.option("--unique-key", help="Messages with this unique key, the id that the producer's client gave.")
@click.option("--tags", help="Messages with this tag. RocketMQ indexes tags since 5.4.")
@click.option("--id", "message_id", help="The message with this offset message id, as `get --json` shows it.")
@click.option(
    "--physical-offset", type=options.WholeNumber(0), help="The message whose record starts at this log offset."
)
@click.option(
    "--since",
    type=stores.time_value,
    default="0",
    metavar="TIME",
    help=f"Stored at this time or later. {stores.TIME_HELP}",
)
@click.option("--until", type=stores.time_value, metavar="TIME", help="Stored at this time or before.")
@click.option(
    "-c",
    "--max-messages",
    type=options.WholeNumber(1),
    default=_MAX_MESSAGES,
    show_default=True,
    help="The most messages.",
)
@click.option(
    "--before", type=options.WholeNumber(0), help="Only messages before this log offset, to continue an answer."
)
@options.body_option
@body_form_option
@options.verify_crc_option
@options.config_options
@options.json_lines_option
def query(
    store: str,
    topic: str | None,
    keys: tuple[str, ...],
    unique_key: str | None,
    tags: str | None,
    message_id: str | None,
    physical_offset: int | None,
    since: int,
    until: int | None,
    max_messages: int,
    before: int | None,
    body_bytes: int | None,
    body_form: str,
    verify_crc: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find messages of STORE: the newest with a key, in log order, or the message at a log offset.

    Give one of --key, --unique-key, --tags, --id and --physical-offset. The topic and key of each message are compared:
    a message whose key only has the same hash does not come. Text and JSON are as with `dump log`. Nothing is changed,
    and another process may write. The exit code is 1 if a body cannot be decompressed, or does not match
    its CRC, and if an IndexFile cannot be searched.

    \b
    reput query /data/store -t orders --key o-17
    reput query /data/store -t orders --key o-17 --key o-18
    reput query /data/store -t orders --key o-17 --since 2026-07-30T18:00 --json
    reput query /data/store --id 7F00000100002A9F00000000002B4443 --body-bytes 200
    """  # noqa: D301 - click wants the control character
    kinds = {
        "--key": keys or None,
        "--unique-key": unique_key,
        "--tags": tags,
        "--id": message_id,
        "--physical-offset": physical_offset,
    }
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        raise click.UsageError(f"give one of {', '.join(kinds)}" + (f", not {' and '.join(given)}" if given else ""))
    by_place = given[0] in {"--id", "--physical-offset"}
    if topic is None and not by_place:
        raise click.UsageError(f"{given[0]} needs -t TOPIC")
    if by_place and (since or until is not None or before is not None):
        raise click.UsageError(f"{given[0]} names one message: leave out --since, --until and --before")
    stores.refuse_no_time(since, until)
    config = options.config_of(config_path, assignments, store)
    bodies = Bodies(body_form, config, verify_crc=verify_crc)
    with stores.reading(store, config, by_key=not by_place) as opened:
        if message_id is not None:
            found = [_of_topic(opened, _by_id(opened, message_id), topic)]
        elif physical_offset is not None:
            found = [_of_topic(opened, _at(opened, physical_offset), topic)]
        else:
            assert topic is not None
            asked = keys or (str(kinds[given[0]]),)
            wanted = [_Wanted(given[0], topic, one, since, until, before) for one in asked]
            found = (
                _by_key(opened, wanted[0], max_messages) if len(wanted) == 1 else _by_keys(opened, wanted, max_messages)
            )
        for message in found:
            stores.show_message(message, body_bytes, as_json, bodies)
        code = stores.damage_code(opened, by_key=not by_place)
    return bodies.code(code)


# --- by key ---------------------------------------------------------------------------------------


def _by_key(opened: MessageStore, wanted: _Wanted, count: int) -> list[StoredMessage]:
    """Return the newest messages that match, in log order; a note names messages that are left out."""
    _refuse_what_is_not_indexed(opened, wanted.kind)
    keep = _is_unique(wanted.key) if wanted.kind == "--unique-key" else lambda _: True
    found: list[StoredMessage] = []
    more, before = True, wanted.before
    while more and len(found) < count:
        result = opened.query_message(
            wanted.topic,
            wanted.key,
            count - len(found),
            wanted.begin_ms,
            wanted.end_ms,
            before=before,
            by_tag=wanted.kind == "--tags",
        )
        found = [*filter(keep, result), *found]
        more = result.more
        before = result.physical_offsets[0] if len(result) else before
    if not opened.damage and not opened.queues(wanted.topic):
        _say_without_queues(opened, wanted.topic, len(found))
    if not found:
        _say_none(wanted)
        _say_what_is_left_out(opened, wanted)
    elif more:
        output.say(f"note: these are the newest {len(found)}; --before {found[0].physical_offset} shows older ones")
    return found


def _by_keys(opened: MessageStore, wanted: Sequence[_Wanted], count: int) -> list[StoredMessage]:
    """Return the newest messages with each of some keys, in log order, each once; notes say what is left out."""
    _refuse_what_is_not_indexed(opened, wanted[0].kind)
    _, topic, _, begin_ms, end_ms, before = wanted[0]
    answers = opened.query_messages(topic, [one.key for one in wanted], count, begin_ms, end_ms, before=before)
    found = {message.physical_offset: message for answer in answers for message in answer}
    if not opened.damage and not opened.queues(topic):
        _say_without_queues(opened, topic, len(found))
    for one, answer in zip(wanted, answers, strict=True):
        if not len(answer):
            _say_none(one)
        elif answer.more:
            newest = f"these are the newest {len(answer)} with key {quoted(one.key)}"
            output.say(f"note: {newest}; ask for it alone to see older ones")
    if not all(map(len, answers)):
        _say_what_is_left_out(opened, wanted[0])
    return [found[offset] for offset in sorted(found)]


def _say_none(wanted: _Wanted) -> None:
    """Note that no message matches."""
    output.say(
        f"note: no message of topic {wanted.topic} with {wanted.kind[2:]} {quoted(wanted.key)}{_span_text(wanted)}"
    )


def _say_what_is_left_out(opened: MessageStore, wanted: _Wanted) -> None:
    """Note that the index that answers leaves messages out, so that one that matches may be there all the same."""
    from reput.store.disk.index_kinds import all_indexes

    index = all_indexes(opened.layout)[opened.view.settings.indexes.read]
    # A message that is asked for by its unique key has one.
    if not index.has_every_message and wanted.kind != "--unique-key":
        output.say(
            f"note: {index.words} alone answers here, and has no message without a unique key (UNIQ_KEY), as `reput "
            f"put` makes it unless one is given. `reput get -t {wanted.topic}` shows all messages of the topic's queues"
        )


def _say_without_queues(opened: MessageStore, topic: str, found: int) -> None:
    """Note that a topic has no queues: log and index still have the messages of deleted queues.

    Raises:
        ConfigError: There is no message either, so there is no such topic.
    """
    from reput.store.read.topic_messages import refuse_unknown

    if not found:
        refuse_unknown(opened.view, topic)
        return
    output.say(f"note: topic {topic} has no queues, as after `reput delete`; the index still has its messages")


def _is_unique(key: str) -> Callable[[StoredMessage], bool]:
    return lambda message: message.unique_key == key


def _refuse_what_is_not_indexed(opened: MessageStore, kind: str) -> None:
    """Refuse a query that no index can answer, instead of finding nothing.

    Raises:
        ConfigError: This store has no such index.
    """
    from reput.errors import ConfigError

    view = opened.view
    if not view.settings.index_enabled:
        raise ConfigError(
            f"{opened.layout.root}: the configuration has messageIndexEnable=false, so no index has keys. "
            "`reput dump log` shows all messages"
        )
    if kind == "--tags" and not view.follower.settings.tag_items:
        raise ConfigError(
            f"{opened.layout.index}: these IndexFiles hold no tags (RocketMQ indexes them from 5.4 on). "
            "`reput get --tags` reads a queue by tag"
        )


def _span_text(wanted: _Wanted) -> str:
    end = "" if wanted.end_ms is None else f", stored at or before {time_text(wanted.end_ms)}"
    begin = f", stored at or after {time_text(wanted.begin_ms)}" if wanted.begin_ms else ""
    return begin + end + ("" if wanted.before is None else f", before log offset {wanted.before}")


# --- by place -------------------------------------------------------------------------------------


def _by_id(opened: MessageStore, message_id: str) -> StoredMessage:
    """Return the message with an offset message id.

    Raises:
        ConfigError: It is no such id, it is of another broker, or there is no record.
    """
    from reput.errors import ConfigError
    from reput.formats.log.record import decode_message_id

    place = decode_message_id(message_id)
    if place is None:
        raise ConfigError(
            f"--id {message_id}: an offset message id has 32 or 56 hex digits. Another one may be a producer's: "
            "-t TOPIC --unique-key finds it"
        )
    host, offset = place
    try:
        message = _at(opened, offset)
    except ConfigError as error:
        raise ConfigError(
            f"--id {message_id}, of broker {host}: {error}. If a producer made this id, -t TOPIC --unique-key finds it"
        ) from None
    if message.record.store_host != host:
        raise ConfigError(
            f"--id {message_id}: of broker {host}; the message at log offset {offset} here was stored by "
            f"{message.record.store_host}. --physical-offset {offset} shows it"
        )
    return message


def _of_topic(opened: MessageStore, message: StoredMessage, topic: str | None) -> StoredMessage:
    """Return a message if it is of the topic that was asked for.

    Raises:
        ConfigError: It is of another topic.
    """
    from reput.errors import ConfigError

    if topic is not None and message.topic != topic:
        raise ConfigError(
            f"{opened.layout.commit_log}: the message at log offset {message.physical_offset} is of topic "
            f"{output.printable(message.topic)}, not {topic}. Leave out -t to see it"
        )
    return message


def _at(opened: MessageStore, offset: int) -> StoredMessage:
    from reput.errors import ConfigError

    message = opened.message_at(offset)
    if message is None:
        log = opened.view.log
        raise ConfigError(
            f"{opened.layout.commit_log}: no message starts at log offset {offset}; the log holds {log.min_offset} to "
            f"{opened.view.follower.offset}"
        )
    return message
