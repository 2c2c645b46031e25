"""The rows of `reput pending`: the first ones as a table or all as JSON lines, then the totals of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.cli.shared import output

if TYPE_CHECKING:
    from reput.store.pending.work import PendingWork

ROWS_SHOWN = 100
_NOTES_SHOWN = 20


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
    more: Callable[[], MoreTotals] | None = None


def show_rows(rows: Iterable[Any], table: PendingTable, count: int | None, as_json: bool) -> bool:
    """Show rows and their totals; return True if all bytes are as they should be."""
    from reput.store.pending.verify import WRONG_STATES

    most = count if count is not None else None if as_json else ROWS_SHOWN
    shown: list[Sequence[object]] = []
    totals: Counter[tuple[str, str]] = Counter()
    reasons: list[str] = []
    seen = 0
    for row in rows:
        seen += 1
        totals[row.topic or "?", str(row.state)] += 1
        if row.reason is not None and len(reasons) < _NOTES_SHOWN:
            reasons.append(f"{row.state}: {row.reason}")
        if most is not None and seen > most:
            continue
        if as_json:
            output.emit_json(row._asdict())
        else:
            shown.append(table.cells(row))
    more = None if table.more is None else table.more()
    if as_json:
        further = {} if more is None else {more.title.lower(): more.values}
        output.emit_json({"ok": True, "total": seen, "topics": _by_topic(totals), **further})
    else:
        output.show_table(table.title, table.names, shown)
        output.show_table("Totals", ("topic", "state", "messages"), [(*key, n) for key, n in sorted(totals.items())])
        if more is not None:
            output.show_table(more.title, more.names, more.rows)
        _say(table.title, seen, most, reasons)
    return not {state for _, state in totals} & set(map(str, WRONG_STATES))


def _by_topic(totals: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, state), number in sorted(totals.items()):
        found.setdefault(topic, {})[state] = number
    return found


def _say(title: str, seen: int, most: int | None, reasons: Sequence[str]) -> None:
    if not seen:
        output.say(f"note: there are no {title.lower()} here")
    for reason in reasons:
        output.say(f"note: {reason}")
    if most is not None and seen > most:
        output.say(f"note: these are the first {most:,} of {seen:,}; -c N shows N, --json all")


def say_findings(work: PendingWork) -> None:
    """Write to stderr what could not be read, and what is odd."""
    for text in work.damage:
        output.say(f"damage: {text}")
    for text in work.notes:
        output.say(f"note: {text}")


def name_of(topic: str | None, queue_id: int | None) -> str:
    """Return a topic and a queue as text."""
    return "?" if topic is None else f"{topic}/{'?' if queue_id is None else queue_id}"


def or_dash(value: object | None) -> object:
    """Return a cell for a value that may be unknown."""
    return "-" if value is None else value
