"""A store's messages as Arrow batches in this process: the data source's planner and tasks without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from reput.config import StoreConfig
from reput.connect.options.options import TopicChoice, read_options
from reput.connect.options.schemas import HEADERS
from reput.connect.options.selection import NumberRange, Selection, ms_up, selection_of, us_of
from reput.connect.plan import plan_batch
from reput.connect.read_ahead import read_ahead
from reput.connect.scan.arrays import arrow_schema
from reput.connect.tasks import tasks_of
from reput.errors import ConfigError
from reput.formats.layout import INT64_MAX

_TASK_BYTES = 64 << 20
"""Small enough that a task's batches fit into what may wait: so the next task need not stop for the caller."""


def scan_store(
    path: str | Path,
    config: StoreConfig,
    *,
    columns: str | Sequence[str] | None = None,
    topic: str | Sequence[str] | None = None,
    queue_id: int | Sequence[int] | None = None,
    start_time: datetime | int | None = None,
    end_time: datetime | int | None = None,
    key: str | Sequence[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    schema: str = "native",
    verify_crc: bool | None = None,
    fail_on_data_loss: bool = True,
    fail_on_missing_topic: bool = True,
) -> pa.RecordBatchReader:
    """Read a store's messages; see `reput.scan`.

    Raises:
        ReputError: see `reput.errors`.
    """
    named = {
        "path": str(path),
        "schema": schema,
        "columns": _columns(columns),
        "includeHeaders": "true" if _names_headers(columns) else None,
        "filter.tag": _text(tags, "tags"),
        "filter.sql": _text(sql, "sql"),
        "verifyCrc": None if verify_crc is None else str(bool(verify_crc)),
        "failOnDataLoss": str(bool(fail_on_data_loss)),
        "failOnMissingTopic": str(bool(fail_on_missing_topic)),
    }
    options = read_options({name: value for name, value in named.items() if value is not None})
    keys = () if key is None else _names(key, "key")
    topics = TopicChoice() if topic is None else TopicChoice(names=frozenset(_names(topic, "topic")), option="topic")
    options = replace(options, config=config, topics=topics, keys=keys, task_bytes=_TASK_BYTES)
    plan = plan_batch(options, _narrowed(selection_of(options), queue_id, start_time, end_time))
    return pa.RecordBatchReader.from_batches(arrow_schema(options.columns), read_ahead(tasks_of(plan)))


def _columns(columns: str | Sequence[str] | None) -> str | None:
    return columns if columns is None or isinstance(columns, str) else ",".join(_names(columns, "columns"))


def _names_headers(columns: str | Sequence[str] | None) -> bool:
    """Whether the column that only some ask for is among the columns."""
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


def _narrowed(
    selection: Selection,
    queue_id: Any,
    start_time: datetime | int | None,
    end_time: datetime | int | None,
) -> Selection:
    if queue_id is not None:
        ids = tuple(queue_id) if isinstance(queue_id, Iterable) else (queue_id,)
        if not ids or not all(isinstance(one, int) and one >= 0 for one in ids):
            raise ConfigError(f"queue_id={queue_id!r}: give a whole number from 0 on, or several")
        selection = replace(selection, queue_ids=frozenset(ids))
    begin = 0 if start_time is None else _milliseconds(start_time, "start_time")
    stored = NumberRange(begin) if end_time is None else NumberRange(begin, _milliseconds(end_time, "end_time"))
    return replace(selection, stored_ms=stored)


def _milliseconds(time: Any, argument: str) -> int:
    if isinstance(time, datetime):
        return max(0, ms_up(us_of(time)))
    if not isinstance(time, int) or not 0 <= time <= INT64_MAX:
        raise ConfigError(f"{argument}={time!r}: give a datetime, or milliseconds since 1970")
    return time
