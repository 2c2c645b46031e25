"""Export of a store's messages as Parquet files, by topic and day; the next run adds the new messages.

    FOLDER/topic=orders/day=2026-11-21/00000000000000000000.parquet
    _FOLDER.reput/plan.json                       the ranges of the log that are exported, and with which columns
    _FOLDER.reput/00000000000000000000.json       the marker of the range that begins there: its files are all in place

Plan and markers are beside FOLDER, under its name (`/lake/_messages.reput` for `/lake/messages`): Polars reads every
file of a folder, so FOLDER has only data. Earlier versions kept them in `FOLDER/_reput`; the next run moves that one.

The columns are the native ones (`reput.connect.options.schemas`) except `topic`, which is in the folder's name, as Hive
and Spark write partitions (characters that a folder's name should not have become %XX). `day` is the day of the store
time, in UTC.

A range is a task. It puts its files in place whole, one by one, and then its marker. A run that was killed leaves
ranges without a marker, and the next run exports these again, over the same files. Ranges that have a marker are not
touched again. New records of the log become further ranges.

One export at a time goes to a folder: it holds `_FOLDER.reput/lock`. The plan has the last record that is exported, so
a log that has lost it is not taken for the one that was exported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reput.config import StoreConfig
from reput.connect.cut.asked import NamedQueue, how_to_bring_back_missing, missing_names
from reput.connect.cut.cuts import LogCut, log_cuts
from reput.connect.cut.snapshot import Snapshot, take_snapshot
from reput.connect.export_range import (
    JSON_LIMIT,
    TOPIC_PREFIX,
    RangeDone,
    export_range,
    marker_path,
    own_folder,
    read_marker,
    remove_files_of,
)
from reput.connect.options.options import ReadOptions, local_path, read_options
from reput.connect.options.schemas import BodyForm
from reput.connect.options.selection import selection_of
from reput.connect.scan.log_scan import ScanJob
from reput.errors import ConfigError, DamagedStoreError, DataLossError, ReputError
from reput.files import fs
from reput.files.folders import make_durable_dir
from reput.files.locks import export_lock
from reput.formats import paths
from reput.log.read.reader import record_crc
from reput.pipeline.build.rebuild_report import LogGap
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.layout import StoreLayout, find_store
from reput.store.disk.wrong_types import refuse_lost_log_files
from reput.store.recover.recovery import fingerprint_before

_OWN_BEFORE = "_reput"
_PLAN = "plan.json"
_LOCK = "lock"
_HIDDEN = (".", "_")
"""The first characters of names that Spark takes for no data."""
_RANGE_BYTES = 128 << 20


@dataclass(slots=True)
class ExportGap(LogGap):
    """Bytes of the log that are no record and were skipped.

    `marker`: the file that marks the range as done, if an earlier run skipped the bytes; without it the next run reads
    the range again.
    """

    marker: str = ""


@dataclass
class ExportReport:
    """Result of an export: ranges of the log and messages, in this run and before; `files` and `bytes` of this run.

    `gaps`: bytes that `salvage` skipped, in this run and those before. `undecoded`: messages of this run whose body
    cannot be decoded; it is null, and bodyError says why. `lost_end`: the damage of a log that has lost its end, whose
    messages are not exported; or "".
    """

    store: str
    folder: str
    ranges: int = 0
    ranges_before: int = 0
    messages: int = 0
    messages_before: int = 0
    files: int = 0
    bytes: int = 0
    log_begin: int = 0
    log_end: int = 0
    undecoded: int = 0
    lost_end: str = ""
    gaps: list[ExportGap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {**asdict(self), "gaps": [{**asdict(gap), "size": gap.size} for gap in self.gaps]}


def export_store(
    root: str | Path,
    folder: str | Path,
    engine: Engine,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] = (),
    columns: Sequence[str] = (),
    body: str | None = None,
    salvage: bool = False,
    listener: ProgressListener | None = None,
) -> ExportReport:
    """Export a store's messages to `folder`, or continue an export there.

    Args:
        salvage: continue after damaged bytes and missing files, and list every gap.
        topics: only these; all without.
        columns: only these native columns; all without. `topic` and `storeTimestamp` are read anyway.
        body: "decoded" or "raw". Default: as in the existing export, otherwise decoded.

    Raises:
        ConfigError: the folder has an export of another store, or with other columns or topics, or lies within the
            store, or is the file system's root; a topic is not there.
        DataLossError: log files were deleted before they were exported.
        DamagedLogError: the log is damaged in the middle, and `salvage` is off.
        StoreLockedError: another export into the folder is at work.
        ReputError: see `reput.errors`.
    """
    listener = listener or ProgressListener()
    target, options, saved = _asked_for(root, folder, topics, columns, body, salvage)
    options = replace(options, config=config or StoreConfig())
    snapshot = _snapshot(str(root), options.config, salvage)
    _refuse_inside(snapshot.layout, target)
    _move_own_folder(target)
    if not _Plan(target, snapshot, options, saved).cuts:
        _refuse_unknown(snapshot, topics)
    make_durable_dir(own_folder(target))
    with export_lock(own_folder(target) / _LOCK):
        now = _saved_plan(target)
        if now is not None and now != saved:
            # Another export has ended meanwhile.
            _refuse_another(own_folder(target) / _PLAN, now, options)
            snapshot = _snapshot(str(root), options.config, salvage)
        plan = _Plan(target, snapshot, options, now)
        return _exported(snapshot, options, plan, engine, topics, listener, salvage=salvage)


def _exported(
    snapshot: Snapshot,
    options: ReadOptions,
    plan: _Plan,
    engine: Engine,
    topics: Sequence[str],
    listener: ProgressListener,
    *,
    salvage: bool,
) -> ExportReport:
    """Export the ranges of a plan that are not done, and those of the records that are new."""
    target = plan.target
    _extend(target, plan, snapshot)
    job = ScanJob.of(options, selection_of(options), snapshot.settings.delays_ms)
    before, missing = plan.split()
    if not salvage:
        _refuse_deleted(snapshot, missing)
    remove_files_of(target, plan.planned_before.intersection(cut.begin for cut in missing))
    report = ExportReport(
        str(snapshot.layout.root), str(target), ranges_before=len(before), log_begin=plan.begin, log_end=plan.end,
        messages_before=sum(done.messages for done in before), lost_end=snapshot.lost_end, notes=[*snapshot.notes],
    )  # fmt: skip
    if removed := sum(not fs.exists(target / name) for done in before for name in done.files):
        report.notes.append(
            f"{removed} files of earlier runs are no longer in {target}; their messages are not exported again"
        )
    if found := plan.file_of_others():
        report.notes.append(f"{target}: has {found!r}, which no export has made, and readers take it for data")
    for done in before:
        report.gaps += _gaps(snapshot, done, str(marker_path(target, done.begin)))
    if report.gaps:
        report.notes.append(
            f"gaps that an earlier run skipped ({len(report.gaps)}) are not read again: if the log has been "
            f"restored since, export to another folder, or remove the range's marker ({report.gaps[0].marker}) and "
            "run it again"
        )
    listener.stage("export", sum(cut.end - cut.begin for cut in missing))
    with _saying_how_to_continue(target, plan):
        for done in engine.run(partial(export_range, job, str(target)), missing, listener.advance):
            report.ranges += 1
            report.messages += done.messages
            report.files += len(done.files)
            report.bytes += done.bytes
            report.undecoded += done.undecoded
            report.gaps += _gaps(snapshot, done)
    _add_what_is_missing(report, snapshot, plan.end, salvage)
    if topics and not report.messages + report.messages_before:
        report.notes.append(f"no message of {', '.join(topics)} in the log; `reput info` lists the topics")
    return report


def refuse_early(
    root: str | Path,
    folder: str | Path,
    config: StoreConfig,
    *,
    topics: Sequence[str] = (),
    columns: Sequence[str] = (),
    body: str | None = None,
    salvage: bool = False,
) -> None:
    """Refuse what `export_store` would refuse before it reads the log; nothing is changed.

    Raises:
        ConfigError: as for `export_store`.
    """
    target = _asked_for(root, folder, topics, columns, body, salvage)[0]
    _refuse_inside(find_store(root, config), target)


def _asked_for(
    root: str | Path, folder: str | Path, topics: Sequence[str], columns: Sequence[str], body: str | None, salvage: bool
) -> tuple[Path, ReadOptions, PlanFile | None]:
    """Return the folder of an export, the options with which it reads, and the plan of the export that is there."""
    target = Path(local_path(str(folder), "folder")).absolute()
    if not target.name:
        raise ConfigError(f"folder={target}: give a folder below it, since files of the export lie beside it, too")
    if fs.exists(target) and not target.is_dir():
        raise ConfigError(f"folder={target}: a file. Give a folder")
    saved = _saved_plan(target)
    options = _options(str(root), topics, columns, salvage, body or (saved.body if saved else BodyForm.DECODED))
    if saved is not None:
        _refuse_another(own_folder(target) / _PLAN, saved, options)
    return target, options, saved


def _refuse_another(path: Path, saved: PlanFile, options: ReadOptions) -> None:
    """Refuse options that are not those of the export that is there."""
    if saved.body != options.body:
        raise ConfigError(
            f"{path}: this export has bodies {saved.body}, not {options.body}. Leave body out, or give another folder"
        )
    if (saved.columns, saved.topics) != (_column_names(options), _topic_names(options)):
        raise ConfigError(
            f"{path}: this export has the columns {', '.join(saved.columns)} and the topics "
            f"{', '.join(saved.topics) or 'of all'}. Give the same, or another folder"
        )


def _column_names(options: ReadOptions) -> list[str]:
    return [column.name for column in options.columns]


def _topic_names(options: ReadOptions) -> list[str]:
    return sorted(options.topics.names or ())


def _add_what_is_missing(report: ExportReport, snapshot: Snapshot, end: int, salvage: bool) -> None:
    """Add what the log's end and bodies lack to the report's gaps and notes; `end` is the log offset of the export."""
    bad = snapshot.bad_end
    if bad is not None and bad.end > end:
        # No range has it: if it is restored, the next run reads it.
        [gap] = _gap_list(snapshot, [(max(bad.begin, end), bad.end, bad.verdict.meaning)])
        if salvage:
            report.gaps.append(gap)
        else:
            report.notes.append(
                f"{gap.file}: the log ends at {gap.begin} with {gap.size} bytes of no record: {gap.why}"
            )
    if report.undecoded:
        report.notes.append(
            f"{report.undecoded} bodies cannot be decoded: body is null there, and the column bodyError says why. "
            "--body raw exports them as they are stored"
        )
    report.gaps.sort(key=lambda gap: gap.begin)


def _refuse_deleted(snapshot: Snapshot, missing: Sequence[LogCut]) -> None:
    """Refuse ranges of an earlier run whose log files were deleted before it came to them."""
    gone = [cut for cut in missing if cut.begin < snapshot.begin]
    if gone:
        raise DataLossError(
            f"{snapshot.layout.commit_log}: begins at log offset {snapshot.begin}, and an earlier run of this export "
            f"has left {len(gone)} ranges below that, from {gone[0].begin} to {gone[-1].end}: their files were "
            "deleted. --salvage goes on without them, and lists them as gaps"
        )


def _extend(target: Path, plan: _Plan, snapshot: Snapshot) -> None:
    with _saying_how_to_continue(target, plan):
        plan.extend(snapshot)


@contextmanager
def _saying_how_to_continue(target: Path, plan: _Plan) -> Iterator[None]:
    """Add a note to an error of the block: how much is exported and stays, and that the next run does the rest."""
    try:
        yield
    except ReputError as error:
        ranges, done = len(plan.cuts), 0
        with suppress(ReputError):
            done = len(plan.split()[0])
        error.details = {"ranges": ranges, "ranges_done": done}
        if not ranges:
            # Not even the plan is written.
            raise
        note = f"{done} of {ranges} ranges of the log are exported and stay in {target}"
        # These errors would come again.
        if not isinstance(error, ConfigError | DataLossError | DamagedStoreError):
            note += ": run the export again with the same folder, and it does the rest"
        error.add_note(note)
        raise


def _snapshot(root: str, config: StoreConfig, salvage: bool) -> Snapshot:
    try:
        snapshot = take_snapshot(root, config, tolerant=salvage)
        if not salvage:
            refuse_lost_log_files(snapshot.layout)
    except DamagedStoreError as error:
        if salvage:
            raise
        raise type(error)(f"{error}. `reput export --salvage` skips it") from error
    return snapshot


def _refuse_inside(layout: StoreLayout, target: Path) -> None:
    for folder in (layout.root, layout.commit_log):
        if target.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"{target}: lies within the store, {folder}. Give a folder outside of it")


def _refuse_unknown(snapshot: Snapshot, topics: Sequence[str]) -> None:
    asked = [NamedQueue("topics (-t)", topic) for topic in topics]
    unknown = missing_names(snapshot, asked)
    if unknown:
        raise ConfigError(f"{unknown}. {how_to_bring_back_missing(snapshot, asked)}. Nothing was exported")


def _gaps(snapshot: Snapshot, done: RangeDone, marker: str = "") -> list[ExportGap]:
    return _gap_list(snapshot, done.gaps, marker)


def _gap_list(snapshot: Snapshot, gaps: Iterable[tuple[int, int, str]], marker: str = "") -> list[ExportGap]:
    size, folder = snapshot.log.file_size, snapshot.layout.commit_log
    return [
        ExportGap(begin, end, str(folder / paths.offset_name(begin // size * size)), why, marker)
        for begin, end, why in gaps
    ]


def _options(root: str, topics: Sequence[str], columns: Sequence[str], salvage: bool, body: str) -> ReadOptions:
    given = {"path": root, "body": body}
    if salvage:
        given["failOnDataLoss"] = "false"
    if topics:
        given["subscribe"] = ",".join(topics)
    if columns:
        names = {"topic": "", "storetimestamp": ""} | {name.strip().lower(): "" for name in columns}
        given["columns"] = ",".join(names)
    return read_options(given)


class PlanFile(NamedTuple):
    """The contents of plan.json; see `_Plan.extend`."""

    columns: list[str]
    topics: list[str]
    mark: tuple[int, int] | None
    ranges: list[tuple[int, int, int, int]]
    body: str = BodyForm.RAW
    """Earlier versions wrote bodies as they are stored, and no such member."""


def decode_plan(path: Path, data: bytes) -> PlanFile:
    """Decode the plan of an export; `path` is named in errors.

    Raises:
        ConfigError: the bytes are no plan.
    """
    try:
        found = json.loads(data)
        mark = None if found["mark"] is None else (int(found["mark"][0]), int(found["mark"][1]))
        ranges = [(int(begin), int(end), int(start), int(size)) for begin, end, start, size in found["ranges"]]
        columns, topics = [*map(str, found["columns"])], [*map(str, found["topics"])]
        return PlanFile(columns, topics, mark, ranges, BodyForm(found.get("body", BodyForm.RAW)))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is not the plan of an export. Export to another folder") from error


def _saved_plan(target: Path) -> PlanFile | None:
    """Return the plan of the export in a folder; None if there is none.

    Raises:
        ConfigError: The file is no plan.
    """
    for path in (own_folder(target) / _PLAN, target / _OWN_BEFORE / _PLAN):
        data = fs.read_bytes(path, JSON_LIMIT)
        if data is not None:
            return decode_plan(path, data)
    return None


class _Plan:
    """The ranges of an export, kept from run to run."""

    def __init__(self, target: Path, snapshot: Snapshot, options: ReadOptions, saved: PlanFile | None) -> None:
        self.target = target
        self.path = own_folder(target) / _PLAN
        self.columns, self.topics = _column_names(options), _topic_names(options)
        self.body = options.body
        self.cuts: list[LogCut] = []
        self.mark: tuple[int, int] | None = None
        self.planned_before = frozenset[int]() if saved is None else frozenset(one[0] for one in saved.ranges)
        if saved is None:
            self._refuse_what_is_there()
        elif saved.ranges and not fs.exists(target):
            raise ConfigError(
                f"{target}: the folder is gone, and the plan of its export is still there ({self.path}). Move the "
                f"folder back; or remove {self.path.parent}, and all messages are exported again"
            )
        else:
            self._take_over(saved, snapshot)

    def _refuse_what_is_there(self) -> None:
        """Refuse a folder that has files already: readers take every file of an export for its data."""
        if any(entry.name.startswith(TOPIC_PREFIX) for entry in fs.list_dir(self.target)):
            raise ConfigError(
                f"{self.target}: has topics of an export, whose plan is not there ({self.path}). Give a new "
                "folder; if the export was moved, move the plan's folder as well, under the export's new name"
            )
        if found := self.file_of_others():
            raise ConfigError(f"{self.target}: has {found!r}, which no export has made. Give a new folder")

    def file_of_others(self) -> str:
        """Return the name of a file in the folder that no export has made; "" if there is none."""
        own_names = (*_HIDDEN, TOPIC_PREFIX)
        return next((one.name for one in fs.list_dir(self.target) if not one.name.startswith(own_names)), "")

    def _take_over(self, saved: PlanFile, snapshot: Snapshot) -> None:
        self.mark = saved.mark
        end = saved.ranges[-1][1] if saved.ranges else 0
        if end > snapshot.end:
            raise ConfigError(
                f"{self.path}: this export is of another store, or the log has lost its end since: it ends at log "
                f"offset {snapshot.end}, and the export at {end}. Give another folder"
            )
        if (
            self.mark is not None
            and self.mark[0] >= snapshot.begin
            and record_crc(snapshot.log, self.mark[0]) != self.mark[1]
        ):
            raise ConfigError(
                f"{self.path}: this export is of another store, or the log has lost its end since: at log offset "
                f"{self.mark[0]} there is another record. Give another folder"
            )
        folder = snapshot.layout.commit_log
        for begin, end, file_start, file_size in saved.ranges:
            self.cuts.append(LogCut(str(folder / paths.offset_name(file_start)), file_start, file_size, begin, end))

    @property
    def begin(self) -> int:
        """The log offset where the export begins."""
        return self.cuts[0].begin if self.cuts else 0

    @property
    def end(self) -> int:
        """The log offset up to which it goes."""
        return self.cuts[-1].end if self.cuts else 0

    def extend(self, snapshot: Snapshot) -> None:
        """Add ranges for the records that the log has got since.

        Raises:
            DataLossError: the log begins after the end of the last export.
        """
        end = self.end
        if self.cuts and snapshot.begin > end:
            raise DataLossError(
                f"{snapshot.layout.commit_log}: begins at log offset {snapshot.begin}, and the export in {self.target} "
                f"ends at {end}: the files between were deleted. Export to another folder"
            )
        with snapshot.queues.opened() as queues:
            self.cuts += log_cuts(snapshot, queues, max(end, snapshot.begin), snapshot.end, _RANGE_BYTES, known=end)
        if self.cuts:
            self.mark = self._mark(snapshot)
        value = {
            "columns": self.columns,
            "topics": self.topics,
            "body": self.body,
            "mark": self.mark,
            "ranges": [(cut.begin, cut.end, cut.file_start, cut.file_size) for cut in self.cuts],
        }
        make_durable_dir(self.target)
        make_durable_dir(self.path.parent)
        fs.write_whole(self.path, json.dumps(value).encode())

    def _mark(self, snapshot: Snapshot) -> tuple[int, int] | None:
        """Return the log offset and the CRC-32 of the last record; of one that begins a range, if that is not known."""
        with snapshot.store.maps() as maps:
            last = fingerprint_before(maps, self.end)
        if last is not None:
            return last.offset, last.crc
        crcs = ((cut.begin, record_crc(snapshot.log, cut.begin)) for cut in reversed(self.cuts))
        return next(((begin, crc) for begin, crc in crcs if crc is not None), None)

    def split(self) -> tuple[list[RangeDone], list[LogCut]]:
        """Return the ranges that are done, and those that are not."""
        done, missing = [], []
        for cut in self.cuts:
            marker = read_marker(self.target, cut.begin)
            if marker is None or marker.end != cut.end:
                # A damaged marker counts as none: the range is exported again.
                missing.append(cut)
            else:
                done.append(marker)
        return done, missing


def _move_own_folder(target: Path) -> None:
    """Move plan and markers out of an export that an earlier version of reput made.

    Raises:
        ConfigError: there are plans in both places, or the folder cannot be moved.
    """
    before, now = target / _OWN_BEFORE, own_folder(target)
    if not fs.exists(before / _PLAN):
        return
    if fs.exists(now):
        raise ConfigError(
            f"{before}: an earlier version of reput has exported here since {now} was made. Export to another folder"
        )
    try:
        fs.rename(before, now)
    except ReputError as error:
        raise ConfigError(
            f"{before}: cannot be moved to {now}, the new folder of plan and markers: {error}. Move it there yourself"
        ) from error
    fs.sync_path(target)
