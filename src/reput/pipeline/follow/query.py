"""The run of a follower: as a Structured Streaming query, or in a loop without Spark.

The query is the clock: its source offers log offsets, and each micro-batch is one step of the follower, whose tasks are
Spark tasks. Its checkpoint is not trusted: the frontier alone is the end of the indexes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reput.errors import ConfigError, EngineError, ReputError
from reput.files import forks, fs
from reput.formats.own import files as own
from reput.pipeline.follow.follow import Follow, FollowProgress
from reput.pipeline.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.02
_TEND_S = 0.1
_IDLE_STEP_S = 0.5
_NEW_STARTS = 3
"""The times in a row that a query which Spark ended by an error is started again."""
_STEADY_S = 60.0
"""A query that ran this long begins a new row."""
_PAUSE_S = 0.2
_STREAM_SETTINGS = {
    # The pause of the query before it asks the source again if nothing is new.
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A folder whose name is our path, percent-encoded, is not a checkpoint.
    "spark.sql.streaming.checkpoint.escapedPathCheck.enabled": "false",
}

_CHECKPOINT_FOLDERS = ("commits", "offsets", "sources")


class FollowHandle(forks.NotPickled):
    """A running follower. `query` is Spark's own handle of its query now (None without Spark).

    A query that Spark ends by an error is started again, a few times.

    It ends by `stop`, by an error (which `wait` raises), or, started with `until_caught_up`, when all is indexed.
    """

    _instead = "One process follows a store; others see the new indexes when they open the store with read_only=True"

    def __init__(self, follow: Follow, until_caught_up: bool = False, checkpoint: Path | str | None = None) -> None:
        self.follow = follow
        self.until_caught_up = until_caught_up
        self.query: StreamingQuery | None = None
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._in_batch = threading.Lock()
        self._stepped_at = 0.0
        self._checkpoint_url = _url(checkpoint or self._checkpoint)
        if isinstance(follow.engine, SparkEngine):
            if checkpoint is None:
                self._make_checkpoint()
            self.query = self._start_query(follow.engine)
        self._thread = threading.Thread(target=self._run, name="reput-follow", daemon=True)
        self._tender = threading.Thread(target=self._tend, name="reput-follow-tend", daemon=True)
        again = "reput.follow(path), when the parent's has ended"
        forks.refuse_in_child(self, str(follow.layout.root), again)
        self._tender.start()
        self._thread.start()

    @property
    def progress(self) -> FollowProgress:
        """The progress of the follower."""
        return self.follow.progress

    @property
    def is_active(self) -> bool:
        """True if the follower is running."""
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it ends, at most `timeout_s`; returns True if it has ended.

        Raises:
            ReputError: the error that ended it.
        """
        if not self._ended.wait(timeout_s):
            return False
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True

    def stop(self) -> None:
        """End it, and return when its indexes are durable; a second call does nothing.

        Raises:
            ReputError: the error that ended it before.
        """
        self._stopping.set()
        self._thread.join()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not forks.is_refused(self):
            self.stop()

    # --- threads -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self.query is None:
                self._loop()
            else:
                self._watch_queries()
        except BaseException as error:  # noqa: BLE001 - `wait` raises it
            self._fail(error)
        finally:
            self._stopping.set()
            self._tender.join()
            try:
                try:
                    self._give_checkpoint()
                finally:
                    self.follow.close()
            except BaseException as error:  # noqa: BLE001 - `wait` raises it
                self._fail(error)
            self._ended.set()
            forks.released(self)

    def _loop(self) -> None:
        while not self._stopping.is_set() and self._error is None:
            # The first batch loads the kernels.
            with contextlib.nullcontext() if self.progress.batches else forks.held_off():
                has_stepped = self.follow.step()
            if not has_stepped:
                if self.until_caught_up and self.follow.caught_up():
                    return
                self._stopping.wait(_POLL_S)

    def _watch_queries(self) -> None:
        """Watch the query; start it again after an error of Spark's, at most `_NEW_STARTS` times in a row.

        The frontier has the end of the indexes, so a new query goes on where the last one ended.
        """
        starts, begin = 0, time.monotonic()
        while error := self._watch():
            now = time.monotonic()
            starts, begin = 1 if now - begin > _STEADY_S else starts + 1, now
            if isinstance(error, ConfigError) or starts > _NEW_STARTS:
                raise error
            self.follow.listener.note(f"warning: {error}. Starting it again")
            if self._stopping.wait(_PAUSE_S):
                return
            assert isinstance(self.follow.engine, SparkEngine)
            self.query = self._start_query(self.follow.engine)
        while self.until_caught_up and not self._stopping.is_set() and self._error is None:
            if not self.follow.step() and self.follow.caught_up():
                return

    def _watch(self) -> ReputError | None:
        """Wait for the query's end, or end it; return the error by which Spark ended it."""
        query = self.query
        assert query is not None
        while query.isActive and not self._stopping.is_set() and self._error is None:
            self._stopping.wait(_POLL_S)
        with self._in_batch:
            broken = query.exception()
        # From here on batches do nothing: stopping the query interrupts the jobs of a batch.
        with contextlib.suppress(Exception):
            query.stop()
        return None if broken is None or self._error is not None else _error_of(broken)

    def _tend(self) -> None:
        while not self._stopping.wait(_TEND_S):
            try:
                self.follow.tend()
                # The query does not see a frontier below its checkpoint, or a writer that has ended.
                if self.query is not None and time.monotonic() - self._stepped_at > _IDLE_STEP_S:
                    self._stepped_at = time.monotonic()
                    self.follow.step()
            except Exception as error:  # noqa: BLE001 - `wait` raises it
                self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error if self.query is None else _without_py4j(error)

    # --- Spark ---------------------------------------------------------------------------------

    @property
    def _checkpoint(self) -> Path:
        """The folder of Spark's own files, unless the caller gives one."""
        return self.follow.layout.own(own.FOLLOW_CHECKPOINT_NAME)

    def _make_checkpoint(self) -> None:
        """Make the folders that Spark fills for the store's owner, who can then replace what a killed root left."""
        owner = fs.owner_of(self.follow.layout.root)
        for name in _CHECKPOINT_FOLDERS:
            fs.make_dirs(self._checkpoint / name, owner)

    def _give_checkpoint(self) -> None:
        """Give Spark's files to the store's owner."""
        if fs.exists(self._checkpoint):
            fs.give_tree(self._checkpoint, fs.owner_of(self.follow.layout.root))

    def _start_query(self, engine: SparkEngine) -> StreamingQuery:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from reput.pipeline.follow.source import NAME, LogSource

        if engine.context is None:
            raise EngineError("a follower needs a classic Spark session: Spark Connect cannot run its batches")
        present = engine.session
        session: SparkSession = (
            present if isinstance(present, SparkSession) else SparkSession(engine.context)
        ).newSession()
        for name, value in _STREAM_SETTINGS.items():
            session.conf.set(name, value)
        session.dataSource.register(LogSource)
        layout = self.follow.layout
        stream: Any = session.readStream.format(NAME).options(
            reput=str(layout.reput), commit_log=str(layout.commit_log), max_bytes=str(self.follow.max_batch_bytes)
        )
        trigger = {"availableNow": True} if self.until_caught_up else {"processingTime": "0 seconds"}
        try:
            writer = stream.load().writeStream.queryName(f"reput follow {layout.root}").foreachBatch(self._batch)
            writer = writer.option("checkpointLocation", self._checkpoint_url)
            query: StreamingQuery = writer.trigger(**trigger).start()
        except (Py4JError, PySparkException) as error:
            raise _error_of(error) from error
        return query

    def _batch(self, ranges: DataFrame, number: int) -> None:  # noqa: ARG002 - a foreachBatch function
        self._stepped_at = time.monotonic()
        try:
            with self._in_batch:
                self._take_in(self.follow.progress.frontier + self.follow.max_batch_bytes)
            # After each batch: if root is killed, the owner must be able to read the files.
            self._give_checkpoint()
        except ReputError as error:
            # Through Spark the error would arrive as text; the watching thread stops the query.
            self._fail(error)

    def _take_in(self, limit: int) -> None:
        """Step up to the offset confirmed after the first step; a step ends at a log file's end."""
        progress, goal = self.follow.progress, -1
        while self._error is None and not self._stopping.is_set() and self.follow.step():
            goal = min(limit, progress.confirmed) if goal < 0 else goal
            if progress.frontier >= goal:
                return


def _url(folder: Path | str) -> str:
    """Return a folder as a URL for Spark: with its scheme, and without percent-encoding."""
    text = str(folder)
    return text if "://" in text else f"file://{Path(text.removeprefix('file:')).absolute()}"


def _without_py4j(error: BaseException) -> BaseException:
    """Return an EngineError for an error of the connection to Spark's JVM, and any other error unchanged."""
    from py4j.protocol import Py4JError

    if not isinstance(error, Py4JError | ConnectionError):
        return error
    lost = EngineError(f"Spark's JVM has ended, or does not answer any more ({type(error).__name__}: {error})")
    lost.__cause__ = error
    return lost


def _error_of(broken: Exception) -> ReputError:
    """Return the error that ended a query, as reput's own error if it was one; a note has the JVM's traceback."""
    text = str(broken)
    if "ConfigError" in text:
        return ConfigError(text.split("ConfigError:", 1)[-1].strip().splitlines()[0])
    lines = [line for line in text.splitlines() if line.strip()]
    error = EngineError(f"the streaming query failed: {lines[0][:500] if lines else type(broken).__name__}")
    error.__cause__ = broken
    # PySpark keeps the cause of a query's end, and shows only where Spark noticed it.
    trace = getattr(getattr(broken, "_cause", None), "_stackTrace", None)
    if trace:
        error.add_note(f"In Spark's JVM: {trace}")
    return error
