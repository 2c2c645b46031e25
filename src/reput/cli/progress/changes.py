"""Changes of `reput progress`: commit, reset, clone and clean. Each returns the offsets before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from reput.cli.shared import opened as stores
from reput.cli.shared import output
from reput.errors import ConfigError
from reput.formats.java.java_numbers import parse_whole
from reput.nearest import near

if TYPE_CHECKING:
    from reput.embedded import MessageStore
    from reput.store.read.view import StoreQueue

_EARLIEST, _LATEST = "earliest", "latest"


class ProgressOptions(NamedTuple):
    """The given options."""

    group: str | None
    topic: str | None
    queue_id: int | None
    commit: int | None
    reset_to: str | None
    clone: tuple[str, str] | None
    clean_group: str | None
    clean_topic: str | None


class Change(NamedTuple):
    """A group's offset in a queue, before and after; None if there is none."""

    group: str
    topic: str
    queue_id: int
    before: int | None
    after: int | None


def what_is_asked(asked: ProgressOptions) -> ProgressOptions | None:
    """Return the options if they ask for a change, and None if they only ask for a report.

    Raises:
        click.UsageError: The options do not fit together.
    """
    changes = {
        "--commit": asked.commit,
        "--reset-to": asked.reset_to,
        "--clone": asked.clone,
        "--clean-group": asked.clean_group,
        "--clean-topic": asked.clean_topic,
    }
    given = [name for name, value in changes.items() if value is not None]
    if not given:
        return None
    if len(given) > 1:
        raise click.UsageError(f"one change at a time, not {' and '.join(given)}")
    (name,) = given
    chosen = {"-g": asked.group, "-t": asked.topic, "-q": asked.queue_id}
    needed = {"--commit": ("-g", "-t", "-q"), "--reset-to": ("-g", "-t")}.get(name, ())
    taken = {"--commit": ("-g", "-t", "-q"), "--reset-to": ("-g", "-t", "-q"), "--clone": ("-t",)}.get(name, ())
    if missing := [option for option in needed if chosen[option] is None]:
        raise click.UsageError(f"{name} needs {' and '.join(missing)}")
    if extra := [option for option, value in chosen.items() if value is not None and option not in taken]:
        raise click.UsageError(f"{name} does not take {' and '.join(extra)}")
    if asked.reset_to is not None:
        _check_target(asked.reset_to, asked.queue_id)
    return asked


def change(opened: MessageStore, asked: ProgressOptions) -> list[Change]:
    """Make the change, which is durable when the store is closed.

    Raises:
        ConfigError: There is no such group, topic, queue or offset; nothing was changed.
    """
    table = opened.progress
    if asked.commit is not None or asked.reset_to is not None:
        assert asked.group is not None
        assert asked.topic is not None
        return _set(opened, asked.group, asked.topic, asked)
    if asked.clone is not None:
        return _clone(opened, *asked.clone, asked.topic)
    if asked.clean_group is not None:
        stores.groups_of(opened, asked.clean_group)
        changes = _forgotten(opened, {asked.clean_group: table.topics_of(asked.clean_group)})
        table.clean_group(asked.clean_group)
        return changes
    topic = asked.clean_topic
    assert topic is not None
    groups = table.groups_of(topic)
    if not groups:
        known = sorted({name for group in stores.groups_of(opened) for name in table.topics_of(group)})
        raise ConfigError(f"{opened.layout.root}: no group has progress in {topic}. {near(topic, known)}")
    changes = _forgotten(opened, {group: [topic] for group in groups})
    table.clean_topic(topic)
    return changes


def _set(opened: MessageStore, group: str, topic: str, asked: ProgressOptions) -> list[Change]:
    table = opened.progress
    spans = stores.queues_of(opened, topic, asked.queue_id)
    # Look up all queues, and refuse, before the first change.
    offsets = [_wanted(opened, span, asked) for span in spans]
    known = stores.groups_of(opened)
    if group not in known:
        output.say(f"note: group {group} had no progress in this store. {near(group, known)}")
    before = table.query_all(group, topic)
    for span, offset in zip(spans, offsets, strict=True):
        if asked.commit is not None:
            opened.commit_offset(group, topic, span.queue_id, offset)
        else:
            table.reset(group, topic, span.queue_id, offset)
    return [
        Change(group, topic, span.queue_id, before.get(span.queue_id), offset)
        for span, offset in zip(spans, offsets, strict=True)
    ]


def _wanted(opened: MessageStore, span: StoreQueue, asked: ProgressOptions) -> int:
    """Return the new offset of a queue."""
    where = asked.reset_to
    if where == _EARLIEST:
        return span.min_offset
    if where == _LATEST:
        return span.max_offset
    number = asked.commit if where is None else parse_whole(where, 64)
    if number is None:
        assert where is not None
        time_ms = _time_of(where)
        assert time_ms is not None, "checked before the store was opened"
        return opened.offset_by_time(span.topic, span.queue_id, time_ms)
    if not span.min_offset <= number <= span.max_offset:
        raise ConfigError(
            f"offset {number}: {span.topic}/{span.queue_id} goes from {span.min_offset} to {span.max_offset}"
        )
    return number


def _check_target(where: str, queue_id: int | None) -> None:
    if where in {_EARLIEST, _LATEST}:
        return
    if parse_whole(where, 64) is not None:
        if queue_id is None:
            raise click.UsageError(f"--reset-to {where} is an offset of one queue: give -q (a time in ms is @{where})")
    elif _time_of(where) is None:
        raise click.UsageError(
            f"--reset-to {where}: give earliest, latest, an offset, a date such as 2026-07-30T18:00:00, or @MS"
        )


def _time_of(where: str) -> int | None:
    """Return a time in milliseconds; None if the text is no time."""
    if where.startswith("@"):
        return stores.time_ms(where[1:]) if parse_whole(where[1:], 64) is not None else None
    return stores.time_ms(where)


def _clone(opened: MessageStore, source: str, target: str, topic: str | None) -> list[Change]:
    table = opened.progress
    if source == target:
        raise ConfigError(f"--clone {source} {target}: a group has its own offsets already")
    stores.groups_of(opened, source)
    topics = table.topics_of(source)
    if topic is not None and topic not in topics:
        raise ConfigError(f"group {source} has no progress in {topic}. {near(topic, topics)}")
    changes = []
    for name in topics if topic is None else [topic]:
        before = table.query_all(target, name)
        table.clone(source, target, name)
        after = table.query_all(target, name)
        changes += [
            Change(target, name, number, before.get(number), after.get(number)) for number in sorted({*before, *after})
        ]
    return changes


def _forgotten(opened: MessageStore, topics: dict[str, list[str]]) -> list[Change]:
    """Return the removal of all offsets of some groups in some topics."""
    return [
        Change(group, topic, number, offset, None)
        for group, names in topics.items()
        for topic in names
        for number, offset in sorted(opened.progress.query_all(group, topic).items())
    ]
