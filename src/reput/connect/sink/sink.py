"""Append of `df.write.format("rocketmq")` and `writeStream`: tasks stage messages, the driver appends them.

The append opens the store once, under its lock: beside a live broker, or another process that writes, it is refused. A
streaming batch is appended exactly once (`reput.connect.sink.ledger`). So is a batch write with the option `writeId`, a
name that the caller gives it. If it was killed, a second run appends the rest of what the first run staged. If it was
done, a second run appends nothing.

Without `writeId` nothing distinguishes a second run from another job, so it stores the messages twice. If such a write
ends while it appends (it is killed, or the disk is full), its first messages are in the log, in order and whole, and
the staged rest is in `reput/sinks/batch-...`. That folder's name is then the `writeId` with which a second run of the
job appends only the rest; the next write says so. A write that ends earlier leaves nothing in the log; if it was
killed, it leaves staged messages in a folder without a ledger.

A write is done when its messages are in the log. A later failure, for example of the indexes, is a warning: Spark would
run a failed job again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reput.config import StoreConfig
from reput.connect.options import names as option_names
from reput.connect.options.options import store_path
from reput.connect.sink.columns import check_schema, message_columns
from reput.connect.sink.ledger import BEGUN, DONE, Ledger, append_staged, read_ledger, write_ledger
from reput.connect.sink.staging import Stager, count_staged
from reput.errors import ConfigError, FlushError, ReputError, StoreLockedError
from reput.files import fs, links
from reput.files.folders import make_durable_dir
from reput.formats.own import files as own
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.layout import StoreLayout, find_store
from reput.store.message_store import LocalStore
from reput.store.owner.holders import Writer, writer_of
from reput.times import now_ms

ANONYMOUS = "batch-"
"""Beginning of the names of batch writes without a `writeId`."""
_log = logging.getLogger("reput.connect")


class Target:
    """The store that is written, and the options for its messages; a small value that goes to every task.

    Raises:
        ConfigError: an option or a column is wrong.
        StoreLockedError: another process writes the store.
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
        fs.refuse_strangers(layout.root)

    def layout(self) -> StoreLayout:
        """Return the places of the store's parts."""
        return find_store(self.path, self.config)

    @property
    def folder(self) -> Path:
        """The folder of this sink's ledger, with the folder of staged files.

        Raises:
            AccessError: it or a folder above it is a link, so it may be outside of the store.
        """
        layout = self.layout()
        folder = layout.own(own.SINKS_NAME) / self.sink
        links.refuse_links(layout.reput, folder.parent, folder, folder / own.STAGED_NAME)
        return folder

    @property
    def staged(self) -> Path:
        """The folder of staged files; errors as with `folder`."""
        return self.folder / own.STAGED_NAME

    def stage(self, batches: Iterator[Any]) -> list[str]:
        """Stage a task's messages, and return the files' names."""
        stager = Stager(self.staged, self.layout(), self.config)
        born_ms = now_ms()
        for batch in batches:
            stager.add(message_columns(batch, self.topic, born_ms))
        stager.flush()
        return stager.files

    @contextlib.contextmanager
    def open(self) -> Iterator[LocalStore]:
        """Open the store to write while the block runs; no log file is deleted meanwhile."""
        store = LocalStore.open(self.path, self.config, delete_expired=False)
        try:
            yield store
        except BaseException:
            # A disk that refused a message often makes the close fail, too: the first error says more.
            with contextlib.suppress(ReputError):
                store.close()
            raise
        store.close()


def append(target: Target, batch: Ledger, again: str) -> None:
    """Append a batch to the store; a failure after it is in the log is a warning.

    Args:
        again: the remedy that an error names.

    Raises:
        ReputError: the batch is not whole in the log; the error says how much of it is there.
    """
    done = False
    try:
        with target.open() as store:
            warn_of_unfinished(target.folder.parent, target.sink)
            commit_batch(store, target.folder, batch)
            done = True
            store.catch_up_with(SparkIndexer(LoopEngine()))
    except ReputError as error:
        if not done:
            raise _unfinished(target.folder, error, again) from error
        _log.warning(
            "%s: all messages of this write are in the log and readable, and not yet in the indexes: %s. `reput follow "
            "%s --until-caught-up` catches up, and so does the next write", target.path, error, target.path,
        )  # fmt: skip


def _unfinished(folder: Path, error: ReputError, again: str) -> ReputError:
    """Return the error of an append that broke off, with the messages that are in the log and the remedy."""
    known, in_log = read_ledger(folder), error.details.get("in_log")
    # After a failed flush only the next open of the store shows what the disk has.
    if in_log or (in_log is not None and isinstance(error, FlushError)):
        words = f"{in_log} of {error.details['messages']} messages are in the log, all of them are in {folder}. {again}"
    elif in_log is None and known is not None and known.state == BEGUN:
        words = f"An earlier run has appended a part of it. {again}"
    else:
        words = "Nothing of this write is in the log: run it again after you fix that"
    unfinished = type(error)(f"{error}. {words}")
    unfinished.details = error.details
    return unfinished


def warn_of_unfinished(sinks: Path, sink: str) -> None:
    """Warn of writes without a writeId that broke off while they appended; the store's lock is held.

    Their staged files stay for the run that finishes them. Staged files of writes that were killed after they were done
    are removed; the ledgers stay. A folder without a ledger may belong to a write whose tasks stage now. What cannot be
    read or removed there stops no other write.
    """
    for entry in fs.list_dir(sinks):
        folder = sinks / entry.name
        if entry.is_file or not entry.name.startswith(ANONYMOUS) or entry.name == sink:
            continue
        try:
            ledger = read_ledger(folder)
            if ledger is not None and ledger.state != BEGUN and fs.exists(folder / own.STAGED_NAME):
                # A crash must not bring the begun ledger back without its staged files.
                fs.sync_path(folder)
                fs.remove_tree(folder / own.STAGED_NAME)
        except ReputError as error:
            _log.warning("what another write has left is not looked after: %s", error)
            continue
        if ledger is not None and ledger.state == BEGUN:
            _log.warning(
                "%s: a write broke off while it appended, from log offset %d on: its first messages are in the log, "
                "the rest is not. Its job, run with .option('writeId', '%s'), appends the rest. If it was run again "
                "without, its first messages are there twice: remove this folder", folder, ledger.offset, entry.name,
            )  # fmt: skip


def remove_staged(target: Target, names: Sequence[str]) -> None:
    """Remove staged files, except those that a begun append needs."""
    ledger = read_ledger(target.folder)
    needed = set(ledger.files) if ledger is not None and ledger.state == BEGUN else set()
    for name in names:
        if name not in needed:
            fs.remove_file(target.staged / name)


def commit_batch(store: LocalStore, folder: Path, batch: Ledger) -> int:
    """Append the staged files of a batch that has not been appended, and return the number of messages appended.

    Raises:
        ConfigError: the batch is older than the last one: its checkpoint is not the one of the ledger.
    """
    owner, known = fs.owner_of(store.layout.root), read_ledger(folder)
    if known is not None:
        # A call before may have failed to: what follows rests on this ledger.
        fs.sync_path(folder)
    if known is not None and known.query != batch.query:
        # Another query at the same place: a checkpoint that was removed and begun anew. A batch that the old query
        # began is finished, since its messages were on their way.
        if known.state == BEGUN:
            append_staged(store, folder / own.STAGED_NAME, known.files, known.offset)
        known = None
    if known is not None and known.batch > batch.batch:
        raise ConfigError(
            f"{folder}: batch {known.batch} is in the store, and batch {batch.batch} comes: the checkpoint was set "
            "back. Begin with a new checkpoint in another place"
        )
    appended = 0
    if known is not None and known.state == BEGUN:
        appended = append_staged(store, folder / own.STAGED_NAME, known.files, known.offset)
        _end_batch(folder, known, owner)
        known = replace(known, state=DONE)
    if known is not None and known.batch == batch.batch:
        return appended
    for above in (folder.parent, folder, folder / own.STAGED_NAME):
        # A ledger whose folder a power cut takes away, or whose files it does, would let the batch come twice or never.
        make_durable_dir(above, owner)
    # A damaged file stops the write before any of it is in the log.
    count_staged(folder / own.STAGED_NAME, batch.files)
    write_ledger(folder, replace(batch, offset=store.view.confirmed()), owner)
    appended += append_staged(store, folder / own.STAGED_NAME, batch.files)
    _end_batch(folder, batch, owner)
    return appended


def _end_batch(folder: Path, batch: Ledger, owner: fs.Owner) -> None:
    """Note in the ledger that a batch is in the log."""
    try:
        write_ledger(folder, Ledger(batch.query, batch.batch, DONE), owner)
    except ReputError as error:
        messages = count_staged(folder / own.STAGED_NAME, batch.files)
        error.details = {"in_log": messages, "messages": messages}
        raise
