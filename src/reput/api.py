"""The public calls: they join the store with the Spark jobs that build its indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reput.arguments import Renamed, before, named_arguments, since_ms, until_ms
from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.pipeline.spark.chosen import engine_for, refuse_no_spark

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.connect.export import ExportReport
    from reput.connect.scan.read_report import ReadReport
    from reput.pipeline.build.rebuild_report import RebuildReport
    from reput.pipeline.check.report import CheckReport
    from reput.pipeline.follow.follow import FollowProgress
    from reput.pipeline.follow.query import FollowHandle
    from reput.pipeline.spark.engine import Engine
    from reput.pipeline.spark.listener import ProgressListener
    from reput.store.compare.queue_diff import QueueDifference
    from reput.store.info.values import StoreInfo

LITTLE_BYTES = 64 << 20
"""A follower that catches up takes in less log than this without Spark: it ends before Spark has started."""


@named_arguments()
def rebuild(
    path: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    force_setting: bool = False,
    only: Literal["queue", "index"] | None = None,
    topics: Sequence[str] = (),
    skip_topics: Sequence[str] = (),
    index_tags: Literal["auto", "on", "off"] = "auto",
    salvage: bool = False,
    empty_log: bool = False,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Rebuild the ConsumeQueues and IndexFiles of a store from its CommitLog.

    The new indexes are built beside the old ones and swapped in when they are proved whole.
    Until the swap the old ones are untouched.

    Args:
        path: The store's root folder (storePathRootDir).
        spark: A session or context to use.
            None uses the Spark context that this process has. Without one the tasks run in threads of this process,
            and Spark is started on this machine for the rest of a long job.
            False runs them one after the other in this process, without Java.
        master: The Spark master URL of a session that is started here and runs all tasks; it stays to be used again.
        config: A StoreConfig, or the path of a broker.conf.
            Without it the store's files decide, then RocketMQ's defaults.
        force_setting: Continue with a setting of `config` that contradicts the store's files. Without it that is an
            error.
        only: Rebuild the queues alone, or the IndexFiles alone.
        topics: Rebuild the queues of these topics alone, and keep those of other topics.
        skip_topics: Keep the queues of these topics as they are.
        index_tags: Give tags index items: as in the present IndexFiles, always, or never.
        salvage: Continue after damaged bytes, and list every gap.
        empty_log: Accept a log without a record, and replace the indexes with empty ones.
        verify_crc: Check each body's CRC.
        split_mb: The size of the ranges that tasks decode, in MiB.
        listener: An object that gets the progress.

    Returns:
        What was built, and what was found on the way.

    Raises:
        ConfigError: A setting contradicts the store's files, and `force_setting` is off.
        DamagedLogError: The log is damaged in the middle, and `salvage` is off.
        ReputError: Another error of `reput.errors`. Unless it says that the new indexes are live, nothing was changed.
    """
    from reput.pipeline.build.rebuild.options import RebuildOptions
    from reput.pipeline.build.rebuild.prepare import refuse_early
    from reput.pipeline.build.rebuild.rebuild import rebuild_store

    options = RebuildOptions(
        only=only,
        topics=_names("topics", topics),
        skip_topics=_names("skip_topics", skip_topics),
        index_tags=index_tags,
        salvage=salvage,
        empty_log=empty_log,
        verify_crc=verify_crc,
        split_mb=split_mb,
    )
    config = config_from(config, force_setting)
    refuse = partial(refuse_early, options=options)
    engine, settings = _engine_at(path, config, spark, master, listener, refuse)
    return rebuild_store(path, engine, settings, options, listener)


@named_arguments()
def check(
    path: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> CheckReport:
    """Compare a store's indexes with its log. The call changes nothing.

    Args:
        path: The store's root folder (storePathRootDir).
        spark: As for `rebuild`.
        master: As for `rebuild`.
        config: As for `rebuild`.
        verify_crc: Check each body's CRC.
        split_mb: The size of the ranges that tasks decode, in MiB.
        listener: An object that gets the progress.

    Returns:
        What was found; `sound` says whether any of it is damage.

    Raises:
        ReputError: The store could not be read. Damage is no error: it is in the report.
    """
    from reput.pipeline.check.check import check_store

    engine, settings = _engine_at(path, config, spark, master, listener)
    return check_store(path, engine, settings, verify_crc=verify_crc, split_mb=split_mb, listener=listener)


@named_arguments()
def convert(
    path: str | Path,
    *,
    to: Literal["file", "rocksdb", "both"] | None = None,
    index: Literal["file", "rocksdb", "both"] | None = None,
    source: Literal["log", "queues"] = "log",
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    force_setting: bool = False,
    salvage: bool = False,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Change the kind of a store's queues, or of its index by key; the broker must be stopped.

    The new ones are built beside the old ones, verified, and swapped in whole.
    After a kill the old queues are live, or the new ones once the swap had begun.
    The same call then starts from the beginning, or finishes that swap.
    If the store already has these kinds, nothing changes: a note says so, and `built` is empty.

    Args:
        path: The store's root folder (storePathRootDir).
        to: Queue files, RocksDB, or both as with RocketMQ's double write.
        index: IndexFiles, the index in RocksDB, or both. Give one of `to` and `index`.
            Pending timers and transactions in the same database stay.
        source: What the queues are made from.
            `log`: the log's records, which prove every entry.
            `queues`: the trusted entries of the other kind. This is quicker, and works if old parts of the log are
            damaged. Wrong entries stay wrong.
        spark: As for `rebuild`.
        master: As for `rebuild`.
        config: As for `rebuild`.
        force_setting: As for `rebuild`.
        salvage: As for `rebuild`.
        verify_crc: As for `rebuild`.
        split_mb: As for `rebuild`.
        listener: As for `rebuild`.

    Returns:
        What was built, and what was found on the way.

    Raises:
        ConfigError: There is no other kind to make the queues from, or its complete part is unknown.
        DamagedLogError: The log is damaged in the middle, and `salvage` is off.
        ReputError: Another error of `reput.errors`; nothing was changed.
    """
    from reput.pipeline.build.rebuild.prepare import refuse_early
    from reput.pipeline.convert.convert import ConvertOptions, convert_store, nothing_to_convert

    options = ConvertOptions(to, source, salvage=salvage, verify_crc=verify_crc, split_mb=split_mb, index=index)
    config = config_from(config, force_setting)
    if (done := nothing_to_convert(path, options, config)) is not None:
        return done
    refuse = partial(refuse_early, options=options.rebuild_options())
    engine, settings = _engine_at(path, config, spark, master, listener, refuse)
    return convert_store(path, engine, options, settings, listener)


@named_arguments()
def diff(
    path: str | Path, other: str | Path | None = None, *, config: StoreConfig | str | Path | None = None
) -> Iterator[QueueDifference]:
    """Iterate over the differences between the queues of one store, or of two.

    With one store it compares the queue files with the RocksDB.
    The call changes nothing. No broker may write the stores meanwhile.

    Args:
        path: The store's root folder (storePathRootDir).
        other: The root folder of another store.
        config: As for `rebuild`.

    Returns:
        The differences, queue by queue.

    Raises:
        ConfigError: There is nothing to compare with.
        ReputError: Another error of `reput.errors`.
    """
    from reput.store.compare.diff import diff_sides, differences

    return differences(*diff_sides(path, other, config_from(config)))


def _bytes_of_mib(mib: object) -> int:
    from reput.pipeline.split import plan

    return plan.mib("max_batch_mb", mib)


@named_arguments(
    max_batch_mb=Renamed("max_bytes_per_trigger", _bytes_of_mib),
    checkpoint="checkpoint_location",
    tell="on_progress",
)
def follow(
    path: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    force_setting: bool = False,
    until_caught_up: bool = False,
    max_bytes_per_trigger: int = 2 << 30,
    checkpoint_location: str | Path | None = None,
    listener: ProgressListener | None = None,
    on_progress: Callable[[FollowProgress], None] | None = None,
) -> FollowHandle:
    """Build a store's indexes as its log grows, until the returned handle is stopped.

    The follower is a Structured Streaming query whose offset is the log's.
    It works beside a reput writer, in this process or another, or on a store that nobody writes.

        with reput.follow("/data/store") as follower:
            follower.wait(60)
            print(follower.progress.lag_ms)

    Args:
        path: The store's root folder (storePathRootDir).
        spark: A session or context to use. None starts one (on `master`, `local[*]` by default).
            False follows in a thread, without Java.
            With `until_caught_up` a thread does the work if nothing is left, or if less than 64 MiB is left and no
            `master` is given.
        master: As for `rebuild`.
        config: As for `rebuild`.
        force_setting: As for `rebuild`.
        until_caught_up: End when the indexes have the whole log.
        max_bytes_per_trigger: The most bytes of log that a batch takes in.
        checkpoint_location: The folder of Spark's own files; `reput/follow-checkpoint` in the store by default.
        listener: An object that gets notes and warnings.
        on_progress: A function that is called with the progress after each batch.

    Returns:
        The handle of the follower, a context manager.

    Raises:
        StoreLockedError: Another process follows the store, or a broker or another job holds it.
        ReputError: Another error of `reput.errors`. `FollowHandle.wait` raises later errors.
    """
    from reput.pipeline.follow.follow import Follow, refuse_early
    from reput.pipeline.follow.query import FollowHandle
    from reput.pipeline.spark.engine import LoopEngine
    from reput.pipeline.spark.session import DEFAULT_MASTER
    from reput.store.read.view import number_of

    config = config_from(config, force_setting)
    if number_of("max_bytes_per_trigger", max_bytes_per_trigger) < 1:
        raise ConfigError(f"max_bytes_per_trigger={max_bytes_per_trigger}: give a number of bytes from 1 on")
    follower_of = partial(Follow, max_batch_bytes=max_bytes_per_trigger, listener=listener, on_progress=on_progress)
    if until_caught_up and spark is None:
        # Spark takes seconds to start: with nothing or little to do the tasks run here.
        follower = follower_of(path, LoopEngine(), config)
        if not (left := follower.left_bytes()) or (master is None and left <= LITTLE_BYTES):
            return FollowHandle(follower, until_caught_up)
        follower.close()
    # A query of Structured Streaming needs Spark from its beginning.
    master = master or (DEFAULT_MASTER if spark is None else None)
    engine, settings = _engine_at(path, config, spark, master, listener, refuse_early)
    follower = follower_of(path, engine, settings)
    try:
        return FollowHandle(follower, until_caught_up, checkpoint_location)
    except BaseException:
        follower.close()
        raise


@named_arguments()
def info(path: str | Path, *, config: StoreConfig | str | Path | None = None) -> StoreInfo:
    """Describe a store by the names, ends and headers of its files. The call changes nothing.

    It is quick for a store of any size.

    Args:
        path: The store's root folder (storePathRootDir).
        config: As for `rebuild`.

    Returns:
        The contents of the store, and what is missing or out of date.

    Raises:
        NotAStoreError: There is no store.
    """
    from reput.store.info.info import store_info

    return store_info(path, config_from(config))


@named_arguments()
def export(
    path: str | Path,
    folder: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    topics: Sequence[str] = (),
    columns: Sequence[str] = (),
    body: Literal["decoded", "raw"] | None = None,
    salvage: bool = False,
    listener: ProgressListener | None = None,
) -> ExportReport:
    """Export a store's messages as Parquet files by topic and day, or continue an export.

    Args:
        path: The store's root folder (storePathRootDir).
        folder: The folder of the Parquet files; `reput.connect.export` describes its contents.
        spark: As for `rebuild`.
        master: As for `rebuild`.
        config: As for `rebuild`.
        topics: Only these topics; all by default.
        columns: Only these columns; all by default.
        body: "raw" for bodies as they are stored; by default "decoded", or as the export there has them.
        salvage: Continue after damaged bytes, and list every gap.
        listener: An object that gets the progress.

    Returns:
        The numbers of this run, and of earlier runs.

    Raises:
        ConfigError: The folder has an export of another store, or with other columns or topics.
        DataLossError: Log files were deleted before they were exported.
        DamagedLogError: The log is damaged in the middle, and `salvage` is off.
        ReputError: Another error of `reput.errors`. Exported files stay, and the next run continues.
    """
    from reput.connect.export import export_store, refuse_early

    topics, columns = _names("topics", topics), _names("columns", columns)

    def refuse(path: str | Path, settings: StoreConfig) -> None:
        refuse_early(path, folder, settings, topics=topics, columns=columns, body=body, salvage=salvage)

    engine, settings = _engine_at(path, config, spark, master, listener, refuse)
    return export_store(
        path, folder, engine, settings,
        topics=topics, columns=columns, body=body, salvage=salvage, listener=listener,
    )  # fmt: skip


@named_arguments(
    topic="topics",
    key="keys",
    start_time="since",
    end_time=Renamed("until", before),
)
def scan(
    path: str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    topics: str | Sequence[str] | None = None,
    lite_topics: str | Sequence[str] | None = None,
    queue_id: int | Sequence[int] | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    keys: str | Sequence[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    schema: Literal["native", "kafka"] = "native",
    body: Literal["decoded", "raw"] = "decoded",
    config: StoreConfig | str | Path | None = None,
    verify_crc: bool | None = None,
    fail_on_data_loss: bool = True,
    fail_on_missing_topic: bool = True,
) -> pa.RecordBatchReader:
    """Read a store's messages as Arrow record batches, in this process, without Spark and Java.

        reput.scan("/data/store", topics="orders", columns=["queueOffset", "body"]).read_pandas()

    The call returns at once. Memory does not grow with the store. Messages of a queue come in its order, without those
    that are written after the call. Name `columns`: without `body` and `properties` a scan is several times as fast.

    | column | Arrow type |
    |---|---|
    | topic, brokerName, keys, tags, uniqKey, offsetMsgId, bornHost, storeHost, bodyError, liteTopic | string |
    | body | binary |
    | properties | map<string, string> |
    | queueId, flag, storeSize, bodyCRC, sysFlag, reconsumeTimes | int32 |
    | queueOffset, physicalOffset, preparedTransactionOffset | int64 |
    | bornTimestamp, storeTimestamp | timestamp[us, UTC] |

    With `schema="kafka"`: key and value (binary), topic (string), partition and timestampType (int32), offset (int64),
    timestamp (timestamp[us, UTC]), and headers (list<struct<key: string, value: binary>>) if `columns` names it.

    Args:
        path: The store's root folder (storePathRootDir).
        columns: Only these columns, in this order; all by default.
        topics: A topic, or several; all by default.
        lite_topics: A lite topic, or several, of the one topic in `topics`: only their messages.
        queue_id: A queue of each topic, or several; all by default.
        since: Messages stored at this time or later: a datetime (local without a zone), or ms since 1970.
        until: Messages stored at this time or before.
        keys: Messages that have this key or unique key, or one of several.
        tags: Messages with one of these tags: "paid || sent".
        sql: Messages whose properties match: "amount > 100 AND region = 'eu'" (RocketMQ's SQL92).
        schema: The columns of the data source, or those of Spark's Kafka source.
        body: "raw" leaves bodies compressed as they are stored. A body that cannot be decoded is null with a bodyError.
        config: As for `rebuild`.
        verify_crc: Check each body's CRC; by default if the body is read.
        fail_on_data_loss: False skips messages that are gone or damaged (`failOnDataLoss` in an error's text).
        fail_on_missing_topic: False ignores a missing topic (`failOnMissingTopic` in an error's text).

    Returns: A reader of record batches, to be read once. Close it or drop it to end its threads early.

    Raises:
        ConfigError: An argument is malformed, or names a missing column or topic.
        DamagedLogError: Bytes of the log are no record; reading the batch raises the error.
        DataLossError: Requested messages are gone.
        ReputError: Another error of `reput.errors`.
    """
    from reput.connect.local_scan import ScanOptions, scan_store

    return scan_store(path, config_from(config), ScanOptions(
        columns, topics, lite_topics, queue_id, since_ms(since), until_ms(until), keys, tags, sql, schema, body,
        verify_crc, fail_on_data_loss, fail_on_missing_topic,
    ))  # fmt: skip


def register(spark: SparkSession) -> None:
    """Register `format("rocketmq")` in a Spark session, and let the session push filters down to the reader.

        reput.register(spark)
        orders = spark.read.format("rocketmq").option("topic", "orders").load("/data/store")

    If reput is installed on Spark's Python path, Spark finds the format without this call.
    Filters are then pushed down if `spark.sql.python.filterPushdown.enabled` is true.

    Spark's Python workers must have reput, too.
    Without PYSPARK_PYTHON they are the `python3` on PATH; a RuntimeWarning says if that is another Python.

    Args:
        spark: A session of PySpark 4.3, classic or Spark Connect.

    Raises:
        EngineError: PySpark is not installed.
    """
    from reput.pipeline.spark.session import refuse_missing_pyspark

    refuse_missing_pyspark()
    from reput.connect.source import register as register_source

    register_source(spark)


def read_report(folder: str | Path) -> ReadReport:
    """Add up the bytes and rows that tasks of `format("rocketmq")` with the option `readReport` have read.

        orders = spark.read.format("rocketmq").option("topic", "orders").option("readReport", folder).load(store)
        orders.count()
        print(reput.read_report(folder).bytes)

    Args:
        folder: The folder that the option named.

    Returns:
        The sums over all tasks. A task that ran twice counts twice.

    Raises:
        ConfigError: The folder has other files.
    """
    from reput.connect.scan import read_report as reports

    return reports.read_report(folder)


def _names(argument: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str | bytes):
        raise ConfigError(f"{argument}={given!r:.80}: give a list of names, [{given!r:.80}]")
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{argument}={given!r:.80}: give a list of names")
    return names


def config_from(config: StoreConfig | str | Path | None, force_setting: bool = False) -> StoreConfig:
    """Return the settings that a caller gave, or that the broker.conf at a given path has.

    With `force_setting` they win over the store's files.
    """
    if config is None:
        config = StoreConfig()
    elif not isinstance(config, StoreConfig | str | os.PathLike):
        raise ConfigError(f"config={config!r:.80}: give a StoreConfig, or the path of a broker.conf")
    elif not isinstance(config, StoreConfig):
        config = StoreConfig.from_file(config)
    return replace(config, force_setting=True) if force_setting else config


def _engine_at(
    path: str | Path,
    config: StoreConfig | str | Path | None,
    spark: SparkSession | SparkContext | Literal[False] | None,
    master: str | None,
    listener: ProgressListener | None,
    refuse: Callable[[str | Path, StoreConfig], None] | None = None,
) -> tuple[Engine, StoreConfig]:
    """Return the engine for a job on a store, and the settings. Errors come before Spark takes seconds to start.

    `refuse` raises the errors of the store that can be found that early.
    """
    from reput.store.disk.layout import find_store

    settings = config_from(config)
    refuse_no_spark(spark)
    find_store(path, settings)
    if refuse is not None and spark is None:
        refuse(path, settings)
    return engine_for(spark, master, listener), settings
