"""`reput lite`: show lite topics with messages, age, expiry and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput import times
from reput.cli.shared import opened as stores
from reput.cli.shared import options, output

if TYPE_CHECKING:
    from reput.store.read.lite_topics import LiteTopicState

_COLUMNS = ("parent", "lite topic", "messages", "last stored", "age", "expires", "lag")


@click.command()
@options.store_argument
@click.option("-t", "--topic", "parent", help="Only lite topics of this parent topic.")
@click.option("--expired", "only_expired", is_flag=True, help="Only those that would be expired at the time of --at.")
@click.option(
    "--at",
    "at_ms",
    type=stores.time_value,
    metavar="TIME",
    help=f"Evaluate expiry at this time. {stores.TIME_HELP}  [default: now]",
)
@options.rows_option("topics")
@options.config_options
@options.json_lines_option
def lite(
    store: str,
    parent: str | None,
    only_expired: bool,
    at_ms: int | None,
    max_topics: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the lite topics of STORE: messages, age, expiry, and the lag of the group that lags most.

    A lite topic is the light queue %LMQ%$PARENT$NAME of a topic of type LITE. A broker deletes it when its last message
    is older than the parent's attribute lite.topic.expiration (minutes) allows, whether it was read or not, and never
    before minLiteTTl, 15 minutes. The command deletes nothing, and another process may write the store.

    \b
    reput lite /data/store
    reput lite /data/store -t sessions --expired --at 2026-11-23T06:00:00
    reput lite /data/store --json
    """  # noqa: D301 - click wants the control character
    asked_ms = times.now_ms() if at_ms is None else at_ms
    most = options.most_rows(max_topics, as_json)
    totals: dict[str, list[int]] = {}
    shown = 0
    rows: list[tuple[object, ...]] = []
    with stores.reading(store, options.config_of(config_path, assignments, store)) as opened:
        for one in opened.lite_topics(parent, at_ms=asked_ms):
            counts = totals.setdefault(one.parent, [0, 0, 0])
            for at, number in enumerate((1, one.messages, one.is_expired)):
                counts[at] += number
            if (only_expired and not one.is_expired) or (most is not None and shown >= most):
                continue
            shown += 1
            if as_json:
                output.emit_json(one.to_dict())
            else:
                rows.append(_cells(one, asked_ms))
    if as_json:
        names = ("lite_topics", "messages", "expired")
        parents = {name: dict(zip(names, counts, strict=True)) for name, counts in sorted(totals.items())}
        output.emit_json({**stores.verdict(opened), "at": asked_ms, "parents": parents})
        return stores.damage_code(opened)
    output.show_table("Lite topics", _COLUMNS, rows)
    sums = [(name, *counts) for name, counts in sorted(totals.items())]
    output.show_table("Parents", ("parent", "lite topics", "messages", "expired"), sums)
    _say_rest(totals, only_expired, most)
    return stores.damage_code(opened)


def _say_rest(totals: dict[str, list[int]], only_expired: bool, most: int | None) -> None:
    listed = sum(counts[2 if only_expired else 0] for counts in totals.values())
    if not totals:
        output.say("note: no lite topics here")
    if most is not None:
        output.say_first(most, listed)


def _cells(one: LiteTopicState, at_ms: int) -> tuple[object, ...]:
    last_ms = one.last_store_timestamp
    expires = "never" if one.expires_timestamp is None else output.time_in_table(one.expires_timestamp)
    return (
        output.name_in_table(one.parent),
        output.name_in_table(one.name),
        one.messages,
        output.or_dash(last_ms, output.time_in_table),
        output.or_dash(last_ms, lambda ms: output.duration_text(max(0, at_ms - ms))),
        f"{expires} (expired)" if one.is_expired else expires,
        output.or_dash(one.lag),
    )
