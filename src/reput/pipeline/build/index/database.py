"""The index database: a rebuild makes a new one in staging, a job that follows the log extends the live one.

A rebuild never changes the live database. Each task writes the entries of a range of keys, from the runs of all splits,
into a table, so tables do not overlap. The driver takes them into an empty database in staging, copies what other parts
of the broker keep in the live one, and writes the marks last. The whole folder is then swapped in with the other parts,
so a kill leaves the old database or the new one.

A job that follows the log writes entries in batches, and the marks after them. So a kill leaves a database that is
complete up to its marks, and the next job, or the broker, writes the same entries again.

Source: `IndexRocksDBStore.IndexBuildService`, `MessageRocksDBStorage.writeRecordsForIndex`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from typing import ClassVar, NamedTuple

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.database import DatabaseReader, family_names
from reput.files.database_owner import DatabaseOwner, write_table
from reput.files.names import is_database
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexMarks
from reput.formats.index.index_kinds import INDEX_DATABASE
from reput.formats.own import files as own
from reput.index.database import REMEDY, has_data
from reput.index.database_marks import read_marks
from reput.log.read.files import list_log_files
from reput.log.read.maps import LogMaps
from reput.pipeline.build.index.built import IndexBuilt
from reput.pipeline.build.index.plan import IndexEnd, IndexFilePlan, IndexFileResult
from reput.pipeline.build.stages.decode import decode_splits
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.index_keys import (
    KeyRange,
    keys_in,
    later_marks,
    load_run,
    load_runs,
    plan_key_ranges,
    save_keys,
)
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import plan_splits
from reput.store.disk.layout import StoreLayout
from reput.store.owner.indexer import CatchUpTask
from reput.store.recover.recovery import end_of_indexed

_BATCH_ENTRIES = 10_000
_CATCH_UP_BYTES = 128 << 20


class DatabaseIndexJobs:
    """See `IndexJobs`."""

    def builder(self, build: Build, results: Sequence[SplitResult]) -> DatabaseIndexBuilder:
        """See `IndexJobs`."""
        return DatabaseIndexBuilder(build, results)

    def grower(self, task: CatchUpTask, job: Job, log_file_size: int) -> DatabaseIndexGrower:
        """See `IndexJobs`."""
        return DatabaseIndexGrower(task.layout, job, log_file_size)

    def append(
        self,
        job: Job,
        decoded: DecodedSplit,
        result: SplitResult,  # noqa: ARG002 - an IndexJobs
        end: IndexEnd,  # noqa: ARG002 - an IndexJobs
        named_at: datetime,  # noqa: ARG002 - an IndexJobs
    ) -> list[IndexFileResult]:
        """See `IndexJobs`."""
        save_keys(job, decoded)
        return []


class IndexTable(NamedTuple):
    """A table that a task made, by its name in the job's parts folder, and its entries; no name without any."""

    name: str
    entries: int


def write_index_table(job: Job, wanted: KeyRange) -> IndexTable:
    """Write the entries of a range of keys into a sorted table."""
    found = keys_in(job, wanted)
    if not len(found.keys):
        return IndexTable("", 0)
    # Each attempt writes a file of its own, so that one that dies leaves a finished one alone.
    name = f"index-{wanted.number}-{uuid.uuid4().hex}.sst"
    with job.writing():
        write_table(f"{job.parts_folder}/{name}", ((key, fmt.encode_value(time)) for key, time in found.rows()))
    return IndexTable(name, len(found.keys))


class DatabaseIndexBuilder:
    """See `IndexBuilder`."""

    def __init__(self, build: Build, results: Sequence[SplitResult]) -> None:
        self._build = build
        self._results = [result for result in results if result.records]

    def start(self) -> None:
        """See `IndexBuilder`; its tasks use all cores."""

    def stop(self) -> None:
        """See `IndexBuilder`; none of its tasks is at work outside `finish`."""

    def finish(self) -> IndexBuilt:
        """See `IndexBuilder`.

        Raises:
            DamagedStoreError: the new database does not have as many entries as were written.
        """
        build = self._build
        with build.stage("index database"):
            runs = [load_runs(build.job, result.number) for result in self._results]
            tables = [one for one in build.run(write_index_table, plan_key_ranges(runs)) if one.name]
            kept = _make_database(build, tables, later_marks(runs))
        return IndexBuilt((paths.INDEX_DATABASE, *kept), entries=sum(one.entries for one in tables))


def _make_database(build: Build, tables: Sequence[IndexTable], marks: IndexMarks | None) -> list[str]:
    """Make the database of a rebuild in staging; returns the names of further parts that go live with it."""
    job, live = build.job, build.layout.index_database
    folder, entries = Path(job.staging) / paths.INDEX_DATABASE, sum(one.entries for one in tables)
    others, kept = _other_families(live), list[str]()
    if isinstance(others, DamagedStoreError):
        kept = [_keep_damaged(build, live, others)]
        others = []
    families = dict.fromkeys((*fmt.FAMILIES, *others))
    with DatabaseOwner(folder, [*families], Path(job.parts_folder) / "log", job.owner, remedy=REMEDY) as database:
        # In the order of their keys, and none overlaps another.
        database.ingest(fmt.FAMILY, [f"{job.parts_folder}/{one.name}" for one in tables])
        found = database.count()
        if found != entries:
            raise DamagedStoreError(
                f"{folder}: the new database has {found} entries, {entries} were written. The old one is live. "
                "Check the disk"
            )
        _copy_families(live, others, database)
        _write_marks(database, marks)
        database.sync()
    return kept


def _other_families(live: Path) -> list[str] | DamagedStoreError:
    """Return the families of the live database that are not the index, or why they cannot be read."""
    if not is_database(live) and not has_data(live):
        return []
    try:
        names = family_names(live, REMEDY)
        # The list of names says nothing about damage.
        with DatabaseReader(live, names, remedy=REMEDY) as reader:
            others = [name for name in names if name != fmt.FAMILY]
            for name in others:
                for _ in reader.families[name].walk():
                    pass
    except DamagedStoreError as error:
        return error
    return others


def _keep_damaged(build: Build, live: Path, damage: DamagedStoreError) -> str:
    """Stage links to a damaged database under another name, which goes live with the new one; return the name."""
    names = (build.layout.root / f"{own.DAMAGED_INDEX_DATABASE}{number}" for number in count(1))
    kept = next(path for path in names if not fs.exists(path))
    fs.link_tree(live, Path(build.job.staging) / kept.name, build.job.owner)
    build.note(
        f"{damage.damage}. It is kept as {kept}: timers and transactions may pend in it (timerRocksDBEnable, "
        "transRocksDBEnable). If those settings were never on, remove it"
    )
    return kept.name


def _copy_families(live: Path, names: Sequence[str], database: DatabaseOwner) -> None:
    """Copy what is not the index: pending timers and transactions."""
    if not names:
        return
    with DatabaseReader(live, names, remedy=REMEDY) as reader:
        for name, family in reader.families.items():
            walk = family.walk()
            while rows := [*islice(walk, _BATCH_ENTRIES)]:
                batch = database.batch()
                batch.put_all(name, (key for key, _ in rows), (value for _, value in rows))
                database.write(batch)


def _write_marks(database: DatabaseOwner, marks: IndexMarks | None) -> None:
    if marks is None:
        return
    batch = database.batch()
    batch.put(fmt.FAMILY, fmt.LAST_OFFSET, fmt.encode_mark(marks.offset))
    batch.put(fmt.FAMILY, fmt.LAST_TIME, fmt.encode_mark(marks.store_timestamp))
    database.write(batch)


class DatabaseIndexGrower:
    """See `IndexGrower`. The database may end before the other indexes, by its own marks: it is extended from there."""

    has_files: ClassVar[bool] = False
    end: ClassVar[IndexEnd] = IndexEnd()

    def __init__(self, layout: StoreLayout, job: Job, log_file_size: int) -> None:
        self._log_file_size = log_file_size
        self._database = DatabaseOwner(
            layout.index_database, fmt.FAMILIES, layout.own(own.ROCKSDB_LOGS), job.owner, remedy=REMEDY
        )
        self._marks = read_marks(self._database.families[fmt.FAMILY])
        with LogMaps(layout.commit_log, log_file_size) as log:
            self._offset = log.min_offset if self._marks is None else end_of_indexed(log, self._marks)

    def work(self, build: Build, results: Sequence[SplitResult]) -> list[IndexFilePlan]:  # noqa: ARG002 - an IndexGrower
        """See `IndexGrower`."""
        return []

    def take(self, build: Build, results: Sequence[SplitResult], made: Sequence[IndexFileResult]) -> None:  # noqa: ARG002 - an IndexGrower
        """See `IndexGrower`."""
        if not results:
            return
        if self._offset < results[0].first_record:
            self._catch_up(build, results[0].first_record)
        self._extend(build.job, results)

    def _catch_up(self, build: Build, end: int) -> None:
        """Extend the database up to where the other indexes were: a range at a time, decoded for it alone."""
        job, log = build.job, list_log_files(build.layout.commit_log, self._log_file_size)
        alone = replace(job, build_queues=False, indexes=(INDEX_DATABASE,), staging=f"{job.staging}/{INDEX_DATABASE}")
        fs.make_dirs(alone.staging, job.owner)
        fs.make_dirs(alone.parts_folder, job.owner)
        build.job = alone
        try:
            begin, is_record = max(self._offset, log.min_offset), True
            while splits := plan_splits(log, _CATCH_UP_BYTES, begin, end):
                split = replace(splits[0], exact=is_record)
                result = decode_splits(build, [split])[0]
                self._extend(alone, [result])
                is_record = result.open_verdict is None
                begin = result.chain_end if is_record else split.end
        finally:
            build.job = job
            fs.remove_tree(alone.staging)

    def _extend(self, job: Job, results: Sequence[SplitResult]) -> None:
        """Add the entries of decoded splits, then the marks.

        Raises:
            StaleEpochError: another process has taken the store over.
        """
        runs = [load_runs(job, result.number) for result in results if result.records]
        marks = later_marks(runs, self._marks)
        with job.writing():
            for rows in _batches(job, [(one.split, run) for one in runs for run in range(len(one.keys))]):
                batch = self._database.batch()
                batch.put_all(fmt.FAMILY, (key for key, _ in rows), (fmt.encode_value(time) for _, time in rows))
                self._database.write(batch)
            if marks != self._marks:
                _write_marks(self._database, marks)
        self._marks = marks
        self._offset = max(self._offset, results[-1].chain_end)

    def close(self) -> None:
        """See `IndexGrower`."""
        self._database.close()


def _batches(job: Job, runs: Sequence[tuple[int, int]]) -> Iterator[list[tuple[bytes, int]]]:
    """Yield the keys of some runs with their store times, some at a time."""
    for split, run in runs:
        rows = load_run(job, split, run).rows()
        while batch := [*islice(rows, _BATCH_ENTRIES)]:
            yield batch
