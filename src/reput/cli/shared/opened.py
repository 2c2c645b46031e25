"""Stores that verbs open to read or put messages, and the names and times that users give."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from reput.cli.shared import options, output
from reput.cli.shared.parts import record_cells, record_values
from reput.formats.java.java_numbers import parse_whole
from reput.formats.stored_text import stored_bytes
from reput.nearest import near, quoted, some
from reput.texts import size_text
from reput.times import UNITS_MS, now_ms

if TYPE_CHECKING:
    from reput.cli.shared.bodies import Bodies
    from reput.config import StoreConfig
    from reput.embedded import MessageStore
    from reput.store.read.message import StoredMessage
    from reput.store.read.view import StoreQueue

_SLOW_S = 1.0
_BEFORE_NOW = re.compile(r"-([0-9]{1,12})(ms|[smhdw])")
TIME_HELP = (
    "TIME is a date (2026-07-30T18:00), milliseconds since 1970, now, or a time before now: -30s, -15m, -1h, -2d."
)


def topic_option(meaning: str = "The topic.", *, required: bool = False) -> Callable[[Any], Any]:
    """Return the option `-t`, one topic."""
    return click.option("-t", "--topic", required=required, help=meaning)


def queue_option(meaning: str = "The queue.") -> Callable[[Any], Any]:
    """Return the option `-q`, one queue of a topic."""
    return click.option("-q", "--queue-id", type=options.WholeNumber(0), help=meaning)


# --- stores ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(
    store: str, config: StoreConfig, *, with_progress: bool = False, by_key: bool = False
) -> Iterator[MessageStore]:
    """Open the store read-only; what it cannot read is said, at the begin or when the block ends.

    Nothing is changed, and another process may write the store.

    `with_progress` and `by_key`: the verb uses the committed offsets, or the index, so what is wrong there counts. What
    keeps the verb from reading any offsets is not said here, as its error says it.

    Raises:
        ReputError: As for `MessageStore.open`.
    """
    from reput.embedded import MessageStore
    from reput.errors import DamagedStoreError
    from reput.kernels import small_work

    with small_work(), MessageStore.open(store, config, read_only=True) as opened:
        unsaid = ""
        if with_progress:
            # Loading adds its notes to those of the store. If that fails, it fails again where the offsets are used.
            try:
                _ = opened.progress
            except DamagedStoreError as error:
                unsaid = str(error)
        _say_notes(opened, [lacks] if by_key and (lacks := opened.view.index.lacks()) else [], unsaid)
        known = len(opened.damage)
        yield opened
        output.say_lines("damage", opened.damage[known:])


@contextlib.contextmanager
def writing(
    store: str,
    config: StoreConfig,
    *,
    create: bool | None = None,
    reput: bool = True,
    delete_expired: bool | None = False,
    with_progress: bool = False,
) -> Iterator[MessageStore]:
    """Open the store to write while the block runs; then its indexes catch up, unless `reput` is False.

    `with_progress`: the verb uses the committed offsets, so what is wrong there counts.

    `delete_expired` is that of `MessageStore.open`, and False by default. True also deletes expired log files at once.
    A note names each deleted file.

    Raises:
        ReputError: As for `MessageStore.open`, `reput` and `close`.
    """
    from reput.embedded import MessageStore
    from reput.errors import NotAStoreError, ReputError
    from reput.kernels import small_work
    from reput.store.disk.layout import find_store, may_become_store

    try:
        if not create:
            find_store(store, config)
    except NotAStoreError as error:
        # None: the verb has no such option.
        if create is None or not may_become_store(store, config):
            raise
        raise NotAStoreError(f"{error}. --create makes a new store there") from None
    with contextlib.ExitStack() as around:
        around.enter_context(small_work())
        opened = MessageStore.open(store, config, create=bool(create), delete_expired=delete_expired)
        around.enter_context(_saying_what_is_logged())
        try:
            _say_notes(opened, opened.progress.damage if with_progress else ())
            if delete_expired:
                opened.delete_expired(manual=True)
            yield opened
        except BaseException as error:
            try:
                _finish(opened, reput)
            except ReputError as further:
                # The first error says why the block ended. A full disk mostly fails both times.
                if type(further) is not type(error):
                    error.add_note(f"error: {further}")
            raise
        _finish(opened, reput)


@contextlib.contextmanager
def _saying_what_is_logged() -> Iterator[None]:
    """Write the log messages of an open store to stderr while the block runs, such as each deleted file."""
    handler, logger = _Said(), logging.getLogger("reput.store")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Said(logging.Handler):
    """Writes log messages to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log message."""
        output.say(f"note: {record.getMessage()}")


def _finish(opened: MessageStore, reput: bool) -> None:
    """Catch up the indexes of a store if `reput` is True, and close it."""
    try:
        if reput:
            # Messages in a write buffer, or waiting for a sync, have no index entries either.
            opened.flush()
            if opened.behind_bytes:
                catch_up(opened, quiet=not sys.stderr.isatty())
    finally:
        opened.close(reput=False)


def catch_up(opened: MessageStore, *, quiet: bool = True) -> bool:
    """Bring the durable indexes up to the log; return False if a follower does so already, or begins to.

    Raises:
        ReputError: As for `MessageStore.reput`.
    """
    from reput.cli.shared.progress_bars import progress

    with progress(quiet=quiet) as listener:
        return opened.reput_unless_followed(spark=False, listener=listener) is not None


def damage_code(opened: MessageStore, *, by_key: bool = False) -> int:
    """Return the exit code of a verb that has read what can be read: 1 if it has come upon what cannot.

    `by_key`: it has asked the index.
    """
    return 1 if opened.damage or (by_key and opened.view.index.lacks()) else 0


def verdict(opened: MessageStore, damage: Collection[str] = ()) -> dict[str, Any]:
    """Return the first values of a JSON answer: `ok` as the exit code says it, and the damage if there is any.

    `damage`: what else could not be read.
    """
    found = list(dict.fromkeys([*opened.damage, *damage]))
    return {"ok": False, "damage": found} if found else {"ok": True}


def _say_notes(opened: MessageStore, damage: Sequence[str] = (), unsaid: str = "") -> None:
    """Write what the open has found; notes that are among `damage` keep the verb from its work. Leave out `unsaid`."""
    for text in opened.damage:
        if text != unsaid:
            output.say(f"damage: {text}")
    for note in opened.notes:
        output.say(f"{'damage' if note in damage else 'note'}: {note}")
    # If there is nothing to decode, the time went into compiling or loading kernels.
    if opened.opened_in_s > _SLOW_S and (undecoded := opened.behind_bytes):
        output.say(
            f"note: decoding {size_text(undecoded)} of log without indexes took {opened.opened_in_s:.1f} s, "
            f"at each open; `reput follow {opened.layout.root} --until-caught-up` catches up"
        )


def queues_of(opened: MessageStore, topic: str, queue_id: int | None = None) -> list[StoreQueue]:
    """Return the queues of a topic, or the one with that id.

    Raises:
        ConfigError: There is no such topic, and the text names similar ones; or it has no such queue, or no message.
    """
    from reput.errors import ConfigError
    from reput.store.read.topic_messages import refuse_unknown

    found = opened.queues(topic)
    if not found:
        refuse_unknown(opened.view, topic)
        raise ConfigError(f"{opened.layout.root}: {no_messages_yet(topic)}")
    chosen = [info for info in found if queue_id is None or info.queue_id == queue_id]
    if not chosen:
        ids = [str(info.queue_id) for info in found]
        raise ConfigError(f"{opened.layout.root}: topic {topic} has no queue {queue_id}. There are: {some(ids)}")
    return chosen


def awaits_messages(opened: MessageStore, topic: str, queue_id: int | None = None) -> bool:
    """Return True if the broker has a topic, and that queue of it, and no message was put there yet."""
    if any(queue_id in {None, info.queue_id} for info in opened.queues(topic)):
        return False
    count = opened.view.topics_of_broker().queue_counts.get(stored_bytes(topic))
    # 0: the configuration does not say the number.
    return count is not None and (queue_id is None or not count or queue_id < count)


def no_messages_yet(topic: str) -> str:
    """Return a sentence about a topic of the broker to which no message was put yet."""
    return f"topic {quoted(topic)} is empty: the store has no queue of it"


def groups_of(opened: MessageStore, group: str | None = None) -> list[str]:
    """Return all groups that have progress, sorted, or only `group`.

    Raises:
        ConfigError: The group has none.
    """
    from reput.errors import ConfigError

    known = opened.progress.groups()
    if group is None:
        return known
    if group not in known:
        raise ConfigError(f"{opened.layout.root}: no group {group} has progress. {near(group, known)}")
    return [group]


# --- messages -------------------------------------------------------------------------------------


def show_message(message: StoredMessage, body_bytes: int | None, as_json: bool, bodies: Bodies) -> None:
    """Show a message as `dump log` shows its record."""
    if as_json:
        output.emit_json(record_values(message.record, body_bytes, bodies))
    else:
        output.show("\t".join((str(message.physical_offset), *record_cells(message.record, body_bytes, bodies))))


# --- times ----------------------------------------------------------------------------------------


def time_value(text: str) -> int:
    """Return an option's time in milliseconds; see `time_ms`.

    Raises:
        click.BadParameter: It is no time.
    """
    found = time_ms(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r}: give milliseconds, now, or a date such as 2026-07-30T18:00:00; -1h is an hour ago"
        )
    return found


def time_ms(text: str) -> int | None:
    """Return a time in milliseconds since 1970; None if the text is no time.

    A time is such a number, `now`, a time before now (`-1h`), or an ISO 8601 date, in local time if it names no zone.
    """
    from datetime import datetime

    text = text.strip()
    if text == "now":
        return now_ms()
    if before := _BEFORE_NOW.fullmatch(text):
        return max(0, now_ms() - int(before[1]) * UNITS_MS[before[2]])
    if (found := parse_whole(text, 64)) is not None:
        return found if found >= 0 else None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def refuse_no_time(since_ms: int | None, until_ms: int | None) -> None:
    """Refuse times between which there is none.

    Raises:
        click.UsageError: The first one is later than the last one.
    """
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise click.UsageError("--since is later than --until, so no message can be stored in between: exchange them")


def stored_ms(opened: MessageStore, span: StoreQueue, offset: int) -> int | None:
    """Return the store time (ms) of a queue's message; None if there is none."""
    time_ms = opened.store_time(span.topic, span.queue_id, offset)
    return time_ms if time_ms >= 0 else None
