"""`df.write.format("rocketmq")` and `writeStream`: tasks stage messages beside the store, the driver appends them.

The append is one open of the store, under its lock: a live broker, or another process that writes, is a refusal and no
mixture. A streaming batch is appended exactly once (`reput.connect.ledger`). So is a batch write with the option
`writeId`, a name that the caller gives to it: killed and run again, the rest of what the first run had staged is
appended; run again when it is done, nothing is.

Without `writeId` nobody can tell a job that is done again from another one. Killed while it appends, such a write
leaves its first messages in the log, in order and whole, and the staged rest in `reput/sinks/batch-...`; the next write
says so and removes that. Killed before, it leaves staged messages alone, in a folder without a ledger.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from reput.config import StoreConfig
from reput.connect import option_names
from reput.connect.ledger import BEGUN, DONE, Ledger, append_staged, read_ledger, write_ledger
from reput.connect.options import store_path
from reput.connect.short_errors import with_short_errors
from reput.connect.sink_columns import check_schema, message_columns
from reput.connect.staging import Stager
from reput.errors import ConfigError, StoreLockedError
from reput.files import fs
from reput.formats import own
from reput.pipeline.catch_up import SparkIndexer
from reput.pipeline.engine import LoopEngine
from reput.store.beside import Writer, writer_of
from reput.store.layout import StoreLayout, find_store
from reput.store.message_store import MessageStore

_METADATA_LIMIT = 1 << 16
_ANONYMOUS = "batch-"
_log = logging.getLogger("reput.connect")


class Staged(WriterCommitMessage):
    """The files that a task staged."""

    def __init__(self, files: list[str]) -> None:
        self.files = files


class Target:
    """The store that is written, and what the options say about the messages. Small: it goes to every task.

    Raises:
        ConfigError: an option or a column is not as it must be.
        StoreLockedError: somebody else writes the store.
    """

    def __init__(self, given: Mapping[str, str], schema: Any, sink: str) -> None:
        options = option_names.known_options(given, option_names.WRITE, "writing")
        self.path = store_path(options)
        self.config = StoreConfig.from_file(options["config"]) if "config" in options else StoreConfig()
        self.topic = options.get("topic")
        self.sink = sink
        check_schema({field.name: field.dataType.simpleString() for field in schema.fields}, self.topic)
        layout = self.layout()
        writer = writer_of(layout)
        if writer is Writer.BROKER:
            raise StoreLockedError(f"{layout.root}: a live broker has it. Send to the broker, or stop it first")
        if writer is Writer.REPUT:
            raise StoreLockedError(f"{layout.root}: another process has it open to write. Close it there first")

    def layout(self) -> StoreLayout:
        """Where the store's parts lie."""
        return find_store(self.path, self.config)

    @property
    def folder(self) -> Path:
        """Where this sink keeps its ledger, and its staged files below."""
        return self.layout().own(own.SINKS_NAME) / self.sink

    @property
    def staged(self) -> Path:
        """Where tasks stage."""
        return self.folder / "staged"

    def stage(self, batches: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        stager = Stager(self.staged, self.layout(), self.config)
        born_ms = time.time_ns() // 1_000_000
        for batch in batches:
            stager.add(message_columns(batch, self.topic, born_ms))
        stager.flush()
        return Staged(stager.files)

    def open(self) -> MessageStore:
        """The store, to write it; no log file is deleted meanwhile."""
        return MessageStore.open(self.path, self.config, delete_expired=False)


class RocketmqWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self.write_id = given.get("writeid", "")
        sink = _digest(f"writeId {self.write_id}") if self.write_id else f"{_ANONYMOUS}{uuid.uuid4().hex}"
        self.target = Target(options, schema, sink)

    @with_short_errors
    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return self.target.stage(iterator)

    @with_short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append what the tasks staged, or what is left of what an earlier run of this write had staged."""
        target = self.target
        store = target.open()
        try:
            remove_unfinished(target.folder.parent)
            commit_batch(store, target.folder, Ledger(self.write_id, 0, BEGUN, _files_of(messages)))
            store.catch_up_with(SparkIndexer(LoopEngine()))
        finally:
            store.close()
        fs.remove_tree(target.staged if self.write_id else target.folder)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks staged, but for files that a begun append needs."""
        if self.write_id:
            remove_staged(self.target, _files_of(messages))
        else:
            fs.remove_tree(self.target.folder)


def remove_unfinished(sinks: Path) -> None:
    """Remove what writes without a name have left that were killed while they appended; the store's lock is held.

    A folder without a ledger may be that of a write whose tasks stage now.
    """
    for entry in fs.list_dir(sinks):
        folder = sinks / entry.name
        ledger = read_ledger(folder) if entry.is_dir and entry.name.startswith(_ANONYMOUS) else None
        if ledger is None:
            continue
        if ledger.state == BEGUN:
            _log.warning(
                "%s: a write was killed while it appended, from log offset %d on: its first messages are in the log, "
                "the rest is not. If its job was run again they are there twice. With the option writeId a write is "
                "finished by its next run", folder, ledger.offset,
            )  # fmt: skip
        fs.remove_tree(folder)


def remove_staged(target: Target, names: Sequence[str]) -> None:
    """Remove staged files, but for those that a begun append needs."""
    ledger = read_ledger(target.folder)
    needed = set(ledger.files) if ledger is not None and ledger.state == BEGUN else set()
    for name in names:
        if name not in needed:
            fs.remove_file(target.staged / name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class RocketmqStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, each batch exactly once."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        checkpoint = {name.lower(): value for name, value in options.items()}.get("checkpointlocation")
        if not checkpoint:
            raise ConfigError(
                "no checkpointLocation: give .option('checkpointLocation', folder), which tells a batch that is done "
                "again from a new one"
            )
        if any(name.lower() == "writeid" for name in options):
            raise ConfigError("option writeId: names a batch write; a stream's batches are known by its checkpoint")
        self.checkpoint = checkpoint = one_spelling(checkpoint)
        self.target = Target(options, schema, _digest(checkpoint))

    @with_short_errors
    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return self.target.stage(iterator)

    @with_short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Append a batch, or what is left of it, or nothing where it is in the log already."""
        target, query = self.target, query_id(self.checkpoint)
        store = target.open()
        try:
            commit_batch(store, target.folder, Ledger(query, batchId, BEGUN, _files_of(messages)))
            store.catch_up_with(SparkIndexer(LoopEngine()))
        finally:
            store.close()
        fs.remove_tree(target.staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what the tasks staged, but for files that a begun batch needs."""
        remove_staged(self.target, _files_of(messages))


def commit_batch(store: MessageStore, folder: Path, batch: Ledger) -> int:
    """Append the staged files of a batch that has not been appended; returns how many messages were.

    Raises:
        ConfigError: the batch is older than the last one: its checkpoint is not the one that the ledger knows.
    """
    owner, known = fs.owner_of(store.layout.root), read_ledger(folder)
    if known is not None and known.query != batch.query:
        # Another query at the same place: a checkpoint that was removed and begun anew. What the old one had begun
        # is finished, since its messages were on their way.
        if known.state == BEGUN:
            append_staged(store, folder / "staged", known.files, known.offset)
        known = None
    if known is not None and known.batch > batch.batch:
        raise ConfigError(
            f"{folder}: batch {known.batch} is in the store, and batch {batch.batch} comes: the checkpoint was set "
            "back. Begin with a new checkpoint in another place"
        )
    appended = 0
    if known is not None and known.state == BEGUN:
        appended = append_staged(store, folder / "staged", known.files, known.offset)
        write_ledger(folder, Ledger(known.query, known.batch, DONE), owner)
        known = replace(known, state=DONE)
    if known is not None and known.batch == batch.batch:
        return appended
    fs.make_dirs(folder, owner)
    write_ledger(folder, replace(batch, offset=store.view.confirmed()), owner)
    appended += append_staged(store, folder / "staged", batch.files)
    write_ledger(folder, Ledger(batch.query, batch.batch, DONE), owner)
    return appended


def one_spelling(checkpoint: str) -> str:
    """A checkpoint's folder in one spelling, by which batches are known: Spark takes `cp`, `/a/cp/`, `file:/a/cp`."""
    path = re.sub("^file:(//(?=/))?", "", checkpoint)
    return path if "://" in path else str(Path(path).resolve())


def query_id(checkpoint: str) -> str:
    """The id that Spark gave the query, where its checkpoint lies on a file system of ours; else empty."""
    data = fs.read_bytes(Path(checkpoint) / "metadata", _METADATA_LIMIT) if checkpoint.startswith("/") else None
    try:
        return str(json.loads(data)["id"]) if data else ""
    except (KeyError, TypeError, ValueError):
        return ""


def _files_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [name for message in messages if isinstance(message, Staged) for name in message.files]
