"""Read of a store as Arrow batches in this process: the data source's planner and tasks without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from reput.config import StoreConfig
from reput.connect.options.options import TopicChoice, lite_queues, read_options
from reput.connect.options.schemas import HEADERS
from reput.connect.options.selection import NumberRange, Selection, selection_of
from reput.connect.plan import plan_batch
from reput.connect.read_ahead import read_ahead
from reput.connect.scan.arrays import arrow_schema
from reput.connect.tasks import tasks_of
from reput.errors import ConfigError
from reput.formats.layout import INT64_MAX

_TASK_BYTES = 64 << 20
"""Small enough that all batches of a task may wait, so that the next task need not stop for the caller."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The arguments of `reput.scan`; `since_ms` and `until_ms` bound store times, both included."""

    columns: str | Sequence[str] | None = None
    topics: str | Sequence[str] | None = None
    lite_topics: str | Sequence[str] | None = None
    queue_id: int | Sequence[int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    keys: str | Sequence[str] | None = None
    tags: str | None = None
    sql: str | None = None
    schema: str = "native"
    body: str = "decoded"
    verify_crc: bool | None = None
    fail_on_data_loss: bool = True
    fail_on_missing_topic: bool = True


def scan_store(path: str | Path, config: StoreConfig, asked: ScanOptions) -> pa.RecordBatchReader:
    """Read a store's messages; see `reput.scan`.

    Raises:
        ReputError: See `reput.errors`.
    """
    named = {
        "path": str(path),
        "schema": asked.schema,
        "body": _text(asked.body, "body"),
        "columns": _columns(asked.columns),
        "includeHeaders": "true" if _names_headers(asked.columns) else None,
        "filter.tag": _text(asked.tags, "tags"),
        "filter.sql": _text(asked.sql, "sql"),
        "verifyCrc": None if asked.verify_crc is None else str(bool(asked.verify_crc)),
        "failOnDataLoss": str(bool(asked.fail_on_data_loss)),
        "failOnMissingTopic": str(bool(asked.fail_on_missing_topic)),
    }
    options = read_options({name: value for name, value in named.items() if value is not None})
    keys = () if asked.keys is None else _names(asked.keys, "keys")
    names = None if asked.topics is None else frozenset(_names(asked.topics, "topics"))
    topics = TopicChoice() if names is None else TopicChoice(names=names, option="topics")
    if asked.lite_topics is not None:
        lite = lite_queues(names or frozenset(), _names(asked.lite_topics, "lite_topics"), f"{asked.lite_topics=}"[6:])
        topics = TopicChoice(names=lite, option="lite_topics")
    options = replace(options, config=config, topics=topics, keys=keys, task_bytes=_TASK_BYTES)
    plan = plan_batch(options, _narrowed(selection_of(options), asked))
    return pa.RecordBatchReader.from_batches(arrow_schema(options.columns), read_ahead(tasks_of(plan)))


def _columns(columns: str | Sequence[str] | None) -> str | None:
    return columns if columns is None or isinstance(columns, str) else ",".join(_names(columns, "columns"))


def _names_headers(columns: str | Sequence[str] | None) -> bool:
    """Return True if the headers column, which is there only on request, is among the columns."""
    return HEADERS.name in [name.strip() for name in (_columns(columns) or "").split(",")]


def _text(given: Any, argument: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"{argument}={given!r:.80}: give a text")
    return given


def _names(given: Any, argument: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{argument}={given!r}: give a name or several, or leave it out")
    return names


def _narrowed(selection: Selection, asked: ScanOptions) -> Selection:
    queue_id: Any = asked.queue_id
    if queue_id is not None:
        ids = tuple(queue_id) if isinstance(queue_id, Iterable) else (queue_id,)
        if not ids or not all(isinstance(one, int) and one >= 0 for one in ids):
            raise ConfigError(f"queue_id={queue_id!r}: give a whole number from 0 on, or several")
        selection = replace(selection, queue_ids=frozenset(ids))
    begin = asked.since_ms or 0
    stored = NumberRange(begin) if asked.until_ms is None else NumberRange(begin, min(asked.until_ms + 1, INT64_MAX))
    return replace(selection, stored_ms=stored)
