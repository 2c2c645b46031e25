"""Writers of `format("rocketmq")` as Spark sees them; `reput.connect.sink.sink` stages and appends."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow.fs import FileSystem  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from reput.connect.sink.ledger import BEGUN, LEDGER_NAME, Ledger, read_ledger
from reput.connect.sink.sink import ANONYMOUS, Target, append, remove_staged
from reput.connect.spark import with_short_errors
from reput.errors import ConfigError, FlushError, ReputError
from reput.files import fs

_METADATA_LIMIT = 1 << 16
_UNFINISHED = re.compile("batch-[0-9a-f]{32}")


class Staged(WriterCommitMessage):
    """The files that a task staged."""

    def __init__(self, files: list[str]) -> None:
        self.files = files


class RocketmqWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        given = {name.lower(): value for name, value in options.items()}
        named = given.get("writeid", "")
        self.is_anonymous = not named
        self.write_id = named or f"{ANONYMOUS}{uuid.uuid4().hex}"
        is_unfinished = _UNFINISHED.fullmatch(self.write_id) is not None
        self.target = Target(options, schema, self.write_id if is_unfinished else _digest(f"writeId {self.write_id}"))
        if named and is_unfinished and read_ledger(self.target.folder) is None:
            raise ConfigError(
                f"writeId {named}: {self.target.folder} is not there, so there is no unfinished write of this name. If "
                "it was removed, nothing shows which of its messages are in the log"
            )

    @with_short_errors
    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return Staged(self.target.stage(iterator))

    @with_short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append the files that the tasks staged, or the rest of those that an earlier run of this write staged."""
        target = self.target
        again = "Run the write again with the same writeId: it appends the rest, and no message twice"
        if self.is_anonymous:
            again = (
                "Run again as it is, the write would store them twice: run it with "
                f".option('writeId', '{self.write_id}'), which appends the rest only"
            )
        try:
            append(target, Ledger(self.write_id, 0, BEGUN, _files_of(messages)), again)
        except ReputError as error:
            if self.is_anonymous and not error.details.get("in_log") and not isinstance(error, FlushError):
                # There is nothing to finish: `abort` removes the rest.
                fs.remove_file(target.folder / LEDGER_NAME)
            raise
        fs.remove_tree(target.folder if self.is_anonymous else target.staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the staged files, except those that a begun append needs."""
        remove_staged(self.target, _files_of(messages))
        if self.is_anonymous and read_ledger(self.target.folder) is None:
            fs.remove_tree(self.target.folder)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class RocketmqStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, each batch exactly once."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        checkpoint = {name.lower(): value for name, value in options.items()}.get("checkpointlocation")
        if not checkpoint:
            raise ConfigError(
                "no checkpointLocation: give .option('checkpointLocation', folder); it distinguishes a batch that is "
                "run again from a new one"
            )
        if any(name.lower() == "writeid" for name in options):
            raise ConfigError("option writeId: names a batch write; a stream's batches are known by its checkpoint")
        self.checkpoint = checkpoint = one_spelling(checkpoint)
        self.target = Target(options, schema, _digest(checkpoint))

    @with_short_errors
    def write(self, iterator: Iterator[Any]) -> Staged:
        """Stage a task's messages."""
        return Staged(self.target.stage(iterator))

    @with_short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Append a batch, or the rest of it, or nothing if it is in the log already."""
        again = "Start the query again with the same checkpoint: it appends the rest, and no message twice"
        append(self.target, Ledger(query_id(self.checkpoint), batchId, BEGUN, _files_of(messages)), again)
        fs.remove_tree(self.target.staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the staged files, except those that a begun batch needs."""
        remove_staged(self.target, _files_of(messages))


def one_spelling(checkpoint: str) -> str:
    """Return a checkpoint's folder in one spelling, for Spark takes `cp`, `/a/cp/` and `file:/a/cp`."""
    path = re.sub("^file:(//(?=/))?", "", checkpoint)
    return path if "://" in path else str(Path(path).resolve())


def query_id(checkpoint: str) -> str:
    """Return the id that Spark gave the query; "" if its checkpoint is on a local file system, and has none.

    Raises:
        ConfigError: The checkpoint is on another file system that cannot be read here: a checkpoint that was begun anew
            would look like the old one, and its first batches like repeats.
    """
    is_local = checkpoint.startswith("/")
    data = fs.read_bytes(Path(checkpoint) / "metadata", _METADATA_LIMIT) if is_local else _remote_metadata(checkpoint)
    try:
        return str(json.loads(data)["id"]) if data else ""
    except (KeyError, TypeError, ValueError, RecursionError):
        return ""


def _remote_metadata(checkpoint: str) -> bytes:
    try:
        # Hadoop's name for it.
        filesystem, path = FileSystem.from_uri(re.sub("^s3a://", "s3://", checkpoint))
        with filesystem.open_input_stream(f"{path.rstrip('/')}/metadata") as file:
            return bytes(file.read(_METADATA_LIMIT))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(
            f"checkpointLocation {checkpoint}: its file metadata, which names the query, cannot be read "
            f"here ({str(error).splitlines()[0]:.200}). Give a checkpoint on a local file system, or on one that "
            "pyarrow reads"
        ) from error


def _files_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [name for message in messages if isinstance(message, Staged) for name in message.files]
