"""Ledger of a streaming query: staged messages are appended exactly once, and after a kill the log shows the rest.

A ledger is a small JSON file in `<store>/reput/sinks/ID/`, replaced whole and durable:

| key | meaning |
|---|---|
| query | the id of the streaming query, if its checkpoint can be read |
| batch | the number of the last batch |
| state | `begun`: its messages are being appended; `done`: all are in the log, durably |
| files | begun: the staged files that hold the batch, in order |
| offset | begun: the log's end when it began |

The order of a commit, under the store's lock, which nobody else can hold meanwhile:
1. the ledger says `begun`, with the staged files' names and the log's end; it and the files are durable;
2. the messages are appended; the log is made durable;
3. the ledger says `done`; the staged files go.

Killed before 1: nothing is in the log, and the batch comes again. Killed after 3: the batch comes again, and its number
shows that it is done. Killed between: the batch comes again, perhaps with its rows in another order. Then the new files
are removed, and the old ones, which the ledger names, count. The part of them that is in the log is a prefix, and it
begins at `offset`: only they were appended while the lock was held, and a crash keeps a prefix of the log. The prefix
is found by a comparison of record after record: topic, queue, body, properties, flag and born time. Properties of which
a power cut has left zeros count as equal. A process that opened the store in between can only have appended after that
prefix. One of its messages would count as ours only if it were equal to the next one in all of these, born time
included. Then the rest is appended.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from reput.connect.sink.staging import RUN_AGAIN, count_staged, pieces, staged_messages
from reput.errors import DamagedStoreError, FlushError, NoSpaceError, ReputError, TailFullError
from reput.files import fs
from reput.formats.log import properties as props
from reput.log.encode.message import PutStatus
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.pipeline.spark.engine import LoopEngine
from reput.store.message_store import LocalStore

LEDGER_NAME = "ledger"
BEGUN, DONE = "begun", "done"
_LEDGER_LIMIT = 16 << 20
_PIECE_BYTES = 4 << 20
_PIECES_A_FILE = 4
_TORN_NAMED = 10
_OWN = (("tags", props.TAGS), ("unique_key", props.UNIQUE_KEY))
_log = logging.getLogger("reput.connect")


@dataclass(frozen=True)
class Ledger:
    """State of a query's last batch; see the module's docstring."""

    query: str
    batch: int
    state: str
    files: list[str] = field(default_factory=list)
    offset: int = 0


def read_ledger(folder: Path) -> Ledger | None:
    """Read the ledger in a sink's folder; None if there is none.

    Raises:
        DamagedStoreError: it is damaged.
    """
    path = folder / LEDGER_NAME
    data = fs.read_bytes(path, _LEDGER_LIMIT)
    return None if data is None else decode_ledger(data, str(path))


def decode_ledger(data: bytes, path: str) -> Ledger:
    """Decode a ledger; `path` is named in errors.

    Raises:
        DamagedStoreError: it is damaged.
    """
    try:
        values: dict[str, Any] = json.loads(data)
        sound = values["state"] in (BEGUN, DONE) and all(isinstance(values[name], int) for name in ("batch", "offset"))
        if sound and all(isinstance(name, str) for name in values["files"]):
            return Ledger(**values)
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise DamagedStoreError(f"{path}: this is not the ledger of a sink. Remove it, and begin with a new checkpoint")


def write_ledger(folder: Path, ledger: Ledger, owner: fs.Owner) -> None:
    """Replace the ledger, durably."""
    fs.write_whole(folder / LEDGER_NAME, json.dumps(asdict(ledger)).encode(), owner)


def append_staged(store: LocalStore, folder: Path, names: list[str], begin: int | None = None) -> int:
    """Append staged messages, without those that are in the log from offset `begin` on; make all durable.

    Returns the number of messages that were appended.

    Raises:
        ReputError: see `MessageStore.put_messages`; `in_log` in its details counts the messages that the log has of
            these, `messages` all of them.
    """
    file_size = store.view.log.file_size
    batches = pieces(staged_messages(folder, names), min(_PIECE_BYTES, file_size // _PIECES_A_FILE))
    there = skip = 0 if begin is None else _already_there(store, folder, names, begin)
    appended = 0
    try:
        for batch in batches:
            passed = min(skip, batch.num_rows)
            skip -= passed
            if passed < batch.num_rows:
                rest = batch.slice(passed)
                _put(store, rest)
                appended += rest.num_rows
        store.flush()
    except ReputError as error:
        if isinstance(error, FlushError) and error.stored is not None:
            appended += rest.num_rows
        error.details = {"in_log": there + appended, "messages": there + appended}
        # If a staged file is the reason, nobody knows how many messages it had.
        with contextlib.suppress(DamagedStoreError):
            error.details["messages"] = count_staged(folder, names)
        raise
    return appended


def _put(store: LocalStore, batch: pa.RecordBatch) -> None:
    try:
        result = store.put_messages(batch)
    except TailFullError:
        store.catch_up_with(SparkIndexer(LoopEngine()))
        result = store.put_messages(batch)
    if result.status is PutStatus.DISK_FULL:
        raise NoSpaceError(result.reason)
    if not result.status.is_stored:
        raise DamagedStoreError(
            f"{store.layout.root}: a message was refused when it was appended: {result.status.name}: {result.reason}"
        )


def _already_there(store: LocalStore, folder: Path, names: list[str], begin: int) -> int:
    """Return the number of staged messages that are in the log from a boundary on, one after the other.

    A power cut may take a part of a message's properties, since the CRC covers the body only. Such a message counts, or
    it would be there twice; a warning names it.
    """
    log = list_log_files(store.layout.commit_log, store.config.mapped_file_size_commit_log)
    if begin >= store.view.confirmed():
        return 0
    found, torn = 0, []
    wanted = chain.from_iterable(map(_messages, staged_messages(folder, names)))
    for read in LogWalk(log, begin):
        record = read.decode()
        try:
            expected = next(wanted, None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Columns of another kind, or without a value: `put_messages` refuses them, and nothing of them is there.
            raise DamagedStoreError(f"{folder}: staged messages are no messages: {error!r}. {RUN_AGAIN}") from error
        plain = record.topic, record.queue_id, record.body, record.flag, record.born_timestamp
        if expected is None or plain != expected.plain:
            break
        if _comparable(props.decode_properties(record.properties)) != expected.properties:
            if not _is_torn(record.properties, expected):
                break
            torn.append(record.physical_offset)
        found += 1
    if torn:
        _log.warning(
            "%s: a power cut has taken properties of %d messages of this write, at the log offsets %s. They stay in "
            "the log, without these. enabledAppendPropCRC=true with forceVerifyPropCRC=true prevents it",
            store.layout.root, len(torn), ", ".join(map(str, torn[:_TORN_NAMED])),
        )  # fmt: skip
    return found


class _Expected(NamedTuple):
    """The values that the record of a staged message will hold: its properties, sorted, and the rest."""

    plain: tuple[Any, ...]
    properties: tuple[tuple[bytes, bytes], ...]


def _messages(batch: pa.RecordBatch) -> Iterator[_Expected]:
    for row in batch.to_pylist():
        values = {name.encode(): value.encode() for name, value in row.get("properties") or ()}
        values |= {name: row[column].encode() for column, name in _OWN if row.get(column)}
        if row.get("keys"):
            values[props.KEYS] = " ".join(row["keys"]).encode()
        body = row["body"]
        body = body.encode() if isinstance(body, str) else body
        plain = row["topic"].encode(), row.get("queue_id") or 0, body, row.get("flag") or 0, row["born_timestamp"]
        yield _Expected(plain, _comparable(values))


def _is_torn(properties: bytes, expected: _Expected) -> bool:
    """Return True if these are the properties of a message, with zeros in place of a part of them."""
    size = sum(len(name) + len(value) + 2 for name, value in expected.properties)
    return len(properties) == size and b"\0" in properties


def _comparable(values: dict[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """Return properties without the one that the log adds."""
    return tuple(sorted((name, value) for name, value in values.items() if name != props.CRC32))
