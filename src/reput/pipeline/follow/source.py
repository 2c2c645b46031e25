"""The streaming source of a follower: its offsets are log offsets that it reads from the store.

Each offset has the store's id, so that a checkpoint of another store is refused. The source admits at most `max_bytes`
of log a batch. Its rows are ranges of the log, not messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from reput.errors import ConfigError
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.log.read.files import list_log_files

NAME = "reput_log"
_LOOK_S = 0.25


class LogSource(DataSource):
    """`format("reput_log")`: the log of one store, as ranges. Options: `reput`, `commit_log`, `max_bytes`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """Return the schema: one row a batch, its range of the log as log offsets."""
        return "begin long, end long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark asks so
        """Return the reader."""
        return LogReader(self.options)


class _Range(InputPartition):
    def __init__(self, begin: int, end: int) -> None:
        super().__init__(None)
        self.begin = begin
        self.end = end


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offers the log up to its confirmed end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.reput = Path(options["reput"])
        self.commit_log = Path(options["commit_log"])
        self.max_bytes = int(options["max_bytes"])
        self.watermarks: Watermarks | None = None
        self.looked_at = 0.0
        self.data_end = 0
        self.last_offset: int | None = None

    def _marks(self) -> Watermarks:
        if self.watermarks is None:
            self.watermarks = Watermarks(self.reput / own.WATERMARKS_NAME, read_only=True)
        return self.watermarks

    def _confirmed(self) -> int:
        marks = self._marks()
        if marks["writer"]:
            return marks["confirmed_offset"]
        if time.monotonic() - self.looked_at > _LOOK_S:
            self.looked_at = time.monotonic()
            files = list_log_files(self.commit_log).files
            self.data_end = max((file.data_end for file in files if file.data_end > file.start), default=0)
        return self.data_end

    def _place(self, offset: int) -> dict[str, Any]:
        return {"store": self._marks().store_id, "offset": offset}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark asks so
        """Return the visible frontier."""
        return self._place(self._marks()["frontier_offset"])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark asks so
        """Return no limit in rows: `latestOffset` limits bytes."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark asks so
        """End at what is there now."""
        self.last_offset = self._confirmed()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the confirmed end, or the end of the largest batch."""
        if start["store"] != self._marks().store_id:
            raise ConfigError(
                f"the streaming checkpoint belongs to the store {start['store']}, and {self.reput} to "
                f"{self._marks().store_id}. Remove the checkpoint: the frontier has the end of the indexes"
            )
        confirmed = self._confirmed()
        if self.last_offset is not None:
            confirmed = min(confirmed, self.last_offset)
        # The log below the frontier is indexed, whatever the checkpoint says.
        begin = max(int(start["offset"]), min(self._marks()["frontier_offset"], confirmed))
        return self._place(max(int(start["offset"]), min(confirmed, begin + self.max_bytes)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one partition, the range."""
        return [_Range(start["offset"], end["offset"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        """Yield the range."""
        assert isinstance(partition, _Range)
        yield partition.begin, partition.end
