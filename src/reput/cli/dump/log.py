"""`reput dump log`: show the records of the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reput.cli.dump.choice import chosen_queue_option, chosen_topic_option, log_of
from reput.cli.shared import options, output
from reput.cli.shared.bodies import Bodies, body_form_option
from reput.cli.shared.opened import TIME_HELP, refuse_no_time, time_value
from reput.cli.shared.parts import head
from reput.formats.stored_text import shown_text, stored_bytes
from reput.nearest import near, quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.cli.shared.lines import LineWriter
    from reput.log.read.files import LogFiles
    from reput.log.read.reader import WalkEnd
    from reput.log.read.scan import LogWalk, RangeWalk

_MANY_RECORDS = 2000


@click.command()
@options.store_argument
@chosen_topic_option
@chosen_queue_option
@click.option(
    "--physical-offset",
    type=options.PlaceNumber(),
    help="Begin with the first record at or after this log offset; -10 shows the last ten records.",
)
@click.option("--since", type=time_value, metavar="TIME", help=f"Stored at this time or later. {TIME_HELP}")
@click.option("--until", type=time_value, metavar="TIME", help="Stored at this time or before.")
@options.most_option("The most records.")
@options.body_option
@body_form_option
@options.verify_crc_option
@options.config_options
@options.json_lines_option
def log(
    store: str,
    topic: str | None,
    queue_id: int | None,
    physical_offset: int | None,
    since: int | None,
    until: int | None,
    max_messages: int | None,
    body_bytes: int | None,
    body_form: str,
    verify_crc: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the records of STORE's log, in its order.

    Text has a line for each record, with tabs between log offset, store time, topic/queue, queue offset, size, tag and
    keys. JSON has the whole record, with the body as text if it is UTF-8, otherwise as base64 (see body_encoding).

    \b
    reput dump log /data/store --physical-offset 1048576 -c 10
    reput dump log /data/store -t orders --physical-offset -10
    reput dump log /data/store --since -1h --until 2026-07-30T18:00
    reput dump log /data/store -t orders -q 2 --json --body-bytes 200
    """  # noqa: D301 - click wants the control character
    from reput.cli.shared.lines import LineWriter, cells_form, json_form
    from reput.errors import ConfigError
    from reput.formats.log.record import CHECK_BODY, CHECK_NONE, CHECK_PROPERTY
    from reput.kernels import SMALL_BYTES, expect_work, small_work
    from reput.log.read.reader import log_end
    from reput.log.read.scan import LogWalk, checking
    from reput.store.disk.purpose import Purpose
    from reput.store.disk.store import StoreOnDisk
    from reput.store.info.use import look_at_use

    if physical_offset is not None and since is not None:
        raise click.UsageError("--physical-offset and --since both set the begin: give one of them")
    config = options.config_of(config_path, assignments, store)
    on_disk = StoreOnDisk.find(store, config, Purpose.LOOK, tolerant=True)
    # Before the log is listed: its files then hold what is confirmed now.
    confirmed = look_at_use(on_disk.layout).confirmed
    files = log_of(replace(on_disk, below=confirmed))
    crc_check = (CHECK_PROPERTY if config.force_verify_prop_crc else CHECK_BODY) if verify_crc else CHECK_NONE
    choice = _RecordChoice(topic, queue_id, since, until)
    form = (json_form if as_json else cells_form)(body_bytes, bodies := Bodies(body_form, config))
    with small_work():
        if max_messages is None or max_messages > _MANY_RECORDS:
            expect_work(SMALL_BYTES)
        last = -physical_offset if physical_offset is not None and physical_offset < 0 else None
        # Both walks use one end: a writer may append between them.
        until = log_end(files) if last is not None and confirmed is None else confirmed
        begin = _begin(files, physical_offset, choice, crc_check, until)
        walk = LogWalk(files, begin, checking(crc_check), until)
        head(as_json, ("offset", "stored", "topic/queue", "queue offset", "size", "tag", "keys"))
        shower = _Shower(choice, LineWriter(form), max_messages, last)
        end, shown = shower.show(walk), shower.shown
    if max_messages is not None and shown >= max_messages:
        return bodies.code()
    if choice.is_past_end:
        if not shown:
            output.say("note: no such record was stored in that time; `reput info` shows the log's time span")
        return bodies.code()
    code = bodies.code(_show_end(files, end, confirmed))
    if topic is not None and (physical_offset, since) == (None, None) and not code and choice.topic not in choice.met:
        names = sorted(shown_text(name) for name in choice.met)
        raise ConfigError(f"{on_disk.layout.commit_log}: no topic {quoted(topic)} in the log. {near(topic, names)}")
    if not shown and not code:
        _say_none(files, begin, walk.offset, choice)
    return code


def _say_none(files: LogFiles, begin: int, end: int, choice: _RecordChoice) -> None:
    if choice.leaves_out:
        output.say(f"note: no such record in log offsets {begin} to {end}; `reput info` lists the topics")
    else:
        output.say(
            f"note: no record at log offset {begin} or after it; the log's files go from {files.min_offset} to "
            f"{files.end_offset}, and `reput info` says where its records end"
        )


class _RecordChoice:
    """A choice of records by topic, queue and time. `met` has the topics of all records that were read."""

    def __init__(self, topic: str | None, queue_id: int | None, since_ms: int | None, until_ms: int | None) -> None:
        self.topic = None if topic is None else stored_bytes(topic)
        refuse_no_time(since_ms, until_ms)
        self.queue_id, self.since_ms, self.until_ms = queue_id, since_ms, until_ms
        self.leaves_out = any(bound is not None for bound in (topic, queue_id, since_ms, until_ms))
        self.met: set[bytes] = set()
        self.is_past_end = False

    def rows(self, piece: RangeWalk) -> NDArray[np.int64]:
        """Return the numbers of the chosen records."""
        import numpy as np

        columns, count = piece.columns, piece.columns.records
        if not self.leaves_out:
            return np.arange(count)
        topics = [columns.topic(row) for row in range(columns.queues)]
        self.met.update(topics)
        wanted = np.array([self.topic in {None, topic} for topic in topics], dtype=bool)
        if self.queue_id is not None:
            wanted &= columns.queue_id[: len(topics)] == self.queue_id
        stored, mask = columns.store_timestamp[:count], wanted[columns.queue[:count]]
        if self.since_ms is not None:
            mask &= stored >= self.since_ms
        if self.until_ms is not None:
            mask &= stored <= self.until_ms
        return np.flatnonzero(mask)

    def end_of(self, piece: RangeWalk) -> int:
        """Return the number of the first record that is stored too late, with some slack for clocks that were set back.

        It is the number of records if none is too late.
        """
        import numpy as np

        from reput.log.read.reader import CLOCK_SLACK_MS

        count = piece.columns.records
        if self.until_ms is None:
            return count
        late = np.flatnonzero(piece.columns.store_timestamp[:count] > self.until_ms + CLOCK_SLACK_MS)
        self.is_past_end = len(late) > 0
        return int(late[0]) if self.is_past_end else count


class _Shower:
    """Shows the chosen records, at most `count` and at most `last`; `shown` counts them."""

    def __init__(self, choice: _RecordChoice, writer: LineWriter, count: int | None, last: int | None) -> None:
        self.choice, self.writer, self.count, self.last = choice, writer, count, last
        self.shown = 0

    def show(self, walk: LogWalk) -> WalkEnd | None:
        """Show the records of a walk, and those that a writer appends meanwhile; return the end of the walk.

        It is None if the log goes on.
        """
        from reput.log.read.reader import end_of, resumes

        if not self._is_stopped(walk):
            return None
        end = end_of(walk)
        # A writer may have filled zeros after the walk read them. Only a second look shows damage.
        if not resumes(walk, end):
            return end
        return end_of(walk) if self._is_stopped(walk) else None

    def _is_stopped(self, walk: LogWalk) -> bool:
        """Show records; return True if the log ends before enough are shown."""
        if self.count == 0:
            return False
        for piece in walk.pieces():
            rows = self.choice.rows(piece)
            rows = rows[rows < self.choice.end_of(piece)]
            for most in (self.count, self.last):
                rows = rows if most is None else rows[: max(0, most - self.shown)]
            self.writer.write(piece.buffer, piece.base, piece.position[rows], piece.size[rows])
            self.shown += len(rows)
            if self.shown == self.count or self.choice.is_past_end:
                return False
        return walk.offset < walk.until


def _begin(files: LogFiles, offset: int | None, choice: _RecordChoice, crc_check: int, until: int | None) -> int:
    """Return the log offset of the first record; a negative `offset` counts from the end `until`."""
    from reput.log.read.reader import file_by_time, last_records, next_boundary

    if choice.since_ms is not None:
        return file_by_time(files, choice.since_ms)
    if offset is None:
        return files.min_offset
    if offset < 0 and until is not None:
        return last_records(files, -offset, crc_check, choice.rows, until)
    begin = next_boundary(files, offset)
    _say_where_it_begins(files, offset, begin)
    return begin


def _say_where_it_begins(files: LogFiles, offset: int, begin: int) -> None:
    """Note that output begins at another offset: the next record may be far away if bytes are damaged.

    At the log's end there is no next record, which `_say_none` says.
    """
    from reput.formats.log.record import CHECK_NONE
    from reput.log.read.scan import LogWalk, checking

    if offset < files.min_offset:
        output.say(f"note: the log starts at {files.min_offset}; earlier records have expired")
    elif begin > offset and (found := next(iter(LogWalk(files, begin, checking(CHECK_NONE))), None)):
        output.say(f"note: no record begins at log offset {offset}; the next one begins at {found.offset}")


def _show_end(files: LogFiles, end: WalkEnd | None, confirmed: int | None) -> int:
    """Show why the log ends before enough records are shown; return the exit code."""
    from reput.log.read.reader import confirmed_damage, place

    if end is None:
        return 0
    if end.is_damage:
        output.say(
            f"damage: {place(files, end.offset)}: {end.verdict.meaning}; the next record is at log offset "
            f"{end.next_record}. --physical-offset {end.next_record} continues there; restore these bytes from a "
            "replica or a backup"
        )
        return 1
    if why := confirmed_damage(end.offset, end.verdict, confirmed):
        output.say(f"damage: {place(files, end.offset)}: {why}. Restore these bytes from a replica or a backup")
        return 1
    if end.is_torn:
        output.say(
            f"note: {place(files, end.offset)}: {end.verdict.meaning}, {end.written} bytes, and no record after it: "
            "the torn end of a crash, or of a range that a broker is writing"
        )
    return 0
