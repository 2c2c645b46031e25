"""Opening a store for the verbs that read its messages or put some, and the names and times that people give."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from reput.cli import output
from reput.cli.dump.parts import record_cells, record_values
from reput.formats.layout import INT64_MAX
from reput.nearest import near, some, unknown_topic

if TYPE_CHECKING:
    from reput.config import StoreConfig
    from reput.embedded import MessageStore
    from reput.store.read.message import StoredMessage
    from reput.store.read.view import StoreQueue

_SLOW_S = 1.0
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BEFORE_NOW = re.compile(r"-([0-9]{1,12})(ms|[smhdw])")
TIME_HELP = (
    "TIME is a date (2026-07-30T18:00), milliseconds since 1970, now, or a time before now: -30s, -15m, -1h, -2d."
)

topic_option = click.option("-t", "--topic", required=True, help="The topic.")
json_lines_option = click.option("--json", "as_json", is_flag=True, help="Give a JSON object a line instead of text.")
body_option = click.option(
    "--body-bytes", type=click.IntRange(min=0), help="At most so many bytes of each body; text shows bodies only so."
)


def queue_option(meaning: str = "The queue.") -> Callable[[Any], Any]:
    """`-q`, one queue of a topic."""
    return click.option("-q", "--queue-id", type=click.IntRange(min=0), help=meaning)


# --- stores ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(store: str, config: StoreConfig, *, with_progress: bool = False) -> Iterator[MessageStore]:
    """The store, opened read-only: nothing is changed, and another process may be writing it.

    Raises:
        ReputError: as `MessageStore.open`; `with_progress` as `MessageStore.progress`, too.
    """
    from reput.embedded import MessageStore
    from reput.kernels import small_work

    with small_work(), MessageStore.open(store, config, read_only=True) as opened:
        if with_progress:
            # What is odd about it is said with the other notes.
            _ = opened.progress
        _tell_opening(opened)
        yield opened


@contextlib.contextmanager
def writing(
    store: str,
    config: StoreConfig,
    *,
    create: bool | None = None,
    reput: bool = True,
    delete_expired: bool | None = False,
) -> Iterator[MessageStore]:
    """The store, held for writing while the block runs; then its indexes catch up, unless `reput` is False.

    Expired log files stay, unless `delete_expired` says otherwise as for `MessageStore.open`. True deletes them at
    once, too. Each one that goes is said.

    Raises:
        ReputError: as `MessageStore.open`, `reput` and `close`.
    """
    from reput.embedded import MessageStore
    from reput.errors import NotAStoreError, ReputError
    from reput.kernels import small_work
    from reput.store.disk.layout import find_store

    try:
        if not create:
            find_store(store, config)
    except NotAStoreError as error:
        # None: the verb has no such option.
        raise NotAStoreError(f"{error}. --create makes a new one" if create is False else str(error)) from None
    with contextlib.ExitStack() as around:
        around.enter_context(small_work())
        opened = MessageStore.open(store, config, create=bool(create), delete_expired=delete_expired)
        around.enter_context(_saying_what_is_logged())
        try:
            _tell_opening(opened)
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
    """Say on stderr what an open store logs while the block runs, such as each file that it deletes."""
    handler, logger = _Said(), logging.getLogger("reput.store")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Said(logging.Handler):
    """Says on stderr what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one thing."""
        output.say(f"note: {record.getMessage()}")


def _finish(opened: MessageStore, reput: bool) -> None:
    """Let the indexes of a store catch up if `reput` says so, and close it."""
    try:
        if reput:
            # What waits in a write buffer, or for a sync, is behind as well.
            opened.flush()
            if opened.behind_bytes:
                catch_up(opened, quiet=not sys.stderr.isatty())
    finally:
        opened.close(reput=False)


def catch_up(opened: MessageStore, *, quiet: bool = True) -> bool:
    """Bring the durable indexes up to the log; False where a follower does so already, or begins to at this moment.

    Raises:
        ReputError: as `MessageStore.reput`.
    """
    from reput.cli.progress_bars import progress
    from reput.errors import StoreLockedError

    if opened.is_followed:
        return False
    try:
        with progress(quiet=quiet) as listener:
            opened.reput(spark=False, listener=listener)
    except StoreLockedError:
        return False
    return True


def _tell_opening(opened: MessageStore) -> None:
    for note in opened.notes:
        output.say(f"note: {note}")
    # Without anything to decode it was the kernels that were compiled, or loaded.
    if opened.opened_in_s > _SLOW_S and (behind := opened.behind_bytes):
        output.say(
            f"note: decoding {output.size_text(behind)} of log that no index covers took {opened.opened_in_s:.1f} s, "
            f"at each open; `reput follow {opened.layout.root} --until-caught-up` catches up"
        )


def queues_of(opened: MessageStore, topic: str, queue_id: int | None = None) -> list[StoreQueue]:
    """The queues of a topic, or the one of that id.

    Raises:
        ConfigError: there is none; near names are told.
    """
    from reput.errors import ConfigError

    found = opened.queues(topic)
    if not found:
        raise ConfigError(unknown_topic(opened.layout.root, topic, opened.topics()))
    chosen = [info for info in found if queue_id is None or info.queue_id == queue_id]
    if not chosen:
        ids = [str(info.queue_id) for info in found]
        raise ConfigError(f"{opened.layout.root}: topic {topic} has no queue {queue_id}. There are: {some(ids)}")
    return chosen


def groups_of(opened: MessageStore, group: str | None = None) -> list[str]:
    """All groups that have progress, sorted, or the one asked for.

    Raises:
        ConfigError: it has none.
    """
    from reput.errors import ConfigError

    known = opened.progress.groups()
    if group is None:
        return known
    if group not in known:
        raise ConfigError(f"{opened.layout.root}: no group {group} has progress. {near(group, known)}")
    return [group]


# --- messages -------------------------------------------------------------------------------------


def show_message(message: StoredMessage, body_bytes: int | None, as_json: bool) -> None:
    """A message as `dump log` shows its record."""
    if as_json:
        output.emit_json(record_values(message.record, body_bytes))
    else:
        output.show("\t".join((str(message.physical_offset), *record_cells(message.record, body_bytes))))


# --- times ----------------------------------------------------------------------------------------


def time_value(text: str) -> int:
    """An option's time in milliseconds: see `time_ms`.

    Raises:
        click.BadParameter: it is none.
    """
    found = time_ms(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r}: give milliseconds, now, or a date such as 2026-07-30T18:00:00; -1h is an hour ago"
        )
    return found


def time_ms(text: str) -> int | None:
    """A time in milliseconds since 1970, None where the text is no time.

    Such a number, `now`, a time before now (`-1h`), or an ISO 8601 date, in local time unless it names a zone.
    """
    from datetime import datetime

    text = text.strip()
    if text == "now":
        return now_ms()
    if before := _BEFORE_NOW.fullmatch(text):
        return max(0, now_ms() - int(before[1]) * _UNITS_MS[before[2]])
    if text.isascii() and text.isdigit():
        return found if len(text) < 20 and (found := int(text)) <= INT64_MAX else None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
