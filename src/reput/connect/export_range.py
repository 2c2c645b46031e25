"""A range of an export: its Parquet files by topic and day, its marker, and the task that writes both.

`reput.connect.export` describes the folder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from reput.connect.cut.cuts import LogCut
from reput.connect.scan.log_scan import ScanJob, read_log
from reput.connect.scan.read_report import Seen
from reput.errors import ConfigError, DataLossError
from reput.files import fs
from reput.files.folders import make_durable_dir
from reput.formats.stored_text import stored_bytes
from reput.log.read.scan import MISSING_FILE

TOPIC_PREFIX = "topic="
"""The beginning of the name of a topic's folder."""
_DIGITS = 20
_SUFFIX = ".parquet"
JSON_LIMIT = 64 << 20
"""The most bytes of a plan or a marker that are read."""
_HELD_BYTES = 128 << 20
_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f")
_LONGEST_NAME = 255
_US_PER_DAY = 86_400_000_000
_NO_TIME_US = 100_000_000 * _US_PER_DAY
_BODY = "body"
_SELDOM_TWICE = frozenset(
    {
        _BODY,
        "bodyCRC",
        "bornTimestamp",
        "keys",
        "offsetMsgId",
        "physicalOffset",
        "queueOffset",
        "storeTimestamp",
        "uniqKey",
    }
)
"""Columns whose values differ from message to message."""


@dataclass(frozen=True)
class RangeDone:
    """A range's marker: its files relative to the export's folder, the number of their messages, and its gaps.

    `gaps`: for each gap its log offsets and why it is one. `undecoded`: messages whose body cannot be decoded.
    """

    begin: int
    end: int
    messages: int
    bytes: int
    files: tuple[str, ...]
    gaps: tuple[tuple[int, int, str], ...] = ()
    undecoded: int = 0


def own_folder(target: Path) -> Path:
    """Return the folder of an export's plan and markers."""
    return target.with_name(f"_{target.name}.reput")


def marker_path(target: Path, begin: int) -> Path:
    """Return the marker of the range that begins at a log offset."""
    return own_folder(target) / f"{begin:020d}.json"


def read_marker(target: Path, begin: int) -> RangeDone | None:
    """Return the marker of the range that begins at a log offset; None if there is none, or it is damaged."""
    data = fs.read_bytes(marker_path(target, begin), JSON_LIMIT)
    return None if data is None else decode_marker(data)


def decode_marker(data: bytes) -> RangeDone | None:
    """Decode the marker of a range; None if it is damaged."""
    try:
        marker = RangeDone(**json.loads(data))
        gaps = tuple((int(begin), int(end), str(why)) for begin, end, why in marker.gaps)
        return replace(marker, end=int(marker.end), messages=int(marker.messages), files=tuple(marker.files), gaps=gaps)
    except (TypeError, ValueError, RecursionError):
        return None


def export_range(job: ScanJob, target: str, cut: LogCut) -> RangeDone:
    """Export one range of the log, as a task.

    Raises:
        DamagedLogError: bytes of the range are no record.
    """
    files = _Files(Path(target), cut.begin)
    messages, undecoded, seen = 0, 0, Seen()
    for batch in read_log(job, cut, seen):
        messages += batch.num_rows
        undecoded += batch.column(_BODY).null_count if _BODY in batch.schema.names else 0
        for topic, day, rows in _parts(batch):
            files.add(topic, day, rows)
    files.flush()
    files.refuse_lost()
    gaps = tuple((gap.begin, gap.end, gap.verdict.meaning) for gap in seen.lost)
    if seen.has_lost_file:
        gaps = ((cut.begin, cut.end, MISSING_FILE),)
    done = RangeDone(cut.begin, cut.end, messages, files.bytes, tuple(files.names), gaps, undecoded)
    fs.write_whole(marker_path(Path(target), cut.begin), json.dumps(asdict(done)).encode())
    return done


def remove_files_of(target: Path, begins: Collection[int]) -> None:
    """Remove what a killed run, or one with a gap, left of the ranges that begin at these log offsets, and its halves.

    A run with other batches, as of another version, makes other files of a range, so it would not replace all of them.
    """
    for topic in fs.list_dir(target) if begins else ():
        for day in fs.list_dir(target / topic.name) if topic.name.startswith(TOPIC_PREFIX) else ():
            folder = target / topic.name / day.name
            for entry in fs.list_dir(folder):
                number = entry.name.removeprefix(".")[:_DIGITS]
                is_export = entry.name.endswith((_SUFFIX, fs.TEMPORARY))
                if is_export and number.isdecimal() and int(number) in begins:
                    fs.remove_file(folder / entry.name)
            # A file that came back would have the messages of the next run, too; an earlier run may have removed it.
            fs.sync_path(folder)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield a batch's rows by topic and day, without the topic.

    Sorting rows by topic and day before their fields are read, which spares the copy here, took as long: the records
    are then read out of order.
    """
    topics = batch.column("topic").dictionary_encode()
    stored = batch.column("storeTimestamp")
    days = np.asarray(pc.fill_null(stored.cast(pa.int64()), _NO_TIME_US)) // _US_PER_DAY
    part = np.asarray(topics.indices).astype(np.int64) << 32 | (days & 0xFFFFFFFF)
    rest = batch.drop_columns(["topic"])
    found = np.unique(part)
    for value in found.tolist():
        number = value & 0xFFFFFFFF
        rows = rest if len(found) == 1 else rest.filter(pc.equal(pa.array(part), value))
        yield topics.dictionary[value >> 32].as_py(), _day(number), rows


def _day(number: int) -> str:
    if number == _NO_TIME_US // _US_PER_DAY:
        # Hive and Spark read this as null: the message has a store time that no calendar has.
        return "__HIVE_DEFAULT_PARTITION__"
    days = number - (1 << 32) if number >= 1 << 31 else number
    return (_EPOCH_DAY + timedelta(days=days)).date().isoformat()


def _escaped(name: str) -> str:
    """Return a value as Hive writes it in a folder's name; letters outside ASCII stay, as Spark expects."""
    return "".join(f"%{ord(letter):02X}" if letter < " " or letter in _ESCAPED else letter for letter in name)


def _topic_folder(topic: str) -> str:
    """Return the folder of a topic.

    Raises:
        ConfigError: the name would be too long for a file system.
    """
    name = f"{TOPIC_PREFIX}{_escaped(topic)}"
    if len(stored_bytes(name)) > _LONGEST_NAME:
        raise ConfigError(
            f"topic {topic[:40]}...: the folder topic=... would have a name of more than {_LONGEST_NAME} bytes. Export "
            'the other topics by their names (-t), and read this one with format("rocketmq")'
        )
    return name


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """Return how Parquet writes the columns: values that seldom come twice get no dictionary, and bodies no bounds.

    A writer tries a dictionary for each column, and lets go of it at a megabyte.
    """
    leaves = [path for field in schema for path in _leaves(field)]
    return {
        "use_dictionary": [path for path in leaves if path not in _SELDOM_TWICE],
        "write_statistics": [path for path in leaves if path != _BODY],
    }


def _leaves(field: pa.Field) -> list[str]:
    """Return the names by which Parquet knows the values of a column."""
    if pa.types.is_map(field.type):
        return [f"{field.name}.key_value.{name}" for name in ("key", "value")]
    return [field.name]


class _Files:
    """Files of a range: rows are held until they are many, then each part is written whole."""

    def __init__(self, target: Path, begin: int) -> None:
        self.target = target
        self.begin = begin
        self.names: list[str] = []
        self.bytes = 0
        self._held: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._round = 0
        self._made: set[Path] = set()

    def add(self, topic: str, day: str, rows: pa.RecordBatch) -> None:
        """Add rows of one topic and day."""
        self._held.setdefault((topic, day), []).append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are held."""
        suffix = f"-{self._round}" if self._round else ""
        for (topic, day), rows in self._held.items():
            folder = Path(_topic_folder(topic)) / f"day={day}"
            name = folder / f"{self.begin:0{_DIGITS}d}{suffix}{_SUFFIX}"
            sink = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_batches(rows), sink, compression="zstd", **_encoding(rows[0].schema))
            data = sink.getvalue()
            self._make_folder(folder)
            fs.write_whole(self.target / name, memoryview(data), is_hidden=True)
            self.names.append(str(name))
            self.bytes += len(data)
        self._held, self._held_bytes = {}, 0
        self._round += 1

    def refuse_lost(self) -> None:
        """Refuse to call the range done if somebody has removed a file of it.

        Raises:
            DataLossError: A file is missing.
        """
        lost = next((name for name in self.names if not fs.exists(self.target / name)), None)
        if lost is not None:
            raise DataLossError(f"{self.target / lost}: removed while its range was exported")

    def _make_folder(self, folder: Path) -> None:
        """Make the folders of a topic and a day; a marker must not outlive the name of a file that it counts."""
        for one in (folder.parent, folder):
            if one not in self._made:
                make_durable_dir(self.target / one)
                self._made.add(one)
