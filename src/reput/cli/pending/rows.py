"""The rows of `reput pending`: the first ones as a table or all as JSON lines, then the totals of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.cli.shared import options, output

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reput.embedded import MessageStore
    from reput.store.pending.work import PendingWork


class MoreTotals(NamedTuple):
    """A further table of totals, as text and for JSON."""

    title: str
    names: Sequence[str]
    rows: Sequence[Sequence[object]]
    values: Sequence[dict[str, Any]]


class PendingTable(NamedTuple):
    """A table: its title, the names of its columns, and the function that makes the cells of a row.

    `more` makes a further table of totals when all rows have been read.
    """

    title: str
    names: Sequence[str]
    cells: Callable[[Any], Sequence[object]]
    more: Callable[[PendingWork], MoreTotals] | None = None


def show_pending(
    opening: AbstractContextManager[MessageStore],
    table: PendingTable,
    rows: Callable[[PendingWork], Iterable[Any]],
    refuse_unknown: Callable[[MessageStore], None],
    max_messages: int | None,
    as_json: bool,
) -> int:
    """Show rows of a store's pending work, their totals, and what could not be read or is odd; return the exit code.

    `refuse_unknown` is called if there are no rows and no damage: a topic or group may be unknown.

    Raises:
        ConfigError: `refuse_unknown` raises it.
    """
    with opening as opened:
        work = opened.pending
        found = _rows_or_refusal(rows(work), lambda: None if work.damage else refuse_unknown(opened))
        most = options.most_rows(max_messages, as_json)
        are_sound = _show_rows(work, table, found, most, as_json, opened.damage)
    for text in dict.fromkeys(work.damage):
        if text not in opened.damage:
            output.say(f"damage: {text}")
    for text in work.notes:
        output.say(f"note: {text}")
    return 0 if are_sound else 1


def _rows_or_refusal(rows: Iterable[Any], refuse: Callable[[], None]) -> Iterator[Any]:
    """Iterate over rows; if there are none, call `refuse` before the caller shows that."""
    row = None
    for row in rows:
        yield row
    if row is None:
        refuse()


def _show_rows(
    work: PendingWork, table: PendingTable, rows: Iterable[Any], most: int | None, as_json: bool, unread: Sequence[str]
) -> bool:
    """Show rows and their totals; return True if all bytes are as they should be. `unread`: the damage of queues."""
    from reput.store.pending.verify import WRONG_STATES

    shown: list[Sequence[object]] = []
    totals: Counter[tuple[str, str]] = Counter()
    reasons: list[str] = []
    seen = wrong = 0
    for row in rows:
        seen += 1
        totals[row.topic or "?", str(row.state)] += 1
        if row.reason is not None:
            wrong += 1
            if wrong <= output.LINES_SHOWN:
                reasons.append(f"{row.state}: {row.reason}")
        if most is not None and seen > most:
            continue
        if as_json:
            output.emit_json(row._asdict())
        else:
            shown.append(table.cells(row))
    more = None if table.more is None else table.more(work)
    damage = list(dict.fromkeys([*unread, *work.damage]))
    are_sound = not damage and not {state for _, state in totals} & set(map(str, WRONG_STATES))
    if as_json:
        further: dict[str, Any] = {} if more is None else {more.title.lower(): more.values}
        if damage:
            further["damage"] = damage
        output.emit_json({"ok": are_sound, "total": seen, "topics": _by_topic(totals), **further})
    else:
        output.show_table(table.title, table.names, shown)
        output.show_table("Totals", ("topic", "state", "messages"), [(*key, n) for key, n in sorted(totals.items())])
        if more is not None:
            output.show_table(more.title, more.names, more.rows)
        if not seen:
            rows_name = table.title.lower()
            output.say(f"note: no {rows_name} could be read" if work.damage else f"note: there are no {rows_name} here")
        output.say_lines("note", reasons, wrong)
        if most is not None:
            output.say_first(most, seen)
    return are_sound


def _by_topic(totals: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, state), number in sorted(totals.items()):
        found.setdefault(topic, {})[state] = number
    return found


def queue_text(topic: str | None, queue_id: int | None) -> str:
    """Return a topic and a queue as text."""
    return "?" if topic is None else f"{topic}/{'?' if queue_id is None else queue_id}"
