"""The entries of queues of batches, for `reput dump queue`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.cli.shared import output
from reput.cli.shared.parts import begin_at, line, record_cells, record_values, text_of

if TYPE_CHECKING:
    from reput.cli.shared.bodies import Bodies
    from reput.formats.batch_consume_queue import BatchEntry
    from reput.formats.record import Record
    from reput.log.read.files import LogFiles
    from reput.queue.batch_files import BatchFiles, BatchQueueFiles


def chosen_batch_queues(batches: BatchFiles, topic: str | None, queue_id: int | None) -> list[BatchQueueFiles]:
    """List the queues of batches that `-t` and `-q` choose."""
    wanted = None if topic is None else topic.encode("utf-8", "surrogateescape")
    return [
        queue
        for queue in batches.queues()
        if wanted in (None, queue.key.topic) and queue_id in (None, queue.key.queue_id)
    ]


def entries_from(queue: BatchQueueFiles, offset: int | None, count: int | None) -> Iterator[BatchEntry]:
    """Iterate over at most `count` batches, from the one with the queue offset on."""
    from reput.formats.batch_consume_queue import BatchEntry

    span = queue.span()
    lowest = next((int(piece[0]["base_offset"]) for piece in queue.read(span.first, span.end)), 0)
    begin = begin_at(offset, lowest, span.max_offset, str(queue.key))
    left = count
    for piece in queue.read(span.first, span.end):
        for row in piece.tolist():
            entry = BatchEntry(*row)
            if entry.next_offset <= begin:
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            yield entry


class EntryForm(NamedTuple):
    """The form of an entry's line: with its record or without, the most bytes of bodies, text or JSON, the bodies."""

    records: bool
    body_bytes: int | None
    as_json: bool
    bodies: Bodies


def show_batch(files: LogFiles, queue: BatchQueueFiles, entry: BatchEntry, form: EntryForm) -> str | None:
    """Show one entry; return its fault, unless its record has only expired."""
    record, fault = _record_of(files, queue, entry) if form.records else (None, None)
    key = queue.key
    if form.as_json:
        value: dict[str, Any] = {
            "topic": text_of(key.topic),
            "queue_id": key.queue_id,
            "queue_offset": entry.base_offset,
            **{name: number for name, number in entry._asdict().items() if name != "base_offset"},
        }
        if form.records:
            value["record"] = None if record is None else record_values(record, form.body_bytes, form.bodies)
            value["fault"] = fault
        output.emit_json(value)
    else:
        cells = [f"{line(text_of(key.topic))}/{key.queue_id}", str(entry.base_offset), str(entry.physical_offset)]
        cells += [str(entry.size), str(entry.tags_code)]
        if record is not None:
            cells += record_cells(record, form.body_bytes, form.bodies)
        cells.append(f"({output.counted(entry.messages, 'message')})")
        output.show("\t".join(cells))
    return fault if entry.physical_offset >= files.min_offset else None


def _record_of(files: LogFiles, queue: BatchQueueFiles, entry: BatchEntry) -> tuple[Record | None, str | None]:
    """Return the record that an entry points to, and the fault."""
    from reput.log.read.reader import place, record_at
    from reput.log.read.scan import LogRecord

    if entry.physical_offset < files.min_offset:
        return None, f"its record at log offset {entry.physical_offset} has expired"
    found = record_at(files, entry.physical_offset)
    if not isinstance(found, LogRecord):
        return None, f"the entry points to {place(files, entry.physical_offset)}, where there is {found.meaning}"
    record = found.decode()
    found_at = (record.topic, record.queue_id, record.queue_offset, record.size)
    if found_at != (queue.key.topic, queue.key.queue_id, entry.base_offset, entry.size):
        return record, (
            f"the entry, of {entry.size} bytes, points to {place(files, entry.physical_offset)}, the record of "
            f"{text_of(record.topic)}/{record.queue_id} offset {record.queue_offset}, {record.size} bytes"
        )
    return record, None
