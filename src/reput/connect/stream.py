"""`readStream.format("rocketmq")`: the log as a stream.

An offset of the stream is a log offset, so one number covers all topics, and a topic that appears later is read from
its first message. With it Spark keeps the store's id, if reput has given it one, and a mark: the last record below the
offset (or the first one at it, if reading begins there) and its CRC. On restart the mark must still be in the log: a
checkpoint of another store, or of a log that was cut since, is refused. Nothing is written into the store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reput.connect.cut.asked import refuse_gone, refuse_unknown_to_stream
from reput.connect.cut.cuts import joined_cuts
from reput.connect.cut.snapshot import confirmed_by, take_snapshot
from reput.connect.options.edges import LATEST, Kind
from reput.connect.options.options import ReadOptions
from reput.connect.options.selection import selection_of
from reput.connect.plan import split_bytes
from reput.connect.scan.log_scan import ScanJob
from reput.connect.spark import TaskPartition, read_partition, with_short_errors
from reput.connect.stream_walk import Limits, StreamWalk, Walked
from reput.connect.tasks import LogTask
from reput.errors import ConfigError, DataLossError
from reput.files.watermarks import Watermarks
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import Verdict
from reput.formats.own import files as own
from reput.log.read.decode import DecodeSettings
from reput.log.read.files import LogFiles
from reput.log.read.reader import USUAL_RECORD_BYTES, file_by_time, record_crc
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.holders import writer_of
from reput.store.recover.recovery import judge_tail

BYTES_PER_TRIGGER = 1 << 30
"""Bytes of log in a micro-batch without maxBytesPerTrigger.

The planner walks the chain of records to a batch's end, which takes a second or two for this number of bytes. So a long
backlog comes in batches of this size, even if maxOffsetsPerTrigger counts messages of a topic that seldom has any.
"""
_LOOK_S = 0.25
_STORE, _OFFSET, _MARK, _CRC = "store", "offset", "mark", "crc"

StreamOffset = dict[str, Any]
"""An offset of the stream, as Spark keeps it in JSON: the store, the log offset, and a record below it."""


class RocketmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log as a stream; it exists in the planner's process as long as the query."""

    def __init__(self, options: ReadOptions) -> None:
        refuse_batch_only(options)
        self.options = options
        self.selection = selection_of(options)
        self.last_offset: int | None = None
        self.walked: Walked | None = None
        self._looked_at = 0.0
        self._confirmed: int | None = None
        self._found: StoreOnDisk | None = None
        self._settings: DecodeSettings | None = None
        self._has_asked = False

    # --- calls of Spark --------------------------------------------------------------------------

    @with_short_errors
    def initialOffset(self) -> StreamOffset:  # noqa: N802 - Spark asks so
        """Return the place where a new query begins."""
        self._refuse_unknown()
        log = self._log()
        starting = self.options.starting
        if starting.queues:
            tolerant = not self.options.fail_on_data_loss
            snapshot = take_snapshot(self.options.path, self.options.config, tolerant=tolerant)
            with snapshot.queues.opened() as queues:
                refuse_gone(self.options, snapshot, queues)
        if starting.kind is Kind.LATEST:
            whole = self._whole()
            walked = self._to_end(log, whole)
            return self._place(walked.end if whole is None else whole, log, walked.last)
        begin = max(log.min_offset, self.options.log_begin)
        if starting.kind is Kind.TIMESTAMP:
            begin = max(begin, file_by_time(log, starting.timestamp_ms))
        if begin > log.min_offset and all(file.start != begin for file in log.files):
            raise ConfigError(
                f"option commitLogStart={begin}: a stream begins with a file: at "
                f"{', '.join(str(file.start) for file in log.files[:8])}"
            )
        return self._place(begin, log, begin)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark asks so
        """Return the bound on a micro-batch."""
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        return ReadMaxBytes(BYTES_PER_TRIGGER)

    @with_short_errors
    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802 - Spark asks so
        """Return the end of the next micro-batch: `start` itself if nothing is new."""
        self._refuse_unknown()
        log = self._log()
        self._refuse_another(start, log)
        messages = self.options.max_offsets_per_trigger
        size = self.options.max_bytes_per_trigger or BYTES_PER_TRIGGER
        if isinstance(limit, ReadMaxRows):
            messages = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        elif isinstance(limit, ReadAllAvailable):
            messages, size = None, INT64_MAX
        limits = Limits(
            INT64_MAX if self.last_offset is None else self.last_offset,
            size,
            INT64_MAX if messages is None else messages,
            self._whole(),
        )
        self.walked = self._walk(log).run(int(start[_OFFSET]), limits)
        if self.walked.verdict is not Verdict.ZERO and self.options.fail_on_data_loss:
            store = self._on_disk()
            with store.maps() as maps:
                judge_tail(store, maps, self.walked.end, self.walked.verdict)
        if not self.walked.cuts:
            return start
        if self.walked.last is None:
            # The blank end of a file.
            return {**start, _OFFSET: self.walked.end}
        return self._place(self.walked.end, log, self.walked.last)

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802 - Spark asks so
        """Report nothing: beside a broker the end of the log costs a look at every queue."""
        return None

    @with_short_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark asks so
        """Set the end of the query to the end of the log now."""
        self.last_offset = self._end(self._log())

    @with_short_errors
    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch, also of one that a restarted query runs again."""
        log = self._log()
        self._refuse_another(start, log)
        begin, after = int(start[_OFFSET]), int(end[_OFFSET])
        walked = self.walked
        if walked is None or walked.begin != begin or walked.end != after:
            walked = self._walk(log).run(begin, Limits(offset=after))
            if walked.end != after and self.options.fail_on_data_loss:
                raise DataLossError(
                    f"{log.folder}: ends at log offset {walked.end}, and the checkpoint has a batch to {after}. Was "
                    "the log cut? failOnDataLoss=false continues with the records that are there"
                )
        job = ScanJob.of(self.options, self.selection, self._decode().delays_ms)
        step = split_bytes(self.options, after - begin, USUAL_RECORD_BYTES)
        return [TaskPartition(LogTask(job, cut)) for cut in joined_cuts(walked.cuts, step)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the record batches of a task."""
        return read_partition(partition)

    def _refuse_unknown(self) -> None:
        """Compare the names with the store once, at the query's start or restart."""
        if not self._has_asked:
            self._has_asked = True
            refuse_unknown_to_stream(self.options)

    # --- the store ------------------------------------------------------------------------------

    def _on_disk(self) -> StoreOnDisk:
        """Return the store as it is now."""
        if self._found is None:
            tolerant = not self.options.fail_on_data_loss
            self._found = StoreOnDisk.find(self.options.path, self.options.config, Purpose.SCAN, tolerant=tolerant)
        return replace(self._found)

    def _decode(self) -> DecodeSettings:
        if self._settings is None:
            settings = self._on_disk().settings
            self._settings = DecodeSettings(settings.crc_check, False, settings.delays_ms)
        return self._settings

    def _log(self) -> LogFiles:
        return self._on_disk().log

    def _walk(self, log: LogFiles) -> StreamWalk:
        return StreamWalk(log, self._decode(), self.selection, tolerant=not self.options.fail_on_data_loss)

    def _whole(self) -> int | None:
        """Return the log offset up to which another process lets us read; None if no process writes."""
        if time.monotonic() - self._looked_at > _LOOK_S:
            self._looked_at = time.monotonic()
            store = self._on_disk()
            writer = writer_of(store.layout)
            with store.maps() as maps:
                self._confirmed = confirmed_by(writer, store, maps)
        return self._confirmed

    def _end(self, log: LogFiles) -> int:
        """Return the log offset up to which the log is whole now."""
        whole = self._whole()
        return self._to_end(log, None).end if whole is None else whole

    def _to_end(self, log: LogFiles, whole: int | None) -> Walked:
        """Walk the last file with records to its whole end; damage below a writer's confirmed offset is skipped."""
        end = INT64_MAX if whole is None else whole
        last = next((file for file in reversed(log.files) if file.start < min(file.data_end, end)), None)
        if last is None:
            return Walked(log.min_offset, log.min_offset)
        tolerant = whole is not None or not self.options.fail_on_data_loss
        walk = StreamWalk(log, self._decode(), self.selection, tolerant=tolerant)
        return walk.run(last.start, Limits(confirmed=whole))

    def _place(self, offset: int, log: LogFiles, mark: int | None) -> StreamOffset:
        place: StreamOffset = {_STORE: _store_id(self._on_disk().layout), _OFFSET: offset}
        crc = None if mark is None else record_crc(log, mark)
        return place if crc is None else {**place, _MARK: mark, _CRC: crc}

    def _refuse_another(self, start: StreamOffset, log: LogFiles) -> None:
        """Compare the offset of a checkpoint with the store.

        Raises:
            ConfigError: it is another store's, or the log was cut since.
        """
        here = _store_id(self._on_disk().layout)
        if start.get(_STORE) and here and start[_STORE] != here:
            raise ConfigError(
                f"the checkpoint belongs to the store {start[_STORE]}, and {self.options.path} is {here}. Begin "
                "with a new checkpoint"
            )
        mark = start.get(_MARK)
        if mark is not None and mark >= log.min_offset and record_crc(log, mark) != start[_CRC]:
            raise ConfigError(
                f"{log.folder}: at log offset {mark} there is another record than when the checkpoint was written: the "
                "checkpoint is another store's, or the log was cut and went on. Begin with a new checkpoint"
            )


def refuse_batch_only(options: ReadOptions) -> None:
    """Refuse options that a stream does not have.

    Raises:
        ConfigError: one is given.
    """
    if options.ending.kind is not Kind.LATEST or options.log_end != INT64_MAX:
        raise ConfigError(f"{options.ending.option} and commitLogEnd end a batch: a stream has no end. Leave them out")
    if LATEST in options.starting.queues.values():
        raise ConfigError("startingOffsets: -1 for a queue: a stream takes latest for all queues, or offsets")


def _store_id(layout: StoreLayout) -> str:
    path = layout.own(own.WATERMARKS_NAME)
    if not path.exists():
        return ""
    marks = Watermarks(path, read_only=True)
    try:
        return str(marks.store_id)
    finally:
        marks.close()


def stream_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a stream: by default it begins at the end, as in Spark's Kafka source."""
    names = {name.lower() for name in given}
    edges = {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "commitlogstart"}
    return {**given, **({} if names & edges else {"startingOffsets": str(Kind.LATEST)})}
