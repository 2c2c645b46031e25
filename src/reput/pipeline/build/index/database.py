"""The index database: a rebuild makes a new one in staging, a job that follows the log extends the live one.

A rebuild never changes the live database. Each task writes the entries of a split, sorted, into tables of bounded size.
The driver takes them into an empty database in staging, copies what other parts of the broker keep in the live one, and
writes the marks last. The whole folder is then swapped in with the other parts, so a kill leaves the old database or
the new one. Memory holds the entries of one table.

A job that follows the log writes batches, as the broker does: the entries of some records with the marks of the last of
them. So a kill leaves a database that is complete up to its marks, and the next job, or the broker, goes on from there.

Source: `IndexRocksDBStore.IndexBuildService`, `MessageRocksDBStorage.writeRecordsForIndex`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.files.database import Batch, DatabaseOwner, DatabaseReader, family_names, write_table
from reput.files.names import is_database
from reput.formats import index_database as fmt
from reput.formats import own, paths
from reput.formats.index_database import IndexMarks
from reput.index.database import REMEDY, read_marks
from reput.log.read.files import LogListing, list_log_files
from reput.log.read.maps import LogMaps
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split.index_keys import IndexedRecord, indexed_records
from reput.pipeline.split.job import Job, SplitResult
from reput.store.disk.layout import StoreLayout
from reput.store.recover.recovery import end_of_indexed

_TABLE_ENTRIES = 1 << 18
_BATCH_RECORDS = 1000
_COPY_ENTRIES = 10_000
_KEPT = (
    "Pending timers and transactions may be in it (timerRocksDBEnable, transRocksDBEnable), so it is not replaced. "
    "Restore it from a copy; or, if those settings were never on, move the folder away and run the command again"
)


class EntryRange(NamedTuple):
    """The records [begin, end) of one split, by log offsets, and the folder of the log."""

    folder: str
    begin: int
    end: int


class EntryTables(NamedTuple):
    """The result of a task: the names of its tables, its entries, and the marks of its last record with entries."""

    tables: tuple[str, ...]
    entries: int
    marks: IndexMarks | None


def write_entry_tables(job: Job, part: EntryRange) -> EntryTables:
    """Write the entries of a range of the log into sorted tables."""
    # Each attempt writes files of its own, so that one that dies leaves a finished one alone.
    name, tables, count = uuid.uuid4().hex, list[str](), 0
    marks: IndexMarks | None = None
    held: dict[bytes, bytes] = {}

    def flush() -> None:
        path = f"{job.parts_folder}/{name}-{len(tables)}.sst"
        write_table(path, sorted(held.items()))
        tables.append(PurePath(path).name)
        held.clear()

    with job.writing():
        for record in indexed_records(list_log_files(Path(part.folder), tolerant=True), part.begin, part.end):
            held |= dict.fromkeys(record.keys, fmt.encode_value(record.store_timestamp))
            count += len(record.keys)
            marks = later(marks, record)
            if len(held) >= _TABLE_ENTRIES:
                flush()
        if held:
            flush()
    return EntryTables(tuple(tables), count, marks)


def later(marks: IndexMarks | None, record: IndexedRecord) -> IndexMarks:
    """Return the marks after one more record. As in RocketMQ the time never goes back."""
    return IndexMarks(record.offset, max(record.store_timestamp, marks.store_timestamp if marks else 0))


def build_index_database(build: Build, results: Sequence[SplitResult]) -> int:
    """Build the database of all splits in staging, if the job builds it; returns the number of its entries.

    Raises:
        DamagedStoreError: see `_make_database`.
    """
    if not build.job.build_index_database:
        return 0
    folder = str(build.layout.commit_log)
    work = [EntryRange(folder, result.first_record, result.chain_end) for result in results if result.records]
    with build.stage("index database"):
        return _make_database(build, build.run(write_entry_tables, work))


def _make_database(build: Build, made: Sequence[EntryTables]) -> int:
    """Make the database of a rebuild in staging; returns the number of its entries.

    Raises:
        DamagedStoreError: pending timers and transactions in the live database cannot be read; or the new one does not
            have as many entries as were written.
    """
    job, live = build.job, build.layout.index_database
    folder = Path(job.staging) / paths.INDEX_DATABASE
    entries, others = sum(one.entries for one in made), _other_families(live)
    families = dict.fromkeys((*fmt.FAMILIES, *others))
    with DatabaseOwner(folder, [*families], Path(job.parts_folder) / "log", job.owner, remedy=REMEDY) as database:
        for name in (name for one in made for name in one.tables):
            # One by one: a split's records may have the same hours as those of the split before.
            database.ingest(fmt.FAMILY, [f"{job.parts_folder}/{name}"])
        database.compact(fmt.FAMILY)
        found = database.count(fmt.FAMILY)
        if found != entries:
            raise DamagedStoreError(
                f"{folder}: the new database has {found} entries, {entries} were written. The old one is live; is the "
                "disk sound?"
            )
        _copy_families(live, others, database)
        marks = [one.marks for one in made if one.marks]
        if marks:
            batch = database.batch()
            _put_marks(batch, IndexMarks(marks[-1].offset, max(one.store_timestamp for one in marks)))
            database.write(batch)
        database.sync()
    return entries


def _other_families(live: Path) -> list[str]:
    """Return the families of the live database that are not the index.

    Raises:
        DamagedStoreError: they cannot be read.
    """
    if not is_database(live):
        return []
    names = family_names(live, _KEPT)
    # The list of names says nothing about damage.
    DatabaseReader(live, names, remedy=_KEPT).close()
    return [name for name in names if name != fmt.FAMILY]


def _copy_families(live: Path, names: Sequence[str], database: DatabaseOwner) -> None:
    """Copy what is not the index: pending timers and transactions."""
    if not names:
        return
    with DatabaseReader(live, names, remedy=_KEPT) as reader:
        for name, family in reader.families.items():
            walk = family.walk()
            while rows := [*islice(walk, _COPY_ENTRIES)]:
                batch = database.batch()
                batch.put_all(name, (key for key, _ in rows), (value for _, value in rows))
                database.write(batch)


def _put_marks(batch: Batch, marks: IndexMarks) -> None:
    batch.put(fmt.FAMILY, fmt.LAST_OFFSET, fmt.encode_mark(marks.offset))
    batch.put(fmt.FAMILY, fmt.LAST_TIME, fmt.encode_mark(marks.store_timestamp))


class LiveIndexDatabase:
    """The live index database of a job that follows the log, which owns it until it is closed.

    Raises:
        StoreLockedError: another process has it open for writing.
        DamagedStoreError: it cannot be opened.
    """

    def __init__(self, layout: StoreLayout, job: Job, log_file_size: int) -> None:
        self._database = DatabaseOwner(
            layout.index_database, fmt.FAMILIES, layout.own(own.ROCKSDB_LOGS), job.owner, remedy=REMEDY
        )
        self._marks = read_marks(self._database.families[fmt.FAMILY])
        log = LogMaps(layout.commit_log, log_file_size)
        self._offset = log.min_offset if self._marks is None else end_of_indexed(log, self._marks)
        log.close()

    def extend(self, job: Job, log: LogListing, end: int) -> int:
        """Add the entries of the records up to log offset `end`; returns the number of entries.

        Raises:
            StaleEpochError: another process has taken the store over.
        """
        added, begin = 0, max(self._offset, log.min_offset)
        found = indexed_records(log, begin, end)
        while records := [*islice(found, _BATCH_RECORDS)]:
            added += self._write(job, records)
        self._offset = max(self._offset, end)
        return added

    def _write(self, job: Job, records: Sequence[IndexedRecord]) -> int:
        batch, marks, added = self._database.batch(), self._marks, 0
        for record in records:
            value = fmt.encode_value(record.store_timestamp)
            batch.put_all(fmt.FAMILY, record.keys, (value for _ in record.keys))
            marks, added = later(marks, record), added + len(record.keys)
        assert marks is not None
        _put_marks(batch, marks)
        with job.writing():
            self._database.write(batch)
        self._marks = marks
        return added

    def close(self) -> None:
        """Close it."""
        self._database.close()
