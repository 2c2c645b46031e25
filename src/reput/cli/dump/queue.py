"""`reput dump queue`: show the entries of queues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput.cli.dump.choice import chosen_queue_option, chosen_topic_option, log_of
from reput.cli.shared import options, output
from reput.cli.shared.bodies import Bodies, body_form_option
from reput.cli.shared.parts import begin_at, head, line, record_cells, record_values
from reput.formats.queue.queue_kinds import STORE_TYPES
from reput.formats.stored_text import shown_text, stored_bytes
from reput.nearest import some, unknown_topic

if TYPE_CHECKING:
    from reput.formats.log.record import Record
    from reput.formats.queue.batch_consume_queue import BatchEntry
    from reput.formats.queue.consume_queue import Entry, QueueKey
    from reput.formats.queue.consume_queue_ext import Unit
    from reput.log.read.files import LogFiles
    from reput.queue.ext import ExtReader
    from reput.queue.kinds import AnyQueue, QueuesOnDisk
    from reput.store.disk.store import StoreOnDisk

_FAULTS_SHOWN = 20


class EntryForm(NamedTuple):
    """The form of an entry's line: with its record or without, the most bytes of bodies, text or JSON, the bodies."""

    records: bool
    body_bytes: int | None
    as_json: bool
    bodies: Bodies


@click.command()
@options.store_argument
@chosen_topic_option
@chosen_queue_option
@click.option(
    "-o",
    "--offset",
    type=options.PlaceNumber(),
    help="Begin with this queue offset; a negative one counts from the end.",
)
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
    from reput.store.disk.purpose import Purpose
    from reput.store.disk.store import StoreOnDisk

    if body_bytes is not None and not records:
        raise click.UsageError("--body-bytes limits the bodies of records: add --records")
    config = options.config_of(config_path, assignments, store)
    on_disk = StoreOnDisk.find(store, config, Purpose.LOOK, tolerant=True)
    files = log_of(on_disk)
    ext = _ext_reader(on_disk)
    form = EntryForm(records, body_bytes, as_json, Bodies(body_form, config))
    faults = shown = 0
    names = ("topic/queue", "queue offset", "log offset", "size", "tags code")
    head(as_json, (*names, "stored", "topic/queue", "queue offset", "size", "tag", "keys") if records else names)
    for queue in _chosen_queues(on_disk, topic, queue_id, kind):
        end = queue.bounds().max_offset
        begin = begin_at(offset, queue.lowest, end, str(queue.key))
        for number, entry in islice(queue.read(begin, end), max_messages):
            unit = ext.unit(queue.key, entry.tags_code) if ext is not None and entry.is_ext else None
            fault = _show_entry(files, queue.key, number, entry, unit, form)
            if entry.is_ext and unit is None:
                fault = fault or f"its tags code {entry.tags_code} is an address in the ConsumeQueueExt without a unit"
            shown += 1
            if fault is not None:
                faults += 1
                _say_fault(queue, number, fault, faults)
    if not shown and max_messages != 0:
        output.say("note: no entries there; `reput info -t TOPIC` lists a topic's queues with their offsets")
    if faults > _FAULTS_SHOWN:
        output.say(f"damage: {faults} entries in all do not fit their records")
    return form.bodies.code(1 if faults else 0)


def _say_fault(queue: AnyQueue, number: int, fault: str, faults: int) -> None:
    if faults <= _FAULTS_SHOWN:
        output.say(f"damage: {queue.place_of(number)}: {fault}. Run `reput check`, then `reput rebuild`")


def _chosen_queues(store: StoreOnDisk, topic: str | None, queue_id: int | None, kind: str | None) -> Iterator[AnyQueue]:
    """Iterate over the queues that `-t`, `-q` and `--kind` choose.

    Raises:
        ConfigError: There is no such kind, topic or queue.
    """
    from reput.errors import ConfigError
    from reput.queue.combined import kind_to_read

    layout, kinds = store.layout, store.present
    wanted = None if topic is None else stored_bytes(topic)
    names = [one.name for one in kinds]
    if kind is not None and kind not in names:
        raise ConfigError(f"{layout.consume_queue}: no {kind} queues. There are: {some(names)}")
    chosen: list[QueuesOnDisk] = [one for one in store.kinds if one.has_batches and one.is_present()]
    if kinds:
        chosen[:0] = [kinds[names.index(kind)] if kind is not None else kind_to_read(kinds, store.placement)]
    if not chosen:
        raise ConfigError(f"{layout.consume_queue}: no queues. `reput rebuild --only queue` builds them from the log")
    seen, found = set(), False
    for queue in (queue for one in chosen for queue in one.queues(wanted)):
        seen.add(queue.key.queue_id)
        if queue_id is None or queue.key.queue_id == queue_id:
            found = True
            yield queue
    if found:
        return
    if topic is not None and not seen:
        topics = {shown_text(queue.key.topic): None for one in chosen for queue in one.queues()}
        if not topics:
            raise ConfigError(
                f"{chosen[0].folder}: no queue has an entry, as after a kill before the first flush. "
                "`reput rebuild --only queue` builds the queues from the log; until then `reput get` reads that alone"
            )
        raise ConfigError(unknown_topic(layout.consume_queue, topic, list(topics)))
    where = layout.consume_queue / topic if topic else layout.consume_queue
    asked = "no queues" if queue_id is None else f"no queue {queue_id}"
    raise ConfigError(f"{where}: {asked}. There are: {some([str(number) for number in sorted(seen)])}")


def _show_entry(
    files: LogFiles,
    key: QueueKey,
    number: int,
    entry: Entry | BatchEntry,
    unit: Unit | None,
    form: EntryForm,
) -> str | None:
    """Show one entry; return its fault, unless its record has only expired."""
    record, fault = _record_of(files, key, number, entry) if form.records else (None, None)
    values = entry.values()
    if form.as_json:
        value: dict[str, Any] = {
            "topic": shown_text(key.topic),
            "queue_id": key.queue_id,
            "queue_offset": number,
            **values,
        }
        if unit is not None:
            value["unit"] = {**unit._asdict(), "bitmap": unit.bitmap.hex()}
        if form.records:
            value["record"] = None if record is None else record_values(record, form.body_bytes, form.bodies)
            value["fault"] = fault
        output.emit_json(value)
    else:
        cells = [f"{line(shown_text(key.topic))}/{key.queue_id}", str(number), *map(str, entry[:3])]
        if entry.is_pre_blank:
            cells.append("(pre-blank)")
        elif record is not None:
            cells += record_cells(record, form.body_bytes, form.bodies)
        if "messages" in values:
            cells.append(f"({output.counted(values['messages'], 'message')})")
        if entry.is_ext:
            cells.append(f"(ext {unit.tags_code} {unit.store_timestamp} {unit.bitmap.hex()})" if unit else "(ext)")
        output.show("\t".join(cells))
    return fault if entry.physical_offset >= files.min_offset else None


def _ext_reader(store: StoreOnDisk) -> ExtReader | None:
    from reput.queue.ext import ExtReader

    size = store.settings.ext_file_size
    return None if size is None else ExtReader(store.layout.consume_queue_ext, size)


def _record_of(
    files: LogFiles, key: QueueKey, number: int, entry: Entry | BatchEntry
) -> tuple[Record | None, str | None]:
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
    found_at = (shown_text(record.topic), record.queue_id, record.queue_offset, record.size)
    if found_at != (shown_text(key.topic), key.queue_id, number, entry.size):
        return record, (
            f"the entry, of {entry.size} bytes, points to {place(files, entry.physical_offset)}, the record of "
            f"{found_at[0]}/{found_at[1]} offset {found_at[2]}, {found_at[3]} bytes"
        )
    return record, None


def _names_queue(record: Record, key: QueueKey, number: int) -> bool:
    """Return True if a message names a queue, with this queue offset, among its light message queues."""
    from reput.formats.log import properties as props

    named = props.decode_properties(record.properties)
    topics = named.get(props.INNER_MULTI_DISPATCH, b"").split(props.QUEUE_SEPARATOR)
    numbers = named.get(props.INNER_MULTI_QUEUE_OFFSET, b"").split(props.QUEUE_SEPARATOR)
    return (key.topic, str(number).encode()) in zip(topics, numbers, strict=False)
