"""`reput offset`: show the offsets of queues, or find queue offsets by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput.cli.shared import opened as stores
from reput.cli.shared import options, output

if TYPE_CHECKING:
    from reput.embedded import MessageStore
    from reput.store.read.view import StoreQueue

_LOWER, _UPPER = "lower", "upper"


@click.command()
@options.store_argument
@stores.topic_option(required=True)
@stores.queue_option()
@click.option(
    "--timestamp", "time_ms", type=stores.time_value, metavar="TIME", help="Show the queue offset for this time."
)
@click.option(
    "--boundary",
    type=click.Choice([_LOWER, _UPPER]),
    help="lower: the first message stored at TIME or later; upper: the last at TIME or before.  [default: lower]",
)
@options.config_options
@options.json_option
def offset(
    store: str,
    topic: str,
    queue_id: int | None,
    time_ms: int | None,
    boundary: str | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the queue offsets of a topic of STORE and their times, or find the offset for a time.

    The min offset is that of the first present message, and the max offset is that of the next message. TIME is in
    milliseconds, an ISO 8601 date (local time if it names no zone), or a time before now such as -1h. If no message
    matches, lower gives the max offset and upper the min offset. The command changes nothing, and another process may
    write the store.

    \b
    reput offset /data/store -t orders
    reput offset /data/store -t orders -q 2 --timestamp 2026-07-30T18:00:00
    reput offset /data/store -t orders --timestamp 1785427200000 --boundary upper --json
    """  # noqa: D301 - click wants the control character
    if boundary is not None and time_ms is None:
        raise click.UsageError("--boundary needs --timestamp")
    boundary = boundary or _LOWER
    with stores.reading(store, options.config_of(config_path, assignments, store)) as opened:
        if is_empty := stores.awaits_messages(opened, topic, queue_id):
            output.say(f"note: {stores.no_messages_yet(topic)}")
        spans = [] if is_empty else stores.queues_of(opened, topic, queue_id)
        values: dict[str, Any] = {"topic": topic}
        if time_ms is None:
            queues = [_span(opened, span) for span in spans]
        else:
            values |= {"time": time_ms, "boundary": boundary}
            queues = [_at_time(opened, span, time_ms, boundary) for span in spans]
        # The look at a queue may have found damage.
        verdict = stores.verdict(opened)
    if as_json:
        output.emit_json({**verdict, **values, "queues": queues})
        return stores.damage_code(opened)
    columns: tuple[str, ...]
    if time_ms is None:
        columns = ("queue", "min offset", "max offset", "messages", "first stored", "last stored")
    else:
        columns = ("queue", "offset", "stored", "min offset", "max offset")
    output.show_table("Queues", columns, [tuple(map(_cell, queue.items())) for queue in queues])
    return stores.damage_code(opened)


def _span(opened: MessageStore, span: StoreQueue) -> dict[str, Any]:
    """Return a queue's offsets and times, in the order of the table's columns."""
    return {
        "queue_id": span.queue_id,
        "min_offset": span.min_offset,
        "max_offset": span.max_offset,
        "messages": span.max_offset - span.min_offset,
        "first_store_timestamp": stores.stored_ms(opened, span, span.min_offset),
        "last_store_timestamp": stores.stored_ms(opened, span, span.max_offset - 1),
    }


def _at_time(opened: MessageStore, span: StoreQueue, time_ms: int, boundary: str) -> dict[str, Any]:
    """Return the offset for a time, in the order of the table's columns."""
    found = opened.offset_by_time(span.topic, span.queue_id, time_ms, boundary)
    return {
        "queue_id": span.queue_id,
        "offset": found,
        "store_timestamp": stores.stored_ms(opened, span, found),
        "min_offset": span.min_offset,
        "max_offset": span.max_offset,
    }


def _cell(named: tuple[str, int | None]) -> object:
    name, value = named
    if value is None:
        return "-"
    return output.time_in_table(value) if name.endswith("timestamp") else value
