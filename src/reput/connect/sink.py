"""`df.write.format("rocketmq")` and `writeStream`: tasks stage messages beside the store, the driver appends them.

The append is one open of the store, under its lock: a live broker, or another process that writes, is a refusal and no
mixture. A streaming batch is appended exactly once (`reput.connect.ledger`); a batch write that is killed while it
appends may have appended a part, as the error that Spark then gives says.
"""

from __future__ import annotations

import hashlib
import json
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
        """The store, to write it."""
        return MessageStore.open(self.path, self.config, create=False)


class RocketmqWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self.target = Target(options, schema, f"batch-{uuid.uuid4().hex}")

    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return self.target.stage(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append what the tasks staged."""
        store = self.target.open()
        try:
            append_staged(store, self.target.staged, _files_of(messages))
            store.catch_up_with(SparkIndexer(LoopEngine()))
        finally:
            store.close()
            fs.remove_tree(self.target.folder)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all of it goes
        """Remove what the tasks staged."""
        fs.remove_tree(self.target.folder)


class RocketmqStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, each batch exactly once."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        checkpoint = {name.lower(): value for name, value in options.items()}.get("checkpointlocation")
        if not checkpoint:
            raise ConfigError(
                "no checkpointLocation: give .option('checkpointLocation', folder), which tells a batch that is done "
                "again from a new one"
            )
        self.checkpoint = checkpoint
        self.target = Target(options, schema, hashlib.sha256(checkpoint.encode()).hexdigest()[:32])

    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return self.target.stage(iterator)

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
        ledger = read_ledger(self.target.folder)
        needed = set(ledger.files) if ledger is not None and ledger.state == BEGUN else set()
        for name in _files_of(messages):
            if name not in needed:
                fs.remove_file(self.target.staged / name)


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


def query_id(checkpoint: str) -> str:
    """The id that Spark gave the query, where its checkpoint lies on a file system of ours; else empty."""
    folder = checkpoint.removeprefix("file://").removeprefix("file:")
    data = fs.read_bytes(Path(folder) / "metadata", _METADATA_LIMIT) if folder.startswith("/") else None
    try:
        return str(json.loads(data)["id"]) if data else ""
    except (KeyError, TypeError, ValueError):
        return ""


def _files_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [name for message in messages if isinstance(message, Staged) for name in message.files]
