"""The calls behind the public face: joins the store with the Spark jobs that build its indexes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.nearest import named_arguments

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.connect.export import ExportReport
    from reput.connect.read_report import ReadReport
    from reput.pipeline.follow.follow import FollowProgress
    from reput.pipeline.follow.query import FollowHandle
    from reput.pipeline.spark.engine import Engine
    from reput.pipeline.spark.listener import ProgressListener
    from reput.store.info_values import StoreInfo
    from reput.store.queue_diff import QueueDifference
    from reput.store.report import CheckReport, RebuildReport

LITTLE_BYTES = 64 << 20
"""So much log a follower takes in without Spark, where nobody asked for that: it ends before Spark has started."""


@named_arguments
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

    The new indexes are built beside the old ones and swapped in when they are proved whole; until then, and after any
    error, the old ones are untouched.

    Args:
        path: the store's root (storePathRootDir).
        spark: an existing session or context; None starts one (on `master`, `local[*]` by default) and leaves it
            to be used again;
            False runs the same tasks one after the other in this process, without Java.
        master: Spark master URL for a session that is started here.
        config: a StoreConfig, or the path of a broker.conf; without one the store's files tell, then RocketMQ's
        defaults.
        force_setting: go on with a setting of `config` that contradicts the store's files; else that is an error.
        only: rebuild the queues alone, or the IndexFiles alone.
        topics: rebuild the queues of these topics alone; those of other topics are kept as they are.
        skip_topics: keep the queues of these topics as they are.
        index_tags: whether tags get index items: as the present IndexFiles have it, yes, or no.
        salvage: go on behind damaged bytes, and list every gap.
        empty_log: a log without a record gives empty indexes, even where there are others now.
        verify_crc: check each body's CRC.
        split_mb: size of the ranges that tasks decode, in MiB.
        listener: told about progress.

    Raises:
        ConfigError: a setting contradicts the store's files, and `force_setting` is off.
        DamagedLogError: the log is damaged in the middle, and `salvage` is off.
        ReputError: see `reput.errors`.
    """
    from reput.pipeline.build.rebuild import rebuild_store
    from reput.pipeline.build.rebuild_state import RebuildOptions

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
    with _engine_at(path, config, spark, master, listener) as (engine, settings):
        return rebuild_store(path, engine, settings, options, listener)


@named_arguments
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
    """Hold a store's indexes against its log; nothing is changed. Arguments as for `rebuild`.

    Raises:
        ReputError: the store could not be looked at; what is wrong in it is in the report instead.
    """
    from reput.pipeline.check.check import check_store

    with _engine_at(path, config, spark, master, listener) as (engine, settings):
        return check_store(path, engine, settings, verify_crc=verify_crc, split_mb=split_mb, listener=listener)


@named_arguments
def convert(
    path: str | Path,
    *,
    to: Literal["file", "rocksdb", "both"],
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
    """Make the queues of a store ones of another kind; the broker must be stopped.

    They are built beside the old ones, verified, and swapped in whole. After a kill the old queues are live, or the new
    ones once the swap had begun; the same call starts from the beginning, or finishes that swap.
    A store that has these kinds already is left alone: a note says so, and `built` is empty.

    Args:
        path, spark, master, config, force_setting, salvage, verify_crc, split_mb, listener: as for `rebuild`.
        to: queue files, RocksDB, or both as with RocketMQ's double write.
        source: what they are made from: the log's records, which prove every entry, or the entries of the other kind,
            as far as it can be believed. That is quicker, and goes on where old parts of the log are damaged; wrong
            entries stay wrong.

    Raises:
        ConfigError: there is no other kind to make them from, or nothing says how far it is complete.
        DamagedLogError: the log is damaged in the middle, and `salvage` is off.
        ReputError: see `reput.errors`.
    """
    from reput.pipeline.convert.convert import convert_store, nothing_to_convert

    config = config_from(config, force_setting)
    if (done := nothing_to_convert(path, to, config, source)) is not None:
        return done
    with _engine_at(path, config, spark, master, listener) as (engine, settings):
        return convert_store(
            path,
            engine,
            to,
            settings,
            source=source,
            salvage=salvage,
            verify_crc=verify_crc,
            split_mb=split_mb,
            listener=listener,
        )


@named_arguments
def diff(
    path: str | Path, other: str | Path | None = None, *, config: StoreConfig | str | Path | None = None
) -> Iterator[QueueDifference]:
    """What differs between the queue files and the RocksDB of a store, or between the queues of two stores.

    Nothing is changed; no broker must be writing.

    Raises:
        ConfigError: there are no two sides.
        ReputError: see `reput.errors`.
    """
    from reput.store.diff import diff_sides, differences

    return differences(*diff_sides(path, other, config_from(config)))


@named_arguments
def follow(
    path: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    force_setting: bool = False,
    until_caught_up: bool = False,
    max_batch_mb: float = 2048,
    checkpoint: str | Path | None = None,
    listener: ProgressListener | None = None,
    tell: Callable[[FollowProgress], None] | None = None,
) -> FollowHandle:
    """Let a store's indexes go on with its log, for as long as the handle that is returned is not stopped.

    A Structured Streaming query whose offset is the log's. It works beside a reput writer, in this process or another,
    or on a store that nobody writes.

        with reput.follow("/data/store") as follower:
            follower.wait(60)
            print(follower.progress.lag_ms)

    Args:
        path, spark, master, config, force_setting: as for `rebuild`; `spark=False` follows in a thread, without
            Java. With `until_caught_up` Spark is not started for nothing, nor without a `master` for less than 64 MiB
            of log: that is done in a thread too.
        until_caught_up: end when nothing is left to take in.
        max_batch_mb: at most so much log a batch, in MiB.
        checkpoint: folder of Spark's own files; `reput/follow-checkpoint` in the store without one.
        listener: told notes and warnings.
        tell: called with the progress after each batch.

    Raises:
        StoreLockedError: another process follows the store, or a broker or another job is at work on it.
        ReputError: see `reput.errors`; what comes later `FollowHandle.wait` raises.
    """
    from reput.pipeline.follow.follow import Follow
    from reput.pipeline.follow.query import FollowHandle
    from reput.pipeline.spark.engine import LoopEngine
    from reput.pipeline.split.plan import mib

    config = config_from(config, force_setting)
    max_batch_bytes = mib("max_batch_mb", max_batch_mb)
    if until_caught_up and spark is None:
        # Spark takes seconds to start: with nothing or little to do the tasks run here.
        follower = Follow(path, LoopEngine(), config, max_batch_bytes=max_batch_bytes, listener=listener, tell=tell)
        left = follower.left_bytes()
        if not left or (master is None and left <= LITTLE_BYTES):
            return FollowHandle(follower, until_caught_up)
        follower.close()
    with _engine_at(path, config, spark, master, listener) as (engine, settings):
        follower = Follow(path, engine, settings, max_batch_bytes=max_batch_bytes, listener=listener, tell=tell)
        try:
            return FollowHandle(follower, until_caught_up, checkpoint)
        except BaseException:
            follower.close()
            raise


@named_arguments
def info(path: str | Path, *, config: StoreConfig | str | Path | None = None) -> StoreInfo:
    """What a store holds, from its files' names, ends and headers: quick, whatever its size; nothing is changed.

    Raises:
        NotAStoreError: there is no store.
    """
    from reput.store.info import store_info

    return store_info(path, config_from(config))


@named_arguments
def export(
    path: str | Path,
    folder: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
    topics: Sequence[str] = (),
    columns: Sequence[str] = (),
    salvage: bool = False,
    listener: ProgressListener | None = None,
) -> ExportReport:
    """Export a store's messages as Parquet files by topic and day, or go on with an export.

    Args:
        path, spark, master, config: as for `rebuild`.
        folder: where the files go; see `reput.connect.export` for what lies there.
        topics: only these; all without.
        columns: only these columns; all without.
        salvage: go on behind damaged bytes, and list every gap.
        listener: told how far it is.

    Raises:
        ConfigError: the folder has an export of another store, or with other columns or topics.
        DataLossError: log files were deleted before they were exported.
        DamagedLogError: the log is damaged in the middle, and `salvage` is off.
        ReputError: see `reput.errors`; what was exported is kept, and the next run goes on.
    """
    from reput.connect.export import export_store

    topics, columns = _names("topics", topics), _names("columns", columns)
    with _engine_at(path, config, spark, master, listener) as (engine, settings):
        return export_store(
            path, folder, engine, settings, topics=topics, columns=columns, salvage=salvage, listener=listener
        )


@named_arguments
def scan(
    path: str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    topic: str | Sequence[str] | None = None,
    queue_id: int | Sequence[int] | None = None,
    start_time: datetime | int | None = None,
    end_time: datetime | int | None = None,
    key: str | Sequence[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    schema: Literal["native", "kafka"] = "native",
    config: StoreConfig | str | Path | None = None,
    verify_crc: bool | None = None,
    fail_on_data_loss: bool = True,
    fail_on_missing_topic: bool = True,
) -> pa.RecordBatchReader:
    """Read a store's messages as Arrow record batches, in this process, without Spark and Java.

        reput.scan("/data/store", topic="orders", columns=["queueOffset", "body"]).read_pandas()

    The call plans and returns at once. Batches come as they are asked for: threads read a few of them ahead, so memory
    does not grow with the store. What another process writes after the call is not read. Messages of a queue come in
    its order. Ask only for the columns that you use: without `body` and `properties` a scan is several times as fast.

    | column | Arrow type |
    |---|---|
    | topic, brokerName, keys, tags, uniqKey, offsetMsgId, bornHost, storeHost | string |
    | body | binary |
    | properties | map<string, string> |
    | queueId, flag, storeSize, bodyCRC, sysFlag, reconsumeTimes | int32 |
    | queueOffset, physicalOffset, preparedTransactionOffset | int64 |
    | bornTimestamp, storeTimestamp | timestamp[us, UTC] |

    With `schema="kafka"`: key and value (binary), topic (string), partition and timestampType (int32), offset (int64),
    timestamp (timestamp[us, UTC]), and headers (list<struct<key: string, value: binary>>) where `columns` names it.

    Args:
        path: the store's root (storePathRootDir).
        columns: only these columns, in this order; all without.
        topic: a topic, or several; all without.
        queue_id: a queue of each topic, or several; all without.
        start_time: messages stored at this time or later: a datetime (local time without a zone), or milliseconds
            since 1970.
        end_time: messages stored before this time.
        key: messages that have this key or unique key, or one of several.
        tags: messages with one of these tags: "paid || sent".
        sql: messages whose properties match: "amount > 100 AND region = 'eu'" (RocketMQ's SQL92).
        schema: columns as the data source names them, or those of Spark's Kafka source.
        config: as for `rebuild`.
        verify_crc: check each body's CRC; without, where the body is read.
        fail_on_data_loss: False passes over messages that are gone or damaged (`failOnDataLoss` in an error's text).
        fail_on_missing_topic: False reads without a topic that is not there (`failOnMissingTopic` in an error's text).

    Raises:
        ConfigError: an argument is not of its form, or names a column or a topic that is not there.
        DamagedLogError: bytes of the log are no record; comes with the batch.
        DataLossError: messages that are asked for are gone.
        ReputError: see `reput.errors`.
    """
    from reput.connect.local_scan import scan_store

    return scan_store(
        path, config_from(config), columns=columns, topic=topic, queue_id=queue_id, start_time=start_time,
        end_time=end_time, key=key, tags=tags, sql=sql, schema=schema, verify_crc=verify_crc,
        fail_on_data_loss=fail_on_data_loss,
        fail_on_missing_topic=fail_on_missing_topic,
    )  # fmt: skip


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a Spark session, and let it hand filters down to the reader.

        reput.register(spark)
        orders = spark.read.format("rocketmq").option("topic", "orders").load("/data/store")

    Where reput is installed on Spark's Python path the format is found without this call; filters are then handed down
    when `spark.sql.python.filterPushdown.enabled` is true.

    Spark's Python workers must have reput, too: without PYSPARK_PYTHON they are the `python3` of the PATH, and where
    that is another Python than this program's a RuntimeWarning says so.
    """
    from reput.pipeline.spark.session import refuse_missing_pyspark

    refuse_missing_pyspark()
    from reput.connect.registration import register as register_source

    register_source(spark)


def read_report(folder: str | Path) -> ReadReport:
    """What the tasks of reads through `format("rocketmq")` looked at that had the option `readReport=folder`.

        orders = spark.read.format("rocketmq").option("topic", "orders").option("readReport", folder).load(store)
        orders.count()
        print(reput.read_report(folder).bytes)

    Raises:
        ConfigError: the folder has files of others.
    """
    from reput.connect import read_report as reports

    return reports.read_report(folder)


def refuse_no_spark(spark: object, name: str = "spark", more: str = "") -> None:
    """Refuse what is no session, before anything starts.

    Raises:
        ConfigError: it is none.
    """
    if spark is None or spark is False or hasattr(spark, "createDataFrame") or hasattr(spark, "parallelize"):
        return
    hint = f", or master={spark!r} to start Spark there" if isinstance(spark, str) and not more else more
    raise ConfigError(f"{name}={spark!r:.80}: give a SparkSession or a SparkContext, False to do without Spark{hint}")


def _names(argument: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str | bytes):
        raise ConfigError(f"{argument}={given!r:.80}: give a list of names, [{given!r:.80}]")
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{argument}={given!r:.80}: give a list of names")
    return names


def config_from(config: StoreConfig | str | Path | None, force_setting: bool = False) -> StoreConfig:
    """The settings that a caller gave as such or as the path of a broker.conf.

    `force_setting` lets them win over what the store's files say.
    """
    if config is None:
        config = StoreConfig()
    elif not isinstance(config, StoreConfig | str | os.PathLike):
        raise ConfigError(f"config={config!r:.80}: give a StoreConfig, or the path of a broker.conf")
    elif not isinstance(config, StoreConfig):
        config = StoreConfig.from_file(config)
    return replace(config, force_setting=True) if force_setting else config


@contextlib.contextmanager
def _engine_at(
    path: str | Path,
    config: StoreConfig | str | Path | None,
    spark: SparkSession | SparkContext | Literal[False] | None,
    master: str | None,
    listener: ProgressListener | None,
) -> Iterator[tuple[Engine, StoreConfig]]:
    """The engine for a job on a store, and its settings; both are looked at before Spark takes seconds to start."""
    from reput.store.layout import find_store

    settings = config_from(config)
    refuse_no_spark(spark)
    find_store(path, settings)
    with engine_for(spark, master, listener) as engine:
        yield engine, settings


@contextlib.contextmanager
def engine_for(
    spark: SparkSession | SparkContext | Literal[False] | None,
    master: str | None,
    listener: ProgressListener | None = None,
) -> Iterator[Engine]:
    """The engine that a caller asked for; `listener` is told that Spark starts, where it has to."""
    from reput.pipeline.spark.engine import LoopEngine, SparkEngine

    refuse_no_spark(spark)
    if master is not None and not isinstance(master, str):
        raise ConfigError(f"master={master!r:.80}: give a Spark master URL, such as local[4]")
    if spark is False:
        yield LoopEngine()
        return
    if spark is None:
        from reput.pipeline.spark.session import start_context

        yield SparkEngine(start_context(master, listener=listener))
        return
    yield SparkEngine(spark)
