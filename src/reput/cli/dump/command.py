"""`reput dump`: show records, queue entries and index items as text or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from reput.cli.dump.batches import EntryForm, chosen_batch_queues, entries_from, show_batch
from reput.cli.dump.index import index
from reput.cli.shared import options, output
from reput.cli.shared.bodies import Bodies, body_form_option
from reput.cli.shared.groups import VerbGroup
from reput.cli.shared.opened import TIME_HELP, time_value
from reput.cli.shared.parts import (
    begin_at,
    head,
    line,
    record_cells,
    record_values,
    text_of,
)
from reput.formats.queue_kinds import STORE_TYPES
from reput.nearest import near, quoted, some, unknown_topic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.cli.shared.lines import LineWriter
    from reput.formats.consume_queue import Entry, QueueKey
    from reput.formats.consume_queue_ext import Unit
    from reput.formats.record import Record
    from reput.log.read.files import LogFiles
    from reput.log.read.reader import WalkEnd
    from reput.log.read.scan import LogWalk, RangeWalk
    from reput.queue.ext import ExtReader
    from reput.queue.kinds import QueueOnDisk
    from reput.store.disk.store import StoreOnDisk

_FAULTS_SHOWN = 20
_MANY_RECORDS = 2000

_topic_option = click.option("-t", "--topic", help="Only this topic.")
_queue_option = click.option("-q", "--queue-id", type=click.IntRange(min=0), help="Only the queues with this id.")


@click.group(cls=VerbGroup)
def dump() -> None:
    """Show the contents of a store: records of its log, entries of its queues, or items of its IndexFiles.

    The command changes nothing, and a broker may have the store open. The exit code is 1 if bytes in the middle are
    damaged.

    \b
    reput dump log /data/store -o -10
    reput dump queue /data/store -t orders -q 2 --records
    """  # noqa: D301 - click wants the control character


dump.add_command(index)


# --- records of the log ---------------------------------------------------------------------------


@dump.command()
@options.store_argument
@_topic_option
@_queue_option
@click.option(
    "-o",
    "--offset",
    type=int,
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
    offset: int | None,
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
    reput dump log /data/store -o 1048576 -c 10
    reput dump log /data/store -t orders -o -10
    reput dump log /data/store --since -1h --until 2026-07-30T18:00
    reput dump log /data/store -t orders -q 2 --json --body-bytes 200
    """  # noqa: D301 - click wants the control character
    from reput.cli.shared.lines import LineWriter, cells_form, json_form
    from reput.errors import ConfigError
    from reput.formats.record import CHECK_BODY, CHECK_NONE, CHECK_PROPERTY
    from reput.kernels import SMALL_BYTES, expect_work, small_work
    from reput.log.read.reader import log_end
    from reput.log.read.scan import LogWalk, checking
    from reput.store.disk.store import Purpose, StoreOnDisk
    from reput.store.info.use import look_at_use

    if offset is not None and since is not None:
        raise click.UsageError("-o and --since both set the begin: give one of them")
    config = options.config_of(config_path, assignments, store)
    layout = StoreOnDisk.find(store, config, Purpose.LOOK).layout
    # Before the log is listed: its files then hold what is confirmed now.
    confirmed = look_at_use(layout).confirmed
    files = _log_of(StoreOnDisk(layout, config, Purpose.LOOK, tolerant=True, below=confirmed))
    crc_check = (CHECK_PROPERTY if config.force_verify_prop_crc else CHECK_BODY) if verify_crc else CHECK_NONE
    choice = _RecordChoice(topic, queue_id, since, until)
    form = (json_form if as_json else cells_form)(body_bytes, bodies := Bodies(body_form, config))
    with small_work():
        if max_messages is None or max_messages > _MANY_RECORDS:
            expect_work(SMALL_BYTES)
        last = -offset if offset is not None and offset < 0 else None
        # Both walks use one end: a writer may append between them.
        until = log_end(files) if last is not None and confirmed is None else confirmed
        begin = _begin(files, offset, choice, crc_check, until)
        walk = LogWalk(files, begin, checking(crc_check), until)
        head(as_json, ("offset", "stored", "topic/queue", "queue offset", "size", "tag", "keys"))
        shower = _Shower(choice, LineWriter(form), max_messages, last)
        end = shower.show(walk)
    shown = shower.shown
    if max_messages is not None and shown >= max_messages:
        return bodies.code()
    if choice.is_past_end:
        if not shown:
            output.say("note: no such record was stored in that time; `reput info` shows the log's time span")
        return bodies.code()
    code = bodies.code(_show_end(files, end, confirmed))
    if topic is not None and offset is None and since is None and not code and choice.topic not in choice.met:
        names = sorted(name.decode("utf-8", "replace") for name in choice.met)
        raise ConfigError(f"{layout.commit_log}: no topic {quoted(topic)} in the log. {near(topic, names)}")
    if not shown:
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
        self.topic = None if topic is None else topic.encode("utf-8", "surrogateescape")
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
    """Note that output begins at another offset: the next record may be far away if bytes are damaged."""
    if offset < files.min_offset:
        output.say(f"note: the log starts at {files.min_offset}; earlier records have expired")
    elif begin > offset:
        output.say(f"note: no record begins at log offset {offset}; the next one begins at {begin}")


def _log_of(store: StoreOnDisk) -> LogFiles:
    """Return the files of the log, and show notes about them."""
    for note in store.log.notes:
        output.say(f"note: {note}")
    return store.log


def _show_end(files: LogFiles, end: WalkEnd | None, confirmed: int | None) -> int:
    """Show why the log ends before enough records are shown; return the exit code."""
    from reput.log.read.reader import place

    if end is None:
        return 0
    if end.is_damage:
        output.say(
            f"damage: {place(files, end.offset)}: {end.verdict.meaning}; the next record is at log offset "
            f"{end.next_record}. -o {end.next_record} continues there; restore these bytes from a replica or a backup"
        )
        return 1
    if confirmed is not None:
        output.say(
            f"damage: {place(files, end.offset)}: {end.verdict.meaning}, though the log is confirmed up to "
            f"{confirmed}. Restore these bytes from a replica or a backup"
        )
        return 1
    if end.is_torn:
        output.say(
            f"note: {place(files, end.offset)}: {end.verdict.meaning}, {end.written} bytes, and no record after it: "
            "the torn end of a crash, or of a range that a broker is writing"
        )
    return 0


# --- entries of queues ----------------------------------------------------------------------------


@dump.command()
@options.store_argument
@_topic_option
@_queue_option
@click.option("-o", "--offset", type=int, help="Begin with this queue offset; a negative one counts from the end.")
@options.most_option("The most entries of each queue.")
@click.option(
    "--kind", type=click.Choice(list(STORE_TYPES.values())), help="Show this kind of queues, if the store has both."
)
@click.option("--records", is_flag=True, help="Add the record that each entry points to.")
@options.body_option
@body_form_option
@options.config_options
@options.json_lines_option
def queue(
    store: str,
    topic: str | None,
    queue_id: int | None,
    offset: int | None,
    max_messages: int | None,
    kind: str | None,
    records: bool,
    body_bytes: int | None,
    body_form: str,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the ConsumeQueue entries of STORE, queue by queue.

    Text has a line for each entry, with tabs between topic/queue, queue offset, log offset, size and tags code. The
    tags code is the hash of the tag, the delivery time of a delayed message, or with the mark ext an address in the
    ConsumeQueueExt, whose tags code, store time and bitmap follow. --records adds store time, tag and keys of the
    record. An entry of a queue of batches is for all messages of a record: it has the queue offset of the first one,
    and their number at the end of the line. The exit code is 1 if an entry points to no record or to another one, or if
    an address has no unit.

    \b
    reput dump queue /data/store -t orders -q 2 -o -10
    reput dump queue /data/store -t orders --records --json
    """  # noqa: D301 - click wants the control character
    from reput.store.disk.store import Purpose, StoreOnDisk

    if body_bytes is not None and not records:
        raise click.UsageError("--body-bytes limits the bodies of records: add --records")
    config = options.config_of(config_path, assignments, store)
    on_disk = StoreOnDisk.find(store, config, Purpose.LOOK, tolerant=True)
    files = _log_of(on_disk)
    ext = _ext_reader(on_disk)
    form = EntryForm(records, body_bytes, as_json, Bodies(body_form, config))
    batches = chosen_batch_queues(on_disk.batches, topic, queue_id)
    only_batches = bool(batches) and (topic is not None or not on_disk.present)
    faults = shown = 0
    names = ("topic/queue", "queue offset", "log offset", "size", "tags code")
    head(as_json, (*names, "stored", "topic/queue", "queue offset", "size", "tag", "keys") if records else names)
    for queue in () if only_batches else _chosen_queues(on_disk, topic, queue_id, kind):
        end = queue.bounds().max_offset
        begin = begin_at(offset, queue.lowest, end, str(queue.key))
        end = end if max_messages is None else min(end, begin + max_messages)
        for number, entry in queue.read(begin, end):
            unit = ext.unit(queue.key, entry.tags_code) if ext is not None and entry.is_ext else None
            fault = _show_entry(files, queue.key, number, entry, unit, form)
            if entry.is_ext and unit is None:
                fault = fault or f"its tags code {entry.tags_code} is an address in the ConsumeQueueExt without a unit"
            shown += 1
            if fault is not None:
                faults += 1
                _say_fault(queue, number, fault, faults)
    for batch_queue in batches:
        for batch in entries_from(batch_queue, offset, max_messages):
            fault = show_batch(files, batch_queue, batch, form)
            shown += 1
            if fault is not None:
                faults += 1
                if faults <= _FAULTS_SHOWN:
                    output.say(f"damage: {batch_queue.place}: {fault}. Run `reput check`, then `reput rebuild`")
    if not shown and max_messages != 0:
        output.say("note: no entries there; `reput info -t TOPIC` lists a topic's queues with their offsets")
    if faults > _FAULTS_SHOWN:
        output.say(f"damage: {faults} entries in all do not fit their records")
    return form.bodies.code(1 if faults else 0)


def _say_fault(queue: QueueOnDisk, number: int, fault: str, faults: int) -> None:
    if faults <= _FAULTS_SHOWN:
        output.say(f"damage: {queue.place_of(number)}: {fault}. Run `reput check`, then `reput rebuild`")


def _chosen_queues(
    store: StoreOnDisk, topic: str | None, queue_id: int | None, kind: str | None
) -> Iterator[QueueOnDisk]:
    """Iterate over the queues that `-t`, `-q` and `--kind` choose.

    Raises:
        ConfigError: There is no such kind, topic or queue.
    """
    from reput.errors import ConfigError
    from reput.queue.combined import kind_to_read
    from reput.store.disk.layout import refuse_what_we_cannot_build

    layout, kinds = store.layout, store.present
    names = [one.name for one in kinds]
    if kind is not None and kind not in names:
        raise ConfigError(f"{layout.consume_queue}: no {kind} queues. There are: {some(names)}")
    if not kinds:
        # The store may have queues of another kind.
        refuse_what_we_cannot_build(layout, store.config)
        raise ConfigError(f"{layout.consume_queue}: no queues. `reput rebuild --only queue` builds them from the log")
    chosen = kinds[names.index(kind)] if kind is not None else kind_to_read(kinds, store.placement)
    seen, found = set(), False
    for queue in chosen.queues(None if topic is None else topic.encode("utf-8", "surrogateescape")):
        seen.add(queue.key.queue_id)
        if queue_id is None or queue.key.queue_id == queue_id:
            found = True
            yield queue
    if found:
        return
    if topic is not None and not seen:
        refuse_what_we_cannot_build(layout, store.config)
        topics = {queue.key.topic.decode("utf-8", "replace"): None for queue in chosen.queues()}
        raise ConfigError(unknown_topic(layout.consume_queue, topic, list(topics)))
    where = layout.consume_queue / topic if topic else layout.consume_queue
    asked = "no queues" if queue_id is None else f"no queue {queue_id}"
    raise ConfigError(f"{where}: {asked}. There are: {some([str(number) for number in sorted(seen)])}")


def _show_entry(
    files: LogFiles,
    key: QueueKey,
    number: int,
    entry: Entry,
    unit: Unit | None,
    form: EntryForm,
) -> str | None:
    """Show one entry; return its fault, unless its record has only expired."""
    record, fault = _record_of(files, key, number, entry) if form.records else (None, None)
    if form.as_json:
        value: dict[str, Any] = {
            "topic": text_of(key.topic),
            "queue_id": key.queue_id,
            "queue_offset": number,
            **entry._asdict(),
            "pre_blank": entry.is_pre_blank,
            "ext": entry.is_ext,
        }
        if unit is not None:
            value["unit"] = {**unit._asdict(), "bitmap": unit.bitmap.hex()}
        if form.records:
            value["record"] = None if record is None else record_values(record, form.body_bytes, form.bodies)
            value["fault"] = fault
        output.emit_json(value)
    else:
        cells = [f"{line(text_of(key.topic))}/{key.queue_id}", str(number), *map(str, entry)]
        if entry.is_pre_blank:
            cells.append("(pre-blank)")
        elif record is not None:
            cells += record_cells(record, form.body_bytes, form.bodies)
        if entry.is_ext:
            cells.append(f"(ext {unit.tags_code} {unit.store_timestamp} {unit.bitmap.hex()})" if unit else "(ext)")
        output.show("\t".join(cells))
    return fault if entry.physical_offset >= files.min_offset else None


def _ext_reader(store: StoreOnDisk) -> ExtReader | None:
    from reput.queue.ext import ExtReader

    size = store.settings.ext_file_size
    return None if size is None else ExtReader(store.layout.consume_queue_ext, size)


def _record_of(files: LogFiles, key: QueueKey, number: int, entry: Entry) -> tuple[Record | None, str | None]:
    """Return the record that an entry points to, and the fault."""
    from reput.log.read.reader import place, record_at
    from reput.log.read.scan import LogRecord

    if entry.is_pre_blank:
        return None, None
    if entry.physical_offset < files.min_offset:
        return None, f"its record at log offset {entry.physical_offset} has expired"
    found = record_at(files, entry.physical_offset)
    if not isinstance(found, LogRecord):
        return None, f"the entry points to {place(files, entry.physical_offset)}, where there is {found.meaning}"
    record = found.decode()
    if record.size == entry.size and _names_queue(record, key, number):
        return record, None
    found_at = (text_of(record.topic), record.queue_id, record.queue_offset, record.size)
    if found_at != (text_of(key.topic), key.queue_id, number, entry.size):
        return record, (
            f"the entry, of {entry.size} bytes, points to {place(files, entry.physical_offset)}, the record of "
            f"{found_at[0]}/{found_at[1]} offset {found_at[2]}, {found_at[3]} bytes"
        )
    return record, None


def _names_queue(record: Record, key: QueueKey, number: int) -> bool:
    """Return True if a message names a queue, with this queue offset, among its light message queues."""
    from reput.formats import properties as props

    named = props.decode_properties(record.properties)
    topics = named.get(props.INNER_MULTI_DISPATCH, b"").split(props.QUEUE_SEPARATOR)
    numbers = named.get(props.INNER_MULTI_QUEUE_OFFSET, b"").split(props.QUEUE_SEPARATOR)
    return (key.topic, str(number).encode()) in zip(topics, numbers, strict=False)
