"""The calls behind the public face: joins the store with the Spark jobs that build its indexes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reput.config import StoreConfig
from reput.store.message_store import MessageStore as _Store

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.pipeline.engine import Engine
    from reput.pipeline.listener import ProgressListener
    from reput.store.indexer import CatchUp
    from reput.store.info_values import StoreInfo
    from reput.store.report import CheckReport, RebuildReport


def rebuild(
    path: str | Path,
    *,
    spark: SparkSession | SparkContext | Literal[False] | None = None,
    master: str | None = None,
    config: StoreConfig | str | Path | None = None,
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
        DamagedLogError: the log is damaged in the middle, and `salvage` is off.
        ReputError: see `reput.errors`.
    """
    from reput.pipeline.rebuild import rebuild_store
    from reput.pipeline.rebuild_state import RebuildOptions

    options = RebuildOptions(
        only=only,
        topics=tuple(topics),
        skip_topics=tuple(skip_topics),
        index_tags=index_tags,
        salvage=salvage,
        empty_log=empty_log,
        verify_crc=verify_crc,
        split_mb=split_mb,
    )
    with engine_for(spark, master) as engine:
        return rebuild_store(path, engine, config_from(config), options, listener)


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
    from reput.pipeline.check import check_store

    with engine_for(spark, master) as engine:
        return check_store(
            path, engine, config_from(config), verify_crc=verify_crc, split_mb=split_mb, listener=listener
        )


def info(path: str | Path, *, config: StoreConfig | str | Path | None = None) -> StoreInfo:
    """What a store holds, from its files' names, ends and headers: quick, whatever its size; nothing is changed.

    Raises:
        NotAStoreError: there is no store.
    """
    from reput.store.info import store_info

    return store_info(path, config_from(config))


class MessageStore(_Store):
    """An embedded store of many queues, in RocketMQ's own files.

        with reput.MessageStore.open("/data/store") as store:
            put = store.put_message(reput.Message("orders", b"body", tags="paid", keys="o-1"), queue_id=0)
            for message in store.get_message("orders", 0, put.queue_offset):
                print(message.body)

    What is put is readable at once. Durable indexes follow when `reput` is called, and at close. See
    `reput.store.message_store` for all calls.
    """

    def reput(
        self,
        spark: SparkSession | SparkContext | Literal[False] | None = None,
        *,
        master: str | None = None,
        listener: ProgressListener | None = None,
    ) -> CatchUp:
        """Bring the durable indexes up to what is confirmed now: one run of the Spark pipeline from the frontier.

        Args:
            spark: an existing session or context; None starts one (on `master`, `local[*]` by default); False runs the
                same tasks one after the other in this process, without Java.

        Raises:
            DamagedLogError: the log in between is damaged.
            AccessError: the store is open read-only.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        from reput.pipeline.catch_up import SparkIndexer

        with engine_for(spark, master) as engine:
            return self.catch_up_with(SparkIndexer(engine, listener))

    def close(self, *, reput: bool = True) -> None:
        """Catch up, in this process, make everything durable and let go of the store; a second call does nothing.

        Without `reput` what the indexes lack stays behind: `abort` then tells RocketMQ, and the next open, to recover.
        """
        try:
            if reput and self.is_writing and self.behind_bytes:
                self.reput(spark=False)
        finally:
            super().close()


def config_from(config: StoreConfig | str | Path | None) -> StoreConfig:
    """The settings that a caller gave as such or as the path of a broker.conf."""
    if config is None:
        return StoreConfig()
    return config if isinstance(config, StoreConfig) else StoreConfig.from_file(config)


@contextlib.contextmanager
def engine_for(spark: SparkSession | SparkContext | Literal[False] | None, master: str | None) -> Iterator[Engine]:
    """The engine that a caller asked for."""
    from reput.pipeline.engine import LoopEngine, SparkEngine

    if spark is False:
        yield LoopEngine()
        return
    if spark is None:
        from reput.pipeline.session import start_context

        yield SparkEngine(start_context(master))
        return
    yield SparkEngine(spark)
